//! Which files change together? Read from the history of the tree, when the caller allows it.
//!
//! Only `log` is asked, of a git that starts nothing of the repository's (`git.rs`). Without git, or without history,
//! nothing is lost but this signal.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::git::inert_git;

/// The newest commits that are read.
const COMMITS_MAX: usize = 2000;
/// A commit that touches more files says nothing about any two of them.
const FILES_OF_COMMIT_MAX: usize = 30;
/// More pairs are not remembered.
const PAIRS_MAX: usize = 200_000;
/// The log is read this far.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// After this long git is stopped.
const TIME_MAX: Duration = Duration::from_secs(5);
/// What a commit weighs against the one after it.
const FADING: f32 = 0.999;

/// Pairs of files that changed in the same commits.
#[derive(Debug, Default)]
pub(crate) struct CoChange {
    pairs: FxHashMap<(String, String), f32>,
}

/// Why the history says nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoChangeError {
    #[error("git is not installed")]
    NoGit,
    #[error("git cannot be run: {0}")]
    Run(#[from] io::Error),
    #[error("git gave no history here")]
    NoHistory,
    #[error("git took more than {} seconds", TIME_MAX.as_secs())]
    TooSlow,
}

impl CoChange {
    /// Each pair of paths with its weight: about how many commits touched little but the two.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str, f32)> {
        self.pairs.iter().map(|((one, other), weight)| (one.as_str(), other.as_str(), *weight))
    }

    /// Reads the history of the repository in which `root` lies; paths are relative to `root`. Call it only where the
    /// user allows git to be run on this tree.
    pub(crate) fn read(root: &Path) -> Result<CoChange, CoChangeError> {
        Ok(CoChange::of_log(&log(root)?))
    }

    /// `log` is what [`log`] returns: fields ended by NUL, a commit begun by 0x01, then its paths.
    fn of_log(log: &[u8]) -> CoChange {
        let mut found = CoChange::default();
        let mut weight = 1.0f32;
        let mut files: Vec<&str> = Vec::new();
        for field in log.split(|&byte| byte == 0) {
            let field = field.trim_ascii_start();
            if let Some(rest) = field.strip_prefix(b"\x01") {
                found.commit(&mut files, weight);
                weight *= FADING;
                files.clear();
                files.extend(std::str::from_utf8(rest.trim_ascii_start()).ok().filter(|path| !path.is_empty()));
            } else if let Ok(path) = std::str::from_utf8(field)
                && !path.is_empty()
                && files.len() <= FILES_OF_COMMIT_MAX
            {
                files.push(path);
            }
        }
        found.commit(&mut files, weight);
        found
    }

    fn commit(&mut self, files: &mut Vec<&str>, weight: f32) {
        files.sort_unstable();
        files.dedup();
        if files.len() < 2 || files.len() > FILES_OF_COMMIT_MAX {
            return;
        }
        let share = weight / (files.len() - 1) as f32;
        for (at, one) in files.iter().enumerate() {
            for other in &files[at + 1..] {
                if self.pairs.len() >= PAIRS_MAX {
                    return;
                }
                *self.pairs.entry(((*one).to_owned(), (*other).to_owned())).or_default() += share;
            }
        }
    }
}

/// The paths of the newest commits.
fn log(root: &Path) -> Result<Vec<u8>, CoChangeError> {
    let mut command = inert_git(root).ok_or(CoChangeError::NoGit)?;
    command.args(["-c", "safe.bareRepository=explicit"]);
    command.args(["log", "--no-merges", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-show-signature"]);
    command.args(["--ignore-submodules=all", "--name-only", "-z", "--format=%x01", "--relative", "-n"]);
    command.arg(COMMITS_MAX.to_string()).args(["--", "."]);
    run(command)
}

/// What the command prints, within its time and room.
fn run(mut command: Command) -> Result<Vec<u8>, CoChangeError> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().ok_or(CoChangeError::NoHistory)?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Dropped at the limit, which ends git by the closed pipe.
        stdout.take(LOG_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
    });
    let start = Instant::now();
    while !reader.is_finished() && start.elapsed() < TIME_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
    let finished = reader.is_finished();
    if !finished {
        child.kill()?;
    }
    child.wait()?;
    let bytes = reader.join().map_err(|_| CoChangeError::NoHistory)??;
    match (finished, bytes.is_empty()) {
        (false, _) => Err(CoChangeError::TooSlow),
        (true, true) => Err(CoChangeError::NoHistory),
        (true, false) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_commit_belong_together_and_many_files_less() {
        let log = b"\x01\0\na.rs\0b.rs\0\0\x01\0\na.rs\0b.rs\0c.rs\0\x01\0\nlone.rs\0";
        let found = CoChange::of_log(log);
        let weight = |one: &str, other: &str| found.pairs.get(&(one.to_owned(), other.to_owned())).copied();
        assert_eq!(found.pairs().count(), 3, "{found:?}");
        assert!(weight("a.rs", "b.rs").unwrap() > 1.4);
        assert!(weight("a.rs", "c.rs").unwrap() < 0.6);
    }

    #[test]
    fn a_commit_of_the_whole_tree_says_nothing() {
        let mut log = b"\x01\0".to_vec();
        (0..100).for_each(|at| log.extend(format!("f{at}\0").bytes()));
        assert_eq!(CoChange::of_log(&log).pairs().count(), 0);
    }
}
