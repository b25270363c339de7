//! Where is this name defined?
//!
//! The lane of symbols: `writer` makes a segment, `segment` reads one, `merge` makes one of several, `lookup` asks
//! all of them. [`SymbolTable`] answers from the manifest as long as the store does not write the lane.

mod fold;
mod lookup;
mod merge;
mod names;
mod rank;
mod segment;
mod wire;
mod writer;

#[allow(unused_imports, reason = "as above")]
pub(crate) use lookup::{Files, Lookup, Symbols};
#[allow(unused_imports, reason = "as above")]
pub(crate) use merge::merge;
#[allow(unused_imports, reason = "as above")]
pub(crate) use segment::{Place as SymbolPlace, SymbolSegment};
#[allow(unused_imports, reason = "as above")]
pub(crate) use writer::{Keep, SymbolWriter};

use std::collections::{HashMap, HashSet};

use crate::fuse::is_test_path;
use crate::outline::Definition;
use crate::tokenize::words;

/// An ambiguous name lists at most this many definitions.
const AMBIGUOUS_MAX: usize = 50;
/// A name of several words is a candidate when the query holds at least this share of their weight.
const COVERAGE_MIN: f64 = 0.5;

/// Why a segment of the symbol lane cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SymbolError {
    /// It cannot be read, is of another version or is damaged.
    #[error("the symbol lane: {0}")]
    Segment(#[from] crate::segment::SegmentError),
    /// It cannot be written.
    #[error("the symbol lane cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// Its dictionaries are not what they should be.
    #[error("the symbol lane is damaged: {0}")]
    Dictionary(#[from] fst::Error),
    /// Its numbers are not what they should be.
    #[error("the symbol lane is damaged")]
    Damaged,
    /// More than 4 GiB of symbols.
    #[error("the symbol lane is too large for one segment")]
    TooLarge,
}

/// A definition and the file that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolDefinition {
    /// Relative to the root.
    pub path: String,
    /// The definition, with lines and bytes as of the indexed version of the file.
    pub definition: Definition,
}

/// The answer to "where is this name defined?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolAnswer {
    /// One definition bears the name.
    Exact(SymbolDefinition),
    /// Several do: at most 50 of them, those outside of tests first.
    Ambiguous(Vec<SymbolDefinition>),
    /// None does.
    NotFound,
}

impl SymbolAnswer {
    fn of(mut found: Vec<SymbolDefinition>) -> SymbolAnswer {
        match found.len() {
            0 => SymbolAnswer::NotFound,
            1 => SymbolAnswer::Exact(found.remove(0)),
            _ => SymbolAnswer::Ambiguous(found),
        }
    }

    fn into_definitions(self) -> Vec<SymbolDefinition> {
        match self {
            SymbolAnswer::Exact(one) => vec![one],
            SymbolAnswer::Ambiguous(many) => many,
            SymbolAnswer::NotFound => Vec::new(),
        }
    }

    /// This answer of what lies above, then the other of what lies below and is not hidden.
    pub(crate) fn over(self, below: SymbolAnswer, is_hidden: impl Fn(&str) -> bool) -> SymbolAnswer {
        let mut found = self.into_definitions();
        found.extend(below.into_definitions().into_iter().filter(|one| !is_hidden(&one.path)));
        found.truncate(AMBIGUOUS_MAX);
        SymbolAnswer::of(found)
    }
}

/// A definition as (index of the file, index in the file).
pub(crate) type Place = (u32, u32);

/// The names of all definitions, for whole and for partial questions.
#[derive(Default)]
pub(crate) struct SymbolTable {
    by_name: HashMap<String, Vec<Place>>,
    by_word: HashMap<String, Vec<Place>>,
    count: usize,
}

impl SymbolTable {
    pub(crate) fn of(files: &[(String, Vec<Definition>)]) -> SymbolTable {
        let mut table = SymbolTable::default();
        for (file, (_, definitions)) in files.iter().enumerate() {
            for (at, definition) in definitions.iter().enumerate() {
                let place = (file as u32, at as u32);
                table.by_name.entry(definition.name.to_lowercase()).or_default().push(place);
                let distinct: HashSet<String> = words(&definition.name).map(|word| word.text).collect();
                for word in distinct {
                    table.by_word.entry(word).or_default().push(place);
                }
                table.count += 1;
            }
        }
        table
    }

    /// The definitions that bear `name`, which may be qualified (`Session.close`, `Session::close`) and may begin with
    /// a path (`src/session.py:Session.close`). Letter case decides only where it can.
    pub(crate) fn lookup(&self, files: &[(String, Vec<Definition>)], name: &str) -> SymbolAnswer {
        let name = name.trim().replace("::", ".").replace('#', ".");
        let (path, name) = match name.rsplit_once(':') {
            Some((path, name)) => (Some(path.trim_start_matches("./")), name),
            None => (None, name.as_str()),
        };
        let name = name.trim_matches('.').trim_end_matches("()");
        let plain = name.rsplit('.').next().unwrap_or(name);
        let all = self.by_name.get(&plain.to_lowercase()).map(Vec::as_slice).unwrap_or_default();
        let matches = |fold_case: bool| -> Vec<Place> {
            let fold = |text: String| if fold_case { text.to_lowercase() } else { text };
            let wanted = fold(name.to_owned());
            let fits = |place: &Place| {
                let (file, definition) = definition_at(files, *place);
                let full = fold(definition.qualified());
                let named = full == wanted || full.ends_with(&format!(".{wanted}"));
                named && path.is_none_or(|path| file == path || file.ends_with(&format!("/{path}")))
            };
            all.iter().copied().filter(fits).collect()
        };
        let mut found = matches(false);
        if found.is_empty() {
            found = matches(true);
        }
        found.sort_by_key(|place| (is_test_path(definition_at(files, *place).0), *place));
        SymbolAnswer::of(found.iter().take(AMBIGUOUS_MAX).map(|place| owned(files, *place)).collect())
    }

    /// The definitions whose names the query speaks of, best first. An identifier that the query holds as written
    /// comes first; then it counts how much of the name the query holds, rare words more than common ones.
    pub(crate) fn rank(&self, files: &[(String, Vec<Definition>)], query: &[String], limit: usize) -> Vec<Place> {
        let asked: HashSet<&str> = query.iter().map(String::as_str).collect();
        let candidates: HashSet<Place> =
            query.iter().filter_map(|word| self.by_word.get(word)).flatten().copied().collect();
        let mut scored: Vec<(bool, f64, Place)> = Vec::new();
        for place in candidates {
            let definition = definition_at(files, place).1;
            let (matched, total) = self.weigh(&definition.name, &asked);
            let whole = is_named_whole(&definition.name, query);
            if !whole && matched < COVERAGE_MIN * total {
                continue;
            }
            let parent = definition.parent.as_deref().map_or(0.0, |parent| self.weigh(parent, &asked).0);
            let coverage = if total > 0.0 { matched / total } else { 0.0 };
            scored.push((whole, matched * coverage + 0.5 * parent, place));
        }
        scored.sort_by(|left, right| {
            right.0.cmp(&left.0).then_with(|| right.1.total_cmp(&left.1)).then_with(|| left.2.cmp(&right.2))
        });
        scored.into_iter().take(limit).map(|(_, _, place)| place).collect()
    }

    /// The weight of the words of `name` that are asked for, and of all its words. The whole of a compound name is
    /// not one of its words.
    fn weigh(&self, name: &str, asked: &HashSet<&str>) -> (f64, f64) {
        let all: Vec<String> = words(name).map(|word| word.text).collect();
        let parts: HashSet<&str> =
            if all.len() > 1 { all[1..].iter() } else { all.iter() }.map(String::as_str).collect();
        let (mut matched, mut total) = (0.0, 0.0);
        for part in parts {
            let bearers = self.by_word.get(part).map_or(0, Vec::len) as f64;
            let weight = (1.0 + self.count as f64 / (1.0 + bearers)).ln();
            total += weight;
            matched += if asked.contains(part) { weight } else { 0.0 };
        }
        (matched, total)
    }
}

/// Whether the query holds this compound name as one identifier.
fn is_named_whole(name: &str, query: &[String]) -> bool {
    query.contains(&name.to_lowercase()) && words(name).nth(1).is_some()
}

pub(crate) fn definition_at(files: &[(String, Vec<Definition>)], (file, at): Place) -> (&str, &Definition) {
    let (path, definitions) = &files[file as usize];
    (path, &definitions[at as usize])
}

fn owned(files: &[(String, Vec<Definition>)], place: Place) -> SymbolDefinition {
    let (path, definition) = definition_at(files, place);
    SymbolDefinition { path: path.to_owned(), definition: definition.clone() }
}
