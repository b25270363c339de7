//! How do vectors get made while the files are still being read?
//!
//! The readers offer the texts of pieces that have no vector; one thread takes them off a bounded queue, asks the
//! embedder and writes rows. A slow embedder slows the readers, and no more texts are held than the queue has room for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use crate::document::Document;
use crate::embed::{Embedder, embed_checked};
use crate::hash::PieceHash;
use crate::pace::Steps;
use crate::refresh::RefreshError;
use crate::vector::Vectors;

/// Texts sorted by length before they are cut into batches, so that few are padded to one long text. Each has at most
/// 2000 bytes and a name: 1 MiB.
const SORTED_TEXTS: usize = 512;
/// Documents whose texts may wait. One has at most 2 MiB and overlaps: 24 MiB.
pub(crate) const QUEUE_DOCUMENTS: usize = 8;
/// Rows written to the vector lane at a time: 8 MiB at 256 dimensions ...
const ROWS_BATCH: usize = 8192;
/// ... or so often, which is what a killed refresh can lose.
const ROWS_EVERY: Duration = Duration::from_secs(5);

/// The texts of one document that have no vector.
pub(crate) type Texts = Vec<(PieceHash, String)>;

/// The vector lane while it is being written.
pub(crate) struct Embedding<'a> {
    pub embedder: &'a dyn Embedder,
    pub vectors: &'a Vectors,
    /// Whether the rows are few and may wait to be written.
    holds: bool,
    /// Pieces that have a vector or whose text was offered.
    offered: Mutex<FxHashSet<PieceHash>>,
    /// Texts offered and vectors made, for those who want to know how far we are.
    pub asked: AtomicUsize,
    pub made: AtomicUsize,
}

/// How it ended.
#[derive(Debug, Default)]
pub(crate) struct Embedded {
    pub hashes: Vec<PieceHash>,
    /// What went wrong, if anything did. The other lanes are whole all the same.
    pub failure: Option<String>,
}

impl<'a> Embedding<'a> {
    pub(crate) fn new(
        embedder: &'a dyn Embedder,
        vectors: &'a Vectors,
        present: &FxHashSet<PieceHash>,
        holds: bool,
    ) -> Self {
        let (asked, made) = Default::default();
        Embedding { embedder, vectors, holds, offered: Mutex::new(present.clone()), asked, made }
    }

    /// The texts of a document that nobody offered before.
    pub(crate) fn texts(&self, document: &Document) -> Texts {
        let mut offered = self.offered.lock().expect("no panic while locked");
        let all = !self.embedder.skips_small();
        let wanted = document.chunks.iter().filter(|chunk| all || !chunk.is_small());
        let new = wanted.filter(|chunk| offered.insert(chunk.hash));
        let texts: Texts = new.map(|chunk| (chunk.hash, chunk.embedding_text(&document.text))).collect();
        self.asked.fetch_add(texts.len(), Ordering::Relaxed);
        texts
    }

    /// Embeds what comes until nothing more can come. Stopped, it writes the rows that it has.
    pub(crate) fn run(
        &self,
        queue: &Receiver<Texts>,
        stop: &AtomicBool,
        steps: &Steps,
    ) -> Result<Embedded, RefreshError> {
        let mut rows = Rows { at: Instant::now(), waiting: Vec::new(), embedded: Embedded::default() };
        let mut texts: Texts = Vec::new();
        loop {
            let more = queue.recv();
            let is_end = more.is_err();
            texts.extend(more.unwrap_or_default());
            if texts.len() >= SORTED_TEXTS || is_end {
                texts.sort_unstable_by_key(|(hash, text)| (text.len(), *hash));
                self.embed(&mut texts, &mut rows, stop, steps)?;
            }
            if is_end || rows.embedded.failure.is_some() || stop.load(Ordering::Relaxed) {
                self.write(&mut rows, steps)?;
                return Ok(rows.embedded);
            }
        }
    }

    fn embed(&self, texts: &mut Texts, rows: &mut Rows, stop: &AtomicBool, steps: &Steps) -> Result<(), RefreshError> {
        let texts_max = self.embedder.texts_max().max(1);
        while !texts.is_empty() && !stop.load(Ordering::Relaxed) {
            let (hashes, batch): (Vec<_>, Vec<_>) = texts.drain(..texts_max.min(texts.len())).unzip();
            match embed_checked(self.embedder, &batch) {
                Ok(vectors) => rows.waiting.extend(hashes.into_iter().zip(vectors)),
                Err(error) => {
                    rows.embedded.failure = Some(error.to_string());
                    return Ok(());
                }
            }
            self.made.fetch_add(batch.len(), Ordering::Relaxed);
            if rows.waiting.len() >= ROWS_BATCH || rows.at.elapsed() >= ROWS_EVERY {
                self.write(rows, steps)?;
            }
        }
        Ok(())
    }

    fn write(&self, rows: &mut Rows, steps: &Steps) -> Result<(), RefreshError> {
        if rows.waiting.is_empty() {
            return Ok(());
        }
        steps.next("adding vectors")?;
        let waiting = std::mem::take(&mut rows.waiting);
        let written = if self.holds { self.vectors.hold(&waiting) } else { self.vectors.add(&waiting) };
        match written {
            Ok(()) => rows.embedded.hashes.extend(waiting.iter().map(|(hash, _)| *hash)),
            Err(error) => rows.embedded.failure = Some(error.to_string()),
        }
        rows.at = Instant::now();
        Ok(())
    }
}

struct Rows {
    /// When rows were written the last time.
    at: Instant,
    waiting: Vec<(PieceHash, Vec<f32>)>,
    embedded: Embedded,
}
