//! Who may write, and which directories of the store are in use?

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

pub(crate) const LEXICAL_PREFIX: &str = "lexical-";
pub(crate) const VECTOR_PREFIX: &str = "vector-";
const LOCK_NAME: &str = "writer.lock";
const MANIFEST_TEMP_PREFIX: &str = ".manifest-";

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

/// The directories `prefix` + number, highest number first.
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

/// A name that no directory has yet. Call with the writer's lock held.
pub(crate) fn fresh(store: &Path, prefix: &str) -> String {
    let newest = numbered(store, prefix).into_iter().next();
    let number = newest.and_then(|name| name[prefix.len()..].parse::<u64>().ok()).unwrap_or(0);
    format!("{prefix}{}", number + 1)
}

/// Removes what no manifest names: half-built directories of writers that died, and lanes that were replaced. Call
/// with the writer's lock held, before making anything new. What cannot be removed is left for the next time.
pub(crate) fn clean(store: &Path, keep: &[&str]) {
    for prefix in [LEXICAL_PREFIX, VECTOR_PREFIX] {
        for name in numbered(store, prefix) {
            if !keep.contains(&name.as_str()) {
                let _ = fs::remove_dir_all(store.join(name));
            }
        }
    }
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(MANIFEST_TEMP_PREFIX)) {
            let _ = fs::remove_file(entry.path());
        }
    }
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
}
