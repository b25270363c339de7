//! Which files does grep look into, and at which bytes of them?
//!
//! More than the other lanes take: a minified file is no text to rank, but a line that is in it is in the tree.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::admit::{BINARY_PROBE_BYTES, judge_head};
use crate::walk::walk;

/// Larger files are not searched.
const GREP_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The paths to search, relative to the root, sorted.
pub(crate) fn grep_paths(root: &Path) -> Vec<String> {
    let walked = walk(root, &mut |_| true);
    let others = walked.skipped.into_iter().filter(|skip| skip.reason.is_text());
    let mut paths: Vec<String> = walked.files.into_iter().map(|file| file.path).collect();
    paths.extend(others.map(|skip| skip.path));
    paths.sort_unstable();
    paths
}

/// The bytes to search; nothing where the file is gone, is no longer a file, is binary, giant or holds a secret.
/// Opened without following links and without blocking, and never more than the limit is read.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > GREP_FILE_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    let mut head = (&mut file).take(BINARY_PROBE_BYTES as u64);
    head.read_to_end(&mut bytes).ok()?;
    judge_head(&bytes).ok()?;
    file.take(GREP_FILE_BYTES_MAX + 1 - bytes.len() as u64).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= GREP_FILE_BYTES_MAX && !bytes.contains(&0)).then_some(bytes)
}
