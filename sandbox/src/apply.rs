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

use crate::arrival;
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
    /// A part of its name reads as something else to people or to another file system.
    #[error("its name {0}; rename it in the box")]
    Name(&'static str),
    /// Its name is another spelling (case, Unicode) of one that is there.
    #[error("its name only looks different from {0:?}, which is there; use that name")]
    Twin(String),
    /// With it a directory becomes a git repository, whose configuration names programs that git runs.
    #[error("it makes {0:?} a git repository, in which git would run what its configuration names")]
    Repository(PathBuf),
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
    check_arrivals(&root, &plans)?;
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

/// Judges the names that are new in the tree.
fn check_arrivals(root: &OwnedFd, plans: &[Plan<'_>]) -> Result<(), ApplyError> {
    let written: Vec<_> =
        plans.iter().filter(|plan| plan.write.is_some()).map(|plan| (&plan.path, plan.before.is_none())).collect();
    let removed = plans.iter().filter(|plan| plan.write.is_none()).map(|plan| plan.path.as_path()).collect();
    match arrival::judge(root, &written, &removed) {
        Ok(None) => Ok(()),
        Ok(Some((path, reason))) => Err(ApplyError::Refused { path, reason }),
        Err((path, source)) => Err(ApplyError::Io { what: "look at", path, source }),
    }
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

fn prepare(
    root: &OwnedFd,
    journal: &Journal,
    plans: &[Plan<'_>],
    observe: &mut dyn FnMut(&str),
) -> Result<(), ApplyError> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use super::*;

    fn tree(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![dir.to_owned()];
        while let Some(at) = waiting.pop() {
            for entry in fs::read_dir(at).expect("read").flatten() {
                let path = entry.path();
                let is_dir = path.is_dir();
                found.insert(
                    path.strip_prefix(dir).expect("below").to_owned(),
                    (!is_dir).then(|| fs::read(&path).expect("read")),
                );
                waiting.extend(is_dir.then_some(path));
            }
        }
        found
    }

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> Change {
        let kind = match (before, after) {
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Changed,
        };
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_owned());
        Change {
            path: path.into(),
            kind,
            node: Node::File,
            before: bytes(before),
            after: bytes(after),
            binary: false,
            before_mode: None,
            mode: Some(0o644),
        }
    }

    fn yard() -> (tempfile::TempDir, PathBuf, PathBuf, Vec<Change>) {
        let dir = tempfile::tempdir().expect("directory");
        let (repo, journals) = (dir.path().join("repo"), dir.path().join("journals"));
        fs::create_dir_all(repo.join("src")).expect("repository");
        fs::write(repo.join("src/a"), "one").expect("file");
        fs::write(repo.join("b"), "two").expect("file");
        let changes = vec![
            change("b", Some("two"), Some("2")),
            change("new/deep/c", None, Some("three")),
            change("new/d", None, Some("four")),
            change("src/a", Some("one"), None),
        ];
        (dir, repo, journals, changes)
    }

    /// Stops the world before the n-th effect, for every n, as a crash would: nothing is cleaned up by the dying side.
    #[test]
    fn a_crash_at_any_point_leaves_the_tree_wholly_old_or_wholly_new_after_recovery() {
        let (_dir, repo, journals, changes) = yard();
        let old = tree(&repo);
        apply(&changes, &repo, &journals).expect("apply");
        let new = tree(&repo);
        let (mut undone, mut finished) = (0, 0);
        for stop in 0.. {
            let (_dir, repo, journals, changes) = yard();
            let mut seen = 0;
            let died = catch_unwind(AssertUnwindSafe(|| {
                observed(&changes, &repo, &journals, &mut |_| {
                    if seen == stop {
                        resume_unwind(Box::new("power cut"));
                    }
                    seen += 1;
                })
            }));
            if died.is_ok() {
                break;
            }
            journal::recover_those(&journals, |_| true).expect("recover");
            assert!(journal::recover_those(&journals, |_| true).expect("again").is_empty());
            match tree(&repo) {
                now if now == old => undone += 1,
                now if now == new => finished += 1,
                now => panic!("half done after a crash before effect {stop}: {now:?}"),
            }
        }
        assert!(undone >= 5 && finished >= 5, "{undone} undone, {finished} finished");
    }

    /// Puts a symlink to elsewhere in the place of a directory before the n-th effect, for every n.
    #[test]
    fn a_directory_swapped_for_a_symlink_at_any_moment_leads_no_write_outside() {
        for stop in 0.. {
            let (dir, repo, journals, changes) = yard();
            let outside = dir.path().join("outside");
            fs::create_dir_all(outside.join("deep")).expect("outside");
            fs::write(outside.join("a"), "theirs").expect("file");
            let before = tree(&outside);
            let mut seen = 0;
            let answer = observed(&changes, &repo, &journals, &mut |_| {
                if seen == stop {
                    for name in ["src", "new"] {
                        let _ = fs::rename(repo.join(name), dir.path().join(name));
                        std::os::unix::fs::symlink(&outside, repo.join(name)).expect("symlink");
                    }
                }
                seen += 1;
            });
            assert_eq!(tree(&outside), before, "before effect {stop}: {answer:?}");
            let _ = journal::recover_those(&journals, |_| true);
            assert_eq!(tree(&outside), before, "by the recovery after effect {stop}");
            if seen <= stop {
                assert!(answer.is_ok() && stop > 5, "{stop}: {answer:?}");
                break;
            }
        }
    }

    #[test]
    fn what_somebody_changed_between_the_crash_and_the_recovery_is_left_alone_and_told() {
        let (_dir, repo, journals, changes) = yard();
        let mut steps = 0;
        let _ = catch_unwind(AssertUnwindSafe(|| {
            observed(&changes, &repo, &journals, &mut |point| {
                steps += usize::from(point == "step");
                if steps == 2 {
                    resume_unwind(Box::new("power cut"));
                }
            })
        }));
        fs::write(repo.join("src/a"), "theirs").expect("write");
        let recovered = journal::recover_those(&journals, |_| true).expect("recover");
        assert_eq!((recovered.len(), recovered[0].finished), (1, true));
        assert_eq!(recovered[0].conflicts, [PathBuf::from("src/a")]);
        assert_eq!(fs::read(repo.join("src/a")).expect("read"), b"theirs");
        assert_eq!(fs::read(repo.join("new/d")).expect("read"), b"four");
    }

    #[test]
    fn the_journal_of_a_living_process_is_left_alone() {
        let (_dir, repo, journals, changes) = yard();
        let _ = catch_unwind(AssertUnwindSafe(|| {
            observed(&changes, &repo, &journals, &mut |point| {
                if point == "commit" {
                    resume_unwind(Box::new("not dead yet"));
                }
            })
        }));
        assert!(journal::recover(&journals).expect("recover").is_empty());
        assert_eq!(fs::read_dir(&journals).expect("journals").count(), 1);
    }
}
