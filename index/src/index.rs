//! What can one hold in the hand? An [`Index`]: opened over a store and a tree, refreshed, asked.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::admit::admit;
use crate::chunk::ChunkRecord;
use crate::embed::Embedder;
use crate::lexical::Lexical;
use crate::manifest::{FileRecord, Manifest, VectorRecord};
use crate::pace::Steps;
use crate::refresh::{RefreshError, refresh};
use crate::report::{Progress, Report, SkipReason, skip_counts};
use crate::search::{Answer, Lane, Query, SearchError, lanes, search};
use crate::symbols::{SymbolAnswer, SymbolTable};
use crate::vector::Vectors;

/// A code index: one store over one tree. Several may be open on one store; one of them refreshes at a time, and the
/// others keep answering from what they opened.
pub struct Index {
    store: PathBuf,
    root: PathBuf,
    embedder: Option<Arc<dyn Embedder>>,
    view: View,
}

/// Why an index could not be opened. A damaged store is no reason: it opens, says so, and the next refresh rebuilds.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The tree is not there, or is no directory.
    #[error("cannot index {path}: {source}")]
    Root {
        /// The root as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store's directory could not be made.
    #[error("cannot use {path} as the store of an index: {source}")]
    Store {
        /// The store as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What an index holds, without asking it anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// 0 where nothing was ever indexed.
    pub generation: u64,
    /// Seconds since the last refresh.
    pub age_seconds: u64,
    /// Indexed files.
    pub files: usize,
    /// Chunks of them.
    pub chunks: usize,
    /// Definitions in them.
    pub definitions: usize,
    /// Lines in them.
    pub lines: usize,
    /// What does not work, in sentences.
    pub notes: Vec<String>,
}

impl Index {
    /// Opens the index in `store_dir` (made if it is missing) over the tree at `root`. Reads what is there and
    /// changes nothing else; call [`Index::refresh`] to bring it up to date.
    pub fn open(store_dir: &Path, root: &Path, embedder: Option<Arc<dyn Embedder>>) -> Result<Index, OpenError> {
        let root_error = |source| OpenError::Root { path: root.to_path_buf(), source };
        let real_root = root.canonicalize().map_err(root_error)?;
        if !real_root.is_dir() {
            return Err(root_error(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let store_error = |source| OpenError::Store { path: store_dir.to_path_buf(), source };
        std::fs::create_dir_all(store_dir).map_err(store_error)?;
        let store = store_dir.canonicalize().map_err(store_error)?;
        let view = View::load(&store, &real_root, embedder.as_deref());
        Ok(Index { store, root: real_root, embedder, view })
    }

    /// Makes the index agree with the tree: reads what changed, forgets what is gone, commits, and answers from the
    /// new state. Stopped by `cancel` it leaves the committed state as it was and keeps the vectors computed so far.
    pub fn refresh(
        &mut self,
        on_progress: &mut dyn FnMut(Progress),
        cancel: &AtomicBool,
    ) -> Result<Report, RefreshError> {
        self.refresh_in_steps(on_progress, cancel, &Steps::all())
    }

    pub(crate) fn refresh_in_steps(
        &mut self,
        on_progress: &mut dyn FnMut(Progress),
        cancel: &AtomicBool,
        steps: &Steps,
    ) -> Result<Report, RefreshError> {
        let report = refresh(&self.store, &self.root, self.embedder.as_deref(), on_progress, cancel, steps)?;
        self.view = View::load(&self.store, &self.root, self.embedder.as_deref());
        Ok(report)
    }

    /// The best hits for a question. Never fails because the store is damaged: the lanes that work answer, and the
    /// notes say which did not.
    pub fn search(&self, query: &Query) -> Result<Answer, SearchError> {
        search(&self.view, self.embedder.as_deref(), query)
    }

    /// What each lane finds by itself: files, best first. For those who choose weights.
    pub fn lanes(&self, query: &Query) -> Result<Vec<(Lane, Vec<String>)>, SearchError> {
        lanes(&self.view, self.embedder.as_deref(), query)
    }

    /// The definition of a name: plain (`close`), qualified (`Session.close`, `Session::close`), or with its file
    /// (`src/session.py:Session.close`).
    pub fn symbol(&self, name: &str) -> SymbolAnswer {
        self.view.symbols.lookup(&self.view.files, name)
    }

    /// What the index holds.
    pub fn status(&self) -> Status {
        let files = self.view.files.iter().map(|(_, record)| record);
        Status {
            generation: self.view.generation,
            age_seconds: self.view.age_seconds(),
            files: self.view.files.len(),
            chunks: files.clone().map(|record| record.chunks.len()).sum(),
            definitions: files.clone().map(|record| record.definitions.len()).sum(),
            lines: files.map(|record| record.lines).sum(),
            notes: self.view.notes.clone(),
        }
    }

    /// The tree, with symbolic links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[cfg(test)]
    pub(crate) fn view(&self) -> &View {
        &self.view
    }
}

/// A chunk as (index of the file, index in the file).
pub(crate) type ChunkKey = (u32, u32);

/// One committed state, opened for reading. Loading never fails: what cannot be opened is missing and noted.
pub(crate) struct View {
    root: PathBuf,
    pub generation: u64,
    refreshed_at: u64,
    pub files: Vec<(String, FileRecord)>,
    pub symbols: SymbolTable,
    pub skipped: BTreeMap<SkipReason, usize>,
    pub lexical: Result<Lexical, String>,
    pub vectors: Result<Option<Vectors>, String>,
    pub notes: Vec<String>,
    by_id: HashMap<u64, ChunkKey>,
    by_hash: HashMap<String, Vec<ChunkKey>>,
}

impl View {
    /// A writer may commit between the reading of the manifest and the opening of the lanes; then it is read again.
    pub(crate) fn load(store: &Path, root: &Path, embedder: Option<&dyn Embedder>) -> View {
        let mut view = View::load_once(store, root, embedder);
        for _ in 0..2 {
            if !view.is_torn() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            view = View::load_once(store, root, embedder);
        }
        if view.is_torn() {
            view.notes.push("the index was not committed to its end; a refresh repairs it".to_owned());
        }
        view
    }

    fn is_torn(&self) -> bool {
        self.lexical.as_ref().is_ok_and(|lexical| lexical.generation() != Some(self.generation))
    }

    fn load_once(store: &Path, root: &Path, embedder: Option<&dyn Embedder>) -> View {
        let manifest = match Manifest::read(store) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return View::empty(root, "nothing is indexed yet; a refresh does it".to_owned()),
            Err(error) => return View::empty(root, format!("{error}; a refresh rebuilds the index")),
        };
        let mut notes = Vec::new();
        let lexical = Lexical::open(&store.join(&manifest.lexical_directory)).map_err(|error| error.to_string());
        if let Err(error) = &lexical {
            notes.push(format!("{error}; a refresh rebuilds it"));
        }
        let vectors = open_vectors(store, manifest.vector.as_ref(), embedder, &mut notes);
        let skipped = skip_counts(&manifest.skipped);
        let files: Vec<(String, FileRecord)> = manifest.files.into_iter().collect();
        let (by_id, by_hash) = keys(&files);
        View {
            root: root.to_path_buf(),
            generation: manifest.generation,
            refreshed_at: manifest.refreshed_at,
            symbols: SymbolTable::of(&files),
            files,
            skipped,
            lexical,
            vectors,
            notes,
            by_id,
            by_hash,
        }
    }

    fn empty(root: &Path, note: String) -> View {
        View {
            root: root.to_path_buf(),
            generation: 0,
            refreshed_at: 0,
            files: Vec::new(),
            symbols: SymbolTable::default(),
            skipped: BTreeMap::new(),
            lexical: Err(note.clone()),
            vectors: Ok(None),
            notes: vec![note],
            by_id: HashMap::new(),
            by_hash: HashMap::new(),
        }
    }

    pub(crate) fn age_seconds(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        now.saturating_sub(self.refreshed_at)
    }

    pub(crate) fn chunk(&self, (file, at): ChunkKey) -> (&str, &ChunkRecord) {
        let (path, record) = &self.files[file as usize];
        (path, &record.chunks[at as usize])
    }

    pub(crate) fn key_of(&self, id: u64) -> Option<ChunkKey> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn keys_of_hash(&self, hash: &str) -> impl Iterator<Item = ChunkKey> {
        self.by_hash.get(hash).into_iter().flatten().copied()
    }

    /// The chunk of a file that holds the first line of a definition. Where several do (overlaps, a class and its
    /// first method), the one that ends with or before the definition, and of those the first.
    pub(crate) fn chunk_at(&self, file: u32, first: usize, last: usize) -> Option<ChunkKey> {
        let chunks = &self.files[file as usize].1.chunks;
        let holds = |chunk: &&ChunkRecord| chunk.start <= first && first <= chunk.end;
        let at = chunks
            .iter()
            .enumerate()
            .filter(|(_, chunk)| holds(chunk))
            .min_by_key(|(at, chunk)| (chunk.end > last, *at))
            .map(|(at, _)| at)?;
        Some((file, at as u32))
    }

    /// The texts of chunks, in their order. Where the text lane is damaged they come from the tree as it is now.
    pub(crate) fn texts(&self, keys: &[ChunkKey]) -> Vec<String> {
        let ids: Vec<u64> = keys.iter().map(|key| self.chunk(*key).1.id).collect();
        let mut texts = match &self.lexical {
            Ok(lexical) => lexical.texts(&ids).unwrap_or_default(),
            Err(_) => HashMap::new(),
        };
        let text = |(key, id): (&ChunkKey, &u64)| texts.remove(id).unwrap_or_else(|| self.text_of_tree(*key));
        keys.iter().zip(&ids).map(text).collect()
    }

    fn text_of_tree(&self, key: ChunkKey) -> String {
        let (path, chunk) = self.chunk(key);
        let Ok(admitted) = admit(&self.root.join(path)) else { return String::new() };
        let (text, _) = admitted.text();
        text.split_inclusive('\n').skip(chunk.start - 1).take(chunk.end + 1 - chunk.start).collect()
    }
}

type Keys = (HashMap<u64, ChunkKey>, HashMap<String, Vec<ChunkKey>>);

fn keys(files: &[(String, FileRecord)]) -> Keys {
    let (mut by_id, mut by_hash): Keys = Default::default();
    for (file, (_, record)) in files.iter().enumerate() {
        for (at, chunk) in record.chunks.iter().enumerate() {
            let key = (file as u32, at as u32);
            by_id.insert(chunk.id, key);
            by_hash.entry(chunk.hash.clone()).or_default().push(key);
        }
    }
    (by_id, by_hash)
}

fn open_vectors(
    store: &Path,
    record: Option<&VectorRecord>,
    embedder: Option<&dyn Embedder>,
    notes: &mut Vec<String>,
) -> Result<Option<Vectors>, String> {
    let (Some(record), Some(embedder)) = (record, embedder) else {
        if embedder.is_some() {
            notes.push("nothing has a vector yet; a refresh makes them".to_owned());
        }
        return Ok(None);
    };
    if record.embedder != embedder.name() || record.dimension != embedder.dimension() {
        notes.push(format!("the vectors are those of {:?}; a refresh makes new ones", record.embedder));
        return Ok(None);
    }
    if record.missing > 0 {
        notes.push(format!("{} chunks have no vector yet", record.missing));
    }
    Vectors::open(&store.join(&record.directory), embedder.name(), embedder.dimension()).map(Some).map_err(|error| {
        notes.push(format!("{error}; a refresh rebuilds it"));
        error.to_string()
    })
}
