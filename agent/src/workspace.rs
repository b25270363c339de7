//! What does the agent need from a box? Files in a copy-on-write view, commands that run in it, and the difference.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its directory.
    pub name: String,
    /// Directories end in `/` when shown.
    pub directory: bool,
}

/// A command for the box.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments; no shell unless it names one.
    pub argv: Vec<String>,
    /// The deadline.
    pub seconds_max: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exited(i32),
    /// Anything else, as a short phrase: `killed after 20 s`, `killed: output limit`.
    Stopped(String),
}

/// A command that ran.
#[derive(Debug, Clone)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// Standard output and error, interleaved, as raw bytes.
    pub output: Vec<u8>,
    /// How long it took.
    pub seconds: f64,
}

/// A file that differs from the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Relative to the root of the repository.
    pub path: String,
    /// The bytes before; `None` when the file is new.
    pub before: Option<Vec<u8>>,
    /// The bytes after; `None` when it is gone.
    pub after: Option<Vec<u8>>,
}

/// Why the box could not do it.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is no such file or directory.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path asked for.
        path: String,
    },
    /// The path is there, but it cannot be used as asked.
    #[error("{path}: {why}")]
    Unusable {
        /// The path asked for.
        path: String,
        /// A directory, a symlink, too large…
        why: String,
    },
    /// The box itself failed.
    #[error("the box failed: {0}")]
    Failed(String),
    /// Somebody pressed Ctrl-C.
    #[error("cancelled")]
    Cancelled,
}

/// A copy-on-write view of the repository in which commands run.
pub trait Workspace {
    /// The bytes of a file.
    fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError>;
    /// Replaces or creates a file in the view; the repository is not touched.
    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), WorkspaceError>;
    /// Removes a file from the view.
    fn remove(&mut self, path: &str) -> Result<(), WorkspaceError>;
    /// Forgets every change to a file: it is again as in the base, or gone where the base has none.
    fn revert(&mut self, path: &str) -> Result<(), WorkspaceError>;
    /// The names in a directory, sorted.
    fn list(&self, dir: &str) -> Result<Vec<Entry>, WorkspaceError>;
    /// Every regular file below the root, sorted, without `.git`.
    fn walk(&self) -> Result<Vec<String>, WorkspaceError>;
    /// Runs a command in the box.
    fn run(&mut self, command: &Command, cancel: &AtomicBool) -> Result<Ran, WorkspaceError>;
    /// What differs from the base.
    fn changes(&self) -> Result<Vec<Change>, WorkspaceError>;
    /// A second view of the base, without any change: where the verifier works.
    fn fresh(&self) -> Result<Box<dyn Workspace>, WorkspaceError>;
}
