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
    let bytes = open(path).and_then(|opened| opened.read(GREP_FILE_BYTES_MAX)).ok()?;
    (!bytes.contains(&0)).then_some(bytes)
}
