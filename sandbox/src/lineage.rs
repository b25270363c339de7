//! Which layers do boxes share, and when do they go?
//!
//! What was written before a snapshot is frozen: a layer that nobody writes again, over which any number of boxes go on. The
//! layers of a lineage lie in the directory of the box that it began with, at one place for all its boxes, so that a box
//! that runs already finds one that came later. A layer goes with the last box or snapshot over it, that directory with the
//! last of the lineage. All of them belong to one process; when that is killed, the reaper takes the box that
//! the lineage began with last.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::beneath;
use crate::remove::{remove_box, remove_tree};
use crate::usage;

/// All boxes that came from one.
#[derive(Debug)]
pub(crate) struct Lineage {
    /// The directory of the box that it began with.
    dir: PathBuf,
    next: AtomicU32,
}

impl Lineage {
    /// The lineage of the box whose directory this is. Dropping it removes the box.
    pub(crate) fn begin(dir: &Path) -> io::Result<Arc<Lineage>> {
        fs::create_dir(frozen_dir(dir))?;
        Ok(Arc::new(Lineage { dir: dir.to_owned(), next: AtomicU32::new(0) }))
    }

    /// Where its layers are, each under its number.
    pub(crate) fn place(&self) -> PathBuf {
        frozen_dir(&self.dir)
    }

    /// The box that it began with.
    pub(crate) fn id(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn began_with(&self, dir: &Path) -> bool {
        self.dir == dir
    }
}

impl Drop for Lineage {
    fn drop(&mut self) {
        let _ = remove_box(&self.dir);
    }
}

fn frozen_dir(dir: &Path) -> PathBuf {
    dir.join("frozen")
}

/// A layer that is not written any more.
#[derive(Debug)]
pub(crate) struct Frozen {
    lineage: Arc<Lineage>,
    number: u32,
    bytes: OnceLock<u64>,
}

impl Frozen {
    /// Makes the directory `upper`, on the same file system, a layer of the lineage.
    pub(crate) fn of(upper: &Path, lineage: &Arc<Lineage>) -> io::Result<Frozen> {
        let number = lineage.next.fetch_add(1, Ordering::Relaxed);
        fs::rename(upper, lineage.place().join(number.to_string()))?;
        Ok(Frozen { lineage: Arc::clone(lineage), number, bytes: OnceLock::new() })
    }

    /// Takes back what [`Frozen::of`] did.
    pub(crate) fn thaw(self, upper: &Path) -> io::Result<()> {
        fs::rename(self.path(), upper)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.lineage.place().join(self.number.to_string())
    }

    /// What it counts against the limit of a box over it.
    pub(crate) fn bytes(&self) -> u64 {
        *self.bytes.get_or_init(|| beneath::open_root(&self.path()).map_or(0, |dir| usage::weigh(&dir)))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = remove_tree(&self.path());
    }
}
