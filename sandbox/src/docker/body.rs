//! What does the policy look like in the words of an engine's API?

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, MountVolumeOptions, ResourcesUlimits, VolumeCreateRequest,
};

use crate::bundle::{self, Places};
use crate::policy::{Access, Policy, Rlimit, SHM, Tmpfs, WORKSPACE, overlay_options};
use crate::seccomp;

/// What a container needs beside the policy.
pub(super) struct Parts<'a> {
    /// The container, and the volume that is its workspace.
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) labels: HashMap<String, String>,
    /// The user and the group as the host numbers them: an engine gives boxes no numbers of their own.
    pub(super) user: (u32, u32),
    pub(super) bundle: &'a Path,
    pub(super) shown: Vec<PathBuf>,
    pub(super) has_stdin: bool,
}

/// An engine mounts sysfs, which other tiers do not have.
const SYSFS: &str = "/sys";
/// Below it an engine mounts the control groups, writable for root; nothing is mounted instead.
const CGROUPS: (&str, &str) = ("/sys/fs/cgroup", "ro,nosuid,nodev,noexec,size=4k");

/// The whole container.
pub(super) fn container(policy: &Policy, parts: Parts<'_>) -> ContainerCreateBody {
    let seccomp = format!("seccomp={}", seccomp::profile());
    // Without a value it is taken out of the environment; an engine would put it there.
    let env = policy.env.iter().cloned().chain(["HOSTNAME".to_owned()]).collect();
    let mut mounts = mounts(policy, &parts);
    mounts.extend(policy.workspace.map(|access| workspace(parts.name, access)));
    let in_memory = policy.tmpfs.iter().filter(|it| it.at != SHM).map(tmpfs);
    let in_memory = in_memory.chain([(CGROUPS.0.to_owned(), CGROUPS.1.to_owned())]).collect();
    let host = HostConfig {
        network_mode: Some("none".into()),
        ipc_mode: Some("private".into()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // An engine that maps ids would map them a second time.
        userns_mode: Some("host".into()),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges".into(), seccomp]),
        readonly_rootfs: Some(true),
        masked_paths: Some(policy.masked.iter().map(text).chain([SYSFS.into()]).collect()),
        readonly_paths: Some(policy.read_only.iter().map(|path| (*path).to_owned()).collect()),
        memory: Some(signed(policy.memory_bytes_max)),
        // Memory and swap together: so there is no swap.
        memory_swap: Some(signed(policy.memory_bytes_max)),
        pids_limit: Some(signed(policy.pids_max)),
        // The two numbers of which `nano_cpus` is the quotient; that is refused above the processors of the host.
        cpu_period: Some(signed(policy.cpu_period_micros)),
        cpu_quota: Some(signed(policy.cpu_quota_micros)),
        ulimits: Some(policy.rlimits.iter().map(ulimit).collect()),
        tmpfs: Some(in_memory),
        shm_size: policy.tmpfs.iter().find(|it| it.at == SHM).map(|shm| signed(shm.bytes_max)),
        mounts: Some(mounts),
        init: Some(false),
        // Output goes to whoever is attached, and is kept nowhere.
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(parts.image.to_owned()),
        hostname: Some("box".into()),
        user: Some(format!("{}:{}", parts.user.0, parts.user.1)),
        cmd: Some(policy.args.clone()),
        env: Some(env),
        working_dir: Some(text(&policy.cwd)),
        labels: Some(parts.labels),
        tty: Some(false),
        open_stdin: Some(parts.has_stdin),
        stdin_once: Some(parts.has_stdin),
        attach_stdin: Some(parts.has_stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// The volume that is the workspace: the overlay that other tiers mount, with the same upper layer.
pub(super) fn volume(name: &str, labels: HashMap<String, String>, places: &Places) -> VolumeCreateRequest {
    let options =
        ["nosuid".to_owned(), "nodev".to_owned()].into_iter().chain(overlay_options(&places.lowers(), &places.layers));
    let options = options.collect::<Vec<_>>().join(",");
    let driver_opts = [("type", "overlay".to_owned()), ("device", "overlay".to_owned()), ("o", options)];
    VolumeCreateRequest {
        name: Some(name.to_owned()),
        driver: Some("local".into()),
        driver_opts: Some(driver_opts.map(|(name, value)| (name.to_owned(), value)).into()),
        labels: Some(labels),
        ..VolumeCreateRequest::default()
    }
}

/// Everything of the host, read-only, and the few files that are ours: the image has only places for them.
fn mounts(policy: &Policy, parts: &Parts<'_>) -> Vec<Mount> {
    let root = parts.bundle.join("rootfs");
    let own = bundle::own_files(&root).into_iter().map(|name| (root.join(&name), Path::new("/").join(&name)));
    let host = policy.etc.iter().chain(&parts.shown).map(|path| (path.clone(), path.clone()));
    own.chain(host).map(|(from, to)| bind(&from, &to)).collect()
}

fn bind(from: &Path, to: &Path) -> Mount {
    let options = MountBindOptions {
        propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
        ..MountBindOptions::default()
    };
    Mount {
        typ: Some(MountType::BIND),
        source: Some(text(from)),
        target: Some(text(to)),
        read_only: Some(true),
        bind_options: Some(options),
        ..Mount::default()
    }
}

fn workspace(volume: &str, access: Access) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.to_owned()),
        target: Some(WORKSPACE.to_owned()),
        read_only: Some(access == Access::Read),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

fn ulimit((kind, wall): &(Rlimit, u64)) -> ResourcesUlimits {
    let name = match kind {
        Rlimit::Nofile => "nofile",
        Rlimit::Fsize => "fsize",
        Rlimit::Nproc => "nproc",
        Rlimit::Core => "core",
    };
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(signed(*wall)), hard: Some(signed(*wall)) }
}

fn tmpfs(tmpfs: &Tmpfs) -> (String, String) {
    let exec = if tmpfs.exec { "exec" } else { "noexec" };
    let owner = tmpfs.owner.map_or_else(String::new, |id| format!(",uid={id},gid={id}"));
    let options = format!("rw,nosuid,nodev,{exec},mode={}{owner},size={}", tmpfs.mode, tmpfs.bytes_max);
    (tmpfs.at.to_owned(), options)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}
