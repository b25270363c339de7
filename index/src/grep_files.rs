//! Which files does grep look into, and at which bytes of them?
//!
//! More than the other lanes take: a minified file is no text to rank, but a line that is in it is in the tree.

use std::path::Path;

use crate::admit::{GREP_FILE_BYTES_MAX, open};
use crate::walk::walk;

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
    let mut bytes = Vec::new();
    read_into(path, &mut bytes).then_some(bytes)
}

/// Like [`read`], in the place of what `bytes` held; false where there is nothing to search. New memory for every file
/// costs as much as to search it.
pub(crate) fn read_into(path: &Path, bytes: &mut Vec<u8>) -> bool {
    let read = open(path).and_then(|opened| opened.read_into(GREP_FILE_BYTES_MAX, bytes));
    read.is_ok() && !bytes.contains(&0)
}
