//! What may a job do, were every other wall to fall? Landlock: it reads and runs what it is shown, writes where a job has
//! something of its own, and signals nobody but what it started.
//!
//! The second wall (landlock(7), landlock_restrict_self(2)). It stands on its own: it needs no mount, no namespace and no
//! identity to be right, holds for all that a job starts, and cannot be taken down again. A kernel without it has the others.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys;

const READ_AND_RUN: u64 = 1 | 1 << 2 | 1 << 3;
const WRITE_FILE: u64 = 1 << 1;
/// All kinds of files but device nodes, made and removed.
const MAKE_AND_REMOVE: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12;
const MAKE_DEVICE: u64 = 1 << 6 | 1 << 11;
/// From version 2 on: into another directory.
const REFER: u64 = 1 << 13;
/// From version 3 on.
const TRUNCATE: u64 = 1 << 14;
/// From version 6 on: neither abstract sockets nor signals of others.
const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;

/// Where a job may write all that it likes.
const OWN: [&str; 4] = ["/workspace", "/tmp", "/home/agent", "/dev/shm"];
/// Where it may write into what is there.
const DEVICES: &str = "/dev";
const O_PATH: i32 = 0o10_000_000;

/// A wall that is ready to be raised.
pub struct Wall(OwnedFd);

impl Wall {
    /// Makes the wall for the directories as they are mounted now; `None` where the kernel has none.
    pub fn build() -> io::Result<Option<Wall>> {
        let Some(version) = sys::landlock_version() else { return Ok(None) };
        let newer = |since, rights: u64| if version >= since { rights } else { 0 };
        let write = WRITE_FILE | MAKE_AND_REMOVE | newer(2, REFER) | newer(3, TRUNCATE);
        let handled = READ_AND_RUN | write | MAKE_DEVICE;
        // Files, network, scopes; how many of them a kernel knows follows from its version.
        let attributes = [handled, 0, newer(6, ABSTRACT_SOCKETS_AND_SIGNALS)];
        let known = if version >= 6 {
            3
        } else if version >= 4 {
            2
        } else {
            1
        };
        let wall = Wall(sys::landlock_rules(&attributes[..known])?);
        wall.allow("/", READ_AND_RUN)?;
        wall.allow(DEVICES, READ_AND_RUN | WRITE_FILE | newer(3, TRUNCATE))?;
        for own in OWN {
            wall.allow(own, READ_AND_RUN | write)?;
        }
        Ok(Some(wall))
    }

    fn allow(&self, dir: &str, rights: u64) -> io::Result<()> {
        let opened: File = match OpenOptions::new().read(true).custom_flags(O_PATH).open(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        sys::landlock_allow(self.0.as_fd(), opened.as_fd(), rights)
    }

    /// Shuts this process in, for good. Between fork and exec it makes one system call.
    pub fn raise(&self) -> io::Result<()> {
        sys::landlock_shut(self.0.as_fd())
    }
}
