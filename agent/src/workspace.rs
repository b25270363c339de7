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
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The program and its arguments; no shell unless it names one.
    pub argv: Vec<String>,
    /// The deadline.
    pub seconds_max: Duration,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Variables on top of the box's own.
    pub env: Vec<(String, String)>,
    /// Whether standard error is kept apart, in [`Ran::errors`].
    pub split: bool,
    /// Whether the working copy can be read and not written.
    pub read_only: bool,
}

impl Command {
    /// A command that reads nothing and whose two streams are one.
    pub fn new(argv: Vec<String>, seconds_max: Duration) -> Self {
        Self { argv, seconds_max, ..Self::default() }
    }
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
    /// Standard output and error, interleaved, as raw bytes; standard output alone when the command asked for that.
    pub output: Vec<u8>,
    /// Standard error, when the command asked for it.
    pub errors: Vec<u8>,
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

/// A moment of a view, by its number among those of that view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint(pub usize);

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
    /// Remembers all that the view holds, what commands made among it. `None`: this view cannot.
    fn checkpoint(&mut self) -> Result<Option<Checkpoint>, WorkspaceError> {
        Ok(None)
    }
    /// Makes the view hold again what it held at a checkpoint of its own.
    fn back_to(&mut self, _checkpoint: Checkpoint) -> Result<(), WorkspaceError> {
        Err(WorkspaceError::Failed("this view has no checkpoints".into()))
    }
    /// The names in a directory, sorted.
    fn list(&self, dir: &str) -> Result<Vec<Entry>, WorkspaceError>;
    /// Every regular file below the root, sorted, without `.git`.
    fn walk(&self) -> Result<Vec<String>, WorkspaceError>;
    /// Runs a command in the box.
    fn run(&mut self, command: &Command, cancel: &AtomicBool) -> Result<Ran, WorkspaceError>;
    /// What a command asked for that this host does not have, in one line, when its output says so.
    fn missing(&self, _output: &[u8]) -> Option<String> {
        None
    }
    /// Paths that may differ from the base: every other file is as there, or gone.
    fn touched(&self) -> Result<Vec<String>, WorkspaceError> {
        Ok(self.changes()?.into_iter().map(|change| change.path).collect())
    }
    /// What differs from the base.
    fn changes(&self) -> Result<Vec<Change>, WorkspaceError>;
    /// A second view of the base, without any change: where the verifier works.
    fn fresh(&self) -> Result<Box<dyn Workspace>, WorkspaceError>;
}

#[cfg(test)]
pub(crate) mod fake {
    //! A view in memory, for tests of the loop. Its "tests" pass when `code.py` contains `right`; `touch PATH` makes a
    //! file that is not text.
    use super::*;
    use std::collections::BTreeMap;

    /// What a program of the fake box does, beside the tests.
    pub type Program = fn(&Command) -> Result<Ran, WorkspaceError>;

    /// Files, and the base they started from.
    #[derive(Clone, Default)]
    pub struct Memory {
        /// As in the repository.
        pub base: BTreeMap<String, Vec<u8>>,
        /// As changed.
        pub now: BTreeMap<String, Vec<u8>>,
        /// By the first word of their command; every other command is the tests.
        pub programs: BTreeMap<&'static str, Program>,
        /// As it was at each checkpoint.
        pub checkpoints: Vec<BTreeMap<String, Vec<u8>>>,
        /// What every command prints, instead of the result of its "tests".
        pub output: Option<Vec<u8>>,
    }

    impl Memory {
        /// A repository with these files.
        pub fn with(files: &[(&str, &str)]) -> Self {
            let base: BTreeMap<String, Vec<u8>> =
                files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
            Self { now: base.clone(), base, ..Self::default() }
        }
    }

    impl Workspace for Memory {
        fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
            self.now.get(path).cloned().ok_or_else(|| WorkspaceError::NotFound { path: path.into() })
        }

        fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
            self.now.insert(path.into(), bytes.to_vec());
            Ok(())
        }

        fn remove(&mut self, path: &str) -> Result<(), WorkspaceError> {
            self.now.remove(path);
            Ok(())
        }

        fn revert(&mut self, path: &str) -> Result<(), WorkspaceError> {
            match self.base.get(path) {
                Some(bytes) => self.now.insert(path.into(), bytes.clone()),
                None => self.now.remove(path),
            };
            Ok(())
        }

        fn checkpoint(&mut self) -> Result<Option<Checkpoint>, WorkspaceError> {
            self.checkpoints.push(self.now.clone());
            Ok(Some(Checkpoint(self.checkpoints.len() - 1)))
        }

        fn back_to(&mut self, checkpoint: Checkpoint) -> Result<(), WorkspaceError> {
            self.now.clone_from(&self.checkpoints[checkpoint.0]);
            Ok(())
        }

        fn list(&self, _: &str) -> Result<Vec<Entry>, WorkspaceError> {
            Ok(self.now.keys().map(|name| Entry { name: name.clone(), directory: false }).collect())
        }

        fn walk(&self) -> Result<Vec<String>, WorkspaceError> {
            Ok(self.now.keys().cloned().collect())
        }

        fn run(&mut self, command: &Command, _: &AtomicBool) -> Result<Ran, WorkspaceError> {
            let program = command.argv.first().and_then(|word| self.programs.get(word.as_str()));
            if let Some(program) = program {
                return program(command);
            }
            if let [touch, path] = command.argv.as_slice()
                && touch == "touch"
            {
                self.now.insert(path.clone(), vec![0xff]);
            }
            let right = self.now.get("code.py").is_some_and(|bytes| String::from_utf8_lossy(bytes).contains("right"));
            let output =
                if right { "Ran 2 tests in 0.1s\n\nOK\n" } else { "Ran 2 tests in 0.1s\n\nFAILED (failures=1)\n" };
            Ok(Ran {
                ended: Ended::Exited(i32::from(!right)),
                output: self.output.clone().unwrap_or(output.into()),
                errors: Vec::new(),
                seconds: 0.1,
            })
        }

        fn changes(&self) -> Result<Vec<Change>, WorkspaceError> {
            let paths: std::collections::BTreeSet<&String> = self.base.keys().chain(self.now.keys()).collect();
            let change = |path: &String| Change {
                path: path.clone(),
                before: self.base.get(path).cloned(),
                after: self.now.get(path).cloned(),
            };
            Ok(paths.into_iter().map(change).filter(|change| change.before != change.after).collect())
        }

        fn fresh(&self) -> Result<Box<dyn Workspace>, WorkspaceError> {
            Ok(Box::new(Self { now: self.base.clone(), ..self.clone() }))
        }
    }
}
