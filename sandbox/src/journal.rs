//! Where was an apply when the machine stopped, and how does it end?
//!
//! A journal is one JSON file. While it says `preparing`, only new files beside their targets exist, and recovery removes
//! them. Once it says `committed`, all bytes are on disk, and recovery does the renames and removals that are still missing.
//! Every step can be done twice: it looks before it acts.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RenameFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::beneath::{self, Kind};
use crate::owner::Owner;
use crate::path::RelPath;
use crate::view::FILE_BYTES_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    Preparing,
    Committed,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    pub(crate) owner: Owner,
    pub(crate) repo: PathBuf,
    pub(crate) phase: Phase,
    /// Directories that the apply makes, parents first.
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) steps: Vec<Step>,
}

/// One file: `temp` (a name beside it) takes its place, or without one it is removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) path: PathBuf,
    pub(crate) temp: Option<String>,
    /// Digest of what must stand there; `None`: nothing may.
    pub(crate) before: Option<String>,
}

/// What recovery did about one interrupted apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The working tree.
    pub repo: PathBuf,
    /// Whether the apply was finished (else it was undone).
    pub finished: bool,
    /// Files that someone changed since; they were left as they are.
    pub conflicts: Vec<PathBuf>,
}

/// Why an interrupted apply could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The journal cannot be read.
    #[error("the journal {path:?} cannot be read: {reason}")]
    Journal {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The working tree could not be changed.
    #[error("{repo:?}: {source}")]
    Io {
        /// The working tree.
        repo: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Ends every apply that a dead process left unended in `journals`; to be called before the next one.
pub fn recover(journals: &Path) -> Result<Vec<Recovered>, RecoverError> {
    recover_those(journals, |owner| !owner.is_alive())
}

pub(crate) fn recover_those(journals: &Path, is_ours: impl Fn(&Owner) -> bool) -> Result<Vec<Recovered>, RecoverError> {
    let broken = |path: &Path, reason: String| RecoverError::Journal { path: path.to_owned(), reason };
    let entries = match fs::read_dir(journals) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| broken(journals, error.to_string()))?,
    };
    let mut recovered = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension() != Some(OsStr::new("json")) {
            continue;
        }
        let text = fs::read(&path).map_err(|error| broken(&path, error.to_string()))?;
        let journal: Journal = serde_json::from_slice(&text).map_err(|error| broken(&path, error.to_string()))?;
        if !is_ours(&journal.owner) {
            continue;
        }
        let failed = |source| RecoverError::Io { repo: journal.repo.clone(), source };
        let root = beneath::open_root(&journal.repo).map_err(failed)?;
        let finished = journal.phase == Phase::Committed;
        let conflicts =
            if finished { journal.commit(&root, &mut |_| {}) } else { journal.undo(&root).map(|()| Vec::new()) };
        let conflicts = conflicts.map_err(failed)?;
        fs::remove_file(&path).map_err(failed)?;
        recovered.push(Recovered { repo: journal.repo, finished, conflicts });
    }
    Ok(recovered)
}

impl Journal {
    /// Writes the journal so that a crash leaves the old one or this one.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let draft = path.with_extension("draft");
        let mut file = fs::File::create(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        fs::File::open(path.parent().unwrap_or(path))?.sync_all()
    }

    /// Removes what preparing made. The targets were not touched.
    pub(crate) fn undo(&self, root: &OwnedFd) -> io::Result<()> {
        for step in &self.steps {
            let (Some(temp), Some((parent, _))) = (&step.temp, parent(root, &step.path)?) else { continue };
            ignore_missing(rustix::fs::unlinkat(&parent, temp, AtFlags::empty()))?;
        }
        for dir in self.dirs.iter().rev() {
            if let Some((parent, name)) = parent(root, dir)? {
                // Somebody may have put something into it meanwhile; then it is theirs.
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
        Ok(())
    }

    /// Does every step that is not done yet; gives the files that were changed by others and therefore left alone.
    pub(crate) fn commit(&self, root: &OwnedFd, observe: &mut dyn FnMut(&str)) -> io::Result<Vec<PathBuf>> {
        let mut conflicts = Vec::new();
        for step in &self.steps {
            observe("step");
            if !step.run(root)? {
                conflicts.push(step.path.clone());
            }
        }
        Ok(conflicts)
    }
}

impl Step {
    /// `false` when something else than expected stands there.
    fn run(&self, root: &OwnedFd) -> io::Result<bool> {
        let Some((parent, name)) = parent(root, &self.path)? else { return Ok(self.temp.is_none()) };
        let here = digest_at(&parent, name)?;
        let is_expected = here == self.before;
        match &self.temp {
            None if here.is_none() => return Ok(true),
            None if is_expected => rustix::fs::unlinkat(&parent, name, AtFlags::empty())?,
            None => return Ok(false),
            // The new file has taken its place already.
            Some(temp) if beneath::child(&parent, OsStr::new(temp))?.is_none() => return Ok(true),
            Some(temp) if is_expected => {
                let flags = if self.before.is_none() { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
                rustix::fs::renameat_with(&parent, temp, &parent, name, flags)?;
            }
            Some(temp) => {
                rustix::fs::unlinkat(&parent, temp, AtFlags::empty())?;
                return Ok(false);
            }
        }
        beneath::sync_dir(&parent)?;
        if self.temp.is_none() {
            remove_empty_parents(root, &self.path);
        }
        Ok(true)
    }
}

/// As git does: a directory whose last file went goes too.
fn remove_empty_parents(root: &OwnedFd, path: &Path) {
    for dir in path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
        let Ok(Some((parent, name))) = parent(root, dir) else { return };
        if rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

/// The open parent directory and the last name; `None` when a directory on the way is missing. A symlink on the way is an error.
pub(crate) fn parent<'a>(root: &OwnedFd, path: &'a Path) -> io::Result<Option<(OwnedFd, &'a OsStr)>> {
    // A journal is ours, but it was on a disk: its paths are checked like everybody's.
    RelPath::parse(path).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidData)?;
    let mut dir = root.try_clone()?;
    for step in path.parent().into_iter().flat_map(Path::iter) {
        match beneath::child(&dir, step)? {
            None => return Ok(None),
            Some(inode) if inode.kind() == Kind::Dir => dir = inode.fd,
            Some(inode) if inode.kind() == Kind::Symlink => return Err(rustix::io::Errno::LOOP.into()),
            Some(_) => return Err(rustix::io::Errno::NOTDIR.into()),
        }
    }
    Ok(Some((dir, name)))
}

/// Digest of the regular file at `name`; of anything else a word that no digest equals.
fn digest_at(parent: &OwnedFd, name: &OsStr) -> io::Result<Option<String>> {
    match beneath::child(parent, name)? {
        None => Ok(None),
        Some(inode) if inode.kind() == Kind::File => match beneath::read_file(parent, name, FILE_BYTES_MAX)? {
            Ok(bytes) => Ok(Some(digest(&bytes))),
            Err(_) => Ok(Some("larger than any file that is applied".into())),
        },
        Some(_) => Ok(Some("not a file".into())),
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ignore_missing(answer: Result<(), rustix::io::Errno>) -> io::Result<()> {
    match answer {
        Err(rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
