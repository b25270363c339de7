//! Who may write, and which directories of the store are in use?

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::lane::LANES;

pub(crate) const LEXICAL_PREFIX: &str = "lexical-";
pub(crate) const VECTOR_PREFIX: &str = "vector-";
/// Parts of the table of files.
pub(crate) const FILES_PREFIX: &str = "files-";
pub(crate) const MANIFEST_TEMP_PREFIX: &str = ".manifest-";
/// Directories for what was found damaged.
const BROKEN_PREFIX: &str = "broken-";
/// So many of them are kept.
const BROKEN_MAX: usize = 2;
const LOCK_NAME: &str = "writer.lock";

/// Held by the one writer. The kernel lets go of it when the process ends, however it ends.
pub(crate) struct WriterLock(#[allow(dead_code)] File);

impl WriterLock {
    /// `Ok(None)` where another process (or another handle of this one) is writing.
    pub(crate) fn acquire(store: &Path) -> io::Result<Option<WriterLock>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(store.join(LOCK_NAME))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(WriterLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The files and directories `prefix` + number, highest number first.
pub(crate) fn numbered(store: &Path, prefix: &str) -> Vec<String> {
    let mut found: Vec<(u64, String)> = Vec::new();
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if let Some(number) = name.strip_prefix(prefix).and_then(|rest| rest.parse().ok()) {
            found.push((number, name));
        }
    }
    found.sort_unstable_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, name)| name).collect()
}

/// A name that nothing has yet. Call with the writer's lock held.
pub(crate) fn fresh(store: &Path, prefix: &str) -> String {
    let newest = numbered(store, prefix).into_iter().next();
    let number = newest.and_then(|name| name[prefix.len()..].parse::<u64>().ok()).unwrap_or(0);
    format!("{prefix}{}", number + 1)
}

/// Everything in the store that a manifest could name.
pub(crate) fn lane_names(store: &Path) -> Vec<String> {
    let own = [LEXICAL_PREFIX, VECTOR_PREFIX, FILES_PREFIX].into_iter();
    own.chain(LANES.iter().map(|lane| lane.prefix())).flat_map(|prefix| numbered(store, prefix)).collect()
}

/// Removes what no manifest names: half-built files of writers that died, and lanes that were replaced. Call with
/// the writer's lock held, before making anything new. What cannot be removed is left for the next time.
pub(crate) fn clean(store: &Path, keep: &[&str]) {
    for name in lane_names(store) {
        if !keep.contains(&name.as_str()) {
            remove(&store.join(name));
        }
    }
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(MANIFEST_TEMP_PREFIX)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn remove(path: &Path) {
    let is_directory = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let _ = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Moves what was found damaged out of the way, for a person to look at, and forgets the oldest of its kind. Call
/// with the writer's lock held, once something sound has taken its place.
pub(crate) fn quarantine(store: &Path, names: &[String]) -> io::Result<Option<String>> {
    let mut names = names.iter().filter(|name| store.join(name).symlink_metadata().is_ok()).peekable();
    if names.peek().is_none() {
        return Ok(None);
    }
    let broken = fresh(store, BROKEN_PREFIX);
    fs::create_dir(store.join(&broken))?;
    for name in names {
        fs::rename(store.join(name), store.join(&broken).join(name))?;
    }
    for old in numbered(store, BROKEN_PREFIX).into_iter().skip(BROKEN_MAX) {
        remove(&store.join(old));
    }
    Ok(Some(broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_at_a_time_and_the_next_after_it() {
        let store = tempfile::tempdir().unwrap();
        let first = WriterLock::acquire(store.path()).unwrap();
        assert!(first.is_some());
        assert!(WriterLock::acquire(store.path()).unwrap().is_none());
        drop(first);
        assert!(WriterLock::acquire(store.path()).unwrap().is_some());
    }

    #[test]
    fn fresh_names_grow_and_cleaning_keeps_what_is_named() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(fresh(store.path(), LEXICAL_PREFIX), "lexical-1");
        for name in ["lexical-2", "lexical-10", "vector-1", "lexical-x"] {
            fs::create_dir(store.path().join(name)).unwrap();
        }
        assert_eq!(fresh(store.path(), LEXICAL_PREFIX), "lexical-11");
        clean(store.path(), &["lexical-2"]);
        assert_eq!(numbered(store.path(), LEXICAL_PREFIX), ["lexical-2"]);
        assert!(numbered(store.path(), VECTOR_PREFIX).is_empty());
        assert!(store.path().join("lexical-x").exists());
    }

    #[test]
    fn what_is_broken_is_kept_twice_and_not_for_ever() {
        let store = tempfile::tempdir().unwrap();
        for round in 1..=4 {
            fs::write(store.path().join("files-1"), [round]).unwrap();
            let broken = quarantine(store.path(), &["files-1".to_owned(), "files-2".to_owned()]).unwrap();
            assert_eq!(broken, Some(format!("broken-{round}")));
        }
        assert_eq!(numbered(store.path(), BROKEN_PREFIX), ["broken-4", "broken-3"]);
        assert_eq!(fs::read(store.path().join("broken-3/files-1")).unwrap(), [3]);
        assert_eq!(quarantine(store.path(), &["files-2".to_owned()]).unwrap(), None);
    }
}
