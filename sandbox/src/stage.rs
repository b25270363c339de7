//! How are a box's parts put where the runtime's child can reach them, with nothing left on the host?
//!
//! As root, the runtime is started from a thread that has a mount namespace of its own. There the bundle, the repository and
//! the layers are mounted below one clean path, id-mapped where the box has ids of its own. These mounts exist in no other
//! namespace and vanish with the last process of the box, also when we are killed.

use std::ffi::c_long;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount, open_tree,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// One tree to mount below the stage.
pub(crate) struct Part {
    pub(crate) source: PathBuf,
    pub(crate) name: String,
    pub(crate) how: How,
}

/// How a tree is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// As it is, without what is mounted below it.
    Plain,
    /// With the box's ids, where it has its own.
    Idmapped,
    /// Read-only with everything mounted below it: a runtime's `ro` holds for the topmost mount only.
    ReadOnly,
}

/// Directories over which a stage can be mounted; every Linux has one of them.
const PLACES: [&str; 4] = ["/mnt", "/media", "/srv", "/opt"];

/// Where to put the stage, so that it hides none of `visible`.
pub(crate) fn place(visible: &[&Path]) -> Option<PathBuf> {
    let free = |place: &Path| place.is_dir() && !visible.iter().any(|path| path.starts_with(place));
    PLACES.iter().map(PathBuf::from).find(|place| free(place))
}

/// Does `act` on a thread with a fresh mount namespace in which `parts` lie below `place`; what it starts stays in there.
pub(crate) fn within<T: Send>(
    place: &Path,
    parts: &[Part],
    idmap: Option<&OwnedFd>,
    act: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let inside = move || -> io::Result<T> {
        // SAFETY: only this thread, which we own and which ends here, leaves the shared file-system attributes and mount
        // namespace; the table of file descriptors stays shared, which is what the function's contract is about.
        unsafe { unshare_unsafe(UnshareFlags::FS | UnshareFlags::NEWNS)? };
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let mut trees = Vec::new();
        for part in parts {
            let tree = clone_part(part, idmap)?;
            trees.push(tree);
        }
        mount("cloister", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=64k")?;
        for (part, tree) in parts.iter().zip(&trees) {
            let target = place.join(&part.name);
            if part.source.is_dir() {
                fs::create_dir_all(&target)?
            } else {
                drop(fs::File::create(&target)?)
            }
            move_mount(tree, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        }
        Ok(act())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("stage".into()).spawn_scoped(scope, inside)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the staging thread panicked")))
    })
}

/// The tree of a part, mounted nowhere yet.
fn clone_part(part: &Part, idmap: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let recursive = if part.how == How::ReadOnly { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | recursive;
    let tree = open_tree(CWD, &part.source, flags)?;
    match (part.how, idmap) {
        (How::Idmapped, Some(idmap)) => set_idmap(tree.as_fd(), idmap.as_fd())?,
        (How::ReadOnly, _) => set_read_only(tree.as_fd())?,
        (How::Plain, _) | (How::Idmapped, None) => {}
    }
    Ok(tree)
}

/// Mounts one part at `target`, an existing directory, in the mount namespace of this thread.
pub(crate) fn mount_part(part: &Part, idmap: Option<&OwnedFd>, target: &Path) -> io::Result<()> {
    let tree = clone_part(part, idmap)?;
    Ok(move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// `struct mount_attr` of linux/mount.h, version 0.
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

fn set_idmap(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    set_attr(tree, MOUNT_ATTR_IDMAP, Some(user_namespace), 0)
}

fn set_read_only(tree: BorrowedFd<'_>) -> io::Result<()> {
    set_attr(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, None, libc::AT_RECURSIVE)
}

fn set_attr(tree: BorrowedFd<'_>, attr_set: u64, user_namespace: Option<BorrowedFd<'_>>, how: i32) -> io::Result<()> {
    let userns_fd = user_namespace.map_or(0, |fd| fd.as_raw_fd() as u64);
    let attr = MountAttr { attr_set, attr_clr: 0, propagation: 0, userns_fd };
    let (flags, size) = (libc::AT_EMPTY_PATH | how, size_of::<MountAttr>());
    // SAFETY: both descriptors are borrowed and so open during the call; the path is a NUL-terminated constant; `attr` is the
    // kernel's version-0 layout and outlives the call, and its size is passed along.
    let answer: c_long =
        unsafe { libc::syscall(libc::SYS_mount_setattr, tree.as_raw_fd(), c"".as_ptr(), flags, &raw const attr, size) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a user namespace with these maps and gives a descriptor that keeps it.
pub(crate) fn user_namespace(uid_map: &str, gid_map: &str) -> io::Result<OwnedFd> {
    let mut child = in_new_user_namespace()?;
    let made = (|| {
        let proc = PathBuf::from(format!("/proc/{}", child.id()));
        fs::write(proc.join("uid_map"), uid_map)?;
        fs::write(proc.join("gid_map"), gid_map)?;
        Ok(OwnedFd::from(fs::File::open(proc.join("ns/user"))?))
    })();
    drop(child.stdin.take());
    let _ = child.wait();
    made
}

/// Whether this process may make a user namespace at all.
pub(crate) fn may_make_user_namespace() -> io::Result<()> {
    let mut child = in_new_user_namespace()?;
    drop(child.stdin.take());
    child.wait().map(drop)
}

/// A `cat` in a user namespace of its own that ends when its standard input is closed.
fn in_new_user_namespace() -> io::Result<Child> {
    let mut command = Command::new("cat");
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: between fork and exec the closure makes one raw system call and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| Ok(unshare_unsafe(UnshareFlags::NEWUSER)?));
    }
    let mut child = command.spawn()?;
    // One byte there and back: after it the program surely runs where we want it.
    let (Some(stdin), Some(stdout)) = (child.stdin.as_mut(), child.stdout.as_mut()) else {
        return Err(io::Error::other("no pipes"));
    };
    stdin.write_all(b".")?;
    stdout.read_exact(&mut [0])?;
    Ok(child)
}
