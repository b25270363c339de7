//! How is a tree removed that somebody made hard to remove?
//!
//! A job can nest directories until a recursive removal runs out of stack or descriptors, take away all permissions, and make
//! millions of names. So the tree is flattened: what lies in a directory of the first level is moved up to the first level
//! before that directory goes, and nothing is ever deeper than two.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::AtFlags;

use crate::beneath::{self, Inode, Kind};
use crate::open::UNFINISHED;

const NAMES_AT_A_TIME: usize = 10_000;

/// Removes a directory and all below it; follows no link and crosses into no other mount. Nothing there is no error.
pub(crate) fn remove_tree(dir: &Path) -> io::Result<()> {
    match beneath::open_root(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => empty(&opened?)?,
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        answer => answer,
    }
}

/// Removes the directory of a box. First its name goes: killed in the middle, we would else leave one whose note is gone, and
/// nobody would ever know that it was ours. The reaper removes what has such a name.
pub(crate) fn remove_box(dir: &Path) -> io::Result<()> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let nameless = dir.with_file_name(format!("{UNFINISHED}gone-{name}"));
    match fs::rename(dir, &nameless) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        renamed => renamed?,
    }
    remove_tree(&nameless)
}

fn empty(root: &OwnedFd) -> io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let names = beneath::first_names(root, NAMES_AT_A_TIME)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            match beneath::child(root, &name)? {
                Some(inode) if inode.kind() == Kind::Dir => {
                    flatten(&inode, root, &mut moved)?;
                    rustix::fs::unlinkat(root, &name, AtFlags::REMOVEDIR)?;
                }
                Some(_) => rustix::fs::unlinkat(root, &name, AtFlags::empty())?,
                None => {}
            }
        }
    }
}

/// Empties `dir`: files go, directories move up into `root` under new names.
fn flatten(dir: &Inode, root: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    unlock(dir)?;
    loop {
        let names = beneath::first_names(&dir.fd, NAMES_AT_A_TIME)?;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            match beneath::child(&dir.fd, &name)? {
                Some(inode) if inode.kind() == Kind::Dir => {
                    // A directory that moves is written to (its `..`), so it must be unlocked first.
                    unlock(&inode)?;
                    let target = format!(".removed-{}-{moved}", std::process::id());
                    rustix::fs::renameat(&dir.fd, &name, root, &target)?;
                    *moved += 1;
                }
                Some(_) => rustix::fs::unlinkat(&dir.fd, &name, AtFlags::empty())?,
                None => {}
            }
        }
    }
}

fn unlock(dir: &Inode) -> io::Result<()> {
    if dir.mode() & 0o700 == 0o700 {
        return Ok(());
    }
    // The descriptor was opened without following links; this is the only way to change a mode through it.
    fs::set_permissions(format!("/proc/self/fd/{}", dir.fd.as_raw_fd()), Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_very_deep_tree_without_permissions_and_with_links_goes_and_takes_nothing_else_along() {
        let keep = tempfile::tempdir().expect("kept");
        fs::write(keep.path().join("file"), "x").expect("file");
        let tree = tempfile::tempdir().expect("tree").keep();
        std::os::unix::fs::symlink(keep.path(), tree.join("link")).expect("link");
        let mut dir = beneath::open_root(&tree).expect("open");
        for depth in 0..5_000 {
            rustix::fs::mkdirat(&dir, "d", rustix::fs::Mode::RWXU).expect("mkdir");
            rustix::fs::symlinkat(keep.path(), &dir, "l").expect("link");
            let below = beneath::child(&dir, "d".as_ref()).expect("child").expect("there");
            if depth % 7 == 0 {
                fs::set_permissions(format!("/proc/self/fd/{}", dir.as_raw_fd()), Permissions::from_mode(0o000))
                    .expect("mode");
            }
            dir = below.fd;
        }
        remove_tree(&tree).expect("remove");
        assert!(!tree.exists());
        assert!(keep.path().join("file").exists());
        remove_tree(&tree).expect("nothing there");
    }
}
