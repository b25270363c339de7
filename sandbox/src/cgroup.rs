//! What does the control group of a box count, and how does it stop one?

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::footing::{CgroupMode, cgroup_mode};
use crate::job::Usage;

const MOUNT: &str = "/sys/fs/cgroup";

/// Reads the counters of the control group `name`, which stands directly below the root.
pub(crate) fn usage(name: &str) -> Usage {
    if cgroup_mode() == CgroupMode::V2 { unified(&Path::new(MOUNT).join(name)) } else { legacy(name) }
}

/// What was used between two looks at one group. The peak is only that of the time between when [`reset_peak`] said so.
pub(crate) fn since(before: &Usage, after: &Usage, peak_was_reset: bool) -> Usage {
    let count = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    Usage {
        memory_bytes_peak: after.memory_bytes_peak.filter(|_| peak_was_reset),
        cpu_seconds: before.cpu_seconds.zip(after.cpu_seconds).map(|(before, after)| (after - before).max(0.0)),
        memory_kills: count(before.memory_kills, after.memory_kills),
        forks_refused: count(before.forks_refused, after.forks_refused),
    }
}

/// Begins a new peak of memory in the group `name`; the unified hierarchy cannot do that for every reader.
pub(crate) fn reset_peak(name: &str) -> bool {
    fs::write(Path::new(MOUNT).join("memory").join(name).join("memory.max_usage_in_bytes"), "0").is_ok()
}

/// How long the kernel may take to stop every process of a group, or to let it go on.
const FREEZE_PATIENCE: Duration = Duration::from_millis(200);

/// Stops all processes of the group `name` where they are, or lets them go on, and waits until that is so.
pub(crate) fn freeze(name: &str, stop: bool) -> io::Result<()> {
    let unified = cgroup_mode() == CgroupMode::V2;
    let (file, word, state_file, wanted) = match (unified, stop) {
        (true, true) => ("cgroup.freeze", "1", "cgroup.events", "frozen 1"),
        (true, false) => ("cgroup.freeze", "0", "cgroup.events", "frozen 0"),
        (false, true) => ("freezer.state", "FROZEN", "freezer.state", "FROZEN"),
        (false, false) => ("freezer.state", "THAWED", "freezer.state", "THAWED"),
    };
    let mount = Path::new(MOUNT);
    let group = if unified { mount.join(name) } else { mount.join("freezer").join(name) };
    let started = Instant::now();
    fs::write(group.join(file), word)?;
    while !fs::read_to_string(group.join(state_file))?.lines().any(|line| line == wanted) {
        if started.elapsed() > FREEZE_PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn legacy(name: &str) -> Usage {
    let file = |controller: &str, file: &str| -> PathBuf { Path::new(MOUNT).join(controller).join(name).join(file) };
    Usage {
        memory_bytes_peak: number(&file("memory", "memory.max_usage_in_bytes")),
        cpu_seconds: number(&file("cpuacct", "cpuacct.usage")).map(|nanos| nanos as f64 / 1e9),
        memory_kills: field(&file("memory", "memory.oom_control"), "oom_kill"),
        forks_refused: field(&file("pids", "pids.events"), "max"),
    }
}

fn unified(group: &Path) -> Usage {
    Usage {
        memory_bytes_peak: number(&group.join("memory.peak")),
        cpu_seconds: field(&group.join("cpu.stat"), "usage_usec").map(|micros| micros as f64 / 1e6),
        memory_kills: field(&group.join("memory.events"), "oom_kill"),
        forks_refused: field(&group.join("pids.events"), "max"),
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
