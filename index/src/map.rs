//! How is a large file read without copying it? By mapping it. One of two places of this crate with unsafe code; the other
//! chooses the instructions of `matrix.rs`.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A file of the store, mapped read-only, or bytes that were never in one.
pub(crate) enum Map {
    File(memmap2::Mmap),
    Memory(Vec<u8>),
}

impl Map {
    /// Maps a whole file. Only for files that are written once under a fresh name and never changed afterwards.
    pub(crate) fn open(path: &Path) -> io::Result<Map> {
        let file = File::open(path)?;
        // SAFETY: files of the store are complete before a manifest names them, are never written again and are
        // removed, not truncated. Who truncates one by hand gets a SIGBUS instead of wrong text.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Map::File(map))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Map::File(map) => map,
            Map::Memory(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
