//! How does a refresh write the lane?

use std::path::{Path, PathBuf};

use super::SymbolError;
use super::merge::merge;
use super::segment::SymbolSegment;
use super::writer::SymbolWriter;
use crate::document::Document;
use crate::file_no::FileNo;
use crate::lane::{Lane, LaneError, LaneWriter};

/// The names of its segments begin with this.
pub(crate) const SYMBOL_PREFIX: &str = "symbols-";
/// Memory of the writer before it ends its segment and another begins: one and a half million lines.
const WRITER_BYTES_MAX: usize = 48 << 20;

impl From<SymbolError> for LaneError {
    fn from(error: SymbolError) -> LaneError {
        LaneError(error.to_string())
    }
}

/// The lane.
pub(crate) struct SymbolLane;

impl Lane for SymbolLane {
    fn prefix(&self) -> &'static str {
        SYMBOL_PREFIX
    }

    fn begin(&self, path: &Path) -> Result<Box<dyn LaneWriter>, LaneError> {
        Ok(Box::new(Writing { writer: SymbolWriter::default(), path: path.to_owned() }))
    }

    fn check(&self, path: &Path) -> Result<(), LaneError> {
        SymbolSegment::open(path)?;
        Ok(())
    }

    fn merge(&self, from: &[PathBuf], alive: &dyn Fn(FileNo) -> bool, to: &Path) -> Result<(), LaneError> {
        let open = |path: &PathBuf| SymbolSegment::open(path);
        let segments: Vec<SymbolSegment> = from.iter().map(open).collect::<Result<_, _>>()?;
        merge(&segments.iter().collect::<Vec<_>>(), alive, to)?;
        Ok(())
    }
}

struct Writing {
    writer: SymbolWriter,
    path: PathBuf,
}

impl LaneWriter for Writing {
    fn add(&mut self, document: &Document) -> Result<(), LaneError> {
        self.writer.add(document.file, &document.syntax, document.text.as_bytes());
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.writer.bytes() >= WRITER_BYTES_MAX
    }

    fn finish(self: Box<Self>) -> Result<(), LaneError> {
        self.writer.finish(&self.path)?;
        Ok(())
    }
}
