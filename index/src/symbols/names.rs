//! What do all segments together say of every name?

use fst::Streamer;
use fst::map::OpBuilder;

use super::SymbolError;
use super::lookup::Symbols;
use super::segment::{Posting, SymbolSegment};

impl Symbols {
    /// Every name in order, with the postings of the segments that have it.
    pub(crate) fn each_name(
        &self,
        mut visit: impl FnMut(&str, Vec<(&SymbolSegment, Posting)>),
    ) -> Result<(), SymbolError> {
        let mut builder = OpBuilder::new();
        for segment in &self.segments {
            builder = builder.add(segment.name_stream());
        }
        let mut union = builder.union();
        while let Some((name, values)) = union.next() {
            let name = std::str::from_utf8(name).map_err(|_| SymbolError::Damaged)?;
            let read = |value: &fst::map::IndexedValue| {
                let segment = &**self.segments.get(value.index)?;
                Some((segment, segment.posting_at(value.value)?))
            };
            let postings: Option<Vec<_>> = values.iter().map(read).collect();
            visit(name, postings.ok_or(SymbolError::Damaged)?);
        }
        Ok(())
    }

    /// The files that hold the name: (definers, users), living or not, each with the segment that says so.
    pub(crate) fn holders(&self, name: &str) -> Vec<(&SymbolSegment, Posting)> {
        self.segments.iter().filter_map(|segment| Some((&**segment, segment.posting(name)?))).collect()
    }
}
