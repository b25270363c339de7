//! How does a refresh write the lane?

use std::path::{Path, PathBuf};

use super::read::TrigramSegment;
use super::write::{TrigramWriter, merge};
use crate::document::Document;
use crate::file_no::FileNo;
use crate::lane::{Lane, LaneError, LaneWriter};

/// The names of its segments begin with this.
pub(crate) const TRIGRAM_PREFIX: &str = "trigram-";
/// Memory of the writer before it spills a run, in bytes.
const WRITER_BYTES_MAX: usize = 32 << 20;

/// The lane.
pub(crate) struct Trigrams;

impl Lane for Trigrams {
    fn prefix(&self) -> &'static str {
        TRIGRAM_PREFIX
    }

    fn takes_bare(&self) -> bool {
        true
    }

    fn begin(&self, path: &Path) -> Result<Box<dyn LaneWriter>, LaneError> {
        let store = path.parent().unwrap_or(path);
        Ok(Box::new(Writing { writer: TrigramWriter::new(store, WRITER_BYTES_MAX), path: path.to_owned() }))
    }

    fn check(&self, path: &Path) -> Result<(), LaneError> {
        Ok(TrigramSegment::open(path)?.verify()?)
    }

    fn merge(&self, from: &[PathBuf], alive: &dyn Fn(FileNo) -> bool, to: &Path) -> Result<(), LaneError> {
        let open = |path: &PathBuf| TrigramSegment::open(path);
        let segments: Vec<TrigramSegment> = from.iter().map(open).collect::<Result<_, _>>()?;
        merge(&segments, alive, to)?;
        Ok(())
    }
}

struct Writing {
    writer: TrigramWriter,
    path: PathBuf,
}

impl LaneWriter for Writing {
    fn add(&mut self, document: &Document) -> Result<(), LaneError> {
        Ok(self.writer.add(document.file, document.bytes())?)
    }

    fn finish(self: Box<Self>) -> Result<(), LaneError> {
        self.writer.finish(&self.path)?;
        Ok(())
    }
}
