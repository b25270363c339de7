//! Which pieces of the tree answer this question?

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::embed::Embedder;
use crate::fuse::{by_file, fuse, sort, spread};
use crate::lanes::{Found, Lanes};
use crate::prefix::{OutsideTree, normal_prefix};
use crate::query::{Asked, QueryKind};
use crate::report::SkipReason;
use crate::rules::Rules;
use crate::tested::tested;
use crate::view::{ChunkKey, TreeText, View};
use crate::weights::Weights;

/// A search answers with at most this many hits.
const HITS_MAX: usize = 200;
/// The beginning of a query that is looked at.
const QUERY_BYTES_MAX: usize = 32 * 1024;
/// Each lane is asked for this many hits, or four times the limit if that is more.
const LANE_HITS: usize = 200;

/// What a file counts more, at most, that belongs to those that are open.
const RELATED_BONUS: f64 = 0.5;
/// What a test says about the source that it tests, against what it says about itself.
const TESTED_SHARE: f64 = 0.5;
/// Files that may count more.
const RELATED_FILES: usize = 200;

/// What a lane counts for a kind of question, in the order of [`LANES`]. The vector of a long text means a little of
/// everything: measured, it takes from the other lanes more than it gives.
fn lane_weights(kind: QueryKind, own: Weights) -> [f64; 5] {
    match kind {
        QueryKind::Identifier => [1.0, 2.0, 1.0, 0.0, 0.3],
        QueryKind::Path => [1.0, 0.5, 3.0, 0.0, 0.2],
        QueryKind::Words => [own.text, own.symbol, own.place, 0.0, own.vector],
        QueryKind::Issue => [1.0, 0.7, 0.7, 2.0, 0.1],
        QueryKind::Trace => [0.5, 0.5, 3.0, 2.0, 0.1],
    }
}

/// What all words together say about whole files, against the lane of text.
const WHOLE_WEIGHT: f64 = 1.0;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Words, identifiers or a sentence. Only the first 32 KiB count.
    pub text: String,
    /// At most this many hits, and never more than 200.
    pub limit: usize,
    /// Only what lies in this directory, or this one file; relative to the root.
    pub path_prefix: Option<String>,
    /// Rank tests like everything else. Otherwise they come later.
    pub include_tests: bool,
    /// Files that the asker has open: what belongs to them (imports, shared names, common history) ranks higher.
    pub open: Vec<String>,
}

impl Query {
    /// Ten hits from the whole tree, tests last.
    pub fn new(text: impl Into<String>) -> Query {
        Query { text: text.into(), limit: 10, path_prefix: None, include_tests: false, open: Vec::new() }
    }
}

/// A way of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The words stand in the chunk (BM25).
    Text,
    /// The words name a definition in the chunk.
    Symbol,
    /// The question names the file, or a trace in it points there.
    Place,
    /// The question quotes the chunk: a message, a line of it.
    Quote,
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
    /// The lines, as the tree has them now.
    pub text: String,
    /// Whether the file has changed since it was indexed (or is gone), so that these may be other lines.
    pub changed: bool,
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// What kind of question it was taken for.
    pub kind: QueryKind,
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
    /// The layer above the tree cannot be made.
    #[error("the changes cannot be searched: {0}")]
    Overlay(String),
}

pub(crate) fn search(view: &View, embedder: Option<&dyn Embedder>, query: &Query) -> Result<Answer, SearchError> {
    let ranked = rank(view, embedder, query)?;
    let limit = query.limit.clamp(1, HITS_MAX);
    let mut rest = ranked.chunks;
    let mut chosen: Vec<(ChunkKey, f64)> = rest.drain(..ranked.exact.min(limit)).collect();
    chosen.extend(spread(rest, limit - chosen.len(), |(key, _)| key.0));
    let texts = view.texts(&chosen.iter().map(|(key, _)| *key).collect::<Vec<_>>());
    let hits = chosen.into_iter().zip(texts).map(|((key, score), text)| {
        let lanes = ranked.members.iter().filter(|(_, keys)| keys.contains(&key)).map(|(lane, _)| *lane).collect();
        hit(view, key, score, lanes, text, &ranked.named)
    });
    Ok(Answer {
        hits: hits.collect(),
        kind: ranked.kind,
        generation: view.generation,
        age_seconds: view.age_seconds(),
        skipped: view.skipped.clone(),
        notes: ranked.notes,
    })
}

/// Everything that was found, best first.
pub(crate) struct Ranked {
    pub chunks: Vec<(ChunkKey, f64)>,
    /// So many of them, at the front, define the name that the question is.
    pub exact: usize,
    pub kind: QueryKind,
    pub notes: Vec<String>,
    members: Vec<(Lane, HashSet<ChunkKey>)>,
    named: HashMap<ChunkKey, (String, crate::outline::Kind)>,
}

pub(crate) fn rank(view: &View, embedder: Option<&dyn Embedder>, query: &Query) -> Result<Ranked, SearchError> {
    let evidence = gather(view, embedder, query)?;
    let joined = join(view, query, &evidence);
    let Evidence { asked, found, exact, notes, named, .. } = evidence;
    let top = joined.first().map_or(1.0, |(_, score)| *score);
    let rest = joined.into_iter().filter(|(key, _)| !exact.contains(key));
    let chunks = exact.iter().map(|key| (*key, top)).chain(rest).collect();
    let keys = found.map(|lane| lane.into_iter().map(|(key, _)| key).collect());
    let members = LANES.into_iter().zip(keys).collect();
    Ok(Ranked { chunks, exact: exact.len(), kind: asked.kind, notes, members, named })
}

/// What each lane finds by itself: files, best first.
pub(crate) fn lanes(
    view: &View,
    embedder: Option<&dyn Embedder>,
    query: &Query,
) -> Result<Vec<(Lane, Vec<String>)>, SearchError> {
    let files = |found: Found| -> Vec<String> {
        by_file(&found).into_iter().take(query.limit).map(|(file, _)| view.path(file).to_owned()).collect()
    };
    Ok(LANES.into_iter().zip(gather(view, embedder, query)?.found.map(files)).collect())
}

/// The lanes in the order in which they are asked and weighed.
const LANES: [Lane; 5] = [Lane::Text, Lane::Symbol, Lane::Place, Lane::Quote, Lane::Vector];

/// What the lanes say about one question.
struct Evidence {
    asked: Asked,
    /// In the order of [`LANES`].
    found: [Found; 5],
    /// What all the words together say about whole files, best first.
    whole: Vec<(u32, f64)>,
    /// How sure it is that what was found as a quotation is one, from 0 to 1.
    certainty: f64,
    /// The chunks that define the name that the question is, best first.
    exact: Vec<ChunkKey>,
    notes: Vec<String>,
    named: HashMap<ChunkKey, (String, crate::outline::Kind)>,
}

fn gather(view: &View, embedder: Option<&dyn Embedder>, query: &Query) -> Result<Evidence, SearchError> {
    let text = head(&query.text, QUERY_BYTES_MAX);
    let asked = Asked::of(text);
    if asked.wanted.is_empty() && asked.paths.is_empty() {
        return Err(SearchError::NoWords);
    }
    let within = query.path_prefix.as_deref().map(normal_prefix).transpose();
    let within = within.map_err(|OutsideTree(prefix)| SearchError::PathOutside(prefix))?.flatten();
    let depth = LANE_HITS.max(query.limit.min(HITS_MAX) * 4);
    let lanes =
        || Lanes { view, asked: &asked, within: within.as_deref(), depth, notes: Vec::new(), named: HashMap::new() };
    let (mut lanes, mut beside) = (lanes(), lanes());
    lanes.notes.clone_from(&view.notes);
    // The scan of the vectors takes as long as all others together.
    let (found, whole, certainty) = std::thread::scope(|scope| {
        let vector = scope.spawn(|| beside.vector(embedder, text));
        let telling = lanes.telling();
        let (words, symbol, place) = (lanes.text(&telling), lanes.symbol(), lanes.place());
        let whole = lanes.whole(&telling);
        let quoted = lanes.quoted(text, &whole, &words);
        let vector = vector.join().expect("a scan does not panic");
        ([words, symbol, place, quoted.found, vector], whole, quoted.certainty)
    });
    lanes.notes.append(&mut beside.notes);
    let [by_word @ .., by_meaning] = &found;
    if by_word.iter().all(Vec::is_empty) && !by_meaning.is_empty() {
        lanes.notes.push("no chunk holds any of these words: the hits are alike in meaning at best".to_owned());
    }
    let exact = lanes.exact();
    let Lanes { notes, named, .. } = lanes;
    Ok(Evidence { asked, found, whole, certainty, exact, notes, named })
}

/// How near files are to those that are open: the nearest one counts 1.
fn related(view: &View, open: &[String]) -> HashMap<u32, f64> {
    let seeds: Vec<_> = open.iter().filter_map(|path| view.number(path)).collect();
    let graph = (!seeds.is_empty()).then(|| view.graph()).flatten();
    let found = graph.map(|graph| graph.related(&seeds, RELATED_FILES)).unwrap_or_default();
    let top = found.first().map_or(1.0, |(_, rank)| f64::from(*rank));
    found.into_iter().filter_map(|(file, rank)| Some((view.row_of(file)?, f64::from(rank) / top))).collect()
}

/// Files are ranked by what all their chunks say, then chunks within their file.
fn join(view: &View, query: &Query, evidence: &Evidence) -> Vec<(ChunkKey, f64)> {
    let Evidence { asked, found, whole, certainty, .. } = evidence;
    let rules = Rules::of(asked, query.include_tests);
    let [text, symbol, place, quote, vector] = lane_weights(asked.kind, view.weights);
    let weights = [text, symbol, place, quote * certainty, vector];
    let mut lanes: Vec<(f64, Vec<(u32, f64)>)> =
        found.iter().zip(weights).map(|(lane, weight)| (weight, by_file(lane))).collect();
    lanes.push((WHOLE_WEIGHT, whole.clone()));
    let mut files: HashMap<u32, f64> = fuse(&lanes).into_iter().collect();
    let (related, told) = (related(view, &query.open), told_by_tests(view, asked, &files));
    for (file, score) in &mut files {
        *score += told.get(file).copied().unwrap_or(0.0);
        *score *= rules.file(view.class(*file), view.path(*file));
        *score *= 1.0 + RELATED_BONUS * related.get(file).copied().unwrap_or(0.0);
    }
    let lanes: Vec<(f64, Found)> = found.iter().zip(weights).map(|(lane, weight)| (weight, lane.clone())).collect();
    let mut chunks = fuse(&lanes);
    for (key, score) in &mut chunks {
        *score *= rules.chunk(view.chunk(*key).1.symbol);
    }
    let mut best: HashMap<u32, f64> = HashMap::new();
    for (key, score) in &chunks {
        let best = best.entry(key.0).or_default();
        *best = best.max(*score);
    }
    for (key, score) in &mut chunks {
        *score = files[&key.0] * *score / best[&key.0];
    }
    sort(&mut chunks);
    chunks
}

/// What the tests among `files` that fit a long text say about the sources that they test.
fn told_by_tests(view: &View, asked: &Asked, files: &HashMap<u32, f64>) -> HashMap<u32, f64> {
    let mut told: HashMap<u32, f64> = HashMap::new();
    if asked.kind.is_long() {
        for (test, source) in tested(files.keys().map(|file| (*file, view.path(*file), view.class(*file)))) {
            let told = told.entry(source).or_default();
            *told = told.max(files[&test] * TESTED_SHARE);
        }
    }
    told
}

fn hit(
    view: &View,
    key: ChunkKey,
    score: f64,
    lanes: Vec<Lane>,
    text: TreeText,
    named: &HashMap<ChunkKey, (String, crate::outline::Kind)>,
) -> Hit {
    let (path, record) = view.chunk(key);
    let own = record.symbol.map(str::to_owned).zip(record.kind);
    let (symbol, kind) = own.or_else(|| named.get(&key).cloned()).unzip();
    let TreeText { text, changed } = text;
    let (start_line, end_line) = (record.start, record.end);
    Hit { path: path.to_owned(), start_line, end_line, symbol, kind, score, lanes, text, changed }
}

fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
