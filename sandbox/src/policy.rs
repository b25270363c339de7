//! What may a job see, write and use, whatever makes its box?
//!
//! One typed policy. Each tier compiles it into the words of what makes its containers, `bundle.rs` into those of an OCI
//! runtime and `docker/body.rs` into those of an engine; neither adds a rule of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::footing::{Footing, Ids};
use crate::job::Job;
use crate::limits::Limits;
use crate::mirror::{self, Mirror};
use crate::path::RelPath;
use crate::sockets;

/// Where the repository is in a box.
pub const WORKSPACE: &str = "/workspace";
pub(crate) const HOME: &str = "/home/agent";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
pub(crate) const USR_LINKS: [&str; 5] = ["bin", "sbin", "lib", "lib64", "lib32"];

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

/// Everything about one container but where its parts lie on the host.
#[derive(Debug)]
pub(crate) struct Policy {
    /// The words of process 1, its environment as `NAME=value`, and where it starts.
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) cwd: PathBuf,
    /// User and group of process 1 inside, who have no capability.
    pub(crate) user: u32,
    /// Paths that are covered by nothing, and paths of /proc that are read-only; those that do not exist are passed over.
    pub(crate) masked: Vec<PathBuf>,
    pub(crate) read_only: &'static [&'static str],
    pub(crate) rlimits: Vec<(Rlimit, u64)>,
    /// What the control group allows, where there is one. There is no swap.
    pub(crate) memory_bytes_max: u64,
    pub(crate) pids_max: u64,
    pub(crate) cpu_period_micros: u64,
    pub(crate) cpu_quota_micros: u64,
    /// Directories in memory, all `nosuid` and `nodev`.
    pub(crate) tmpfs: Vec<Tmpfs>,
    /// Files and directories of the host's /etc that are there read-only.
    pub(crate) etc: Vec<PathBuf>,
    /// The copy-on-write workspace, and whether it can be written; `None` between the jobs of a warm box.
    pub(crate) workspace: Option<Access>,
}

/// A limit per process: the name that runtimes give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rlimit {
    Nofile,
    Fsize,
    Nproc,
    Core,
}

/// Whether something can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// One directory in memory.
#[derive(Debug)]
pub(crate) struct Tmpfs {
    pub(crate) at: &'static str,
    pub(crate) mode: &'static str,
    /// User and group of it; `None` is whoever sets the box up.
    pub(crate) owner: Option<u32>,
    pub(crate) exec: bool,
    pub(crate) bytes_max: u64,
}

/// Where a tmpfs holds the shared memory of a box.
pub(crate) const SHM: &str = "/dev/shm";

/// What process 1 of a container is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Process<'a> {
    /// One job in a container of its own, started in this directory, with these variables below its own.
    Job(&'a Job, &'a RelPath, &'a [(String, String)]),
    /// The init of a warm box, which has neither a workspace nor anything else to write on between jobs.
    Init,
}

impl Policy {
    /// The policy for a container that shows the trees `shown` of the host.
    pub(crate) fn of<'a>(
        process: Process<'_>,
        limits: &Limits,
        footing: &Footing,
        ids: &Ids,
        shown: impl Iterator<Item = &'a Path> + Clone,
    ) -> Policy {
        let (args, env, cwd, hidden) = match process {
            Process::Job(job, cwd, base) => {
                (args(job, limits, footing), env(base, job), workspace(cwd), job.hidden.as_slice())
            }
            Process::Init => (vec![format!("/{INIT}"), INIT.to_owned()], Vec::new(), PathBuf::from("/"), &[][..]),
        };
        let hidden = hidden.iter().map(|path| Path::new(WORKSPACE).join(path));
        let masked = MASKED.iter().map(PathBuf::from).chain(sockets::below(shown)).chain(hidden).collect();
        let bytes_max = limits.tmp_bytes_max;
        let (workspace, tmpfs) = match process {
            Process::Init => (None, Vec::new()),
            Process::Job(job, ..) => (
                Some(if job.read_only { Access::Read } else { Access::Write }),
                vec![
                    Tmpfs { at: SHM, mode: "1777", owner: None, exec: false, bytes_max },
                    Tmpfs { at: "/tmp", mode: "1777", owner: None, exec: true, bytes_max },
                    Tmpfs { at: HOME, mode: "755", owner: Some(ids.inside()), exec: true, bytes_max },
                ],
            ),
        };
        Policy {
            args,
            env,
            cwd,
            user: ids.inside(),
            masked,
            read_only: &READ_ONLY,
            rlimits: rlimits(limits),
            memory_bytes_max: limits.memory_bytes_max,
            pids_max: limits.pids_max,
            cpu_period_micros: 100_000,
            cpu_quota_micros: (limits.cpu_milli_max * 100).max(1_000),
            tmpfs,
            etc: host_etc().into_iter().map(|name| Path::new("/etc").join(name)).collect(),
            workspace,
        }
    }
}

/// The trees of the host that a box shows at their own paths: /usr, what is not merged into it, and `tools`.
pub(crate) fn host_trees(tools: &[PathBuf]) -> Vec<PathBuf> {
    let unmerged = USR_LINKS.iter().map(|name| Path::new("/").join(name));
    let unmerged = unmerged.filter(|host| fs::symlink_metadata(host).is_ok_and(|meta| meta.is_dir()));
    [PathBuf::from("/usr")].into_iter().chain(unmerged).chain(tools.iter().cloned()).collect()
}

/// Names below /etc that programs need.
pub(crate) fn host_etc() -> Vec<PathBuf> {
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

fn rlimits(limits: &Limits) -> Vec<(Rlimit, u64)> {
    let walls = [
        (Resource::Nofile, Rlimit::Nofile, limits.open_files_max),
        (Resource::Fsize, Rlimit::Fsize, limits.file_bytes_max),
        (Resource::Nproc, Rlimit::Nproc, limits.pids_max),
        (Resource::Core, Rlimit::Core, 0),
    ];
    // Only root may raise a limit above its own.
    let own = |resource, wall: u64| getrlimit(resource).maximum.map_or(wall, |own| wall.min(own));
    walls.into_iter().map(|(resource, kind, wall)| (kind, own(resource, wall))).collect()
}

/// The options of the overlay that is the workspace, without those that every mount has; `lowers` topmost first.
pub(crate) fn overlay_options(lowers: &[PathBuf], layers: &Path) -> [String; 5] {
    let escape = |path: PathBuf| path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
    [
        format!("lowerdir={}", lowers.iter().cloned().map(escape).collect::<Vec<_>>().join(":")),
        format!("upperdir={}", escape(layers.join("upper"))),
        format!("workdir={}", escape(layers.join("work"))),
        "userxattr".to_owned(),
        // Else unmounting writes back the whole file system below. A box does not outlive a crash of the machine.
        "volatile".to_owned(),
    ]
}
