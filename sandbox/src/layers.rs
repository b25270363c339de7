//! What does an overlay show, told from its two layers without mounting it?
//!
//! The rules are those of the kernel's overlayfs (Documentation/filesystems/overlayfs.rst): an entry of the upper layer hides
//! the lower one, two directories merge, a character device 0:0 is a deletion, and a directory whose `overlay.opaque`
//! attribute is `y` hides all below it. Boxes mount with `userxattr`, so the attribute is `user.overlay.opaque`; the
//! `trusted` spelling is understood too.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::beneath::{self, Inode, Kind};

const OPAQUE: &str = "user.overlay.opaque";

/// One directory as the overlay shows it.
pub(crate) struct Merged {
    pub(crate) upper: Option<OwnedFd>,
    pub(crate) lower: Option<OwnedFd>,
}

/// What a name in a [`Merged`] directory stands for.
pub(crate) enum Found {
    Dir(Merged, Inode),
    Leaf(Inode),
}

impl Found {
    pub(crate) fn inode(&self) -> &Inode {
        match self {
            Found::Dir(_, inode) | Found::Leaf(inode) => inode,
        }
    }
}

impl Merged {
    /// Names that may be visible: those of deleted entries are among them, [`Merged::child`] answers `None` for these.
    pub(crate) fn names(&self) -> io::Result<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        for layer in [&self.upper, &self.lower].into_iter().flatten() {
            names.extend(beneath::names(layer)?);
        }
        Ok(names)
    }

    pub(crate) fn child(&self, name: &OsStr) -> io::Result<Option<Found>> {
        let above = in_layer(&self.upper, name)?;
        match above {
            Some(inode) if inode.is_whiteout() => Ok(None),
            Some(inode) if inode.kind() != Kind::Dir => Ok(Some(Found::Leaf(inode))),
            Some(inode) => {
                let opaque = self.upper.as_ref().map(|dir| is_opaque(dir, name)).transpose()?.unwrap_or(false);
                let lower = if opaque { None } else { lower_dir(&self.lower, name)? };
                let upper = Some(inode.fd.try_clone()?);
                Ok(Some(Found::Dir(Merged { upper, lower }, inode)))
            }
            None => self.lower_child(name),
        }
    }

    fn lower_child(&self, name: &OsStr) -> io::Result<Option<Found>> {
        match in_layer(&self.lower, name)? {
            Some(inode) if inode.is_whiteout() => Ok(None),
            Some(inode) if inode.kind() == Kind::Dir => {
                let lower = Some(inode.fd.try_clone()?);
                Ok(Some(Found::Dir(Merged { upper: None, lower }, inode)))
            }
            other => Ok(other.map(Found::Leaf)),
        }
    }

    /// The layer that `name` is read from.
    pub(crate) fn layer_of(&self, name: &OsStr) -> io::Result<Option<&OwnedFd>> {
        Ok(if in_layer(&self.upper, name)?.is_some() { self.upper.as_ref() } else { self.lower.as_ref() })
    }
}

/// Looks at a name in one layer, deletions included.
pub(crate) fn in_layer(layer: &Option<OwnedFd>, name: &OsStr) -> io::Result<Option<Inode>> {
    layer.as_ref().map_or(Ok(None), |dir| beneath::child(dir, name))
}

pub(crate) fn lower_dir(lower: &Option<OwnedFd>, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    Ok(in_layer(lower, name)?.filter(|inode| inode.kind() == Kind::Dir).map(|inode| inode.fd))
}

/// Whether the directory `name` in the upper directory `dir` hides all that lies below it.
pub(crate) fn is_opaque(dir: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let open = beneath::open_dir(dir, name)?;
    for attribute in [OPAQUE, "trusted.overlay.opaque"] {
        let mut value = [0_u8; 4];
        match rustix::fs::fgetxattr(&open, attribute, &mut value[..]) {
            Ok(len) if value[..len] == *b"y" => return Ok(true),
            Ok(_) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::RANGE) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Makes an open upper directory hide all that lies below it.
pub(crate) fn set_opaque(dir: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(dir, OPAQUE, b"y", XattrFlags::empty())?)
}
