//! How does the index come to agree with the tree?
//!
//! Walk, read what changed into all lanes at once, then commit: the segments of our own lanes and of the table of files
//! are on disk, the text lane commits under the next generation, and the manifest is replaced by rename. Nothing that
//! the old manifest names was touched by then, so a process that dies at any moment leaves either the old state or the
//! new one, and both answer. Vectors are named by content and may come at any time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashSet;

use crate::commit::{Change, Commit};
use crate::diff::{Diff, Scope, diff};
use crate::embed::Embedder;
use crate::embedding::{Embedded, Embedding};
use crate::files::Files;
use crate::hash::PieceHash;
use crate::lane::LaneError;
use crate::lexical::LexicalError;
use crate::manifest::{Manifest, VectorRecord};
use crate::pace::{Steps, Ticker};
use crate::pipeline::{Lanes, Outcome, Written, run};
use crate::plan::{Old, Plan, Writable, writable_vectors};
use crate::report::{Report, Skipped, Stage};
use crate::store::WriterLock;
use crate::vector::Vectors;
use crate::walk::{Entry, walk_scope};

/// Rows of vectors that no file needs are kept, for a branch that comes back, while they are fewer than those that
/// are needed and this many.
const STALE_VECTORS: usize = 1024;

/// The vectors of so few files, of a part of the tree, may wait to be written.
const HELD_FILES_MAX: usize = 16;

/// Why a refresh did not happen. What was committed before still answers.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// Another process or handle holds the store.
    #[error("another process is refreshing this index")]
    Busy,
    /// The caller asked to stop.
    #[error("the refresh was cancelled")]
    Cancelled,
    /// The root cannot be listed any more. The index keeps what it has.
    #[error("cannot read the tree at {path}: {source}")]
    Root {
        /// The root.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store cannot be written (no room, no right).
    #[error("cannot write the index in {path}: {source}")]
    Store {
        /// The store.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A lane cannot be written.
    #[error("cannot write the index: {0}")]
    Lane(String),
    /// A test stopped the refresh before a store operation, as a crash would.
    #[cfg(test)]
    #[error("stopped before {0}")]
    Stopped(&'static str),
}

impl From<LexicalError> for RefreshError {
    fn from(error: LexicalError) -> RefreshError {
        RefreshError::Lane(error.to_string())
    }
}

impl From<LaneError> for RefreshError {
    fn from(error: LaneError) -> RefreshError {
        RefreshError::Lane(error.to_string())
    }
}

/// What a refresh is asked to do.
pub(crate) struct Task<'a> {
    pub store: &'a Path,
    pub root: &'a Path,
    pub embedder: Option<&'a dyn Embedder>,
    pub scope: Scope,
    pub steps: &'a Steps,
}

/// What a refresh did, and the state that it left.
pub(crate) struct Refreshed {
    pub report: Report,
    pub manifest: Manifest,
    pub files: Files,
}

/// What one handle remembers from one refresh to the next, to spare itself work. Never needed to be right.
#[derive(Default)]
pub(crate) struct Memory {
    /// Whether all checksums of the store were compared once.
    verified: bool,
    /// The vectors that were there after the last refresh of this generation.
    vectors: Option<(u64, Writable)>,
}

impl Memory {
    /// The vectors of a directory, where this handle has them open: opening them costs more than keeping them.
    pub(crate) fn vectors_in(&self, directory: &str) -> Option<Arc<Vectors>> {
        let (_, writable) = self.vectors.as_ref()?;
        (writable.directory == directory).then(|| Arc::clone(&writable.vectors))
    }
}

/// See [`crate::Index::refresh`].
pub(crate) fn refresh<'a>(task: Task<'a>, memory: &mut Memory, ticker: Ticker<'a>) -> Result<Refreshed, RefreshError> {
    let store_error = |source| RefreshError::Store { path: task.store.to_path_buf(), source };
    let _lock = WriterLock::acquire(task.store).map_err(store_error)?.ok_or(RefreshError::Busy)?;
    // An unreadable root would look like a tree from which everything was deleted.
    std::fs::read_dir(task.root).map_err(|source| RefreshError::Root { path: task.root.to_path_buf(), source })?;
    task.steps.next("opening the lanes")?;
    let mut plan = Plan::make(task.store, task.root, memory.verified)?;
    let report = Report { rebuilt: plan.rebuilt.clone(), ..Report::default() };
    let old = plan.old.take();
    // A part of the tree is no start for what must be built anew.
    let scope = if old.is_some() { task.scope.clone() } else { Scope::Tree };
    Run { task, scope, memory, ticker, report, plan }.all(old)
}

struct Run<'a, 'memory> {
    task: Task<'a>,
    scope: Scope,
    memory: &'memory mut Memory,
    ticker: Ticker<'a>,
    report: Report,
    plan: Plan,
}

impl Run<'_, '_> {
    fn all(mut self, old: Option<Old>) -> Result<Refreshed, RefreshError> {
        let start = Instant::now();
        let (entries, skipped) = self.walk()?;
        self.report.seconds.walk = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let (old, files) = old.map(|Old { manifest, files }| (manifest, files)).unzip();
        let mut writable = self.open_vectors(old.as_ref());
        let files = files.unwrap_or_default();
        let present = writable.as_ref().map(|writable| &writable.present).zip(self.task.embedder);
        let diff = diff(&self.scope, &files, entries, present, self.plan.next_file);
        let mut change = Change { skipped, ..Change::default() };
        let embedded = self.read(&diff, &files, &mut change, writable.as_ref())?;
        self.report.seconds.chunk = start.elapsed().as_secs_f64() - self.report.seconds.embed;

        let old_skips = old.as_ref().map_or(&[][..], |old| &old.skipped);
        change.skipped = self.scope.join_skips(old_skips, std::mem::take(&mut change.skipped));
        let all = change.applied_to(files);
        change.vector = match (&mut writable, embedded) {
            (Some(writable), Some(embedded)) => Some(self.settle_vectors(writable, embedded, &all)?),
            // Without an embedder the rows stay; how many are missing is not known, and the next refresh looks.
            _ => self.plan.vector.take(),
        };

        let start = Instant::now();
        self.ticker.tick(Stage::Commit, 0, 1)?;
        let commit = Commit { store: self.task.store, root: self.task.root, steps: self.task.steps };
        let manifest = commit.write(&mut self.plan, old.as_ref(), change, &all)?;
        self.report.seconds.commit = start.elapsed().as_secs_f64();
        self.memory.verified = true;
        self.memory.vectors = writable.map(|writable| (manifest.generation, writable));
        self.report.generation = manifest.generation;
        self.describe(&all, &manifest.skipped);
        self.ticker.say(Stage::Commit, 1, 1);
        Ok(Refreshed { report: self.report, manifest, files: all })
    }

    fn walk(&mut self) -> Result<(Vec<Entry>, Vec<Skipped>), RefreshError> {
        let ticker = &mut self.ticker;
        let mut stopped = None;
        let walked = walk_scope(self.task.root, &self.scope, &mut |found| match ticker.tick(Stage::Walk, found, 0) {
            Ok(()) => true,
            Err(error) => {
                stopped = Some(error);
                false
            }
        });
        match stopped {
            Some(error) => Err(error),
            None => Ok((walked.files, walked.skipped)),
        }
    }

    /// The rows that exist are needed before the files are read, to embed only what has none.
    fn open_vectors(&mut self, old: Option<&Manifest>) -> Option<Writable> {
        let embedder = self.task.embedder?;
        if let Some((generation, writable)) = self.memory.vectors.take()
            && old.is_some_and(|old| old.generation == generation)
        {
            return Some(writable);
        }
        match writable_vectors(self.task.store, embedder) {
            Ok(mut writable) => {
                let own = |vector: &VectorRecord| vector.is_of(embedder);
                if self.plan.vector.as_ref().is_none_or(own) {
                    let damage = writable.damage.take();
                    self.report.notes.extend(damage.map(|why| format!("the vectors were made anew: {why}")));
                    self.plan.broken.append(&mut writable.broken);
                }
                Some(writable)
            }
            Err(error) => {
                self.report.notes.push(error.to_string());
                None
            }
        }
    }

    /// Reads the jobs into all lanes and notes what became of them.
    fn read(
        &mut self,
        diff: &Diff,
        files: &Files,
        change: &mut Change,
        writable: Option<&Writable>,
    ) -> Result<Option<Embedded>, RefreshError> {
        self.report.files_unchanged += diff.unchanged;
        change.dead.extend(diff.gone.iter().map(|row| files.head(*row).file.0));
        self.report.files_removed += diff.gone.iter().filter(|row| !files.is_bare(**row)).count();
        self.plan.next_file = self.plan.next_file.saturating_add(diff.jobs.len() as u32);
        if diff.jobs.is_empty() {
            return Ok(writable.map(|_| Embedded::default()));
        }
        let store = self.task.store;
        self.task.steps.next("opening the writer of the text lane")?;
        let writer = self.plan.lexical.writer()?;
        // A look at the whole tree may be the last thing that this process does.
        let holds = !matches!(self.scope, Scope::Tree) && diff.jobs.len() <= HELD_FILES_MAX;
        let embedding = writable
            .zip(self.task.embedder)
            .map(|(writable, embedder)| Embedding::new(embedder, &writable.vectors, &writable.present, holds));
        let lanes = Lanes { text: &writer, store, embedding: embedding.as_ref() };
        let read_at = now_nanos();
        let report = &mut self.report;
        let mut is_new = false;
        let written = run(&diff.jobs, &lanes, self.task.steps, &mut self.ticker, &mut |at, outcome| {
            let job = &diff.jobs[at];
            let was_indexed = diff.rows[at].is_some_and(|row| !files.is_bare(row));
            match outcome {
                Outcome::Skipped(reason) => {
                    change.skipped.push(Skipped { path: job.path.clone(), reason });
                    report.files_removed += usize::from(was_indexed);
                    change.dead.extend(job.known.map(|(file, _)| file.0));
                }
                Outcome::Same(stamp) => {
                    report.files_unchanged += usize::from(was_indexed);
                    let row = diff.rows[at].expect("only a known file can be the same");
                    change.restamp(files, row, stamp, read_at);
                }
                Outcome::Indexed(document) => {
                    is_new = true;
                    match document.bare {
                        None => report.files_indexed += 1,
                        Some(_) => report.files_removed += usize::from(was_indexed),
                    }
                    change.dead.extend(job.known.map(|(file, _)| file.0));
                    change.files.add_document(&document, read_at);
                }
            }
        })?;
        let Written { segments, embedded, embed_seconds } = written;
        report.seconds.embed = embed_seconds;
        change.segments = segments;
        change.writer = is_new.then_some(writer);
        Ok(embedded)
    }

    /// Notes what came of the vectors, and drops those that nobody has needed for long.
    fn settle_vectors(
        &mut self,
        writable: &mut Writable,
        embedded: Embedded,
        all: &Files,
    ) -> Result<VectorRecord, RefreshError> {
        let embedder = self.task.embedder.expect("there are no vectors without an embedder");
        // A look at the whole tree leaves nothing unwritten that earlier ones held back.
        if matches!(self.scope, Scope::Tree)
            && let Err(error) = writable.vectors.add(&[])
        {
            self.report.notes.push(error.to_string());
        }
        self.report.vectors_embedded = embedded.hashes.len();
        writable.present.extend(embedded.hashes);
        let mut missing = 0;
        let is_crowded = writable.present.len() > 2 * all.chunks_in_all() + STALE_VECTORS;
        let were_missing = self.plan.vector.as_ref().is_some_and(|vector| vector.missing > 0);
        if embedded.failure.is_some() || were_missing || is_crowded {
            let needed: FxHashSet<PieceHash> = (0..all.len()).flat_map(|row| all.embedded(row, embedder)).collect();
            missing = needed.iter().filter(|hash| !writable.present.contains(hash)).count();
            if is_crowded {
                self.drop_stale(writable, &needed)?;
            }
        }
        self.report.notes.extend(embedded.failure);
        if self.report.vectors_embedded > 0
            && let Err(error) = writable.vectors.tidy()
        {
            self.report.notes.push(error.to_string());
        }
        Ok(VectorRecord {
            directory: writable.directory.clone(),
            embedder: embedder.name().to_owned(),
            dimension: embedder.dimension(),
            missing,
        })
    }

    fn drop_stale(&mut self, writable: &mut Writable, needed: &FxHashSet<PieceHash>) -> Result<(), RefreshError> {
        let mut stale: Vec<PieceHash> = writable.present.difference(needed).copied().collect();
        stale.sort();
        self.task.steps.next("removing vectors")?;
        match writable.vectors.remove(&stale) {
            Ok(()) => writable.present.retain(|hash| needed.contains(hash)),
            Err(error) => self.report.notes.push(error.to_string()),
        }
        Ok(())
    }

    fn describe(&mut self, all: &Files, skipped: &[Skipped]) {
        self.report.chunks = all.chunks_in_all();
        self.report.definitions = all.definitions_in_all();
        self.report.lines = all.lines_in_all();
        let lossy = (0..all.len()).filter(|row| all.head(*row).lossy);
        self.report.files_decoded_lossily = lossy.map(|row| all.path(row).to_owned()).collect();
        self.report.files_skipped = skipped.iter().cloned().chain(all.bare()).collect();
        self.report.files_skipped.sort();
    }
}

pub(crate) fn now_nanos() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
