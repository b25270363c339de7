//! What does an overlay show, told from its layers without mounting it?
//!
//! The rules are those of the kernel's overlayfs (Documentation/filesystems/overlayfs.rst): an entry of a layer hides those
//! below it, two directories merge, a character device 0:0 is a deletion, and a directory whose `overlay.opaque`
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

/// One directory as the overlay shows it: where each layer that adds to it has it.
#[derive(Default)]
pub(crate) struct Merged {
    /// In the layer that is written.
    pub(crate) upper: Option<OwnedFd>,
    /// In the frozen layers, topmost first.
    pub(crate) lowers: Vec<OwnedFd>,
    /// In the repository.
    pub(crate) base: Option<OwnedFd>,
}

/// What the layers have at a name.
pub(crate) struct Stacked<'a> {
    /// The topmost entry, a deletion too, and the directory that it is in.
    pub(crate) top: Option<(&'a OwnedFd, Inode)>,
    /// When that is a directory: itself, with those below that it merges with.
    pub(crate) merged: Merged,
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
        let mut names = self.names_above()?;
        if let Some(base) = &self.base {
            names.extend(beneath::names(base)?);
        }
        Ok(names)
    }

    /// Names of which a layer above the repository says something.
    pub(crate) fn names_above(&self) -> io::Result<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        for layer in self.above() {
            names.extend(beneath::names(layer)?);
        }
        Ok(names)
    }

    fn above(&self) -> impl Iterator<Item = &OwnedFd> {
        self.upper.iter().chain(&self.lowers)
    }

    pub(crate) fn look(&self, name: &OsStr) -> io::Result<Stacked<'_>> {
        let (mut top, mut merged) = (None, Merged::default());
        let layers = self.upper.iter().map(|dir| (dir, Layer::Upper));
        let layers = layers.chain(self.lowers.iter().map(|dir| (dir, Layer::Lower)));
        for (dir, layer) in layers.chain(self.base.iter().map(|dir| (dir, Layer::Base))) {
            let Some(inode) = beneath::child(dir, name)? else { continue };
            let is_dir = inode.kind() == Kind::Dir;
            if is_dir {
                let fd = inode.fd.try_clone()?;
                match layer {
                    Layer::Upper => merged.upper = Some(fd),
                    Layer::Lower => merged.lowers.push(fd),
                    Layer::Base => merged.base = Some(fd),
                }
            }
            top.get_or_insert((dir, inode));
            // Below the repository there is nothing to hide.
            if !is_dir || layer != Layer::Base && is_opaque(dir, name)? {
                break;
            }
        }
        Ok(Stacked { top, merged })
    }

    pub(crate) fn child(&self, name: &OsStr) -> io::Result<Option<Found>> {
        let Stacked { top, merged } = self.look(name)?;
        Ok(match top {
            Some((_, inode)) if inode.is_whiteout() => None,
            Some((_, inode)) if inode.kind() == Kind::Dir => Some(Found::Dir(merged, inode)),
            Some((_, inode)) => Some(Found::Leaf(inode)),
            None => None,
        })
    }

    /// The layer that `name` is read from.
    pub(crate) fn layer_of(&self, name: &OsStr) -> io::Result<Option<&OwnedFd>> {
        Ok(self.look(name)?.top.map(|(dir, _)| dir))
    }

    /// Whether a layer below the one that is written has anything at this name, were it a deletion.
    pub(crate) fn has_below(&self, name: &OsStr) -> io::Result<bool> {
        for layer in self.lowers.iter().chain(&self.base) {
            if beneath::child(layer, name)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Upper,
    Lower,
    Base,
}

/// Whether the directory `name` in the directory `dir` of a layer hides all that lies below it.
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
