//! What does the inside of a box look like?
//!
//! A bundle of the OCI runtime specification 1.0: a directory with a root file system of a few empty directories, on which
//! everything is mounted, and a `config.json` that says how. The root and all that comes from the host is read-only.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::footing::{Footing, Ids, Mapping};
use crate::job::Job;
use crate::limits::Limits;
use crate::mirror::{self, Mirror};
use crate::path::RelPath;
use crate::seccomp;
use crate::sockets;

/// Where the repository is in a box.
pub const WORKSPACE: &str = "/workspace";
const HOME: &str = "/home/agent";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Device nodes that a box has: none of them keeps or tells anything.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// What programs below /usr expect in /etc, where it exists and everybody may read it.
const FROM_ETC: [&str; 12] = [
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "protocols",
    "services",
    "mime.types",
    "perl",
    "maven",
    "python3",
];
/// As [`FROM_ETC`], by how the name begins.
const FROM_ETC_PREFIX: [&str; 2] = ["java-", "python3."];
/// Names of merged-/usr systems: symlinks there, directories elsewhere.
const USR_LINKS: [&str; 5] = ["bin", "sbin", "lib", "lib64", "lib32"];

const MASKED: [&str; 24] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/kmsg",
    "/proc/kallsyms",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/kpagecgroup",
    "/proc/pagetypeinfo",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/interrupts",
    "/proc/modules",
    "/proc/mtrr",
    "/proc/pressure",
];
const READ_ONLY: [&str; 7] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc/driver", "/proc/tty"];

/// Where the parts of a box are for the runtime.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) bundle: PathBuf,
    pub(crate) lower: PathBuf,
    /// Holds `upper` and `work`.
    pub(crate) layers: PathBuf,
    /// Read-only trees of the host: where they are for the runtime, and where the box sees them.
    pub(crate) shown: Vec<(PathBuf, PathBuf)>,
}

/// The trees of the host that a box shows at their own paths: /usr, what is not merged into it, and `tools`.
pub(crate) fn host_trees(tools: &[PathBuf]) -> Vec<PathBuf> {
    let unmerged = USR_LINKS.iter().map(|name| Path::new("/").join(name));
    let unmerged = unmerged.filter(|host| fs::symlink_metadata(host).is_ok_and(|meta| meta.is_dir()));
    [PathBuf::from("/usr")].into_iter().chain(unmerged).chain(tools.iter().cloned()).collect()
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

fn etc(id: u32) -> [(&'static str, String); 5] {
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
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".into()),
    ]
}

fn host_etc() -> Vec<PathBuf> {
    let listed = FROM_ETC.iter().map(PathBuf::from);
    let all = fs::read_dir("/etc").into_iter().flatten().flatten().map(|entry| PathBuf::from(entry.file_name()));
    let begins = |name: &PathBuf| FROM_ETC_PREFIX.iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
    let mut names: Vec<_> = listed.chain(all.filter(begins)).collect();
    names.retain(|name| {
        let kept = fs::symlink_metadata(Path::new("/etc").join(name));
        kept.is_ok_and(|meta| !meta.is_symlink() && meta.permissions().mode() & 0o004 != 0)
    });
    names
}

/// The init of a warm box, in the root file system and, for the keeper, in the bundle.
pub(crate) const INIT: &str = "init";
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

/// What process 1 of a container is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Process<'a> {
    /// One job in a container of its own, started in this directory, with these variables below its own.
    Job(&'a Job, &'a RelPath, &'a [(String, String)]),
    /// The init of a warm box, which has neither a workspace nor anything else to write on between jobs.
    Init,
}

/// The whole `config.json` of a container.
pub(crate) fn config(process: Process<'_>, limits: &Limits, footing: &Footing, ids: &Ids, places: &Places) -> Value {
    let id = ids.inside();
    let (uid_mappings, gid_mappings) = ids.mappings();
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "user", "cgroup"].map(|kind| json!({ "type": kind }));
    let (args, env, cwd, hidden) = match process {
        Process::Job(job, cwd, base) => {
            (args(job, limits, footing), env(base, job), workspace(cwd), job.hidden.as_slice())
        }
        Process::Init => (vec![format!("/{INIT}"), INIT.to_owned()], Vec::new(), PathBuf::from("/"), &[][..]),
    };
    let hidden = hidden.iter().map(|path| Path::new(WORKSPACE).join(path));
    let sockets = sockets::below(places.shown.iter().map(|(_, inside)| inside.as_path()));
    let masked: Vec<PathBuf> = MASKED.iter().map(PathBuf::from).chain(sockets).chain(hidden).collect();
    let mut linux = json!({
        "namespaces": namespaces,
        "uidMappings": uid_mappings,
        "gidMappings": gid_mappings,
        "seccomp": seccomp::profile(),
        "maskedPaths": masked,
        "readonlyPaths": READ_ONLY,
        "rootfsPropagation": "private",
    });
    if footing.cgroups {
        linux["resources"] = resources(limits);
    }
    json!({
        "ociVersion": "1.0.2",
        "hostname": "box",
        "root": { "path": "rootfs", "readonly": true },
        "process": {
            "terminal": false,
            "user": { "uid": id, "gid": id, "umask": 0o022 },
            "args": args,
            "env": env,
            "cwd": cwd,
            "capabilities": { "bounding": [], "effective": [], "inheritable": [], "permitted": [], "ambient": [] },
            "rlimits": rlimits(limits),
            "noNewPrivileges": true,
        },
        "mounts": mounts(process, limits, ids, places),
        "linux": linux,
    })
}

/// Where a directory of the workspace is in a box.
pub(crate) fn workspace(cwd: &RelPath) -> PathBuf {
    // Joining nothing would leave a slash at the end.
    if cwd.split().is_none() { WORKSPACE.into() } else { Path::new(WORKSPACE).join(cwd.as_path()) }
}

/// A shell is process 1: it reaps orphans, and the command has ordinary signals, which process 1 would not have. Its exit
/// code for a missing program (127), for one that cannot be run (126) and for a signal (128 + n) are the usual ones.
/// Without control groups it also sets the wall for memory: set by the runtime, that wall would stop the runtime itself.
/// Streams are merged here too: a runtime in the foreground copies the two from one pipe each, which loses their order.
fn args(job: &Job, limits: &Limits, footing: &Footing) -> Vec<String> {
    let merge = if job.merged { "exec 2>&1; " } else { "" };
    let wall = if footing.cgroups { String::new() } else { format!("ulimit -d {}; ", limits.memory_bytes_max / 1024) };
    let shut = [format!("/{INIT}"), "shut".to_owned()].into_iter();
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), format!("{merge}{wall}\"$@\"; exit $?"), "box".to_owned()];
    shut.chain(shell).chain(job.argv.iter().cloned()).collect()
}

/// A job's own words where the init of a warm box starts it: only the wall that replaces control groups needs a shell.
pub(crate) fn bare_args(job: &Job, limits: &Limits, footing: &Footing) -> Vec<String> {
    if footing.cgroups {
        return job.argv.clone();
    }
    let script = format!("ulimit -d {}; exec \"$@\"", limits.memory_bytes_max / 1024);
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), script, "box".to_owned()];
    shell.into_iter().chain(job.argv.iter().cloned()).collect()
}

/// The variables that every job of a box finds: its own, what keeps package managers from a network, and its mirrors'.
pub(crate) fn base_env(tools: &[PathBuf], mirrors: &[Mirror]) -> Vec<(String, String)> {
    let programs = tools.iter().map(|tool| tool.join("bin")).filter(|bin| bin.is_dir());
    let path: Vec<String> = programs.map(|bin| bin.to_string_lossy().into_owned()).chain([PATH.to_owned()]).collect();
    let own = [("HOME", HOME), ("USER", "agent"), ("LANG", "C.UTF-8"), ("TERM", "dumb"), ("TZ", "UTC")];
    let own = own.into_iter().chain([("PYTHONDONTWRITEBYTECODE", "1")]).chain(mirror::OFFLINE);
    let mut env = vec![("PATH".to_owned(), path.join(":"))];
    env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for (name, value) in mirrors.iter().filter_map(Mirror::env) {
        env.retain(|(known, _)| known != name);
        env.push((name.to_owned(), value));
    }
    env
}

/// The environment of a job, as `NAME=value`: the box's, and over it the job's.
pub(crate) fn env(base: &[(String, String)], job: &Job) -> Vec<String> {
    base.iter()
        .filter(|(name, _)| !job.env.iter().any(|(theirs, _)| theirs == name))
        .chain(&job.env)
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

fn rlimits(limits: &Limits) -> Vec<Value> {
    let walls = [
        (Resource::Nofile, "RLIMIT_NOFILE", limits.open_files_max),
        (Resource::Fsize, "RLIMIT_FSIZE", limits.file_bytes_max),
        (Resource::Nproc, "RLIMIT_NPROC", limits.pids_max),
        (Resource::Core, "RLIMIT_CORE", 0),
    ];
    walls
        .into_iter()
        .map(|(resource, kind, wall)| {
            // Only root may raise a limit above its own.
            let wall = getrlimit(resource).maximum.map_or(wall, |own| wall.min(own));
            json!({ "type": kind, "soft": wall, "hard": wall })
        })
        .collect()
}

fn resources(limits: &Limits) -> Value {
    let mut memory = json!({ "limit": limits.memory_bytes_max });
    // A kernel without swap accounting refuses the second number.
    let memsw = Path::new("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").exists();
    if memsw || Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        memory["swap"] = json!(limits.memory_bytes_max);
    }
    json!({
        "devices": [{ "allow": false, "access": "rwm" }],
        "memory": memory,
        "pids": { "limit": limits.pids_max },
        "cpu": { "period": 100_000, "quota": (limits.cpu_milli_max * 100).max(1_000) },
    })
}

fn mounts(process: Process<'_>, limits: &Limits, ids: &Ids, places: &Places) -> Vec<Value> {
    let mount = |to: &str, kind: &str, from: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": from, "options": options });
    let bind = |from: &Path, to: &Path, options: &[&str]| json!({ "destination": to, "type": "bind", "source": from, "options": options });
    let size = format!("size={}", limits.tmp_bytes_max);
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
    let is_job = matches!(process, Process::Job(..));
    if is_job {
        mounts.push(mount("/dev/shm", "tmpfs", "shm", &["nosuid", "nodev", "noexec", "mode=1777", &size]));
    }
    let pts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    mounts.push(mount("/dev/pts", "devpts", "devpts", &pts));
    let from_etc = host_etc().into_iter().map(|name| Path::new("/etc").join(name));
    mounts.extend(from_etc.map(|host| bind(&host, &host, &read_only)));
    if is_job {
        mounts.push(mount("/tmp", "tmpfs", "tmp", &["nosuid", "nodev", "mode=1777", &size]));
        let (uid, gid) = (format!("uid={}", ids.inside()), format!("gid={}", ids.inside()));
        mounts.push(mount(HOME, "tmpfs", "home", &["nosuid", "nodev", "mode=755", &uid, &gid, &size]));
    }
    // After /tmp and the home directory, because tools may lie in there.
    mounts.extend(places.shown.iter().map(|(host, inside)| bind(host, inside, &read_only)));
    if let Process::Job(job, ..) = process {
        mounts.push(overlay(places, job.read_only));
    }
    mounts
}

fn overlay(places: &Places, read_only: bool) -> Value {
    let escape = |path: PathBuf| path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
    let options = [
        if read_only { "ro" } else { "rw" }.to_owned(),
        "nosuid".to_owned(),
        "nodev".to_owned(),
        format!("lowerdir={}", escape(places.lower.clone())),
        format!("upperdir={}", escape(places.layers.join("upper"))),
        format!("workdir={}", escape(places.layers.join("work"))),
        "userxattr".to_owned(),
        // Else unmounting writes back the whole file system below. A box does not outlive a crash of the machine.
        "volatile".to_owned(),
    ];
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
    let odd = [&places.lower, &places.layers].into_iter().find(|path| !plain(path));
    odd.map(|path| format!("the path {path:?} is too long or holds a backslash, a colon or a comma"))
}

/// `fsconfig` takes 255 bytes; "/upper" has to fit too.
const KEEPER_PATH_BYTES_MAX: usize = 240;

/// Whether the mapping needs a stage: only root can make mounts of its own.
pub(crate) fn is_staged(mapping: Mapping) -> bool {
    mapping != Mapping::Rootless
}
