//! What does each way of finding say, by itself, about one question?
//!
//! Every lane gives chunks with scores, best first. The scores of one lane are comparable with each other only.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::embed::{Embedder, embed_checked};
use crate::files::Files;
use crate::fuse::sort;
use crate::language::Language;
use crate::lexical::{Lexical, LexicalError, Wanted, Within};
use crate::outline::Kind;
use crate::prefix::is_within;
use crate::query::{Asked, QueryKind};
use crate::symbols::SymbolPlace;
use crate::trace::Place;
use crate::view::{ChunkKey, View};

/// Words of a text that are looked up: those that tell most.
const WORDS_MAX: usize = 40;
/// Beside so many words that tell more, a word that stands in more than one of so many chunks, and in so many at least,
/// tells nothing and costs most.
const WORDS_FEW: usize = 2;
const COMMON_SHARE: u64 = 12;
const COMMON_MIN: u64 = 2000;
/// A name that more definitions bear says nothing about where.
const BEARERS_MAX: usize = 20;
/// Files that one mention may mean.
const MEANT_MAX: usize = 3;

/// Chunks with scores, best first.
pub(crate) type Found = Vec<(ChunkKey, f64)>;

/// The lanes over one view, for one question.
pub(crate) struct Lanes<'a> {
    pub view: &'a View,
    pub asked: &'a Asked,
    pub within: Option<&'a str>,
    /// Hits that each lane is asked for.
    pub depth: usize,
    pub notes: Vec<String>,
    /// The best definition that the symbol lane found in a chunk.
    pub named: HashMap<ChunkKey, (String, Kind)>,
}

impl Lanes<'_> {
    /// The chunks in which the words stand that [`Lanes::telling`] gave.
    pub(crate) fn text(&mut self, wanted: &[Wanted]) -> Found {
        let Ok(lexical) = &self.view.lexical else { return Vec::new() };
        let found = self.text_of(lexical, wanted);
        // What the table of files does not name is of another generation and may be gone.
        let keyed = self.or_note(found).into_iter();
        keyed.filter_map(|(id, score)| Some((self.view.key_of(id)?, f64::from(score)))).collect()
    }

    /// What the lane of text said; nothing, and a note, where it failed.
    pub(crate) fn or_note<T>(&mut self, said: Result<Vec<T>, LexicalError>) -> Vec<T> {
        said.unwrap_or_else(|error| {
            self.notes.push(format!("{error}; a refresh rebuilds it"));
            Vec::new()
        })
    }

    /// What the lane of the state says and, above it, that of the overlay.
    fn text_of(&self, lexical: &Lexical, wanted: &[Wanted]) -> Result<Vec<(u64, f32)>, LexicalError> {
        let within = |files: &Files| {
            let file = |path| files.find(path).map(|row| files.head(row).file);
            self.within.map(|path| Within { path, file: file(path) })
        };
        let mut found = lexical.search(wanted, within(&self.view.files), self.depth, None)?;
        if let Some(above) = &self.view.overlay {
            found.extend(above.lexical.search(wanted, within(&above.files), self.depth, Some(lexical))?);
            found.sort_by(|left, right| right.1.total_cmp(&left.1));
        }
        Ok(found)
    }

    /// The words that are worth a look-up: a long text has more than can be afforded, most of them common.
    pub(crate) fn telling(&mut self) -> Vec<Wanted> {
        let telling = self.rarest();
        self.or_note(telling)
    }

    fn rarest(&self) -> Result<Vec<Wanted>, LexicalError> {
        let wanted = &self.asked.wanted;
        let Ok(lexical) = &self.view.lexical else { return Ok(Vec::new()) };
        if wanted.len() <= WORDS_FEW {
            return Ok(wanted.clone());
        }
        let words: Vec<&str> = wanted.iter().map(|word| word.text.as_str()).collect();
        let (bearers, chunks) = lexical.rarity(&words)?;
        let is_common = |at: usize| bearers[at] > COMMON_MIN && bearers[at] > chunks / COMMON_SHARE;
        let telling: Vec<usize> = (0..wanted.len()).filter(|at| !is_common(*at)).collect();
        if wanted.len() <= WORDS_MAX {
            let kept = if telling.len() < WORDS_FEW { (0..wanted.len()).collect() } else { telling };
            return Ok(kept.into_iter().map(|at| wanted[at].clone()).collect());
        }
        let worth = |(at, bearers): (usize, &u64)| {
            let rarity = (1.0 + chunks as f64 / (1.0 + *bearers as f64)).ln();
            (at, if *bearers == 0 { 0.0 } else { f64::from(wanted[at].weight) * rarity })
        };
        let mut worth: Vec<(usize, f64)> = bearers.iter().enumerate().map(worth).collect();
        sort(&mut worth);
        Ok(worth.into_iter().take(WORDS_MAX).map(|(at, _)| wanted[at].clone()).collect())
    }

    /// The definitions that the question names, or whose names it spells out in words.
    pub(crate) fn symbol(&mut self) -> Found {
        let mut scores: FxHashMap<ChunkKey, f64> = FxHashMap::default();
        let asked = self.asked;
        for (at, name) in asked.names.iter().chain(&asked.trace.symbols).enumerate() {
            let bearers = self.bearers(name);
            let share = 1.0 / (bearers.len() as f64).max(1.0) / (1.0 + at as f64 / 10.0);
            for bearer in bearers {
                if let Some(key) = self.key_of(&bearer) {
                    *scores.entry(key).or_default() += share;
                    self.named.entry(key).or_insert((bearer.qualified(), bearer.kind));
                }
            }
        }
        if matches!(asked.kind, QueryKind::Words | QueryKind::Identifier) {
            let words: Vec<String> = asked.wanted.iter().map(|word| word.text.clone()).collect();
            self.by_words(&words, &mut scores);
        }
        self.cut(scores)
    }

    /// The chunks that define the name that the question is, best first. Nothing where it is no name, or too many bear
    /// it.
    pub(crate) fn exact(&self) -> Vec<ChunkKey> {
        let [name] = self.asked.names.as_slice() else { return Vec::new() };
        if self.asked.kind != QueryKind::Identifier {
            return Vec::new();
        }
        let mut keys: Vec<ChunkKey> = Vec::new();
        for key in self.view.few(name, BEARERS_MAX).unwrap_or_default().iter().filter_map(|bearer| self.key_of(bearer))
        {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The definitions whose names the words spell out.
    fn by_words(&mut self, words: &[String], scores: &mut FxHashMap<ChunkKey, f64>) {
        for (at, (place, _)) in self.view.symbols().rank(words, self.depth, self.view).into_iter().enumerate() {
            if let Some(key) = self.key_of(&place) {
                *scores.entry(key).or_default() += 1.0 / (1.0 + at as f64).sqrt();
                self.named.entry(key).or_insert((place.qualified(), place.kind));
            }
        }
    }

    /// The definitions of a name as written; of its last two parts; of its last part. None where too many bear it.
    fn bearers(&self, name: &str) -> Vec<SymbolPlace> {
        let parts: Vec<&str> = name.split('.').filter(|part| !part.is_empty()).collect();
        let lengths = [parts.len(), 2, 1].into_iter().filter(|length| *length <= parts.len() && *length > 0);
        for length in lengths {
            match self.view.few(&parts[parts.len() - length..].join("."), BEARERS_MAX) {
                Some(found) if found.is_empty() => {}
                found => return found.unwrap_or_default(),
            }
        }
        Vec::new()
    }

    fn key_of(&self, found: &SymbolPlace) -> Option<ChunkKey> {
        let file = self.view.row_of(found.file)?;
        let inside = self.within.is_none_or(|within| is_within(self.view.path(file), within));
        if inside { self.view.chunk_at(file, found.start_line, found.end_line) } else { None }
    }

    /// The places that a trace points at, and the files that the question mentions by path or as a module.
    pub(crate) fn place(&mut self) -> Found {
        let mut scores: FxHashMap<ChunkKey, f64> = FxHashMap::default();
        let asked = self.asked;
        let modules = asked.names.iter().filter(|name| name.contains('.')).flat_map(|name| module_paths(name));
        // What a trace points at with a line is no mention of the whole file.
        let points = |path: &String| asked.trace.places.iter().any(|place| place.path.ends_with(path.as_str()));
        let mentions = asked.paths.iter().filter(|path| !points(path)).cloned().map(|path| Place {
            path,
            line: None,
            symbol: None,
        });
        let modules = modules.map(|path| Place { path, line: None, symbol: None });
        let any: &dyn Fn(&str) -> bool = &|_| true;
        // `pytest.raises` is no member of `pytest.ini`.
        let code: &dyn Fn(&str) -> bool = &|path| Language::detect(path, &[]).is_some();
        let sources = [
            (1.0, asked.trace.places.clone(), any),
            (1.0, mentions.collect::<Vec<_>>(), any),
            (0.5, modules.collect::<Vec<_>>(), code),
        ];
        for (weight, places, fits) in sources {
            let mut own = 0;
            for (place, files) in places.iter().zip(self.meant(&places, fits)) {
                let share = weight / (1.0 + own as f64) / files.len().max(1) as f64;
                own += usize::from(!files.is_empty());
                for file in files {
                    let line = place.line.unwrap_or(1);
                    let key = self.view.chunk_at(file, line, line).unwrap_or((file, 0));
                    if self.view.chunk_count(file) > 0 {
                        *scores.entry(key).or_default() += share;
                    }
                }
            }
        }
        self.cut(scores)
    }

    /// For every place the files of the tree that it may mean, of those that fit: those that share the most parts of the
    /// path, from the end. A path of several parts that shares only its last one means a file of some library.
    fn meant(&self, places: &[Place], fits: &dyn Fn(&str) -> bool) -> Vec<Vec<u32>> {
        if places.is_empty() {
            return Vec::new();
        }
        let mut best: Vec<(usize, Vec<u32>)> = vec![(1, Vec::new()); places.len()];
        let ending = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let mut by_ending: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, place) in places.iter().enumerate() {
            by_ending.entry(ending(&place.path)).or_default().push(at);
        }
        for (file, path) in self.view.rows() {
            if !self.within.is_none_or(|within| is_within(path, within)) {
                continue;
            }
            let name = path.rsplit('/').next().unwrap_or_default();
            let bare = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            let keys = if bare == name { vec![name] } else { vec![name, bare] };
            for at in keys.into_iter().filter_map(|key| by_ending.get(key)).flatten().filter(|_| fits(path)) {
                let wanted = places[*at].path.as_str();
                let without_ending = path.strip_suffix(name).map(|directory| format!("{directory}{bare}"));
                let whole = if wanted.ends_with(name) { path.to_owned() } else { without_ending.unwrap_or_default() };
                let shared =
                    wanted.rsplit('/').zip(whole.rsplit('/')).take_while(|(left, right)| left == right).count();
                let is_sure = shared > 1 || shared == wanted.split('/').count() || shared == whole.split('/').count();
                let (most, files) = &mut best[*at];
                if is_sure && shared > *most {
                    (*most, *files) = (shared, vec![file]);
                } else if is_sure && shared == *most {
                    files.push(file);
                }
            }
        }
        let few = |(_, files): (usize, Vec<u32>)| if files.len() <= MEANT_MAX { files } else { Vec::new() };
        best.into_iter().map(few).collect()
    }

    pub(crate) fn cut(&self, scores: FxHashMap<ChunkKey, f64>) -> Found {
        let mut found: Found = scores.into_iter().collect();
        sort(&mut found);
        found.truncate(self.depth);
        found
    }

    /// The chunks that mean something like the question.
    pub(crate) fn vector(&mut self, embedder: Option<&dyn Embedder>, text: &str) -> Found {
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
        let keys = found.unwrap_or_else(|error| {
            self.notes.push(format!("{error}; hits come from words and names alone"));
            Vec::new()
        });
        keys.into_iter().enumerate().map(|(at, key)| (key, 1.0 / (1.0 + at as f64).sqrt())).collect()
    }

    /// The scan is widened until enough hits lie within the path prefix; vectors that no file needs any more count not.
    fn nearest_within(&self, vectors: &crate::vector::Vectors, vector: &[f32]) -> Result<Vec<ChunkKey>, String> {
        let mut wanted = self.depth;
        loop {
            let rows = vectors.nearest(vector, wanted).map_err(|error| error.to_string())?;
            let exhausted = rows.len() < wanted;
            let keys = rows.iter().flat_map(|(hash, _)| self.view.keys_of_hash(*hash));
            let fits = |key: &ChunkKey| self.within.is_none_or(|within| is_within(self.view.chunk(*key).0, within));
            let mut keys: Vec<ChunkKey> = keys.filter(fits).collect();
            if exhausted || keys.len() >= self.depth {
                keys.truncate(self.depth);
                return Ok(keys);
            }
            wanted *= 8;
        }
    }
}

/// The paths, without ending, of which a qualified name may be a member: of `a.b.C`, `a/b/C`, `a/b` and `a`.
fn module_paths(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('.').filter(|part| !part.is_empty()).collect();
    (1..=parts.len())
        .rev()
        .filter(|length| *length > 1 || parts.len() == 2)
        .map(|length| parts[..length].join("/"))
        .collect()
}
