//! What does the inside of a box look like?
//!
//! A bundle of the OCI runtime specification 1.0: a directory with a root file system of a few empty directories, on which
//! everything is mounted, and a `config.json` that says how. The root and all that comes from the host is read-only.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::footing::{Footing, Ids, Mapping};
use crate::limits::Limits;
use crate::mirror::{CARGO_CONFIG, Mirror};
use crate::policy::{
    Access, HOME, INIT, Policy, Process, Rlimit, Tmpfs, USR_LINKS, WORKSPACE, host_etc, overlay_options,
};
use crate::seccomp;

/// Device nodes that a box has: none of them keeps or tells anything.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Where the parts of a box are for the runtime.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) bundle: PathBuf,
    /// The repository.
    pub(crate) lower: PathBuf,
    /// Where the layers that snapshots froze are, and the numbers of those of this box, topmost first.
    pub(crate) frozen: PathBuf,
    pub(crate) stack: Vec<u32>,
    /// Holds `upper` and `work`.
    pub(crate) layers: PathBuf,
    /// Read-only trees of the host: where they are for the runtime, and where the box sees them.
    pub(crate) shown: Vec<(PathBuf, PathBuf)>,
}

impl Places {
    /// What lies under the layer that is written, topmost first.
    pub(crate) fn lowers(&self) -> Vec<PathBuf> {
        let frozen = self.stack.iter().map(|number| self.frozen.join(number.to_string()));
        frozen.chain([self.lower.clone()]).collect()
    }
}

/// Makes the root file system and the device directory in `bundle`.
pub(crate) fn build(bundle: &Path, tools: &[PathBuf], mirrors: &[Mirror], ids: u32) -> io::Result<()> {
    let root = bundle.join("rootfs");
    for dir in ["usr", "etc", "proc", "sys", "dev", "tmp", "home/agent", "workspace", "run"] {
        fs::create_dir_all(root.join(dir))?;
    }
    for name in USR_LINKS {
        let host = Path::new("/").join(name);
        match fs::read_link(&host) {
            Ok(target) => symlink(target.strip_prefix("/").unwrap_or(&target), root.join(name))?,
            Err(_) if host.is_dir() => fs::create_dir_all(root.join(name))?,
            Err(_) => {}
        }
    }
    for (name, text) in etc(ids) {
        fs::write(root.join("etc").join(name), text)?;
    }
    for name in host_etc() {
        let (host, inside) = (Path::new("/etc").join(&name), root.join("etc").join(&name));
        make_mount_point(&host, &inside)?;
    }
    for tool in tools {
        make_mount_point(tool, &root.join(tool.strip_prefix("/").unwrap_or(tool)))?;
    }
    for (path, text) in mirrors.iter().filter_map(Mirror::root_file) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&root))?;
        fs::write(path, text)?;
    }
    build_dev(&bundle.join("dev"))?;
    open_to_all(bundle)?;
    add_init(bundle)?;
    // A runtime gives a tmpfs the mode of the directory that it covers.
    for dir in ["rootfs/tmp", "dev/shm"] {
        fs::set_permissions(bundle.join(dir), Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

fn build_dev(dev: &Path) -> io::Result<()> {
    fs::create_dir_all(dev.join("shm"))?;
    fs::create_dir_all(dev.join("pts"))?;
    for name in DEVICES {
        fs::write(dev.join(name), "")?;
    }
    let links = [("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1")];
    for (name, target) in links.into_iter().chain([("stderr", "/proc/self/fd/2"), ("ptmx", "pts/ptmx")]) {
        symlink(target, dev.join(name))?;
    }
    Ok(())
}

/// The box's ids own nothing of the bundle, so whatever our umask is, everybody must be able to read it.
fn open_to_all(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(if meta.is_dir() { 0o755 } else { 0o644 }))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

fn make_mount_point(host: &Path, inside: &Path) -> io::Result<()> {
    if host.is_dir() {
        return fs::create_dir_all(inside);
    }
    fs::create_dir_all(inside.parent().unwrap_or(inside))?;
    fs::write(inside, "")
}

/// Files of /etc that are ours.
const OWN_ETC: [&str; 6] = ["passwd", "group", "hosts", "hostname", "nsswitch.conf", "resolv.conf"];

/// The files of the root file system that have something of ours in them, relative to it.
pub(crate) fn own_files(root: &Path) -> Vec<PathBuf> {
    let others = [INIT, CARGO_CONFIG].map(PathBuf::from).into_iter().filter(|name| root.join(name).is_file());
    OWN_ETC.map(|name| Path::new("etc").join(name)).into_iter().chain(others).collect()
}

fn etc(id: u32) -> [(&'static str, String); 6] {
    let root = if id == 0 { "" } else { "root:x:0:0:root:/:/usr/sbin/nologin\n" };
    let root_group = if id == 0 { "" } else { "root:x:0:\n" };
    [
        (
            "passwd",
            format!("agent:x:{id}:{id}:agent:{HOME}:/bin/sh\n{root}nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
        ),
        ("group", format!("agent:x:{id}:\n{root_group}nogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost box\n::1 localhost\n".into()),
        ("hostname", "box\n".into()),
        // Empty: an engine would show the host's.
        ("resolv.conf", String::new()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".into()),
    ]
}

const INIT_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/box-init"));

/// Puts the init into `bundle` where it is not there yet, and says where.
pub(crate) fn add_init(bundle: &Path) -> io::Result<PathBuf> {
    let path = bundle.join("rootfs").join(INIT);
    if !path.exists() {
        let draft = bundle.join(INIT);
        fs::write(&draft, INIT_PROGRAM)?;
        fs::set_permissions(&draft, Permissions::from_mode(0o555))?;
        fs::rename(draft, &path)?;
    }
    Ok(path)
}

/// The whole `config.json` of a container.
pub(crate) fn config(process: Process<'_>, limits: &Limits, footing: &Footing, ids: &Ids, places: &Places) -> Value {
    let policy = Policy::of(process, limits, footing, ids, places.shown.iter().map(|(_, inside)| inside.as_path()));
    let (uid_mappings, gid_mappings) = ids.mappings();
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "user", "cgroup"].map(|kind| json!({ "type": kind }));
    let mut linux = json!({
        "namespaces": namespaces,
        "uidMappings": uid_mappings,
        "gidMappings": gid_mappings,
        "seccomp": seccomp::profile(),
        "maskedPaths": policy.masked,
        "readonlyPaths": policy.read_only,
        "rootfsPropagation": "private",
    });
    if footing.cgroups {
        linux["resources"] = resources(&policy);
    }
    json!({
        "ociVersion": "1.0.2",
        "hostname": "box",
        "root": { "path": "rootfs", "readonly": true },
        "process": {
            "terminal": false,
            "user": { "uid": policy.user, "gid": policy.user, "umask": 0o022 },
            "args": policy.args,
            "env": policy.env,
            "cwd": policy.cwd,
            "capabilities": { "bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": [] },
            "rlimits": policy.rlimits.iter().map(rlimit).collect::<Vec<_>>(),
            "noNewPrivileges": true,
        },
        "mounts": mounts(&policy, places),
        "linux": linux,
    })
}

fn rlimit((kind, wall): &(Rlimit, u64)) -> Value {
    let kind = match kind {
        Rlimit::Nofile => "RLIMIT_NOFILE",
        Rlimit::Fsize => "RLIMIT_FSIZE",
        Rlimit::Nproc => "RLIMIT_NPROC",
        Rlimit::Core => "RLIMIT_CORE",
    };
    json!({ "type": kind, "soft": wall, "hard": wall })
}

fn resources(policy: &Policy) -> Value {
    let mut memory = json!({ "limit": policy.memory_bytes_max });
    // A kernel without swap accounting refuses the second number.
    let memsw = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists();
    if memsw || Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        memory["swap"] = json!(policy.memory_bytes_max);
    }
    json!({
        "devices": [{ "allow": false, "access": "rwm" }],
        "memory": memory,
        "pids": { "limit": policy.pids_max },
        "cpu": { "period": policy.cpu_period_micros, "quota": policy.cpu_quota_micros },
    })
}

fn mounts(policy: &Policy, places: &Places) -> Vec<Value> {
    let mount = |to: &str, kind: &str, from: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": from, "options": options });
    let bind = |from: &Path, to: &Path, options: &[&str]| json!({ "destination": to, "type": "bind", "source": from, "options": options });
    let read_only = ["rbind", "ro", "nosuid", "nodev"];
    let mut mounts = vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        bind(&places.bundle.join("dev"), Path::new("/dev"), &["bind", "ro", "nosuid", "noexec"]),
    ];
    for name in DEVICES {
        // Read-only keeps the owner of the node (root, on some footings) from changing its mode; writing into it still works.
        let node = Path::new("/dev").join(name);
        mounts.push(bind(&node, &node, &["bind", "ro", "nosuid", "noexec"]));
    }
    let pts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    mounts.push(mount("/dev/pts", "devpts", "devpts", &pts));
    mounts.extend(policy.etc.iter().map(|host| bind(host, host, &read_only)));
    mounts.extend(policy.tmpfs.iter().map(tmpfs));
    // After /tmp and the home directory, because tools may lie in there.
    mounts.extend(places.shown.iter().map(|(host, inside)| bind(host, inside, &read_only)));
    mounts.extend(policy.workspace.map(|access| overlay(places, access)));
    mounts
}

fn tmpfs(tmpfs: &Tmpfs) -> Value {
    let mut options = vec!["nosuid".to_owned(), "nodev".to_owned()];
    options.extend((!tmpfs.exec).then(|| "noexec".to_owned()));
    options.push(format!("mode={}", tmpfs.mode));
    options.extend(tmpfs.owner.into_iter().flat_map(|id| [format!("uid={id}"), format!("gid={id}")]));
    options.push(format!("size={}", tmpfs.bytes_max));
    let name = Path::new(tmpfs.at).file_name().unwrap_or_default().to_string_lossy();
    json!({ "destination": tmpfs.at, "type": "tmpfs", "source": name, "options": options })
}

fn overlay(places: &Places, access: Access) -> Value {
    let all = [if access == Access::Read { "ro" } else { "rw" }, "nosuid", "nodev"].map(str::to_owned);
    let options: Vec<_> = all.into_iter().chain(overlay_options(&places.lowers(), &places.layers)).collect();
    json!({ "destination": WORKSPACE, "type": "overlay", "source": "overlay", "options": options })
}

/// Why the keeper could not put a workspace into a running box that shows these trees; `None` when it can.
pub(crate) fn unkeepable(places: &Places) -> Option<String> {
    let covered = |inside: &Path| ["/tmp", "/dev/shm", HOME].iter().any(|over| inside.starts_with(over));
    if let Some((_, inside)) = places.shown.iter().find(|(_, inside)| covered(inside)) {
        return Some(format!("the tools in {inside:?} lie where each job gets an empty directory"));
    }
    // The keeper's mount calls take no escapes before Linux 6.5, and no long words at all.
    let plain = |path: &Path| {
        path.to_str().is_some_and(|path| path.len() <= KEEPER_PATH_BYTES_MAX && !path.contains(['\\', ':', ',']))
    };
    let odd = [&places.lower, &places.layers, &places.frozen].into_iter().find(|path| !plain(path));
    odd.map(|path| format!("the path {path:?} is too long or holds a backslash, a colon or a comma"))
}

/// `fsconfig` takes 255 bytes; "/upper" or the number of a layer has to fit too.
const KEEPER_PATH_BYTES_MAX: usize = 240;

/// Whether the mapping needs a stage: only root can make mounts of its own.
pub(crate) fn is_staged(mapping: Mapping) -> bool {
    mapping != Mapping::Rootless
}
