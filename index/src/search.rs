//! Which pieces of the tree answer this question?

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::embed::{Embedder, embed_checked};
use crate::fuse::{factor, fuse, is_test_path, is_test_symbol, sort, spread};
use crate::index::{ChunkKey, View};
use crate::prefix::{OutsideTree, is_within, normal_prefix};
use crate::report::SkipReason;
use crate::symbols::{definition_at, is_asked_for};
use crate::tokenize::query_words;

/// A search answers with at most this many hits.
const HITS_MAX: usize = 200;
/// The beginning of a query that is looked at.
const QUERY_BYTES_MAX: usize = 4096;
/// Each lane is asked for this many hits, or four times the limit if that is more.
const LANE_HITS: usize = 100;
/// A name match is a little surer than a word match.
const SYMBOL_WEIGHT: f64 = 1.2;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Words, identifiers or a sentence. Only the first 4096 bytes count.
    pub text: String,
    /// At most this many hits, and never more than 200.
    pub limit: usize,
    /// Only what lies in this directory, or this one file; relative to the root.
    pub path_prefix: Option<String>,
    /// Rank tests like everything else. Otherwise they come later.
    pub include_tests: bool,
}

impl Query {
    /// Ten hits from the whole tree, tests last.
    pub fn new(text: impl Into<String>) -> Query {
        Query { text: text.into(), limit: 10, path_prefix: None, include_tests: false }
    }
}

/// A way of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The words stand in the chunk (BM25).
    Text,
    /// The words name a definition in the chunk.
    Symbol,
    /// The chunk means something like the query.
    Vector,
}

/// One piece of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Relative to the root.
    pub path: String,
    /// First line, from 1.
    pub start_line: usize,
    /// Last line, from 1.
    pub end_line: usize,
    /// `Outer.name` of the definition that the piece is, or that it holds and the query names.
    pub symbol: Option<String>,
    /// What that definition is.
    pub kind: Option<crate::outline::Kind>,
    /// Comparable only within one answer.
    pub score: f64,
    /// Who found it.
    pub lanes: Vec<Lane>,
    /// The lines, as indexed.
    pub text: String,
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Of the index that answered; 0 where there is none yet.
    pub generation: u64,
    /// Seconds since a refresh last compared the index with the tree.
    pub age_seconds: u64,
    /// How many paths of the tree are not in the index, by reason.
    pub skipped: BTreeMap<SkipReason, usize>,
    /// What a reader should know: lanes that did not work, vectors that are missing.
    pub notes: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The text holds no letter or digit.
    #[error("the query holds no word to search for")]
    NoWords,
    /// The path prefix points outside of the root.
    #[error("the path prefix {0:?} is not inside the tree")]
    PathOutside(String),
}

pub(crate) fn search(view: &View, embedder: Option<&dyn Embedder>, query: &Query) -> Result<Answer, SearchError> {
    let text = head(&query.text, QUERY_BYTES_MAX);
    let words = query_words(text);
    if words.is_empty() {
        return Err(SearchError::NoWords);
    }
    let within = query.path_prefix.as_deref().map(normal_prefix).transpose();
    let within = within.map_err(|OutsideTree(prefix)| SearchError::PathOutside(prefix))?.flatten();
    let limit = query.limit.clamp(1, HITS_MAX);
    let mut lanes = Lanes {
        view,
        within: within.as_deref(),
        depth: LANE_HITS.max(limit * 4),
        notes: view.notes.clone(),
        named: HashMap::new(),
    };
    let text_lane = lanes.text(&words);
    let symbol_lane = lanes.symbol(&words);
    let vector_lane = lanes.vector(embedder, text);
    if text_lane.is_empty() && symbol_lane.is_empty() && !vector_lane.is_empty() {
        lanes.notes.push("no chunk holds any of these words: the hits are alike in meaning at best".to_owned());
    }
    let Lanes { notes, named, .. } = lanes;

    let mut ranked =
        fuse(&[(1.0, text_lane.clone()), (SYMBOL_WEIGHT, symbol_lane.clone()), (1.0, vector_lane.clone())]);
    let tests_asked = query.include_tests || words.iter().any(|word| word == "test" || word == "tests");
    for (key, score) in &mut ranked {
        *score *= weigh(view, *key, &words, tests_asked);
    }
    sort(&mut ranked);
    let chosen = spread(ranked, limit, |(key, _)| key.0);

    let members: [(Lane, HashSet<ChunkKey>); 3] = [
        (Lane::Text, text_lane.into_iter().collect()),
        (Lane::Symbol, symbol_lane.into_iter().collect()),
        (Lane::Vector, vector_lane.into_iter().collect()),
    ];
    let texts = view.texts(&chosen.iter().map(|(key, _)| *key).collect::<Vec<_>>());
    let hits = chosen.into_iter().zip(texts).map(|((key, score), text)| {
        let lanes = members.iter().filter(|(_, keys)| keys.contains(&key)).map(|(lane, _)| *lane).collect();
        hit(view, key, score, lanes, text, &named)
    });
    Ok(Answer {
        hits: hits.collect(),
        generation: view.generation,
        age_seconds: view.age_seconds(),
        skipped: view.skipped.clone(),
        notes,
    })
}

/// What each lane finds by itself: files, best first.
pub(crate) fn lanes(
    view: &View,
    embedder: Option<&dyn Embedder>,
    query: &Query,
) -> Result<Vec<(Lane, Vec<String>)>, SearchError> {
    let text = head(&query.text, QUERY_BYTES_MAX);
    let words = query_words(text);
    if words.is_empty() {
        return Err(SearchError::NoWords);
    }
    let depth = LANE_HITS.max(query.limit.min(HITS_MAX) * 4);
    let mut lanes = Lanes { view, within: None, depth, notes: Vec::new(), named: HashMap::new() };
    let found = [
        (Lane::Text, lanes.text(&words)),
        (Lane::Symbol, lanes.symbol(&words)),
        (Lane::Vector, lanes.vector(embedder, text)),
    ];
    let files = |keys: Vec<ChunkKey>| {
        let mut seen = HashSet::new();
        let paths = keys.into_iter().filter(|key| seen.insert(key.0)).map(|key| view.chunk(key).0.to_owned());
        paths.take(query.limit).collect::<Vec<_>>()
    };
    Ok(found.into_iter().map(|(lane, keys)| (lane, files(keys))).collect())
}

fn hit(
    view: &View,
    key: ChunkKey,
    score: f64,
    lanes: Vec<Lane>,
    text: String,
    named: &HashMap<ChunkKey, (String, crate::outline::Kind)>,
) -> Hit {
    let (path, record) = view.chunk(key);
    let own = record.symbol.clone().zip(record.kind);
    let (symbol, kind) = own.or_else(|| named.get(&key).cloned()).unzip();
    Hit { path: path.to_owned(), start_line: record.start, end_line: record.end, symbol, kind, score, lanes, text }
}

fn weigh(view: &View, key: ChunkKey, words: &[String], tests_asked: bool) -> f64 {
    let (path, record) = view.chunk(key);
    let symbol = record.symbol.as_deref();
    let is_test = is_test_path(path) || symbol.is_some_and(is_test_symbol);
    let defines = symbol.and_then(|symbol| symbol.rsplit('.').next()).is_some_and(|name| is_asked_for(name, words));
    factor(is_test, tests_asked, defines)
}

/// The three lanes over one view, each giving chunk keys, best first.
struct Lanes<'view> {
    view: &'view View,
    within: Option<&'view str>,
    depth: usize,
    notes: Vec<String>,
    /// The best definition that the symbol lane found in a chunk.
    named: HashMap<ChunkKey, (String, crate::outline::Kind)>,
}

impl Lanes<'_> {
    fn text(&mut self, words: &[String]) -> Vec<ChunkKey> {
        let Ok(lexical) = &self.view.lexical else { return Vec::new() };
        match lexical.search(words, self.within, self.depth) {
            // What the manifest does not name is of another generation and may be gone.
            Ok(found) => found.into_iter().filter_map(|(id, _)| self.view.key_of(id)).collect(),
            Err(error) => {
                self.notes.push(format!("{error}; a refresh rebuilds it"));
                Vec::new()
            }
        }
    }

    fn symbol(&mut self, words: &[String]) -> Vec<ChunkKey> {
        let mut keys = Vec::new();
        for place in self.view.symbols.rank(&self.view.files, words, self.depth * 4) {
            let (path, definition) = definition_at(&self.view.files, place);
            if !self.within.is_none_or(|within| is_within(path, within)) {
                continue;
            }
            let Some(key) = self.view.chunk_at(place.0, definition.start_line, definition.end_line) else { continue };
            if !self.named.contains_key(&key) {
                self.named.insert(key, (definition.qualified(), definition.kind));
                keys.push(key);
            }
        }
        keys.truncate(self.depth);
        keys
    }

    fn vector(&mut self, embedder: Option<&dyn Embedder>, text: &str) -> Vec<ChunkKey> {
        let Some(embedder) = embedder else {
            self.notes.push("no embedding model: hits come from words and names alone".to_owned());
            return Vec::new();
        };
        let vectors = match &self.view.vectors {
            Ok(Some(vectors)) => vectors,
            // Why is among the notes of the view.
            Ok(None) | Err(_) => return Vec::new(),
        };
        let found = embed_checked(embedder, &[text.to_owned()])
            .map_err(|error| error.to_string())
            .and_then(|mut answer| self.nearest_within(vectors, &answer.remove(0)));
        found.unwrap_or_else(|error| {
            self.notes.push(format!("{error}; hits come from words and names alone"));
            Vec::new()
        })
    }

    /// With a path prefix the scan is widened until enough hits lie within it.
    fn nearest_within(&self, vectors: &crate::vector::Vectors, vector: &[f32]) -> Result<Vec<ChunkKey>, String> {
        let mut wanted = self.depth;
        loop {
            let rows = vectors.nearest(vector, wanted).map_err(|error| error.to_string())?;
            let exhausted = rows.len() < wanted;
            let keys = rows.iter().flat_map(|(hash, _)| self.view.keys_of_hash(hash));
            let fits = |key: &ChunkKey| self.within.is_none_or(|within| is_within(self.view.chunk(*key).0, within));
            let mut keys: Vec<ChunkKey> = keys.filter(fits).collect();
            if exhausted || keys.len() >= self.depth || self.within.is_none() {
                keys.truncate(self.depth);
                return Ok(keys);
            }
            wanted *= 8;
        }
    }
}

fn head(text: &str, bytes: usize) -> &str {
    let cut = (0..=text.len().min(bytes)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..cut]
}
