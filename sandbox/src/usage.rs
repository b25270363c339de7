//! How much has a box written?
//!
//! All its layers count, those too that it shares with other boxes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::beneath::{self, Kind};
use crate::view::View;

/// Watches the size of the layers, at most a tenth of the time.
pub(crate) struct Growth<'a> {
    view: &'a View,
    bytes_max: u64,
    next: Instant,
}

/// What an entry counts beside its blocks: an inode, its place in a directory, and the work of telling it. A million empty
/// files are about the default limit.
const ENTRY_BYTES: u64 = 2048;
const FIRST_LOOK: Duration = Duration::from_millis(500);

impl<'a> Growth<'a> {
    pub(crate) fn new(view: &'a View, bytes_max: u64) -> Growth<'a> {
        Growth { view, bytes_max, next: Instant::now() + FIRST_LOOK }
    }

    pub(crate) fn is_exceeded_now_and_then(&mut self) -> bool {
        let before = Instant::now();
        if before < self.next {
            return false;
        }
        let exceeded = self.is_exceeded();
        self.next = Instant::now() + FIRST_LOOK.max(before.elapsed() * 9);
        exceeded
    }

    /// A layer that cannot be measured counts as too large only when it surely is: as an ordinary user we cannot look into a
    /// directory whose permissions a job took away for a while, and many a test suite does that.
    pub(crate) fn is_exceeded(&self) -> bool {
        let mut bytes = self.view.frozen_bytes();
        let _ = add(&self.view.upper, self.bytes_max, 0, &mut bytes);
        bytes > self.bytes_max
    }
}

/// What a layer counts that nobody writes any more.
pub(crate) fn weigh(dir: &OwnedFd) -> u64 {
    let mut bytes = 0;
    let _ = add(dir, u64::MAX, 0, &mut bytes);
    bytes
}

/// Adds the blocks in use below `dir`; stops as soon as the sum is above `bytes_max`.
fn add(dir: &OwnedFd, bytes_max: u64, depth: usize, bytes: &mut u64) -> io::Result<()> {
    // Each level holds one descriptor. A tree too deep to look into is not a place to hide bytes: it is too large.
    if depth > crate::path::DEPTH_MAX {
        *bytes = u64::MAX;
        return Ok(());
    }
    for name in beneath::names(dir)? {
        // Files come and go while a job runs.
        let Some(inode) = beneath::child(dir, &name).ok().flatten() else { continue };
        *bytes = bytes.saturating_add(u64::try_from(inode.stat.st_blocks).unwrap_or(0) * 512 + ENTRY_BYTES);
        if *bytes > bytes_max {
            return Ok(());
        }
        if inode.kind() == Kind::Dir {
            let _ = add(&inode.fd, bytes_max, depth + 1, bytes);
        }
    }
    Ok(())
}
