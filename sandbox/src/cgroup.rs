//! What did a job use, as its control group counted it?

use std::fs;
use std::path::{Path, PathBuf};

use crate::footing::{CgroupMode, cgroup_mode};
use crate::job::Usage;

const MOUNT: &str = "/sys/fs/cgroup";

/// Reads the counters of the control group `name`, which stands directly below the root.
pub(crate) fn usage(name: &str) -> Usage {
    if cgroup_mode() == CgroupMode::V2 { unified(&Path::new(MOUNT).join(name)) } else { legacy(name) }
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
