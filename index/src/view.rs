//! What does an answer draw on? One committed state of the store, opened for reading.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rayon::slice::ParallelSliceMut;

use crate::admit::{FILE_BYTES_MAX, open, why_bare};
use crate::classify::Class;
use crate::cochange::CoChange;
use crate::embed::Embedder;
use crate::file_no::FileNo;
use crate::files::{ChunkRef, Files};
use crate::graph::FileGraph;
use crate::hash::{PieceHash, content_key};
use crate::lexical::{Lexical, parts_of_id};
use crate::manifest::{Manifest, VectorRecord};
use crate::overlay::Overlay;
use crate::references::Tree;
use crate::refresh::Memory;
use crate::report::{SkipReason, skip_counts};
use crate::segment::SegmentError;
use crate::symbols::{Living, Lookup, SYMBOL_PREFIX, SymbolPlace, SymbolSegment, Symbols};
use crate::trigram::{TRIGRAM_PREFIX, TrigramLane};
use crate::vector::Vectors;
use crate::weights::Weights;

/// How often a state is read again that a writer replaced meanwhile, and how long is waited before.
const LOADS_MAX: usize = 3;
const LOAD_PAUSE: Duration = Duration::from_millis(50);

/// A chunk as (row of the file, place in the file).
pub(crate) type ChunkKey = (u32, u32);

/// One committed state. Loading never fails: what cannot be opened is missing and noted.
pub(crate) struct View {
    root: PathBuf,
    pub generation: u64,
    refreshed_at: u64,
    pub files: Files,
    pub skipped: BTreeMap<SkipReason, usize>,
    pub lexical: Result<Lexical, String>,
    pub vectors: Result<Option<Arc<Vectors>>, String>,
    pub notes: Vec<String>,
    symbol_segments: Vec<PathBuf>,
    symbols: OnceLock<Vec<Arc<SymbolSegment>>>,
    trigram_segments: Vec<PathBuf>,
    trigrams: OnceLock<Result<TrigramLane, String>>,
    /// Paths that may hold text and are in no lane (giants, and files beyond the limit), sorted.
    unindexed: Vec<String>,
    /// All chunks, sorted by hash. Made when the first vector is looked for.
    by_hash: OnceLock<Vec<(PieceHash, ChunkKey)>>,
    /// What is above the committed state.
    pub overlay: Option<Overlay>,
    graph: OnceLock<Option<FileGraph>>,
    /// What the lanes count for a few words.
    pub weights: Weights,
}

/// Where a state is, and what of it is open already.
pub(crate) struct Place<'a> {
    pub store: &'a Path,
    pub root: &'a Path,
    pub embedder: Option<&'a dyn Embedder>,
    pub memory: &'a Memory,
}

/// The lines of a chunk as the tree has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeText {
    pub text: String,
    /// Whether the file has other content than was indexed, so that the lines may be others.
    pub changed: bool,
}

impl View {
    /// A writer may commit between the reading of the manifest and the opening of the lanes; then it is read again.
    pub(crate) fn load(place: &Place<'_>) -> View {
        for _ in 1..LOADS_MAX {
            match View::load_once(place) {
                (view, false) => return view,
                (_, true) => std::thread::sleep(LOAD_PAUSE),
            }
        }
        View::load_once(place).0
    }

    /// The state, and whether something of it was missing.
    fn load_once(place: &Place<'_>) -> (View, bool) {
        let Place { store, root, .. } = *place;
        let empty = |note: String, torn: bool| (View::empty(root, note), torn);
        let manifest = match Manifest::read(store) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return empty("nothing is indexed yet; a refresh does it".to_owned(), false),
            Err(error) => return empty(format!("{error}; a refresh rebuilds the index"), false),
        };
        let files = match manifest.files(store) {
            Ok(files) => files,
            Err(error) => {
                return empty(format!("the table of files: {error}; a refresh rebuilds the index"), is_gone(&error));
            }
        };
        View::of(place, &manifest, files)
    }

    /// The state of a manifest whose table is at hand.
    pub(crate) fn of(place: &Place<'_>, manifest: &Manifest, files: Files) -> (View, bool) {
        let Place { store, root, .. } = *place;
        let mut notes = Vec::new();
        let mut is_torn = false;
        let lexical = Lexical::open(&store.join(&manifest.lexical_directory)).map_err(|error| error.to_string());
        match &lexical {
            Ok(lexical) => {
                is_torn = !lexical.commit().is_some_and(|commit| commit.serves(manifest.lexical_generation));
                if is_torn {
                    notes.push("the index was not committed to its end; a refresh repairs it".to_owned());
                }
            }
            Err(error) => notes.push(format!("{error}; a refresh rebuilds it")),
        }
        let vectors = open_vectors(place, manifest.vector.as_ref(), &mut notes);
        let segments = |prefix| manifest.segments_of(prefix).map(|name| store.join(name)).collect::<Vec<_>>();
        let (symbol_segments, trigram_segments) = (segments(SYMBOL_PREFIX), segments(TRIGRAM_PREFIX));
        is_torn |= symbol_segments.iter().chain(&trigram_segments).any(|path| !path.exists());
        let unindexed = manifest.skipped.iter().filter(|skip| skip.reason.is_text());
        let mut unindexed: Vec<String> = unindexed.map(|skip| skip.path.clone()).collect();
        unindexed.sort_unstable();
        let bare = (0..files.len()).filter_map(|row| files.head(row).bare).collect::<Vec<_>>();
        let view = View {
            generation: manifest.generation,
            refreshed_at: manifest.refreshed_at,
            skipped: skip_counts(manifest.skipped.iter().map(|skip| skip.reason).chain(bare)),
            files,
            lexical,
            vectors,
            notes,
            symbol_segments,
            trigram_segments,
            unindexed,
            weights: Weights::kept(store),
            ..View::empty(root, String::new())
        };
        (view, is_torn)
    }

    fn empty(root: &Path, note: String) -> View {
        View {
            root: root.to_path_buf(),
            generation: 0,
            refreshed_at: 0,
            files: Files::default(),
            skipped: BTreeMap::new(),
            lexical: Err(note.clone()),
            vectors: Ok(None),
            notes: vec![note],
            symbol_segments: Vec::new(),
            symbols: OnceLock::new(),
            trigram_segments: Vec::new(),
            trigrams: OnceLock::new(),
            unindexed: Vec::new(),
            by_hash: OnceLock::new(),
            overlay: None,
            graph: OnceLock::new(),
            weights: Weights::default(),
        }
    }

    /// The trigram lane, opened by the first who asks; a damaged one is noted in the answer and costs time alone.
    pub(crate) fn trigrams(&self) -> Result<&TrigramLane, &String> {
        let open = || TrigramLane::open(&self.trigram_segments).map_err(|error| error.to_string());
        self.trigrams.get_or_init(open).as_ref()
    }

    /// Every path whose lines can be searched, in order, with its number where the lane of trigrams knows it.
    pub(crate) fn searchable(&self) -> impl Iterator<Item = (&str, Option<FileNo>)> {
        let mut rows =
            (0..self.files.len()).map(|row| (self.files.path(row), Some(self.files.head(row).file))).peekable();
        let mut others = self.unindexed.iter().map(|path| (path.as_str(), None)).peekable();
        let both = std::iter::from_fn(move || match (rows.peek(), others.peek()) {
            (Some(row), Some(other)) if other.0 < row.0 => others.next(),
            (Some(_), _) => rows.next(),
            (None, _) => others.next(),
        });
        both.filter(|(path, _)| !self.is_hidden(path))
    }

    pub(crate) fn age_seconds(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        now.saturating_sub(self.refreshed_at)
    }

    /// The table that a row lies in, and its place there: rows of the overlay follow those of the state.
    fn table(&self, row: u32) -> (&Files, usize) {
        let row = row as usize;
        match &self.overlay {
            Some(overlay) if row >= self.files.len() => (&overlay.files, row - self.files.len()),
            _ => (&self.files, row),
        }
    }

    pub(crate) fn chunk(&self, (file, at): ChunkKey) -> (&str, ChunkRef<'_>) {
        let (files, row) = self.table(file);
        (files.path(row), files.chunk(row, at as usize))
    }

    /// The path of a row.
    pub(crate) fn path(&self, row: u32) -> &str {
        let (files, row) = self.table(row);
        files.path(row)
    }

    /// What the file of a row is.
    pub(crate) fn class(&self, row: u32) -> Class {
        let (files, row) = self.table(row);
        files.head(row).class
    }

    /// All rows that are neither hidden nor bare, with their paths.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, &str)> {
        let indexed = (0..self.files.len()).filter(|row| !self.files.is_bare(*row));
        let below = indexed.map(|row| (row as u32, self.files.path(row)));
        let above = self.overlay.as_ref().map_or(0, |overlay| overlay.files.len());
        let above = (self.files.len()..self.files.len() + above).map(|row| (row as u32, self.path(row as u32)));
        below.filter(|(_, path)| !self.is_hidden(path)).chain(above)
    }

    /// The row of a path; nothing where its file is bare, or is hidden and nothing stands above it.
    pub(crate) fn row(&self, path: &str) -> Option<u32> {
        let row = match &self.overlay {
            Some(overlay) if overlay.hides(path) => self.files.len() + overlay.files.find(path)?,
            _ => self.files.find(path).filter(|row| !self.files.is_bare(*row))?,
        };
        Some(row as u32)
    }

    /// How many chunks a row has.
    pub(crate) fn chunk_count(&self, row: u32) -> usize {
        let (files, row) = self.table(row);
        files.chunk_count(row)
    }

    /// Whether a file of the committed state is hidden by the overlay.
    pub(crate) fn is_hidden(&self, path: &str) -> bool {
        self.overlay.as_ref().is_some_and(|overlay| overlay.hides(path))
    }

    /// The chunk that a text lane names so; nothing where its file is gone, has changed or is hidden.
    pub(crate) fn key_of(&self, id: u64) -> Option<ChunkKey> {
        let (file, at) = parts_of_id(id);
        let row = self.row_of(file)?;
        (at < self.chunk_count(row)).then_some((row, at as u32))
    }

    /// The chunks with this content.
    pub(crate) fn keys_of_hash(&self, wanted: PieceHash) -> impl Iterator<Item = ChunkKey> {
        let by_hash = self.by_hash.get_or_init(|| by_hash(&self.files));
        let start = by_hash.partition_point(|(other, _)| *other < wanted);
        let found = by_hash[start..].iter().take_while(move |(other, _)| *other == wanted).map(|(_, key)| *key);
        let above = self.overlay.as_ref().map(|overlay| by_hash_of_few(&overlay.files, self.files.len(), wanted));
        found.filter(move |(row, _)| !self.is_hidden(self.files.path(*row as usize))).chain(above.into_iter().flatten())
    }

    /// The text of a file, as the tree has it now; empty where it is gone.
    pub(crate) fn content_of(&self, row: u32) -> String {
        self.content(row as usize).0
    }

    /// The chunk of a file that holds the first line of a definition. Where several do (overlaps, a class and its
    /// first method), the one that ends with or before the definition, and of those the first.
    pub(crate) fn chunk_at(&self, file: u32, first: usize, last: usize) -> Option<ChunkKey> {
        let holds = |chunk: &ChunkRef<'_>| chunk.start <= first && first <= chunk.end;
        let (files, row) = self.table(file);
        let chunks = files.chunks(row).enumerate();
        let at = chunks.filter(|(_, chunk)| holds(chunk)).min_by_key(|(at, chunk)| (chunk.end > last, *at))?.0;
        Some((file, at as u32))
    }

    /// The symbol lane with the overlay's segment, opened by the first who asks; a damaged segment is left out, and the
    /// next refresh rebuilds it.
    pub(crate) fn symbols(&self) -> Symbols {
        let open = |path: &PathBuf| SymbolSegment::open(path).ok().map(Arc::new);
        let below = self.symbols.get_or_init(|| self.symbol_segments.iter().filter_map(open).collect());
        let above = self.overlay.as_ref().map(|overlay| Arc::clone(&overlay.symbols));
        Symbols { segments: below.iter().cloned().chain(above).collect() }
    }

    /// The definitions of one row, in the order of their first byte.
    pub(crate) fn outline(&self, row: u32) -> Vec<SymbolPlace> {
        let file = self.number_of(row);
        let symbols = self.symbols();
        let found = symbols.segments.iter().find_map(|segment| segment.outline(segment.place_of(file)?));
        found.unwrap_or_default()
    }

    /// The definitions of a name, see [`Symbols::lookup`].
    pub(crate) fn symbol(&self, name: &str) -> Lookup {
        self.symbols().lookup(name, self)
    }

    /// The definitions of a name, unless more than `most` bear it, see [`Symbols::few`].
    pub(crate) fn few(&self, name: &str, most: usize) -> Option<Vec<SymbolPlace>> {
        self.symbols().few(name, most, self)
    }

    /// Which files belong together, with the history of the repository as far as there is one. Nothing where the symbol
    /// lane is damaged.
    pub(crate) fn graph(&self) -> Option<&FileGraph> {
        let build = || {
            let files: Vec<_> = self.rows().map(|(row, path)| (self.number_of(row), path.to_owned())).collect();
            let history = CoChange::read(&self.root).unwrap_or_default();
            FileGraph::build(&self.symbols(), &files, &history).ok()
        };
        self.graph.get_or_init(build).as_ref()
    }

    /// The number of the file of a path.
    pub(crate) fn number(&self, path: &str) -> Option<FileNo> {
        self.row(path).map(|row| self.number_of(row))
    }

    fn number_of(&self, row: u32) -> FileNo {
        let (files, at) = self.table(row);
        files.head(at).file
    }

    /// Puts a layer above the committed state, or takes it away.
    pub(crate) fn set_overlay(&mut self, overlay: Option<Overlay>) {
        self.overlay = overlay;
        self.graph = OnceLock::new();
    }

    /// The row of a number; nothing where its file is gone, has changed or is hidden.
    pub(crate) fn row_of(&self, file: FileNo) -> Option<u32> {
        let above = self.overlay.as_ref().and_then(|overlay| overlay.files.row_of(file));
        let row = match above {
            Some(row) => self.files.len() + row,
            None => self.files.row_of(file).filter(|row| !self.is_hidden(self.files.path(*row)))?,
        };
        Some(row as u32)
    }

    /// The texts of chunks, in their order, read from the tree. Every file is read once.
    pub(crate) fn texts(&self, keys: &[ChunkKey]) -> Vec<TreeText> {
        let mut read: HashMap<u32, (String, bool)> = HashMap::new();
        let text = |(row, at): &ChunkKey| {
            let (content, changed) = read.entry(*row).or_insert_with(|| self.content(*row as usize));
            let chunk = self.chunk((*row, *at)).1;
            let lines = content.split_inclusive('\n').skip(chunk.start - 1).take(chunk.end + 1 - chunk.start);
            TreeText { text: lines.collect(), changed: *changed }
        };
        keys.iter().map(text).collect()
    }

    /// A file as it is now, and whether that is not what was indexed.
    pub(crate) fn content(&self, row: usize) -> (String, bool) {
        if let Some(overlay) = &self.overlay
            && row >= self.files.len()
        {
            return (overlay.text(row - self.files.len()).to_owned(), false);
        }
        let (path, head) = (self.files.path(row), self.files.head(row));
        let read = open(&self.root.join(path)).and_then(|opened| Ok((opened.stamp, opened.read(FILE_BYTES_MAX)?)));
        let indexable = read.ok().filter(|(_, bytes)| why_bare(path, bytes).is_none());
        let Some((stamp, bytes)) = indexable else { return (String::new(), true) };
        // A stamp that is believed spares the digest of the whole file.
        let same = head.settled && stamp == head.stamp;
        let changed = !same && content_key(&bytes) != head.key;
        let text = String::from_utf8(bytes);
        (text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()), changed)
    }
}

impl Living for View {
    fn path(&self, file: FileNo) -> Option<&str> {
        self.row_of(file).map(|row| View::path(self, row))
    }
}

impl Tree for View {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let row = self.row(path)?;
        Some(self.content(row as usize).0.into_bytes())
    }
}

fn is_gone(error: &SegmentError) -> bool {
    matches!(error, SegmentError::Io(error) if error.kind() == std::io::ErrorKind::NotFound)
}

/// Like a look into [`by_hash`], for a table that is not worth sorting.
fn by_hash_of_few(files: &Files, first_row: usize, wanted: PieceHash) -> Vec<ChunkKey> {
    let keys = (0..files.len()).flat_map(|row| {
        let fits = files.hashes(row).enumerate().filter(move |(_, hash)| *hash == wanted);
        fits.map(move |(at, _)| ((first_row + row) as u32, at as u32))
    });
    keys.collect()
}

fn by_hash(files: &Files) -> Vec<(PieceHash, ChunkKey)> {
    let of = |row: usize| files.hashes(row).enumerate().map(move |(at, hash)| (hash, (row as u32, at as u32)));
    let mut all: Vec<_> = (0..files.len()).flat_map(of).collect();
    all.par_sort_unstable();
    all
}

fn open_vectors(
    place: &Place<'_>,
    record: Option<&VectorRecord>,
    notes: &mut Vec<String>,
) -> Result<Option<Arc<Vectors>>, String> {
    let (Some(record), Some(embedder)) = (record, place.embedder) else {
        if place.embedder.is_some() {
            notes.push("nothing has a vector yet; a refresh makes them".to_owned());
        }
        return Ok(None);
    };
    if !record.is_of(embedder) {
        notes.push(format!("the vectors are those of {:?}; a refresh makes new ones", record.embedder));
        return Ok(None);
    }
    if record.missing > 0 {
        notes.push(format!("{} chunks have no vector yet", record.missing));
    }
    if let Some(vectors) = place.memory.vectors_in(&record.directory) {
        return Ok(Some(vectors));
    }
    let opened = Vectors::open(&place.store.join(&record.directory), embedder.name(), embedder.dimension());
    opened.map(|vectors| Some(Arc::new(vectors))).map_err(|error| {
        notes.push(format!("{error}; a refresh rebuilds it"));
        error.to_string()
    })
}
