//! What should an agent read, in so many tokens?
//!
//! Whole functions instead of pieces, joined where they touch, without what the agent has already, and in the order
//! of the tree instead of the order of rank: the same pieces give the same bytes, and a prompt cache profits.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::embed::Embedder;
use crate::index::Index;
use crate::query::QueryKind;
use crate::search::{Query, SearchError, rank};
use crate::view::{ChunkKey, View};

/// Pieces that are tried, best first.
const TRIED_MAX: usize = 100;
/// A pack is full when this many pieces in a row did not fit.
const MISSES_MAX: usize = 8;
/// A longer function is given by its pieces.
const FUNCTION_LINES_MAX: usize = 150;

/// Lines of one file, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Relative to the root.
    pub path: String,
    /// First and last line, from 1.
    pub lines: RangeInclusive<usize>,
    /// The lines, as the tree has them now.
    pub text: String,
    /// Whether the file has changed since it was indexed (or is gone), so that these may be other lines.
    pub changed: bool,
}

impl Piece {
    /// What the agent reads, and what is counted: the place, then the lines.
    pub fn shown(&self) -> String {
        let end = if self.text.ends_with('\n') { "" } else { "\n" };
        format!("{}:{}-{}\n{}{end}", self.path, self.lines.start(), self.lines.end(), self.text)
    }
}

/// The answer to [`Index::pack`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    /// By path, then by line. No line is in two of them.
    pub pieces: Vec<Piece>,
    /// As counted by the caller's tokenizer, each piece by itself.
    pub tokens: usize,
    /// What kind of question it was taken for.
    pub kind: QueryKind,
    /// Of the index that answered; 0 where there is none yet.
    pub generation: u64,
    /// Seconds since a refresh last compared the index with the tree.
    pub age_seconds: u64,
    /// Hits that were left out because they did not fit.
    pub left_out: usize,
    /// What a reader should know, as in an answer to a search.
    pub notes: Vec<String>,
}

impl Index {
    /// The best functions for a question, in at most `token_budget` tokens by `count`, without the lines that the
    /// caller has `already`.
    pub fn pack(
        &self,
        query: &Query,
        token_budget: usize,
        already: &[(String, RangeInclusive<usize>)],
        count: &dyn Fn(&str) -> usize,
    ) -> Result<Pack, SearchError> {
        let embedder = self.embedder();
        pack(self.view(), embedder, query, token_budget, already, count)
    }
}

fn pack(
    view: &View,
    embedder: Option<&dyn Embedder>,
    query: &Query,
    token_budget: usize,
    already: &[(String, RangeInclusive<usize>)],
    count: &dyn Fn(&str) -> usize,
) -> Result<Pack, SearchError> {
    let ranked = rank(view, embedder, query)?;
    let mut packing = Packing { view, texts: BTreeMap::new(), taken: BTreeMap::new(), tokens: BTreeMap::new(), count };
    let (mut misses, mut left_out) = (0, 0);
    for (key, _) in ranked.chunks.into_iter().take(TRIED_MAX) {
        if misses == MISSES_MAX {
            left_out += 1;
            continue;
        }
        let (path, chunk) = view.chunk(key);
        let wholes = [whole(view, key), chunk.start..=chunk.end];
        if wholes.into_iter().any(|lines| packing.take(path, lines, already, token_budget)) {
            misses = 0;
        } else {
            misses += 1;
            left_out += 1;
        }
    }
    let (pieces, tokens) = packing.finish();
    let (generation, age_seconds) = (view.generation, view.age_seconds());
    Ok(Pack { pieces, tokens, kind: ranked.kind, generation, age_seconds, left_out, notes: ranked.notes })
}

/// The lines of the innermost function that a chunk is a piece of, or its own.
fn whole(view: &View, key: ChunkKey) -> RangeInclusive<usize> {
    let chunk = view.chunk(key).1;
    let outline = view.outline(key.0);
    let around = outline.iter().filter(|definition| {
        let lines = definition.start_line..=definition.end_line;
        let touches = lines.contains(&chunk.end) && chunk.start <= definition.end_line;
        definition.kind.is_callable() && touches && definition.end_line - definition.start_line < FUNCTION_LINES_MAX
    });
    let function = around.max_by_key(|definition| definition.start_line);
    function.map_or(chunk.start..=chunk.end, |function| {
        chunk.start.min(function.start_line)..=chunk.end.max(function.end_line)
    })
}

/// A pack in the making.
struct Packing<'a> {
    view: &'a View,
    /// The lines of the files that were read, and whether they have changed.
    texts: BTreeMap<String, (Vec<String>, bool)>,
    /// By file the ranges that were taken: they ascend and do not touch.
    taken: BTreeMap<String, Vec<(usize, usize)>>,
    /// What the pieces of each file cost.
    tokens: BTreeMap<String, usize>,
    count: &'a dyn Fn(&str) -> usize,
}

impl Packing<'_> {
    /// Takes those of the lines that are missing yet. False where they do not fit.
    fn take(
        &mut self,
        path: &str,
        lines: RangeInclusive<usize>,
        already: &[(String, RangeInclusive<usize>)],
        budget: usize,
    ) -> bool {
        let had = already.iter().filter(|(other, _)| other == path).map(|(_, lines)| (*lines.start(), *lines.end()));
        let mut ranges = vec![(*lines.start(), *lines.end())];
        for (start, end) in had {
            ranges = ranges.into_iter().flat_map(|range| without(range, start, end)).collect();
        }
        ranges.extend(self.taken.get(path).into_iter().flatten());
        let ranges = joined(ranges);
        let cost = self.pieces(path, &ranges).iter().map(|piece| (self.count)(&piece.shown())).sum::<usize>();
        let others: usize = self.tokens.iter().filter(|(other, _)| *other != path).map(|(_, tokens)| tokens).sum();
        if others + cost > budget {
            return false;
        }
        if !ranges.is_empty() {
            self.taken.insert(path.to_owned(), ranges);
            self.tokens.insert(path.to_owned(), cost);
        }
        true
    }

    fn pieces(&mut self, path: &str, ranges: &[(usize, usize)]) -> Vec<Piece> {
        let view = self.view;
        let (text, changed) = self.texts.entry(path.to_owned()).or_insert_with(|| lines(view, path));
        let piece = |(start, end): &(usize, usize)| {
            let end = (*end).min(text.len());
            let lines = text.get(start - 1..end)?;
            let (path, text, changed) = (path.to_owned(), lines.concat(), *changed);
            (!lines.is_empty()).then_some(Piece { path, lines: *start..=end, text, changed })
        };
        ranges.iter().filter_map(piece).collect()
    }

    fn finish(mut self) -> (Vec<Piece>, usize) {
        let taken = std::mem::take(&mut self.taken);
        let pieces: Vec<Piece> = taken.iter().flat_map(|(path, ranges)| self.pieces(path, ranges)).collect();
        (pieces, self.tokens.values().sum())
    }
}

/// The lines of a file as it is now, each with its end, and whether it has changed.
fn lines(view: &View, path: &str) -> (Vec<String>, bool) {
    let Some(row) = view.row(path) else { return (Vec::new(), true) };
    let (text, changed) = view.content(row as usize);
    (text.split_inclusive('\n').map(str::to_owned).collect(), changed)
}

/// What is left of `range` without the lines from `start` to `end`.
fn without(range: (usize, usize), start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
    let before = (range.0, range.1.min(start.saturating_sub(1)));
    let after = (range.0.max(end.saturating_add(1)), range.1);
    [before, after].into_iter().filter(|(first, last)| first <= last)
}

/// The same lines in ascending ranges that do not touch.
fn joined(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_keep_their_lines_and_lose_what_is_taken_away(
            ranges in proptest::collection::vec((1usize..30, 0usize..6), 0..6),
            (start, length) in (1usize..30, 0usize..10),
        ) {
            let ranges: Vec<(usize, usize)> = ranges.into_iter().map(|(start, length)| (start, start + length)).collect();
            let lines = |ranges: &[(usize, usize)]| -> std::collections::BTreeSet<usize> {
                ranges.iter().flat_map(|(start, end)| *start..=*end).collect()
            };
            let one = joined(ranges.clone());
            prop_assert_eq!(lines(&ranges), lines(&one));
            prop_assert!(one.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            let left: Vec<(usize, usize)> =
                one.iter().flat_map(|range| without(*range, start, start + length)).collect();
            let expected = lines(&one).into_iter().filter(|line| !(start..=start + length).contains(line)).collect();
            prop_assert_eq!(lines(&left), expected);
        }
    }
}
