//! How long does an answer take, and is it right? Searches, names, patterns and edits on one large tree.

use super::answers::files;
use super::peers::{Codesearch, Lines, Peer, ripgrep};
use super::process::is_installed;
use super::sample::{Defined, Sample, Seed, patterns, unique};
use super::shadow::Shadow;
use anyhow::{Context, Result};
use index::grep::GrepOptions;
use index::{Index, Query, SymbolAnswer, SymbolDefinition};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const SEARCHES: usize = 200;
const LOOKUPS: usize = 400;
const ABSENT_LOOKUPS: usize = 100;
const EDITS: usize = 20;
const MATCHES_MAX: usize = 5_000_000;
/// A definition may begin some lines above the line that names it: attributes, decorators, comments.
const HEAD_LINES_MAX: usize = 30;

/// Seconds of answers, and how many of them were right.
#[derive(Default)]
pub struct Answers {
    /// Each answer.
    pub seconds: Vec<f64>,
    /// How many were right.
    pub right: usize,
    /// The first that was not, in words.
    pub wrong: Option<String>,
}

impl Answers {
    fn add(&mut self, seconds: f64, is_right: bool, told: impl FnOnce() -> String) {
        self.seconds.push(seconds);
        self.right += usize::from(is_right);
        if !is_right && self.wrong.is_none() {
            self.wrong = Some(told());
        }
    }
}

fn since(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64()
}

/// Searches for names, pairs of names and sentences of the tree.
pub fn searches(index: &Index, sample: &Sample, seed: &mut Seed) -> Result<Answers> {
    let names: Vec<String> = seed.pick(&sample.defined, SEARCHES).into_iter().map(|place| place.name).collect();
    let sentences = seed.pick(&sample.sentences, SEARCHES / 3);
    let pairs = names.chunks_exact(2).map(|pair| pair.join(" ")).take(SEARCHES / 3);
    let queries: Vec<String> = sentences.into_iter().chain(pairs).chain(names.iter().cloned()).take(SEARCHES).collect();
    let mut answers = Answers::default();
    for query in queries {
        let begun = Instant::now();
        let answer = index.search(&Query::new(query.as_str()))?;
        answers.add(since(begun), !answer.hits.is_empty(), || query);
    }
    Ok(answers)
}

/// Looks up names that the text defines in one place.
pub fn symbols(index: &Index, sample: &Sample, seed: &mut Seed) -> Answers {
    let mut answers = Answers::default();
    for place in seed.pick(&unique(&sample.defined), LOOKUPS) {
        let asked = format!("{}:{}", place.path, place.name);
        let begun = Instant::now();
        let answer = index.symbol(&asked);
        let seconds = since(begun);
        let first = match &answer {
            SymbolAnswer::Exact(found) => Some(found),
            SymbolAnswer::Ambiguous { first, .. } => first.first(),
            SymbolAnswer::NotFound => None,
        };
        answers
            .add(seconds, first.is_some_and(|found| is_at(found, &place)), || format!("{asked} line {}", place.line));
    }
    answers
}

/// Looks up plain names, which may be defined in several places: the first answer must be one where the text of the
/// tree defines the name.
pub fn plain_symbols(index: &Index, root: &Path, sample: &Sample, seed: &mut Seed) -> Answers {
    let mut answers = Answers::default();
    for place in seed.pick(&unique(&sample.defined), LOOKUPS) {
        let begun = Instant::now();
        let answer = index.symbol(&place.name);
        let seconds = since(begun);
        let (first, only) = match &answer {
            SymbolAnswer::Exact(found) => (Some(found), true),
            SymbolAnswer::Ambiguous { first, .. } => (first.first(), false),
            SymbolAnswer::NotFound => (None, true),
        };
        let is_right = first.is_some_and(|found| is_at(found, &place) || !only && names_it(root, found, &place.name));
        answers.add(seconds, is_right, || format!("{} of {} line {}", place.name, place.path, place.line));
    }
    answers
}

/// Looks up names that are nowhere.
pub fn absent_symbols(index: &Index, sample: &Sample, seed: &mut Seed) -> Answers {
    let mut answers = Answers::default();
    for place in seed.pick(&sample.defined, ABSENT_LOOKUPS) {
        let asked = format!("{}_qz{:08x}", place.name, seed.below(usize::MAX));
        let begun = Instant::now();
        let answer = index.symbol(&asked);
        answers.add(since(begun), answer == SymbolAnswer::NotFound, || asked);
    }
    answers
}

fn is_at(found: &SymbolDefinition, place: &Defined) -> bool {
    let from = found.start_line.saturating_sub(HEAD_LINES_MAX);
    found.path == place.path && from <= place.line && place.line <= found.end_line
}

fn names_it(root: &Path, found: &SymbolDefinition, name: &str) -> bool {
    let Ok(text) = std::fs::read(root.join(&found.path)) else { return false };
    let text = String::from_utf8_lossy(&text);
    let first = found.start_line.saturating_sub(1);
    text.lines().skip(first).take(HEAD_LINES_MAX).any(|line| line.contains(name))
}

/// How patterns were answered by everybody.
#[derive(Default)]
pub struct Patterns {
    /// Our answers; right are those with exactly the lines of ripgrep in files that the index takes.
    pub ours: Answers,
    /// Whether ripgrep was there to compare with.
    pub compared: bool,
    /// Seconds of ripgrep.
    pub ripgrep: Vec<f64>,
    /// Seconds of codesearch.
    pub codesearch: Vec<f64>,
}

/// Finds every line that matches, with each of the programs in turn; lines of `unseen` files count for nobody.
pub fn greps(
    index: &Index,
    unseen: &BTreeSet<String>,
    sample: &Sample,
    seed: &mut Seed,
    count: usize,
    peers: &[Peer],
    codesearch: Option<&Codesearch>,
) -> Result<Patterns> {
    let mut all = Patterns { compared: peers.contains(&Peer::Rg) && is_installed("rg"), ..Patterns::default() };
    for pattern in patterns(sample, seed, count) {
        let begun = Instant::now();
        let ours = our_lines(index, &pattern)?;
        let seconds = since(begun);
        let mut is_right = true;
        if all.compared {
            let (theirs, ran) = ripgrep(index.root(), &pattern).with_context(|| format!("pattern {pattern}"))?;
            all.ripgrep.push(ran.seconds);
            let theirs: Lines = theirs.into_iter().filter(|(path, _)| !unseen.contains(path)).collect();
            is_right = ours == theirs;
        }
        all.ours.add(seconds, is_right, || pattern.clone());
        if let Some(codesearch) = codesearch {
            all.codesearch.push(codesearch.search(&pattern)?.1.seconds);
        }
    }
    Ok(all)
}

fn our_lines(index: &Index, pattern: &str) -> Result<Lines> {
    let options = GrepOptions { matches_max: MATCHES_MAX, ..GrepOptions::default() };
    let found = index.grep(pattern, &options)?;
    Ok(found.matches.into_iter().map(|line| (line.path, line.line)).collect())
}

/// Edits files one after the other, each time until the index finds what was written.
pub fn edits(index: &mut Index, shadow: &Shadow, seed: &mut Seed, cancel: &AtomicBool) -> Result<Answers> {
    let code: Vec<String> =
        shadow.paths.iter().filter(|path| path.ends_with(".rs") || path.ends_with(".py")).cloned().collect();
    let mut answers = Answers::default();
    // The first call looks at everything and begins to watch.
    index.catch_up(cancel)?;
    for path in seed.pick(&code, EDITS) {
        let word = format!("edited{:012x}", seed.below(usize::MAX));
        shadow.add_line(&path, &format!("fn {word}() {{}}"))?;
        let begun = Instant::now();
        index.catch_up(cancel)?;
        let found = files(index, Query::new(&word))?;
        answers.add(since(begun), found.first() == Some(&path), || path);
    }
    Ok(answers)
}
