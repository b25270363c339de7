//! How do changes reach the real working tree, wholly or not at all?
//!
//! First everything is judged, then all new bytes are written beside their targets and synced, then the journal says
//! `committed`, then files are renamed into place. Whatever goes wrong before that word leaves the tree as it was; after it,
//! [`crate::recover`] finishes. What stands in the tree must still be what the box was opened over.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Mode, Uid};

use crate::beneath::{self, Inode, Kind};
use crate::changes::{Change, ChangeKind, Node};
use crate::journal::{self, Journal, Phase, Step};
use crate::owner::Owner;
use crate::path::{PathError, RelPath};
use crate::view::FILE_BYTES_MAX;

/// What an apply did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Files that were created or replaced.
    pub written: Vec<PathBuf>,
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
}

/// Why nothing (or, only of [`ApplyError::Unfinished`] and [`ApplyError::Overtaken`], not everything) was applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A change is of a kind that is never applied.
    #[error("{path:?} is refused: {reason}")]
    Refused {
        /// The change.
        path: PathBuf,
        /// Why.
        reason: Refusal,
    },
    /// The file in the working tree is not what the box was opened over.
    #[error("{path:?} was changed in the working tree since the box was opened")]
    Conflict {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused; the tree is as it was.
    #[error("could not {what} {path:?}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// It failed after all bytes were safe; `recover` will finish it.
    #[error("interrupted while files were put into place ({source}); the next start finishes it from {journal:?}")]
    Unfinished {
        /// The journal.
        journal: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Somebody changed these files in the moment of the apply; all others were applied.
    #[error("changed by somebody else in the very moment of applying, and left alone: {0:?}")]
    Overtaken(Vec<PathBuf>),
}

/// What makes a change unfit for the working tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The path leads outside.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path is in git's own directory.
    #[error("it is in git's own directory")]
    Git,
    /// The path is not UTF-8.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// It is, or leads through, a symbolic link.
    #[error("it is a symbolic link or lies behind one")]
    Symlink,
    /// It is a FIFO, socket or device.
    #[error("it is a FIFO, socket or device")]
    Special,
    /// It has a set-user-id, set-group-id or sticky bit.
    #[error("it has a set-id or sticky bit")]
    SetId,
    /// It is larger than [`FILE_BYTES_MAX`].
    #[error("it is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// Two changes are about the same path, or one is about a directory above the other.
    #[error("another change is about the same path or one above it")]
    Overlaps,
    /// A directory stands where the file should be, or a file where its directory should be.
    #[error("a directory stands in place of a file, or a file in place of a directory")]
    Shape,
    /// The change lacks the bytes that its kind needs.
    #[error("the change lacks its bytes")]
    Incomplete,
}

/// Carries `changes` into the working tree `repo`. `journals` is a directory on a disk that survives a crash; call
/// [`crate::recover`] with it at every start.
pub fn apply(changes: &[Change], repo: &Path, journals: &Path) -> Result<Applied, ApplyError> {
    observed(changes, repo, journals, &mut |_| {})
}

/// `observe` is told before every effect, so that a test can stop the world there.
pub(crate) fn observed(
    changes: &[Change],
    repo: &Path,
    journals: &Path,
    observe: &mut dyn FnMut(&str),
) -> Result<Applied, ApplyError> {
    let repo = fs::canonicalize(repo).map_err(failed("resolve", repo))?;
    let root = beneath::open_root(&repo).map_err(failed("open", &repo))?;
    let plans = changes.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    check_overlaps(&plans)?;
    check_all(&root, &plans)?;
    fs::create_dir_all(journals).map_err(failed("make", journals))?;
    let transaction = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut journal = draw_up(&root, repo, &plans, &transaction)?;
    let path = journals.join(format!("apply-{transaction}.json"));

    observe("journal");
    journal.save(&path).map_err(failed("write", &path))?;
    // Once more after the writing, which may take long: up to here a conflict costs nothing.
    let prepared = prepare(&root, &journal, &plans, observe).and_then(|()| check_all(&root, &plans));
    if let Err(error) = prepared {
        // Should undoing fail too, the journal stays, and the next start tries again.
        if journal.undo(&root).is_ok() {
            let _ = fs::remove_file(&path);
        }
        return Err(error);
    }
    observe("commit");
    journal.phase = Phase::Committed;
    journal.save(&path).map_err(|source| ApplyError::Unfinished { journal: path.clone(), source })?;
    let done = journal.commit(&root, observe);
    let conflicts = done.map_err(|source| ApplyError::Unfinished { journal: path.clone(), source })?;
    observe("forget");
    fs::remove_file(&path).map_err(|source| ApplyError::Unfinished { journal: path.clone(), source })?;
    if !conflicts.is_empty() {
        return Err(ApplyError::Overtaken(conflicts));
    }
    let paths = |write: bool| {
        plans.iter().filter(|plan| plan.write.is_some() == write).map(|plan| plan.path.as_path().to_owned()).collect()
    };
    Ok(Applied { written: paths(true), removed: paths(false) })
}

static COUNT: AtomicU64 = AtomicU64::new(0);

struct Plan<'a> {
    path: RelPath,
    before: Option<&'a [u8]>,
    /// New bytes and mode; `None` removes the file.
    write: Option<(&'a [u8], u32)>,
}

impl Plan<'_> {
    fn refused(&self, reason: Refusal) -> ApplyError {
        ApplyError::Refused { path: self.path.as_path().to_owned(), reason }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ApplyError {
    let path = path.to_owned();
    move |source| ApplyError::Io { what, path, source }
}

/// Judges a change by itself.
fn plan(change: &Change) -> Result<Plan<'_>, ApplyError> {
    let refused = |reason| ApplyError::Refused { path: change.path.clone(), reason };
    let path = RelPath::parse(&change.path).map_err(|error| refused(error.into()))?;
    let size = change.after.as_ref().map_or(0, Vec::len) as u64;
    let reason = match change.node {
        Node::Symlink => Some(Refusal::Symlink),
        Node::Special => Some(Refusal::Special),
        Node::Large { .. } => Some(Refusal::TooLarge),
        Node::File if size > FILE_BYTES_MAX => Some(Refusal::TooLarge),
        Node::File if change.mode.is_some_and(|mode| mode & 0o7000 != 0) => Some(Refusal::SetId),
        Node::File if path.touches_git() => Some(Refusal::Git),
        Node::File if path.as_path().to_str().is_none() => Some(Refusal::NotUtf8),
        Node::File if path.as_path().as_os_str().is_empty() => Some(Refusal::Shape),
        Node::File => None,
    };
    if let Some(reason) = reason {
        return Err(refused(reason));
    }
    let is_created = change.kind == ChangeKind::Created;
    let before = change.before.as_deref();
    let write = change.after.as_deref().map(|bytes| (bytes, change.mode.unwrap_or(0o644) & 0o777));
    if before.is_some() == is_created || write.is_none() != (change.kind == ChangeKind::Deleted) {
        return Err(refused(Refusal::Incomplete));
    }
    Ok(Plan { path, before, write })
}

fn check_overlaps(plans: &[Plan<'_>]) -> Result<(), ApplyError> {
    let mut seen = BTreeSet::new();
    for plan in plans {
        if !seen.insert(plan.path.as_path()) {
            return Err(plan.refused(Refusal::Overlaps));
        }
    }
    let nested = |plan: &&Plan<'_>| plan.path.as_path().ancestors().skip(1).any(|above| seen.contains(above));
    plans.iter().find(nested).map_or(Ok(()), |plan| Err(plan.refused(Refusal::Overlaps)))
}

/// Judges the changes against the tree.
fn check_all(root: &OwnedFd, plans: &[Plan<'_>]) -> Result<(), ApplyError> {
    plans.iter().try_for_each(|plan| check(root, plan))
}

fn check(root: &OwnedFd, plan: &Plan<'_>) -> Result<(), ApplyError> {
    let path = plan.path.as_path();
    let stray = |source: io::Error| match rustix::io::Errno::from_io_error(&source) {
        Some(rustix::io::Errno::LOOP) => plan.refused(Refusal::Symlink),
        Some(rustix::io::Errno::NOTDIR) => plan.refused(Refusal::Shape),
        _ => failed("look at", path)(source),
    };
    let here = match journal::parent(root, path).map_err(stray)? {
        None => None,
        Some((parent, name)) => match beneath::child(&parent, name).map_err(stray)? {
            None => None,
            Some(inode) => match inode.kind() {
                Kind::File => Some(beneath::read_file(&parent, name, FILE_BYTES_MAX).map_err(stray)?.ok()),
                Kind::Dir => return Err(plan.refused(Refusal::Shape)),
                Kind::Symlink => return Err(plan.refused(Refusal::Symlink)),
                Kind::Special => return Err(plan.refused(Refusal::Special)),
            },
        },
    };
    let is_same = match (&here, plan.before) {
        (None, None) => true,
        (Some(Some(bytes)), Some(before)) => bytes == before,
        _ => false,
    };
    if is_same { Ok(()) } else { Err(ApplyError::Conflict { path: path.to_owned() }) }
}

/// Says beforehand what will be made, so that it can be undone.
fn draw_up(root: &OwnedFd, repo: PathBuf, plans: &[Plan<'_>], transaction: &str) -> Result<Journal, ApplyError> {
    let mut dirs = BTreeSet::new();
    let mut steps = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let path = plan.path.as_path();
        if plan.write.is_some() {
            for dir in path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
                let is_there = match journal::parent(root, dir).map_err(failed("look at", dir))? {
                    Some((parent, name)) => beneath::child(&parent, name).map_err(failed("look at", dir))?.is_some(),
                    None => false,
                };
                if !is_there {
                    dirs.insert(dir.to_owned());
                }
            }
        }
        steps.push(Step {
            path: path.to_owned(),
            temp: plan.write.map(|_| format!(".cloister-{transaction}-{number}")),
            before: plan.before.map(journal::digest),
        });
    }
    let dirs = dirs.into_iter().collect();
    Ok(Journal { owner: Owner::me(), repo, phase: Phase::Preparing, dirs, steps })
}

fn prepare(root: &OwnedFd, journal: &Journal, plans: &[Plan<'_>], observe: &mut dyn FnMut(&str)) -> Result<(), ApplyError> {
    for dir in &journal.dirs {
        observe("directory");
        make_dir(root, dir).map_err(failed("make", dir))?;
    }
    for (plan, step) in plans.iter().zip(&journal.steps) {
        if let (Some((bytes, mode)), Some(temp)) = (plan.write, &step.temp) {
            observe("file");
            write_beside(root, &step.path, temp, bytes, mode).map_err(failed("write beside", &step.path))?;
        }
    }
    Ok(())
}

fn make_dir(root: &OwnedFd, dir: &Path) -> io::Result<()> {
    let (parent, name) = journal::parent(root, dir)?.ok_or(io::ErrorKind::NotFound)?;
    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
    give(&beneath::open_dir(&parent, name)?, &rustix::fs::fstat(&parent)?)?;
    beneath::sync_dir(&parent)
}

fn write_beside(root: &OwnedFd, path: &Path, temp: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (parent, name) = journal::parent(root, path)?.ok_or(io::ErrorKind::NotFound)?;
    let mut file = beneath::create_file(&parent, OsStr::new(temp))?;
    file.write_all(bytes)?;
    let target: Option<Inode> = beneath::child(&parent, name)?;
    let like = target.map_or_else(|| rustix::fs::fstat(&parent), |inode| Ok(inode.stat))?;
    give(&file, &like)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()?;
    beneath::sync_dir(&parent)
}

/// Run as root, new files belong to whom their neighbours belong.
fn give(made: impl std::os::fd::AsFd, like: &rustix::fs::Stat) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        rustix::fs::fchown(made, Some(Uid::from_raw(like.st_uid)), Some(Gid::from_raw(like.st_gid)))?;
    }
    Ok(())
}
