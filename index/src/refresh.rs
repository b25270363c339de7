//! How does the index come to agree with the tree?
//!
//! Walk, read what changed, write the text lane, write the missing vectors, then commit: the text lane under the next
//! generation, then the manifest by rename. A process that dies before the rename leaves the old manifest; if the
//! text lane was committed already, their generations differ and the next refresh builds a new text lane beside it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::admit::{Admitted, admit};
use crate::chunk::{Cut, cut};
use crate::embed::{Embedder, embed_checked};
use crate::hash::sha256_hex;
use crate::lexical::{LexicalError, LexicalWriter};
use crate::manifest::{FileRecord, Manifest, VectorRecord, Versions};
use crate::pace::{Steps, Ticker};
use crate::plan::{Plan, writable_vectors};
use crate::report::{Progress, Report, Skipped, Stage};
use crate::store::WriterLock;
use crate::vector::Vectors;
use crate::walk::{Entry, walk};

/// Texts sent to the embedder at a time.
const EMBED_BATCH: usize = 32;
/// Rows written to the vector lane at a time; what a cancelled refresh can lose.
const VECTOR_ROWS_BATCH: usize = 512;

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
    /// The text lane cannot be written.
    #[error("cannot write the index: {0}")]
    Lexical(String),
    /// A test stopped the refresh before a store operation, as a crash would.
    #[cfg(test)]
    #[error("stopped before {0}")]
    Stopped(&'static str),
}

impl From<LexicalError> for RefreshError {
    fn from(error: LexicalError) -> RefreshError {
        RefreshError::Lexical(error.to_string())
    }
}

/// See [`crate::Index::refresh`].
pub(crate) fn refresh(
    store: &Path,
    root: &Path,
    embedder: Option<&dyn Embedder>,
    on_progress: &mut dyn FnMut(Progress),
    cancel: &AtomicBool,
    steps: &Steps,
) -> Result<Report, RefreshError> {
    let store_error = |source| RefreshError::Store { path: store.to_path_buf(), source };
    let _lock = WriterLock::acquire(store).map_err(store_error)?.ok_or(RefreshError::Busy)?;
    // An unreadable root would look like a tree from which everything was deleted.
    std::fs::read_dir(root).map_err(|source| RefreshError::Root { path: root.to_path_buf(), source })?;
    steps.next("opening the lanes")?;
    let plan = Plan::make(store, root)?;
    let ticker = Ticker::new(on_progress, cancel);
    let report = Report { rebuilt: plan.rebuilt.clone(), ..Report::default() };
    let mut run = Run { store, root, embedder, steps, ticker, report, plan, writer: None };
    run.all()
}

struct Run<'a> {
    store: &'a Path,
    root: &'a Path,
    embedder: Option<&'a dyn Embedder>,
    steps: &'a Steps,
    ticker: Ticker<'a>,
    report: Report,
    plan: Plan,
    writer: Option<LexicalWriter>,
}

/// The vector lane while it is being written.
struct VectorRun {
    directory: String,
    vectors: Vectors,
    present: HashSet<String>,
    /// Embedding texts of chunks without a vector, by hash.
    texts: BTreeMap<String, String>,
}

impl Run<'_> {
    fn all(&mut self) -> Result<Report, RefreshError> {
        let walked_at = now_nanos();
        let start = Instant::now();
        let (entries, mut skipped) = self.walk()?;
        self.report.seconds.walk = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let mut vector_run = self.open_vectors();
        let files = self.read_all(entries, &mut skipped, vector_run.as_mut())?;
        skipped.sort();
        skipped.dedup();
        self.report.seconds.chunk = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let vector = match vector_run {
            Some(vector_run) => Some(self.write_vectors(vector_run, &files)?),
            // Without an embedder the rows stay; how many are missing is not known, and the next refresh looks.
            None => self.plan.vector.take(),
        };
        self.report.seconds.embed = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let manifest = Manifest {
            versions: Versions::current(self.root),
            generation: self.plan.generation,
            refreshed_at: now_nanos() as u64 / 1_000_000_000,
            walked_at,
            lexical_directory: self.plan.lexical_directory.clone(),
            vector,
            files,
            skipped,
        };
        self.commit(manifest)?;
        self.report.seconds.commit = start.elapsed().as_secs_f64();
        Ok(std::mem::take(&mut self.report))
    }

    fn walk(&mut self) -> Result<(Vec<Entry>, Vec<Skipped>), RefreshError> {
        let ticker = &mut self.ticker;
        let mut stopped = None;
        let walked = walk(self.root, &mut |found| match ticker.tick(Stage::Walk, found, 0) {
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

    /// The rows that exist are needed before the files are read, to keep only the texts that must be embedded.
    fn open_vectors(&mut self) -> Option<VectorRun> {
        let embedder = self.embedder?;
        match writable_vectors(self.store, embedder) {
            Ok((directory, vectors, present, damage)) => {
                self.report.notes.extend(damage.map(|why| format!("the vectors were made anew: {why}")));
                Some(VectorRun { directory, vectors, present, texts: BTreeMap::new() })
            }
            Err(error) => {
                self.report.notes.push(error.to_string());
                None
            }
        }
    }

    fn read_all(
        &mut self,
        entries: Vec<Entry>,
        skipped: &mut Vec<Skipped>,
        mut vectors: Option<&mut VectorRun>,
    ) -> Result<BTreeMap<String, FileRecord>, RefreshError> {
        let mut old = self.plan.old.take();
        let walked_at = old.as_ref().map_or(0, |manifest| manifest.walked_at);
        let mut before = old.as_mut().map(|manifest| std::mem::take(&mut manifest.files)).unwrap_or_default();
        let mut files = BTreeMap::new();
        let total = entries.len();
        for (at, entry) in entries.into_iter().enumerate() {
            self.ticker.tick(Stage::Chunk, at, total)?;
            let known = before.remove(&entry.path);
            match self.read_one(&entry, known, walked_at, vectors.as_deref_mut())? {
                Ok(record) => {
                    files.insert(entry.path, record);
                }
                Err(skip) => skipped.push(skip),
            }
        }
        self.ticker.tick(Stage::Chunk, total, total)?;
        for path in before.into_keys() {
            self.remove(&path)?;
        }
        self.plan.old = old;
        Ok(files)
    }

    /// One file of the walk: unchanged, read again, or not admitted.
    fn read_one(
        &mut self,
        entry: &Entry,
        known: Option<FileRecord>,
        walked_at: i64,
        vectors: Option<&mut VectorRun>,
    ) -> Result<Result<FileRecord, Skipped>, RefreshError> {
        let lacks = match (&known, &vectors) {
            (Some(record), Some(vectors)) => record.chunks.iter().any(|chunk| !vectors.present.contains(&chunk.hash)),
            _ => false,
        };
        let is_same = |record: &FileRecord| record.stamp == entry.stamp && entry.stamp.settled_before(walked_at);
        let known = match known {
            Some(record) if is_same(&record) && !lacks => {
                self.report.files_unchanged += 1;
                return Ok(Ok(record));
            }
            known => known,
        };
        let admitted = match admit(&entry.absolute) {
            Ok(admitted) => admitted,
            Err(reason) => {
                if known.is_some() {
                    self.remove(&entry.path)?;
                }
                return Ok(Err(Skipped { path: entry.path.clone(), reason }));
            }
        };
        let sha256 = sha256_hex(&admitted.bytes);
        if let Some(mut record) = known {
            if record.sha256 == sha256 {
                if lacks && let Some(vectors) = vectors {
                    keep_texts(vectors, &cut(&entry.path, &admitted.text().0));
                }
                record.stamp = admitted.stamp;
                self.report.files_unchanged += 1;
                return Ok(Ok(record));
            }
            self.writer()?.remove(&entry.path);
        }
        self.index_file(entry, &admitted, sha256, vectors).map(Ok)
    }

    fn index_file(
        &mut self,
        entry: &Entry,
        admitted: &Admitted,
        sha256: String,
        vectors: Option<&mut VectorRun>,
    ) -> Result<FileRecord, RefreshError> {
        let (text, lossy) = admitted.text();
        let pieces = cut(&entry.path, &text);
        let writer = self.writer()?;
        for chunk in &pieces.chunks {
            writer.add(&entry.path, chunk)?;
        }
        if let Some(vectors) = vectors {
            keep_texts(vectors, &pieces);
        }
        self.report.files_indexed += 1;
        let listed = pieces.outline.into_iter().filter(|item| item.listed);
        Ok(FileRecord {
            sha256,
            stamp: admitted.stamp,
            lines: pieces.lines,
            lossy,
            chunks: pieces.chunks.into_iter().map(|chunk| chunk.record).collect(),
            definitions: listed.map(|item| item.definition).collect(),
        })
    }

    fn remove(&mut self, path: &str) -> Result<(), RefreshError> {
        self.writer()?.remove(path);
        self.report.files_removed += 1;
        Ok(())
    }

    /// Opened by the first change, so that a refresh that finds none writes nothing.
    fn writer(&mut self) -> Result<&LexicalWriter, RefreshError> {
        if self.writer.is_none() {
            self.steps.next("opening the writer of the text lane")?;
            self.writer = Some(self.plan.lexical.writer()?);
        }
        Ok(self.writer.as_ref().expect("just made"))
    }

    /// Embeds what is missing and drops what nothing names. A failure here leaves the other lanes whole.
    fn write_vectors(
        &mut self,
        mut run: VectorRun,
        files: &BTreeMap<String, FileRecord>,
    ) -> Result<VectorRecord, RefreshError> {
        let embedder = self.embedder.expect("there are no vectors without an embedder");
        let needed: BTreeSet<&str> =
            files.values().flat_map(|file| &file.chunks).map(|chunk| chunk.hash.as_str()).collect();
        // Like lengths together, so that a batch is not padded to its one long text.
        let mut texts: Vec<(String, String)> = std::mem::take(&mut run.texts).into_iter().collect();
        texts.retain(|(hash, _)| needed.contains(hash.as_str()));
        texts.sort_by_key(|(_, text)| text.len());
        let mut failure = self.embed(&run, embedder, &texts)?;
        if failure.is_none() {
            failure = self.drop_stale(&run, &needed)?;
        }
        let (missing, uncounted) = match run.vectors.hashes::<String>() {
            Ok(present) => (needed.iter().filter(|hash| !present.contains(**hash)).count(), None),
            Err(error) => (needed.len(), Some(error.to_string())),
        };
        self.report.notes.extend(failure.into_iter().chain(uncounted));
        Ok(VectorRecord {
            directory: run.directory,
            embedder: embedder.name().to_owned(),
            dimension: embedder.dimension(),
            missing,
        })
    }

    /// What went wrong, if anything did; an error only to stop.
    fn embed(
        &mut self,
        run: &VectorRun,
        embedder: &dyn Embedder,
        texts: &[(String, String)],
    ) -> Result<Option<String>, RefreshError> {
        let mut rows = Vec::new();
        for (at, batch) in texts.chunks(EMBED_BATCH).enumerate() {
            self.ticker.tick(Stage::Embed, at * EMBED_BATCH, texts.len())?;
            let batch_texts: Vec<String> = batch.iter().map(|(_, text)| text.clone()).collect();
            let vectors = match embed_checked(embedder, &batch_texts) {
                Ok(vectors) => vectors,
                Err(error) => return Ok(Some(error.to_string())),
            };
            rows.extend(batch.iter().map(|(hash, _)| hash.clone()).zip(vectors));
            self.report.vectors_embedded += batch.len();
            let is_last = (at + 1) * EMBED_BATCH >= texts.len();
            if rows.len() >= VECTOR_ROWS_BATCH || is_last {
                self.steps.next("adding vectors")?;
                if let Err(error) = run.vectors.add(&rows) {
                    return Ok(Some(error.to_string()));
                }
                rows.clear();
            }
        }
        self.ticker.tick(Stage::Embed, texts.len(), texts.len())?;
        Ok(None)
    }

    fn drop_stale(&mut self, run: &VectorRun, needed: &BTreeSet<&str>) -> Result<Option<String>, RefreshError> {
        let mut stale: Vec<String> =
            run.present.iter().filter(|hash| !needed.contains(hash.as_str())).cloned().collect();
        stale.sort();
        if !stale.is_empty() {
            self.steps.next("removing vectors")?;
        }
        Ok(run.vectors.remove(&stale).and_then(|()| run.vectors.tidy()).err().map(|error| error.to_string()))
    }

    fn commit(&mut self, mut manifest: Manifest) -> Result<(), RefreshError> {
        self.ticker.tick(Stage::Commit, 0, 1)?;
        let old = self.plan.old.as_ref();
        let changed = self.writer.is_some()
            || old.is_none_or(|old| old.skipped != manifest.skipped || old.vector != manifest.vector);
        if changed {
            manifest.generation += 1;
            self.writer()?;
            self.steps.next("committing the text lane")?;
            let writer = self.writer.take().expect("just made");
            writer.commit(manifest.generation)?;
        }
        self.steps.next("replacing the manifest")?;
        let store_error = |source| RefreshError::Store { path: self.store.to_path_buf(), source };
        manifest.write(self.store).map_err(store_error)?;
        self.describe(manifest);
        self.ticker.say(Stage::Commit, 1, 1);
        Ok(())
    }

    fn describe(&mut self, manifest: Manifest) {
        self.report.generation = manifest.generation;
        self.report.chunks = manifest.chunk_count();
        self.report.definitions = manifest.definition_count();
        self.report.lines = manifest.line_count();
        let lossy = manifest.files.iter().filter(|(_, file)| file.lossy);
        self.report.files_decoded_lossily = lossy.map(|(path, _)| path.clone()).collect();
        self.report.files_skipped = manifest.skipped;
    }
}

/// Keeps the texts of those chunks that have no vector.
fn keep_texts(vectors: &mut VectorRun, pieces: &Cut) {
    for chunk in &pieces.chunks {
        if !vectors.present.contains(&chunk.record.hash) {
            vectors.texts.entry(chunk.record.hash.clone()).or_insert_with(|| chunk.embedding_text());
        }
    }
}

fn now_nanos() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
