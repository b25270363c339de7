//! How much may a job use?

use std::time::Duration;

const MIB: u64 = 1 << 20;

/// The walls of one job. Every number has its unit in the name; there is no "unlimited".
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Memory of the whole tree of processes, tmpfs and page cache included; at least [`Limits::MEMORY_BYTES_LEAST`].
    /// Without control groups (an ordinary user's box) it holds for the data of each single process instead.
    pub memory_bytes_max: u64,
    /// Processes and threads alive at one time; at least [`Limits::PIDS_LEAST`].
    pub pids_max: u64,
    /// Thousandths of one processor: 2000 is two whole processors.
    pub cpu_milli_max: u64,
    /// Wall-clock time, then the whole tree is killed.
    pub seconds_max: f64,
    /// Standard output and standard error together, then the whole tree is killed.
    pub output_bytes_max: usize,
    /// Open files of one process.
    pub open_files_max: u64,
    /// Size of each of /tmp, /dev/shm and the home directory. They live in memory and count there too.
    pub tmp_bytes_max: u64,
    /// Size of one file that a job writes.
    pub file_bytes_max: u64,
    /// Bytes of the upper layer, looked at while a job runs and after it.
    pub upper_bytes_max: u64,
}

impl Limits {
    /// What a unit-test run of an ordinary project needs.
    pub const DEFAULT: Limits = Limits {
        memory_bytes_max: 2048 * MIB,
        pids_max: 512,
        cpu_milli_max: 2_000,
        seconds_max: 300.0,
        output_bytes_max: 8 * MIB as usize,
        open_files_max: 4_096,
        tmp_bytes_max: 512 * MIB,
        file_bytes_max: 1024 * MIB,
        upper_bytes_max: 2048 * MIB,
    };

    /// The runtime itself has threads in the box while it sets up.
    pub const PIDS_LEAST: u64 = 24;
    /// The runtime itself needs memory in the box while it sets up.
    pub const MEMORY_BYTES_LEAST: u64 = 32 * MIB;

    /// The name of the first limit under which no box can even start.
    pub(crate) fn too_tight(&self) -> Option<&'static str> {
        if self.memory_bytes_max < Self::MEMORY_BYTES_LEAST {
            Some("memory_bytes_max")
        } else if self.pids_max < Self::PIDS_LEAST {
            Some("pids_max")
        } else if self.open_files_max < 16 {
            Some("open_files_max")
        } else {
            None
        }
    }

    /// The deadline as a duration; nonsense (negative, NaN) is no time at all.
    pub(crate) fn deadline(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds_max).unwrap_or(Duration::ZERO)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}
