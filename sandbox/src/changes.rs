//! What did the box change?

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::beneath::{self, Inode, Kind};
use crate::layers::{Merged, Stacked};
use crate::names::Protected;
use crate::path::RelPath;
use crate::view::{ENTRIES_MAX, FILE_BYTES_MAX, View, ViewError, at};

/// Bytes of all changes together that are held in memory.
pub const CHANGES_BYTES_MAX: u64 = 256 << 20;

/// One file that is not what it is in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which file, relative to the workspace.
    pub path: PathBuf,
    /// What happened to it.
    pub kind: ChangeKind,
    /// What stands there now; of a deletion, what stood there.
    pub node: Node,
    /// Its bytes in the repository; `None` when it was not there, is no regular file, or is larger than [`FILE_BYTES_MAX`].
    pub before: Option<Vec<u8>>,
    /// Its bytes in the box, under the same conditions. Of a symlink: its target.
    pub after: Option<Vec<u8>>,
    /// Whether one of the two is not text (a NUL byte, or not UTF-8).
    pub binary: bool,
    /// Permission bits in the repository.
    pub before_mode: Option<u32>,
    /// Permission bits in the box.
    pub mode: Option<u32>,
}

impl Change {
    /// Why a person should look at this file by name, whether or not it was there before: something acts on it later.
    pub fn protected(&self) -> Option<Protected> {
        Protected::of(&self.path)
    }
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is not in the repository.
    Created,
    /// Its bytes (and perhaps its mode) differ.
    Changed,
    /// It is no longer there.
    Deleted,
    /// Only its mode differs.
    ModeChanged,
}

/// What kind of thing a change is about; only a [`Node::File`] can be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A regular file of at most [`FILE_BYTES_MAX`] bytes on both sides.
    File,
    /// A regular file that is larger; its bytes are not read, so that it differs is only known from size and mode.
    Large {
        /// Size of the larger side in bytes.
        bytes: u64,
    },
    /// A symbolic link on at least one side.
    Symlink,
    /// A FIFO, socket or device.
    Special,
}

impl View {
    /// Every file of the layers that is not, byte for byte and mode for mode, what the repository holds; by path.
    /// Directories are not told by themselves. `keep` says no to leave out a path and, of a directory, all below it.
    pub fn changes(&self, keep: impl Fn(&RelPath) -> bool) -> Result<Vec<Change>, ViewError> {
        let mut diff = Diff { keep: &keep, changes: Vec::new(), entries: 0, bytes: 0 };
        let root = self.root().map_err(at(&RelPath::root()))?;
        diff.dir(&RelPath::root(), &root, root.base.as_ref())?;
        diff.changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(diff.changes)
    }
}

struct Diff<'a> {
    keep: &'a dyn Fn(&RelPath) -> bool,
    changes: Vec<Change>,
    entries: usize,
    bytes: u64,
}

impl Diff<'_> {
    /// `lower` is what the repository has at this path, also when the box does not see it.
    fn dir(&mut self, path: &RelPath, seen: &Merged, lower: Option<&OwnedFd>) -> Result<(), ViewError> {
        let names = seen.names_above().map_err(at(path))?;
        for name in &names {
            let below = path.join(name);
            let found = seen.look(name).map_err(at(&below))?;
            self.entry(&below, found, lower)?;
        }
        if let Some(lower) = lower.filter(|_| seen.base.is_none()) {
            let mut gone = beneath::names(lower).map_err(at(path))?;
            gone.retain(|name| !names.contains(name));
            for name in gone {
                self.deleted(&path.join(&name), lower, &name)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &RelPath, found: Stacked<'_>, lower: Option<&OwnedFd>) -> Result<(), ViewError> {
        let (Some((_, name)), Some((dir, inode))) = (path.split(), found.top) else { return Ok(()) };
        if !self.admit(path)? {
            return Ok(());
        }
        let before = lower.map_or(Ok(None), |dir| beneath::child(dir, name)).map_err(at(path))?;
        let was_dir = before.as_ref().is_some_and(|inode| inode.kind() == Kind::Dir);
        if inode.kind() == Kind::Dir {
            if let (Some(lower), Some(_), false) = (lower, &before, was_dir) {
                self.deleted(path, lower, name)?;
            }
            let below = before.filter(|_| was_dir).map(|inode| inode.fd);
            return self.dir(path, &found.merged, below.as_ref());
        }
        if let Some(lower) = lower.filter(|_| was_dir || inode.is_whiteout()) {
            self.deleted(path, lower, name)?;
        }
        if inode.is_whiteout() {
            return Ok(());
        }
        let before = before.filter(|_| !was_dir).zip(lower);
        self.leaf(path, name, before.as_ref().map(|(inode, dir)| (*dir, inode)), Some((dir, &inode)))
    }

    /// All files at and below a name of the repository that the box does not have any more.
    fn deleted(&mut self, path: &RelPath, lower: &OwnedFd, name: &OsStr) -> Result<(), ViewError> {
        let Some(inode) = beneath::child(lower, name).map_err(at(path))? else { return Ok(()) };
        if !self.admit(path)? {
            return Ok(());
        }
        if inode.kind() != Kind::Dir {
            return self.leaf(path, name, Some((lower, &inode)), None);
        }
        for below in beneath::names(&inode.fd).map_err(at(path))? {
            self.deleted(&path.join(&below), &inode.fd, &below)?;
        }
        Ok(())
    }

    fn admit(&mut self, path: &RelPath) -> Result<bool, ViewError> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(ViewError::TooMany { path: RelPath::root(), entries_max: ENTRIES_MAX });
        }
        // Each level holds descriptors and stack; a job can nest without end.
        RelPath::parse(path)?;
        Ok((self.keep)(path))
    }

    fn leaf(
        &mut self,
        path: &RelPath,
        name: &OsStr,
        before: Option<(&OwnedFd, &Inode)>,
        after: Option<(&OwnedFd, &Inode)>,
    ) -> Result<(), ViewError> {
        let sides = [before, after];
        let node = node_of(&sides.map(|side| side.map(|(_, inode)| inode)));
        let read = |side: Option<(&OwnedFd, &Inode)>| side.map_or(Ok(None), |(dir, inode)| content(dir, name, inode));
        let before_bytes = read(before).map_err(at(path))?;
        let after_bytes = read(after).map_err(at(path))?;
        let mode = |side: Option<(&OwnedFd, &Inode)>| side.map(|(_, inode)| inode.mode());
        let kind = match (before, after) {
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            (Some((_, old)), Some((_, new))) => {
                // What is too large to be compared has changed when its time has.
                let later = matches!(node, Node::Large { .. }) && old.stat.st_mtime != new.stat.st_mtime;
                if old.kind() != new.kind() || old.bytes() != new.bytes() || before_bytes != after_bytes || later {
                    ChangeKind::Changed
                } else if old.mode() != new.mode() {
                    ChangeKind::ModeChanged
                } else {
                    return Ok(());
                }
            }
        };
        let held = before_bytes.as_ref().map_or(0, Vec::len) + after_bytes.as_ref().map_or(0, Vec::len);
        self.bytes += held as u64;
        if self.bytes > CHANGES_BYTES_MAX {
            return Err(ViewError::TooLarge { path: path.clone(), bytes: self.bytes, bytes_max: CHANGES_BYTES_MAX });
        }
        let binary = [&before_bytes, &after_bytes].into_iter().flatten().any(|bytes| is_binary(bytes));
        self.changes.push(Change {
            path: path.as_path().to_owned(),
            kind,
            node,
            before: before_bytes,
            after: after_bytes,
            binary,
            before_mode: mode(before),
            mode: mode(after),
        });
        Ok(())
    }
}

fn node_of(sides: &[Option<&Inode>; 2]) -> Node {
    let sides = || sides.iter().flatten();
    let bytes = sides().filter(|inode| inode.kind() == Kind::File).map(|inode| inode.bytes()).max().unwrap_or(0);
    if sides().any(|inode| matches!(inode.kind(), Kind::Special | Kind::Dir)) {
        Node::Special
    } else if sides().any(|inode| inode.kind() == Kind::Symlink) {
        Node::Symlink
    } else if bytes > FILE_BYTES_MAX {
        Node::Large { bytes }
    } else {
        Node::File
    }
}

fn content(dir: &OwnedFd, name: &OsStr, inode: &Inode) -> std::io::Result<Option<Vec<u8>>> {
    match inode.kind() {
        Kind::File => Ok(beneath::read_file(dir, name, FILE_BYTES_MAX)?.ok()),
        Kind::Symlink => inode.link_target().map(Some),
        Kind::Dir | Kind::Special => Ok(None),
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
}
