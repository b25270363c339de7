//! What does the workspace of a box hold right now?
//!
//! The harness reads and writes here, on the host, without running anything in the box: the upper layer first, then those
//! that snapshots froze, then the repository. Nothing is followed, nothing but regular files is opened, and every answer has a limit. Writes go to the
//! upper layer only. Legal between jobs; the kernel does not define what a running job sees of a change made here.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};

use crate::beneath::{self, Inode, Kind};
use crate::layers::{self, Found, Merged};
use crate::lineage::Frozen;
use crate::path::{PathError, RelPath};

/// Largest file that is read or written, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most entries that a walk or a listing gives.
pub const ENTRIES_MAX: usize = 200_000;

/// The layers of a box's workspace.
pub struct View {
    /// The one that is written.
    pub(crate) upper: OwnedFd,
    /// Those that snapshots froze, topmost first.
    pub(crate) lowers: Vec<OwnedFd>,
    /// The repository.
    pub(crate) base: OwnedFd,
    stack: Vec<Arc<Frozen>>,
    /// A directory on the file system of the upper layer, where files are made before they are renamed into place.
    spare: OwnedFd,
    /// Who owns what the harness writes: the owner of the repository, when we may choose.
    owner: Option<(Uid, Gid)>,
    count: AtomicU64,
}

/// What a listing tells about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, relative to the workspace.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Size in bytes (of a symlink: the length of its target).
    pub bytes: u64,
    /// Permission bits, set-id and sticky bits included.
    pub mode: u32,
}

/// Why the harness could not read or write in a box.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The path leads outside by its words alone.
    #[error(transparent)]
    Path(#[from] PathError),
    /// There is nothing.
    #[error("{0} does not exist")]
    NotFound(RelPath),
    /// A directory stands where a file was expected.
    #[error("{0} is a directory")]
    IsDirectory(RelPath),
    /// Something else stands where a directory was expected.
    #[error("{0} is not a directory")]
    NotDirectory(RelPath),
    /// The path, or a directory on the way, is a symbolic link. Links are reported, never followed.
    #[error("{0} is a symbolic link, which is not followed")]
    Symlink(RelPath),
    /// A FIFO, socket or device.
    #[error("{0} is a FIFO, socket or device, which is not opened")]
    Special(RelPath),
    /// The file is larger than the limit.
    #[error("{path} has {bytes} bytes, more than the limit of {bytes_max}")]
    TooLarge {
        /// The file.
        path: RelPath,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The workspace holds more than a walk gives.
    #[error("more than {entries_max} entries below {path}")]
    TooMany {
        /// Where the walk began.
        path: RelPath,
        /// The limit.
        entries_max: usize,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: RelPath,
        /// What it said.
        source: io::Error,
    },
}

pub(crate) fn at(path: &RelPath) -> impl FnOnce(io::Error) -> ViewError + '_ {
    move |source| match rustix::io::Errno::from_io_error(&source) {
        Some(rustix::io::Errno::LOOP) => ViewError::Symlink(path.clone()),
        Some(rustix::io::Errno::NOTDIR) => ViewError::NotDirectory(path.clone()),
        _ => ViewError::Io { path: path.clone(), source },
    }
}

impl View {
    /// Opens the view of `repo` under the layers in `layers` (`upper` and `spare` are made there).
    pub fn open(repo: &Path, layers: &Path) -> io::Result<View> {
        View::over(repo, layers, &[])
    }

    /// As [`View::open`], with frozen layers, topmost first, between the two.
    pub(crate) fn over(repo: &Path, layers: &Path, stack: &[Arc<Frozen>]) -> io::Result<View> {
        for name in ["upper", "spare"] {
            std::fs::create_dir_all(layers.join(name))?;
        }
        let base = beneath::open_root(repo)?;
        let lowers = stack.iter().map(|frozen| beneath::open_root(&frozen.path())).collect::<io::Result<Vec<_>>>()?;
        let stat = rustix::fs::fstat(lowers.first().unwrap_or(&base))?;
        let upper = beneath::open_root(&layers.join("upper"))?;
        let owner =
            rustix::process::geteuid().is_root().then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)));
        // The root of the overlay shows the mode and the owner of the upper directory.
        let open =
            rustix::fs::openat(&upper, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::fchmod(&open, Mode::from_raw_mode(stat.st_mode & 0o777 | 0o700))?;
        if let Some((uid, gid)) = owner {
            rustix::fs::fchown(&open, Some(uid), Some(gid))?;
        }
        let (spare, stack) = (beneath::open_root(&layers.join("spare"))?, stack.to_vec());
        Ok(View { upper, lowers, base, stack, spare, owner, count: AtomicU64::new(0) })
    }

    /// The bytes of a regular file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, ViewError> {
        let path = RelPath::parse(path)?;
        let (parent, name) = self.parent(&path)?;
        let found = parent.child(&name).map_err(at(&path))?.ok_or_else(|| ViewError::NotFound(path.clone()))?;
        expect_file(&path, found.inode())?;
        let layer = parent.layer_of(&name).map_err(at(&path))?.ok_or_else(|| ViewError::NotFound(path.clone()))?;
        match beneath::read_file(layer, &name, FILE_BYTES_MAX).map_err(at(&path))? {
            Ok(bytes) => Ok(bytes),
            Err(bytes) => Err(ViewError::TooLarge { path, bytes, bytes_max: FILE_BYTES_MAX }),
        }
    }

    /// What a path stands for.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Entry, ViewError> {
        let path = RelPath::parse(path)?;
        let Some((_, name)) = path.split() else {
            let stat = rustix::fs::fstat(&self.upper).map_err(|errno| at(&path)(errno.into()))?;
            return Ok(Entry { path: PathBuf::new(), kind: Kind::Dir, bytes: 0, mode: stat.st_mode & 0o7777 });
        };
        let found = self.parent(&path)?.0.child(name).map_err(at(&path))?;
        found.map(|found| entry(&path, found.inode())).ok_or_else(|| ViewError::NotFound(path.clone()))
    }

    /// The entries of a directory, sorted by name.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<Entry>, ViewError> {
        let path = RelPath::parse(path)?;
        let dir = self.dir(&path)?;
        let mut entries = Vec::new();
        for name in dir.names().map_err(at(&path))? {
            let below = path.join(&name);
            if let Some(found) = dir.child(&name).map_err(at(&below))? {
                entries.push(entry(&below, found.inode()));
            }
            if entries.len() > ENTRIES_MAX {
                return Err(ViewError::TooMany { path, entries_max: ENTRIES_MAX });
            }
        }
        Ok(entries)
    }

    /// All entries of the workspace, parents before children, names in order. `keep` says no to leave out an entry and, of
    /// a directory, all below it.
    pub fn walk(&self, mut keep: impl FnMut(&Entry) -> bool) -> Result<Vec<Entry>, ViewError> {
        let mut entries = Vec::new();
        let mut waiting = vec![RelPath::root()];
        while let Some(path) = waiting.pop() {
            let mut below = Vec::new();
            let listed = match self.list(&path) {
                // What its owner cannot read is shown by its name alone; a job in the box cannot read it either.
                Err(ViewError::Io { source, .. })
                    if source.kind() == io::ErrorKind::PermissionDenied && path.split().is_some() =>
                {
                    continue;
                }
                listed => listed?,
            };
            for entry in listed.into_iter().filter(|entry| keep(entry)) {
                if entry.kind == Kind::Dir {
                    below.push(RelPath::parse(&entry.path)?);
                }
                entries.push(entry);
                if entries.len() > ENTRIES_MAX {
                    return Err(ViewError::TooMany { path: RelPath::root(), entries_max: ENTRIES_MAX });
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(entries)
    }

    /// The paths at which a layer above the repository has something: every other file is as in the repository, or gone.
    pub fn touched(&self, keep: impl Fn(&RelPath) -> bool) -> Result<Vec<PathBuf>, ViewError> {
        let mut touched = Vec::new();
        let mut waiting = vec![RelPath::root()];
        while let Some(path) = waiting.pop() {
            let dir = self.dir(&path)?;
            for name in dir.names_above().map_err(at(&path))? {
                let below = path.join(&name);
                match dir.look(&name).map_err(at(&below))?.top {
                    _ if !keep(&below) => {}
                    Some((_, inode)) if inode.kind() == Kind::Dir => waiting.push(below),
                    Some(_) => touched.push(below.as_path().to_owned()),
                    None => {}
                }
                if touched.len() + waiting.len() > ENTRIES_MAX {
                    return Err(ViewError::TooMany { path, entries_max: ENTRIES_MAX });
                }
            }
        }
        Ok(touched)
    }

    /// Writes a file into the upper layer, whole or not at all; makes the directories that it needs. A file that exists keeps
    /// its mode, a new one gets 0644.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), ViewError> {
        self.put(RelPath::parse(path)?, bytes, None)
    }

    /// As [`View::write`], with these permission bits (set-id and sticky bits are dropped).
    pub fn write_with_mode(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> Result<(), ViewError> {
        self.put(RelPath::parse(path)?, bytes, Some(mode))
    }

    fn put(&self, path: RelPath, bytes: &[u8], mode: Option<u32>) -> Result<(), ViewError> {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(ViewError::TooLarge { path, bytes: bytes.len() as u64, bytes_max: FILE_BYTES_MAX });
        }
        let (parent, name) = self.upper_parent(&path)?;
        let before = parent.child(&name).map_err(at(&path))?;
        if let Some(found) = &before {
            expect_file(&path, found.inode())?;
        }
        let mode = mode.or(before.map(|found| found.inode().mode())).unwrap_or(0o644) & 0o777;
        let into = parent.upper.as_ref().ok_or_else(|| ViewError::NotFound(path.clone()))?;
        self.make_and_rename(bytes, mode, into, &name).map_err(at(&path))
    }

    fn make_and_rename(&self, bytes: &[u8], mode: u32, into: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let spare = self.spare_name();
        let mut file = beneath::create_file(&self.spare, &spare)?;
        let made = (|| {
            file.write_all(bytes)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
            if let Some((uid, gid)) = self.owner {
                rustix::fs::fchown(&file, Some(uid), Some(gid))?;
            }
            Ok(rustix::fs::renameat(&self.spare, &spare, into, name)?)
        })();
        if made.is_err() {
            let _ = rustix::fs::unlinkat(&self.spare, &spare, AtFlags::empty());
        }
        made
    }

    /// Removes a file or a symlink; in the repository below it stays, behind a whiteout.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<(), ViewError> {
        let path = RelPath::parse(path)?;
        let (seen, name) = self.parent(&path)?;
        match seen.child(&name).map_err(at(&path))? {
            None => return Err(ViewError::NotFound(path)),
            Some(Found::Dir(..)) => return Err(ViewError::IsDirectory(path)),
            Some(Found::Leaf(_)) => {}
        }
        let (parent, name) = self.upper_parent(&path)?;
        let upper = parent.upper.as_ref().ok_or_else(|| ViewError::NotFound(path.clone()))?;
        let removed = if !parent.has_below(&name).map_err(at(&path))? {
            rustix::fs::unlinkat(upper, &name, AtFlags::empty())
        } else {
            let spare = self.spare_name();
            rustix::fs::mknodat(&self.spare, &spare, FileType::CharacterDevice, Mode::empty(), 0)
                .and_then(|()| rustix::fs::renameat(&self.spare, &spare, upper, &name))
        };
        removed.map_err(|errno| at(&path)(errno.into()))
    }

    /// The directory at `path`.
    pub(crate) fn dir(&self, path: &RelPath) -> Result<Merged, ViewError> {
        let mut dir = self.root().map_err(at(path))?;
        let mut so_far = RelPath::root();
        for name in path.names() {
            so_far = so_far.join(name);
            dir = match dir.child(name).map_err(at(&so_far))? {
                Some(Found::Dir(merged, _)) => merged,
                Some(Found::Leaf(inode)) if inode.kind() == Kind::Symlink => return Err(ViewError::Symlink(so_far)),
                Some(Found::Leaf(_)) => return Err(ViewError::NotDirectory(so_far)),
                None => return Err(ViewError::NotFound(so_far)),
            };
        }
        Ok(dir)
    }

    pub(crate) fn root(&self) -> io::Result<Merged> {
        let lowers = self.lowers.iter().map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>()?;
        Ok(Merged { upper: Some(self.upper.try_clone()?), lowers, base: Some(self.base.try_clone()?) })
    }

    /// Lets go of the frozen layers, when the box ends.
    pub(crate) fn let_go(&mut self) {
        self.stack.clear();
        self.lowers.clear();
    }

    /// What the frozen layers count against the limit of the box.
    pub(crate) fn frozen_bytes(&self) -> u64 {
        self.stack.iter().fold(0, |sum, frozen| sum.saturating_add(frozen.bytes()))
    }

    fn parent(&self, path: &RelPath) -> Result<(Merged, OsString), ViewError> {
        let (parent, name) = path.split().ok_or_else(|| ViewError::IsDirectory(path.clone()))?;
        Ok((self.dir(&parent)?, name.to_owned()))
    }

    /// As [`View::parent`], but every directory on the way exists in the upper layer afterwards.
    fn upper_parent(&self, path: &RelPath) -> Result<(Merged, OsString), ViewError> {
        let (parent, name) = path.split().ok_or_else(|| ViewError::IsDirectory(path.clone()))?;
        let mut dir = self.root().map_err(at(path))?;
        let mut so_far = RelPath::root();
        for step in parent.names() {
            so_far = so_far.join(step);
            dir = match dir.child(step).map_err(at(&so_far))? {
                Some(Found::Dir(merged, _)) if merged.upper.is_some() => merged,
                Some(Found::Dir(merged, inode)) => {
                    self.make_dir(&dir, step, inode.mode() & 0o777, Some(merged)).map_err(at(&so_far))?
                }
                Some(Found::Leaf(inode)) if inode.kind() == Kind::Symlink => return Err(ViewError::Symlink(so_far)),
                Some(Found::Leaf(_)) => return Err(ViewError::NotDirectory(so_far)),
                None => self.make_dir(&dir, step, 0o755, None).map_err(at(&so_far))?,
            };
        }
        Ok((dir, name.to_owned()))
    }

    /// Makes a directory in the upper layer: over `seen` when that is given, else one that hides whatever lies below.
    fn make_dir(&self, dir: &Merged, name: &OsStr, mode: u32, seen: Option<Merged>) -> io::Result<Merged> {
        let upper = dir.upper.as_ref().ok_or_else(|| io::Error::other("the directory has no upper layer"))?;
        let spare = self.spare_name();
        rustix::fs::mkdirat(&self.spare, &spare, Mode::from_raw_mode(0o700))?;
        let made = beneath::open_dir(&self.spare, &spare)?;
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
        if let Some((uid, gid)) = self.owner {
            rustix::fs::fchown(&made, Some(uid), Some(gid))?;
        }
        if seen.is_none() && dir.has_below(name)? {
            layers::set_opaque(&made)?;
        }
        if beneath::child(upper, name)?.is_some_and(|inode| inode.is_whiteout()) {
            rustix::fs::unlinkat(upper, name, AtFlags::empty())?;
        }
        rustix::fs::renameat(&self.spare, &spare, upper, name)?;
        Ok(Merged { upper: Some(made), ..seen.unwrap_or_default() })
    }

    fn spare_name(&self) -> OsString {
        format!("{}-{}", std::process::id(), self.count.fetch_add(1, Ordering::Relaxed)).into()
    }
}

fn entry(path: &RelPath, inode: &Inode) -> Entry {
    Entry { path: path.as_path().to_owned(), kind: inode.kind(), bytes: inode.bytes(), mode: inode.mode() }
}

fn expect_file(path: &RelPath, inode: &Inode) -> Result<(), ViewError> {
    match inode.kind() {
        Kind::File => Ok(()),
        Kind::Dir => Err(ViewError::IsDirectory(path.clone())),
        Kind::Symlink => Err(ViewError::Symlink(path.clone())),
        Kind::Special => Err(ViewError::Special(path.clone())),
    }
}
