//! May this file's content enter the index, and which lanes of it?
//!
//! All repository text is hostile input: a name may be a pipe by the time it is opened, a size may grow while it is
//! read. So a file is opened without following links and without blocking, and never more than the limit is read.
//!
//! Text that is no use to rank (a lock file, a minified or a large one) is bare: it is in the lane of trigrams and in no
//! other, because a line that is in it is in the tree.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::report::SkipReason;
use crate::secret::is_secret_head;

/// Larger files are bare.
pub(crate) const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Larger files are in no lane, and not searched.
pub(crate) const GREP_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A file with a longer line is taken for minified or generated.
pub(crate) const LINE_BYTES_MAX: usize = 5000;
/// A file up to this size is read before its head is judged.
const AT_ONCE_BYTES_MAX: u64 = 64 * 1024;
/// How far into a file a NUL byte makes it binary.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// What the file system says about a file. Equal stamps mean equal content, except within the granularity of the
/// clock, see [`Stamp::settled_before`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub size: u64,
    /// Nanoseconds since the epoch.
    pub mtime: i64,
    /// Nanoseconds since the epoch. Catches what keeps size and mtime (`cp -p`, `touch -r`).
    pub ctime: i64,
    pub inode: u64,
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Stamp {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Stamp {
            size: meta.size(),
            mtime: nanos(meta.mtime(), meta.mtime_nsec()),
            ctime: nanos(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
        }
    }

    /// True when the last change lies so far before `nanos` that a later change could not bear the same stamp.
    /// The same trap as git's "racy" index entries; two seconds cover the coarsest file systems.
    pub(crate) fn settled_before(&self, nanos: i64) -> bool {
        self.ctime.max(self.mtime).saturating_add(2_000_000_000) < nanos
    }
}

/// A file that was opened and is not read yet.
pub(crate) struct Opened {
    file: File,
    /// Taken before any byte is read, so that a write in between makes the next refresh read the file again.
    pub stamp: Stamp,
}

/// Opens one file, if it is one and not too large to be searched.
pub(crate) fn open(path: &Path) -> Result<Opened, SkipReason> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(|_| SkipReason::Unreadable)?;
    let meta = file.metadata().map_err(|_| SkipReason::Unreadable)?;
    if !meta.is_file() {
        return Err(SkipReason::Special);
    }
    if meta.len() > GREP_FILE_BYTES_MAX {
        return Err(SkipReason::TooLarge);
    }
    Ok(Opened { file, stamp: Stamp::of(&meta) })
}

impl Opened {
    pub(crate) fn is_large(&self) -> bool {
        self.stamp.size > FILE_BYTES_MAX
    }

    /// All bytes, unless there are more than the limit, or the first of them are not those of a text that may be read.
    pub(crate) fn read(self, bytes_max: u64) -> Result<Vec<u8>, SkipReason> {
        let mut bytes = Vec::new();
        self.read_into(bytes_max, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`Opened::read`], but not at once: no more than the limit is given, and the head is judged before.
    pub(crate) fn stream(mut self, bytes_max: u64) -> Result<impl Read, SkipReason> {
        let mut head = Vec::new();
        let mut rest = (&mut self.file).take(BINARY_PROBE_BYTES as u64);
        rest.read_to_end(&mut head).map_err(|_| SkipReason::Unreadable)?;
        judge_head(&head)?;
        let left = bytes_max.saturating_sub(head.len() as u64);
        Ok(std::io::Cursor::new(head).chain(self.file.take(left)))
    }

    /// Like [`Opened::read`], in the place of what `bytes` held.
    pub(crate) fn read_into(self, bytes_max: u64, bytes: &mut Vec<u8>) -> Result<(), SkipReason> {
        if self.stamp.size > bytes_max {
            return Err(SkipReason::TooLarge);
        }
        bytes.clear();
        bytes.reserve_exact(self.stamp.size as usize + 1);
        // What is small is read at once.
        let probe =
            if self.stamp.size <= AT_ONCE_BYTES_MAX { AT_ONCE_BYTES_MAX + 1 } else { BINARY_PROBE_BYTES as u64 };
        let mut head = self.file.take(probe);
        head.read_to_end(bytes).map_err(|_| SkipReason::Unreadable)?;
        judge_head(bytes)?;
        if bytes.len() as u64 >= probe {
            let mut rest = head.into_inner().take((bytes_max + 1).saturating_sub(bytes.len() as u64));
            rest.read_to_end(bytes).map_err(|_| SkipReason::Unreadable)?;
        }
        if bytes.len() as u64 > bytes_max { Err(SkipReason::TooLarge) } else { Ok(()) }
    }
}

/// Why text, whose head was judged, is bare.
pub(crate) fn why_bare(path: &str, bytes: &[u8]) -> Option<SkipReason> {
    if is_lock_name(path.rsplit('/').next().unwrap_or(path)) {
        Some(SkipReason::LockFile)
    } else if bytes.len() as u64 > FILE_BYTES_MAX {
        Some(SkipReason::TooLarge)
    } else {
        has_long_line(bytes).then_some(SkipReason::Minified)
    }
}

/// Jumps from one line to the last that ends within the limit, so that most bytes are never looked at.
fn has_long_line(bytes: &[u8]) -> bool {
    let mut start = 0;
    while bytes.len() - start > LINE_BYTES_MAX {
        match bytes[start..=start + LINE_BYTES_MAX].iter().rposition(|&byte| byte == b'\n') {
            Some(at) => start += at + 1,
            None => return true,
        }
    }
    false
}

/// Judges a file by its first bytes; no more than [`BINARY_PROBE_BYTES`] of them are looked at.
pub(crate) fn judge_head(head: &[u8]) -> Result<(), SkipReason> {
    let head = &head[..head.len().min(BINARY_PROBE_BYTES)];
    if head.contains(&0) {
        return Err(SkipReason::Binary);
    }
    if is_secret_head(head) {
        return Err(SkipReason::Secret);
    }
    Ok(())
}

/// True for the lock files of package managers.
pub(crate) fn is_lock_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "Cargo.lock",
        "Gemfile.lock",
        "Pipfile.lock",
        "Podfile.lock",
        "bun.lock",
        "composer.lock",
        "deno.lock",
        "flake.lock",
        "go.sum",
        "mix.lock",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "packages.lock.json",
        "pdm.lock",
        "pnpm-lock.yaml",
        "poetry.lock",
        "pubspec.lock",
        "uv.lock",
        "yarn.lock",
    ];
    NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        let line = |length: usize| vec![b'x'; length];
        let lines = |lengths: &[usize]| lengths.iter().map(|l| line(*l)).collect::<Vec<_>>().join(&b'\n');
        assert!(!has_long_line(&lines(&[])) && !has_long_line(&lines(&[LINE_BYTES_MAX])));
        assert!(!has_long_line(&lines(&[10, LINE_BYTES_MAX, 0, 4000, 4000, LINE_BYTES_MAX, 3])));
        assert!(has_long_line(&lines(&[LINE_BYTES_MAX + 1])) && has_long_line(&lines(&[4000, LINE_BYTES_MAX + 1, 2])));
    }
}
