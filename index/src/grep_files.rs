//! Which files does grep look into, and at which bytes of them?
//!
//! More than the other lanes take: a minified file is no text to rank, but a line that is in it is in the tree.

use std::io::Read;
use std::path::Path;

use crate::admit::{GREP_FILE_BYTES_MAX, open};
use crate::walk::walk;

/// A file up to this size is read before it is searched.
const WHOLE_BYTES_MAX: u64 = 512 * 1024;

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
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = open(path).and_then(|opened| opened.read(GREP_FILE_BYTES_MAX)).ok()?;
    memchr::memchr(0, &bytes).is_none().then_some(bytes)
}

/// The bytes of one file, however they are best read.
pub(crate) enum Text<R> {
    /// In the buffer that was given.
    Whole,
    /// One after the other. Bytes that do not stay in the cache of the processor would be fetched three times.
    Stream(R),
}

/// Like [`read`], with a buffer that is used again: new memory for every file costs as much as to search it.
pub(crate) fn read_into(path: &Path, bytes: &mut Vec<u8>) -> Option<Text<impl Read + use<>>> {
    let opened = open(path).ok()?;
    if opened.stamp.size > WHOLE_BYTES_MAX {
        return opened.stream(GREP_FILE_BYTES_MAX).ok().map(Text::Stream);
    }
    opened.read_into(GREP_FILE_BYTES_MAX, bytes).ok()?;
    memchr::memchr(0, bytes).is_none().then_some(Text::Whole)
}
