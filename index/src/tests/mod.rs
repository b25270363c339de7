//! Does the crate keep its promises when driven from outside? Trees, stores and an embedder for the tests.

mod bare;
mod chunks;
mod crash;
mod differential;
mod grep;
mod navigate;
mod outline;
mod outline_edges;
mod overlay;
mod references;
mod scale;
mod search;
mod skips;
mod symbols;
mod symbols_measured;
mod text_lane;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::classify::Class;
use crate::hash::{ContentKey, PieceHash};
use crate::manifest::Manifest;
use crate::symbols::{Living, SymbolPlace};
use crate::tokenize::words;
use crate::{EmbedError, Embedder, Index, Kind, Query, RefreshError, Report, SkipReason, Skipped};

/// Maps a text to counts of its words, each word at a place that its hash names: the same words, the same direction.
pub(crate) struct WordCounts {
    name: String,
    /// Texts embedded so far.
    pub count: AtomicUsize,
    pub fails: AtomicBool,
}

impl WordCounts {
    pub(crate) fn new() -> Arc<WordCounts> {
        WordCounts::named("word-counts")
    }

    pub(crate) fn named(name: &str) -> Arc<WordCounts> {
        Arc::new(WordCounts { name: name.to_owned(), count: AtomicUsize::new(0), fails: AtomicBool::new(false) })
    }
}

impl Embedder for WordCounts {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        64
    }

    fn texts_max(&self) -> usize {
        7
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        assert!(texts.len() <= self.texts_max(), "a call brings no more texts than were asked for");
        if self.fails.load(Ordering::Relaxed) {
            return Err(EmbedError::Failed("switched off".to_owned()));
        }
        self.count.fetch_add(texts.len(), Ordering::Relaxed);
        let one = |text: &String| {
            let mut vector = vec![0.01; 64];
            for word in words(text) {
                vector[(PieceHash::of(&[word.text.as_bytes()]).to_bytes()[0] % 64) as usize] += 1.0;
            }
            vector
        };
        Ok(texts.iter().map(one).collect())
    }
}

/// A tree and a store in temporary directories.
pub(crate) struct Bench {
    _directory: tempfile::TempDir,
    pub root: PathBuf,
    pub store: PathBuf,
    pub embedder: Option<Arc<WordCounts>>,
}

impl Bench {
    pub(crate) fn new(embedder: Option<Arc<WordCounts>>) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let (root, store) = (directory.path().join("tree"), directory.path().join("store"));
        fs::create_dir(&root).unwrap();
        Bench { root, store, embedder, _directory: directory }
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap();
    }

    pub(crate) fn open(&self) -> Index {
        self.open_at(&self.store)
    }

    pub(crate) fn open_at(&self, store: &Path) -> Index {
        let embedder = self.embedder.clone().map(|embedder| embedder as Arc<dyn Embedder>);
        Index::open(store, &self.root, embedder).unwrap()
    }

    /// Opens and refreshes.
    pub(crate) fn index(&self) -> (Index, Report) {
        let mut index = self.open();
        let report = refresh(&mut index).unwrap();
        (index, report)
    }

    /// What a refresh into an empty store gives.
    pub(crate) fn cold(&self) -> Index {
        let store = self.store.with_file_name("cold");
        let _ = fs::remove_dir_all(&store);
        let mut index = self.open_at(&store);
        refresh(&mut index).unwrap();
        index
    }
}

pub(crate) fn refresh(index: &mut Index) -> Result<Report, RefreshError> {
    index.refresh(&mut |_| {}, &AtomicBool::new(false))
}

/// Paths of the hits, best first.
pub(crate) fn paths(index: &Index, text: &str) -> Vec<String> {
    index.search(&Query::new(text)).unwrap().hits.into_iter().map(|hit| hit.path).collect()
}

/// Everything that an index holds, in comparable form. Numbers of files are left out: they tell how the index came to
/// be, and no answer names them.
#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    files: BTreeMap<String, File>,
    /// Chunks that the text lane holds, of living files.
    texts: BTreeSet<(String, usize)>,
    /// Pieces that have a vector and a file that needs it.
    vectors: BTreeSet<PieceHash>,
    /// The names that each file uses and does not define.
    uses: BTreeMap<String, BTreeSet<String>>,
    skipped: Vec<Skipped>,
}

type File = (ContentKey, Class, Option<SkipReason>, u32, Vec<Piece>, Vec<Defined>);
/// Name, kind, lines, whether others see it.
type Defined = (String, Kind, usize, usize, bool);
type Piece = (PieceHash, usize, usize, Option<String>, Option<Kind>);

pub(crate) fn contents(index: &Index) -> Contents {
    let view = index.view();
    let files = &view.files;
    let file = |row: usize| {
        let head = files.head(row);
        let piece = |c: crate::files::ChunkRef<'_>| (c.hash, c.start, c.end, c.symbol.map(str::to_owned), c.kind);
        let pieces = files.chunks(row).map(piece).collect();
        let defined = |p: SymbolPlace| (p.qualified(), p.kind, p.start_line, p.end_line, p.exported);
        let definitions = view.outline(row as u32).into_iter().map(defined).collect();
        (files.path(row).to_owned(), (head.key, head.class, head.bare, head.lines, pieces, definitions))
    };
    let ids = view.lexical.as_ref().unwrap().everything();
    let texts = ids.into_iter().filter_map(|id| view.key_of(id));
    let vectors = view.vectors.as_ref().unwrap().as_ref().map(|vectors| vectors.hashes().unwrap()).unwrap_or_default();
    let needed = |hash: &PieceHash| view.keys_of_hash(*hash).next().is_some();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let symbols = view.symbols();
    let mut note = |name: &str, file| {
        if let Some(path) = Living::path(view, file) {
            uses.entry(path.to_owned()).or_default().insert(name.to_owned());
        }
    };
    let each = symbols.each_name(|name, postings| {
        for (segment, posting) in postings {
            posting.used_in.iter().for_each(|place| note(name, segment.file(*place).unwrap()));
        }
    });
    each.unwrap();
    Contents {
        uses,
        files: (0..files.len()).map(file).collect(),
        texts: texts.map(|(row, at)| (files.path(row as usize).to_owned(), at as usize)).collect(),
        vectors: vectors.into_iter().filter(needed).collect(),
        skipped: Manifest::read(index.store()).unwrap().unwrap().skipped,
    }
}
