//! What is a lane to the refresh? Something that takes documents, one after the other, and ends as a file.
//!
//! The lanes of our own lie in segments (`segment.rs`). A refresh gives each lane a thread of its own and a new segment
//! for the documents that changed, or several where they are many; the manifest names the segments of a generation. Files that are gone stay in
//! old segments: who reads them asks the table of files whether a number is alive, and a merge leaves them out.

use std::path::{Path, PathBuf};

use crate::document::Document;
use crate::file_no::FileNo;
use crate::symbols::SymbolLane;
use crate::trigram::Trigrams;

/// Every lane that lies in segments.
pub(crate) static LANES: &[&dyn Lane] = &[&SymbolLane, &Trigrams];

/// One kind of segment.
pub(crate) trait Lane: Sync {
    /// Its segments are named this and a number: `trigram-`.
    fn prefix(&self) -> &'static str;

    /// Whether it takes bare documents, which are in no other lane, see [`Document::bare`].
    fn takes_bare(&self) -> bool {
        false
    }

    /// Begins a segment in a file that does not exist yet.
    fn begin(&self, path: &Path) -> Result<Box<dyn LaneWriter>, LaneError>;

    /// Reads a segment to its end and compares the checksums.
    fn check(&self, path: &Path) -> Result<(), LaneError>;

    /// Writes what segments, oldest first, hold of living files into one new segment.
    fn merge(&self, from: &[PathBuf], alive: &dyn Fn(FileNo) -> bool, to: &Path) -> Result<(), LaneError>;
}

/// A segment while it is written. Dropping it unfinished leaves a file that nobody names and the next refresh removes.
pub(crate) trait LaneWriter: Send {
    /// Takes what the lane needs of one document. Documents come in no order, each number once.
    fn add(&mut self, document: &Document) -> Result<(), LaneError>;

    /// Whether it holds so much that the next document should begin another segment.
    fn is_full(&self) -> bool {
        false
    }

    /// Writes the rest and makes it durable.
    fn finish(self: Box<Self>) -> Result<(), LaneError>;
}

/// Why a lane failed. It can be rebuilt, so one sentence is all that anybody needs.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LaneError(pub String);

impl From<std::io::Error> for LaneError {
    fn from(error: std::io::Error) -> LaneError {
        LaneError(error.to_string())
    }
}

impl From<crate::segment::SegmentError> for LaneError {
    fn from(error: crate::segment::SegmentError) -> LaneError {
        LaneError(error.to_string())
    }
}
