//! How is a file reached without being led astray?
//!
//! Everything below the workspace was written by an agent or by strangers, so a path is walked one name at a time from an
//! open directory, with `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)`. A symlink
//! is reported as one and never followed, a FIFO or a device is seen (`O_PATH`) but never opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link; never followed.
    Symlink,
    /// A FIFO, socket or device; never opened.
    Special,
}

/// Something seen but not opened.
pub(crate) struct Inode {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
}

impl Inode {
    pub(crate) fn kind(&self) -> Kind {
        match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Special,
        }
    }

    /// Permission bits, set-id and sticky bits included.
    pub(crate) fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Overlayfs notes a deletion as a character device 0:0.
    pub(crate) fn is_whiteout(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::CharacterDevice && self.stat.st_rdev == 0
    }

    /// Where a symlink points; nothing is followed.
    pub(crate) fn link_target(&self) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.fd, "", Vec::new())?.into_bytes())
    }
}

/// Opens a directory that the caller chose (not the agent), so links in its own path are followed.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

fn open_at(dir: &OwnedFd, name: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    loop {
        match rustix::fs::openat2(dir, name, flags | OFlags::CLOEXEC, mode, resolve) {
            // The kernel asks for another try when a rename elsewhere made it unsure.
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// Looks at one name in `dir`; `None` when there is nothing.
pub(crate) fn child(dir: &OwnedFd, name: &OsStr) -> io::Result<Option<Inode>> {
    match open_at(dir, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(fd) => {
            let stat = rustix::fs::fstat(&fd)?;
            Ok(Some(Inode { fd, stat }))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Most names of one directory; a job can make millions.
const NAMES_MAX: usize = 200_000;

/// The names in a directory, without `.` and `..`, in no order; an error when there are very many.
pub(crate) fn names(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let names = first_names(dir, NAMES_MAX + 1)?;
    if names.len() > NAMES_MAX {
        return Err(io::Error::other(format!("more than {NAMES_MAX} names in one directory")));
    }
    Ok(names)
}

/// Some names of a directory, at most `names_max`.
pub(crate) fn first_names(dir: &OwnedFd, names_max: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    let readable = rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
        if names.len() >= names_max {
            break;
        }
    }
    Ok(names)
}

/// Reads a regular file of at most `bytes_max` bytes. `Ok(Err(bytes))` tells the size of a larger one.
pub(crate) fn read_file(dir: &OwnedFd, name: &OsStr, bytes_max: u64) -> io::Result<Result<Vec<u8>, u64>> {
    // NONBLOCK: should a FIFO have taken the file's place meanwhile, opening it does not hang.
    let fd = open_at(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("not a regular file"));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > bytes_max {
        return Ok(Err(size));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    File::from(fd).take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Ok(Err(bytes.len() as u64)) } else { Ok(Ok(bytes)) }
}

/// Makes a new file in `dir`, for writing; fails when the name is taken.
pub(crate) fn create_file(dir: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    Ok(File::from(open_at(dir, name, flags, Mode::from_raw_mode(0o600))?))
}

/// Opens a directory so that it can be synced, have its mode changed or its attributes read.
pub(crate) fn open_dir(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(open_at(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Makes a change in a directory survive a crash.
pub(crate) fn sync_dir(dir: &OwnedFd) -> io::Result<()> {
    let open = rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::fsync(open)?)
}
