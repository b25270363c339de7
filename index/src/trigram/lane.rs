//! Of all segments together: which files need not be read?

use std::path::PathBuf;

use rustc_hash::FxHashSet;

use super::plan::Plan;
use super::read::TrigramSegment;
use crate::file_no::FileNo;
use crate::segment::SegmentError;

/// The segments of one generation, open for searching.
#[derive(Default)]
pub(crate) struct TrigramLane {
    segments: Vec<TrigramSegment>,
    known: FxHashSet<FileNo>,
}

/// What a plan leaves over.
pub(crate) enum Candidates<'a> {
    /// The plan asks for nothing: every file may match.
    All,
    /// Of the files that the lane knows, these may match.
    Some { known: &'a FxHashSet<FileNo>, found: FxHashSet<FileNo> },
}

impl TrigramLane {
    pub(crate) fn open(paths: &[PathBuf]) -> Result<TrigramLane, SegmentError> {
        let open = |path: &PathBuf| TrigramSegment::open(path);
        let segments: Vec<TrigramSegment> = paths.iter().map(open).collect::<Result<_, _>>()?;
        let known = segments.iter().flat_map(TrigramSegment::files).copied().collect();
        Ok(TrigramLane { segments, known })
    }

    /// Numbers of dead files are among them: the caller knows the living ones and asks for no other.
    pub(crate) fn candidates(&self, plan: &Plan) -> Result<Candidates<'_>, SegmentError> {
        if matches!(plan, Plan::All) {
            return Ok(Candidates::All);
        }
        let mut found = FxHashSet::default();
        for segment in &self.segments {
            segment.candidates(plan, &mut found)?;
        }
        Ok(Candidates::Some { known: &self.known, found })
    }
}

impl Candidates<'_> {
    /// Whether the file must be read. A file that the lane never saw must.
    pub(crate) fn contains(&self, file: FileNo) -> bool {
        match self {
            Candidates::All => true,
            Candidates::Some { known, found } => found.contains(&file) || !known.contains(&file),
        }
    }
}
