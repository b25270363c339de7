//! Which definitions do the words of a query speak of? Names by their parts, and by how they begin.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::lookup::{Living, Symbols, key, read};
use super::segment::{Place, SymbolSegment};
use super::writer::parts;
use crate::fuse::is_test_path;

/// A name of several words is a candidate when the query holds at least this share of their weight.
const COVERAGE_MIN: f64 = 0.5;
/// Names with a part that so many names have say nothing.
const BEARERS_MAX: usize = 30_000;
/// Names that are weighed in full for one query.
const WEIGHED_MAX: usize = 300;
/// Definitions of one name that a ranking lists.
const PLACES_OF_NAME_MAX: usize = 8;

impl Symbols {
    fn living(&self, segment: &SymbolSegment, offset: u64, files: &dyn Living) -> Vec<Place> {
        let Some(posting) = segment.posting_at(offset) else { return Vec::new() };
        let (mut kept, mut tests) = (Vec::new(), Vec::new());
        // They are in order, and names that many bear have more than can be looked at.
        for (file, at) in posting.definitions {
            let Some(path) = segment.file(file).and_then(|file| files.path(file)) else { continue };
            if !is_test_path(path) {
                kept.push((file, at));
            } else if tests.len() < PLACES_OF_NAME_MAX {
                tests.push((file, at));
            }
            if kept.len() == PLACES_OF_NAME_MAX {
                break;
            }
        }
        let room = PLACES_OF_NAME_MAX - kept.len();
        kept.extend(tests.into_iter().take(room));
        kept.sort_unstable();
        read(segment, &kept)
    }

    /// The definitions whose names the words of a query speak of, best first, with their scores. An identifier that
    /// the query holds whole comes first; then it counts how much of the name the query holds, rare words more than
    /// common ones.
    pub(crate) fn rank(&self, words: &[String], limit: usize, files: &dyn Living) -> Vec<(Place, f64)> {
        let mut weigh = Weights::of(self, words);
        let mut names: Vec<(bool, f64, usize, u64, String)> = Vec::new();
        for (at, segment) in self.segments.iter().enumerate() {
            for (offset, whole) in weigh.candidates(segment) {
                let Some(name) = segment.name_at(offset) else { continue };
                let (matched, all) = weigh.name(&name);
                if (whole || matched >= COVERAGE_MIN * all) && segment.count_at(offset).is_some_and(|count| count > 0) {
                    let coverage = if all > 0.0 { matched / all } else { 0.0 };
                    let whole = whole && parts(&name).len() > 1;
                    names.push((whole, matched * coverage, at, offset, name));
                }
            }
        }
        names.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then_with(|| a.4.cmp(&b.4)));
        let mut ranked: Vec<(Place, bool, f64)> = Vec::new();
        for (whole, score, at, offset, _) in names.iter().take(limit.saturating_mul(2)) {
            for place in self.living(&self.segments[*at], *offset, files) {
                let parent = place.parent.as_deref().map_or(0.0, |parent| weigh.name(parent).0);
                ranked.push((place, *whole, score + 0.5 * parent));
            }
        }
        let better = |a: &(Place, bool, f64), b: &(Place, bool, f64)| b.1.cmp(&a.1).then(b.2.total_cmp(&a.2));
        ranked.sort_by(better);
        // The key of a definition is dear, and only those that come into question need one.
        if let Some(last) = ranked.get(limit).cloned() {
            ranked.retain(|one| better(one, &last).is_le());
        }
        // Scores are not negative, so their bits are in their order.
        ranked
            .sort_by_cached_key(|(place, whole, score)| (Reverse(*whole), Reverse(score.to_bits()), key(place, files)));
        ranked.truncate(limit);
        ranked.into_iter().map(|(place, _, score)| (place, score)).collect()
    }
}

/// How much words say: those of a query, and as they come those of names.
struct Weights<'a> {
    symbols: &'a Symbols,
    words: &'a [String],
    /// Definitions in all.
    total: f64,
    known: FxHashMap<String, f64>,
}

impl<'a> Weights<'a> {
    fn of(symbols: &'a Symbols, words: &'a [String]) -> Weights<'a> {
        let total: usize = symbols.segments.iter().map(|segment| segment.definition_count).sum();
        Weights { symbols, words, total: total as f64, known: FxHashMap::default() }
    }

    fn word(&mut self, word: &str) -> f64 {
        if let Some(weight) = self.known.get(word) {
            return *weight;
        }
        let bearers: usize = self.symbols.segments.iter().map(|segment| segment.count_with(word)).sum();
        let weight = (1.0 + self.total / (1.0 + bearers as f64)).ln();
        self.known.insert(word.to_owned(), weight);
        weight
    }

    /// Names of a segment that are worth a full look, and whether the query holds them whole.
    fn candidates(&mut self, segment: &SymbolSegment) -> Vec<(u64, bool)> {
        let mut scores: FxHashMap<u32, f64> = FxHashMap::default();
        for word in self.words.iter().filter(|word| segment.count_with(word) <= BEARERS_MAX) {
            let weight = self.word(word);
            for name in segment.names_with(word).unwrap_or_default() {
                *scores.entry(name).or_default() += weight;
            }
        }
        let mut best: Vec<(f64, u32)> = scores.into_iter().map(|(name, score)| (score, name)).collect();
        if best.len() > WEIGHED_MAX {
            let by_score = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
            best.select_nth_unstable_by(WEIGHED_MAX, by_score);
            best.truncate(WEIGHED_MAX);
        }
        let whole = self.words.iter().flat_map(|word| segment.names_like(word));
        let whole: FxHashSet<u64> = whole.map(|(_, offset)| offset).collect();
        let parts = best.into_iter().map(|(_, name)| u64::from(name)).filter(|name| !whole.contains(name));
        parts.map(|name| (name, false)).chain(whole.iter().map(|name| (*name, true))).collect()
    }

    /// The weight of the words of `name` that are asked for, and of all its words.
    fn name(&mut self, name: &str) -> (f64, f64) {
        let (mut matched, mut total) = (0.0, 0.0);
        let distinct: FxHashSet<String> = parts(name).into_iter().collect();
        for part in distinct {
            let weight = self.word(&part);
            total += weight;
            matched += if self.words.contains(&part) { weight } else { 0.0 };
        }
        (matched, total)
    }
}
