//! What is a job, and how can it end?

use std::path::PathBuf;

use crate::limits::Limits;
use crate::path::{PathError, RelPath};

/// One command for the box.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Program and arguments; the program is looked up on the box's PATH.
    pub argv: Vec<String>,
    /// Where it starts, relative to /workspace.
    pub cwd: PathBuf,
    /// Variables on top of the box's own (PATH, HOME, LANG, TERM, TZ, PYTHONDONTWRITEBYTECODE).
    pub env: Vec<(String, String)>,
    /// Bytes for standard input; `None` is an empty one.
    pub stdin: Option<Vec<u8>>,
    /// Other limits than the box's.
    pub limits: Option<Limits>,
    /// Paths relative to /workspace that the job finds empty, whatever they hold; those that do not exist are passed over.
    pub hidden: Vec<PathBuf>,
    /// The workspace can be read and not written.
    pub read_only: bool,
    /// One stream as a terminal would show it: standard error goes into `stdout`.
    pub merged: bool,
}

impl Job {
    /// A job in the root of the workspace, with the box's limits, its two streams merged.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Job {
        Job { argv: argv.into_iter().map(Into::into).collect(), merged: true, ..Job::default() }
    }

    pub(crate) fn check(&self) -> Result<RelPath, JobError> {
        if self.argv.first().is_none_or(|program| program.is_empty()) {
            return Err(JobError::Empty);
        }
        let names = self.env.iter().map(|(name, _)| name);
        if let Some(name) = names.clone().find(|name| !is_variable_name(name)) {
            return Err(JobError::Variable(name.clone()));
        }
        let words = self.argv.iter().chain(self.env.iter().map(|(_, value)| value));
        if words.clone().any(|word| word.contains('\0')) {
            return Err(JobError::Nul);
        }
        let bytes = words.map(|word| word.len() + 1).sum::<usize>() + names.map(|name| name.len() + 1).sum::<usize>();
        if bytes > ARGUMENT_BYTES_MAX {
            return Err(JobError::Long { bytes });
        }
        Ok(RelPath::parse(&self.cwd)?)
    }
}

/// Arguments and environment together, below what Linux takes (a quarter of the stack limit, usually 2 MiB).
pub const ARGUMENT_BYTES_MAX: usize = 512 << 10;

fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// Why a job cannot be run as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// There is no program to run.
    #[error("the command is empty")]
    Empty,
    /// An argument or a variable contains a NUL byte.
    #[error("an argument or a variable contains a NUL byte")]
    Nul,
    /// The name of a variable is not one that a shell accepts.
    #[error("{0:?} is not a name for a variable")]
    Variable(String),
    /// Arguments and variables are longer than the kernel takes.
    #[error("arguments and variables have {bytes} bytes, more than {ARGUMENT_BYTES_MAX}")]
    Long {
        /// Their size in bytes.
        bytes: usize,
    },
    /// A limit is so tight that the box itself does not fit.
    #[error("{0} is too small for the box itself")]
    Tight(&'static str),
    /// The working directory lies outside the workspace.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The working directory does not exist in the workspace, or is no directory.
    #[error("the working directory {0} is not a directory of the workspace")]
    Cwd(RelPath),
}

/// How a job ended; exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself with this code. 127: no such program; 126: not a program.
    Exited(u8),
    /// A signal that was not ours ended it. The box follows the shell's convention (128 + signal), so a program that exits
    /// with such a code itself is told as signalled.
    Signalled(u8),
    /// It ran longer than `seconds_max` and was killed.
    DeadlineExceeded,
    /// It wrote more than `output_bytes_max` and was killed.
    OutputLimit,
    /// It wrote more than `upper_bytes_max` into the workspace and was killed.
    DiskLimit,
    /// The kernel killed a process of it at `memory_bytes_max`, and it did not end well.
    OutOfMemory,
    /// The caller asked to stop, and it was killed.
    Cancelled,
}

impl Ending {
    /// Whether the command ended by itself and said that it succeeded.
    pub fn succeeded(self) -> bool {
        self == Ending::Exited(0)
    }

    pub(crate) fn from_code(code: u8) -> Ending {
        // Signals that end a process by default: HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ SYS.
        match code.checked_sub(128) {
            Some(signal @ (1..=15 | 24 | 25 | 31)) => Ending::Signalled(signal),
            _ => Ending::Exited(code),
        }
    }
}

/// What a job did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Standard output, or both streams interleaved when the job asked for that.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Whether bytes of `stdout` were thrown away.
    pub stdout_truncated: bool,
    /// Whether bytes of `stderr` were thrown away.
    pub stderr_truncated: bool,
    /// Wall-clock time of the whole job, setting up and tearing down included.
    pub seconds: f64,
    /// What its control group counted, where there was one.
    pub usage: Usage,
}

/// What the control group of a job counted. `None`: there was none, or the runtime removed it first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Most memory used at one time, in bytes.
    pub memory_bytes_peak: Option<u64>,
    /// Processor time of all its processes, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Processes killed because memory ran out.
    pub memory_kills: Option<u64>,
    /// Forks refused because of `pids_max`.
    pub forks_refused: Option<u64>,
}
