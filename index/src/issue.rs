//! What does a long text say that a few words do not?
//!
//! The text of an issue and a trace say much: a fault shows itself in many places of one file, and who tells of it
//! copies what the program said.

use rustc_hash::FxHashMap;

use crate::classify::Class;
use crate::fuse::{by_file, sort};
use crate::lanes::{Found, Lanes};
use crate::lexical::{LexicalError, Wanted};
use crate::prefix::is_within;
use crate::quote::Quotes;
use crate::view::ChunkKey;

/// Files whose text is read for quotations: the best by all their words together, and by one of their chunks.
const READ_WHOLE: usize = 40;
const READ_TEXT: usize = 24;
/// So many runs of words that no other file holds are a quotation beyond doubt.
const RUNS_SURE: f64 = 2.0;

/// What a text quotes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quoted {
    /// The chunks that hold it.
    pub found: Found,
    /// From 0 to 1.
    pub certainty: f64,
}

impl Lanes<'_> {
    /// What the words say about whole files, best first. Nothing for a few words.
    pub(crate) fn whole(&mut self, wanted: &[Wanted]) -> Vec<(u32, f64)> {
        if !self.asked.kind.is_long() {
            return Vec::new();
        }
        let said = self.said(wanted);
        let said = self.or_note(said);
        let inside = |row: &u32| self.within.is_none_or(|within| is_within(self.view.path(*row), within));
        let mut found: Vec<(u32, f64)> = said.into_iter().filter(|(row, _)| inside(row)).collect();
        sort(&mut found);
        found.truncate(self.depth);
        found
    }

    fn said(&self, wanted: &[Wanted]) -> Result<Vec<(u32, f64)>, LexicalError> {
        let view = self.view;
        let Ok(lexical) = &view.lexical else { return Ok(Vec::new()) };
        let (files, chunks) =
            view.rows().fold((0, 0), |(files, chunks), (row, _)| (files + 1, chunks + view.chunk_count(row)));
        let lengths = |file| view.row_of(file).map(|row| view.chunk_count(row));
        let whole = (files, chunks as f32 / files.max(1) as f32);
        let mut said = lexical.files(wanted, &lengths, whole)?;
        if let Some(above) = &view.overlay {
            said.extend(above.lexical.files(wanted, &lengths, whole)?);
        }
        Ok(said.into_iter().filter_map(|(file, score)| Some((view.row_of(file)?, f64::from(score)))).collect())
    }

    /// The chunks that hold what the question quotes, of the sources that `whole` and `text` put first.
    pub(crate) fn quoted(&self, question: &str, whole: &[(u32, f64)], text: &Found) -> Quoted {
        if !self.asked.kind.is_long() {
            return Quoted::default();
        }
        let text = by_file(text);
        let best = whole.iter().take(READ_WHOLE).chain(text.iter().take(READ_TEXT));
        let is_source = |class| matches!(class, Class::Source | Class::Barrel | Class::Vendored);
        let mut files: Vec<u32> =
            best.map(|(file, _)| *file).filter(|file| is_source(self.view.class(*file))).collect();
        files.sort_unstable();
        files.dedup();
        let quotes = Quotes::of(question);
        let held = files.into_iter().map(|file| (file, quotes.found_in(&self.view.content_of(file))));
        let held: Vec<(u32, Vec<(usize, usize)>)> = held.collect();
        let mut holders: FxHashMap<usize, f64> = FxHashMap::default();
        for (run, _) in held.iter().flat_map(|(_, runs)| runs) {
            *holders.entry(*run).or_default() += 1.0;
        }
        let mut scores: FxHashMap<ChunkKey, f64> = FxHashMap::default();
        let mut most: f64 = 0.0;
        for (file, runs) in &held {
            most = most.max(runs.iter().map(|(run, _)| 1.0 / holders[run]).sum());
            for (run, line) in runs {
                if let Some(key) = self.view.chunk_at(*file, *line, *line) {
                    *scores.entry(key).or_default() += 1.0 / holders[run];
                }
            }
        }
        Quoted { found: self.cut(scores), certainty: (most / RUNS_SURE).min(1.0) }
    }
}
