//! How do files become documents, on all cores and in bounded memory?
//!
//! Readers take jobs in order, read, judge, parse and cut, and hand one document to the text lane, to one thread for
//! each lane of our own and, its texts, to the embedder. All queues are short: the slowest lane sets the pace, and no
//! more than a few dozen documents are in memory. The thread that called keeps the count and listens for a stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::admit::Stamp;
use crate::document::{Content, Document};
use crate::embedding::{Embedded, Embedding, QUEUE_DOCUMENTS, Texts};
use crate::file_no::FileNo;
use crate::hash::ContentKey;
use crate::lane::{LANES, Lane, LaneWriter};
use crate::lexical::LexicalWriter;
use crate::pace::{Steps, Ticker};
use crate::refresh::RefreshError;
use crate::report::{SkipReason, Stage};
use crate::store::fresh;
use crate::turn::Turns;

/// Documents that may wait for one lane, or to be counted.
const QUEUE: usize = 8;
/// More readers than this would only wait for the lanes.
const READERS_MAX: usize = 16;
/// How often a stop is listened for while nothing comes.
const PATIENCE: Duration = Duration::from_millis(20);

/// One file to read.
pub(crate) struct Job {
    pub path: String,
    pub absolute: PathBuf,
    /// The number that it gets if it is indexed.
    pub file: FileNo,
    /// Where it is indexed already: its number and content then.
    pub known: Option<(FileNo, ContentKey)>,
    /// Whether it must be cut for its vectors even when its content is known.
    pub lacks_vectors: bool,
}

/// What became of it.
pub(crate) enum Outcome {
    Skipped(SkipReason),
    /// Its content is the known one.
    Same(Stamp),
    Indexed(Arc<Document>),
}

/// Where documents go.
pub(crate) struct Lanes<'a> {
    pub text: &'a LexicalWriter,
    /// Where the new segments of the lanes of our own go.
    pub store: &'a Path,
    pub embedding: Option<&'a Embedding<'a>>,
}

/// The names of the new segments, and how the embedding went.
pub(crate) struct Written {
    pub segments: Vec<String>,
    pub embedded: Option<Embedded>,
    /// How long the last vectors took after the last file was read.
    pub embed_seconds: f64,
}

/// Reads all jobs. `sink` hears of each by its place, in the order in which they end.
pub(crate) fn run(
    jobs: &[Job],
    lanes: &Lanes<'_>,
    steps: &Steps,
    ticker: &mut Ticker<'_>,
    sink: &mut dyn FnMut(usize, Outcome),
) -> Result<Written, RefreshError> {
    let stop = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let turns = Turns::default();
    std::thread::scope(|scope| {
        let (outcomes, heard) = sync_channel(QUEUE);
        let mut senders = Vec::new();
        let mut writers = Vec::new();
        for lane in LANES {
            let (sender, documents) = sync_channel(QUEUE);
            senders.push((*lane, sender));
            let (stop, store) = (&stop, lanes.store);
            writers.push(scope.spawn(move || write_segments(*lane, store, &documents, stop, steps)));
        }
        let (texts, embedding) = start_embedding(scope, lanes.embedding, &stop, steps);
        for _ in 0..readers(jobs.len()) {
            let reader = Reader {
                jobs,
                next: &next,
                stop: &stop,
                text: lanes.text,
                turns: &turns,
                segments: senders.clone(),
                embedding: lanes.embedding.zip(texts.clone()),
                outcomes: outcomes.clone(),
            };
            scope.spawn(move || reader.run());
        }
        drop((outcomes, senders, texts));
        let counted = count(jobs, &heard, ticker, sink);
        if counted.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        // Whoever waits for room in this queue sees it closed.
        drop(heard);
        let read_at = Instant::now();
        let embedded = embedding.map(|thread| wait_for_embedding(thread, lanes.embedding, ticker, &stop));
        let embed_seconds = read_at.elapsed().as_secs_f64();
        let segments: Vec<_> =
            writers.into_iter().map(|writer| writer.join().expect("a lane does not panic")).collect();
        // The reason of a lane says more than that its queue was closed.
        let segments = segments.into_iter().collect::<Result<Vec<Vec<String>>, _>>();
        counted?;
        Ok(Written { segments: segments?.concat(), embedded: embedded.transpose()?, embed_seconds })
    })
}

fn readers(jobs: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.min(READERS_MAX).min(jobs)
}

fn start_embedding<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    embedding: Option<&'env Embedding<'env>>,
    stop: &'scope AtomicBool,
    steps: &'env Steps,
) -> (Option<SyncSender<Texts>>, Option<EmbeddingThread<'scope>>) {
    let Some(embedding) = embedding else { return (None, None) };
    let (sender, texts) = sync_channel(QUEUE_DOCUMENTS);
    (Some(sender), Some(scope.spawn(move || embedding.run(&texts, stop, steps))))
}

/// Hears of every job until no reader is left.
fn count(
    jobs: &[Job],
    heard: &Receiver<Result<(usize, Outcome), RefreshError>>,
    ticker: &mut Ticker<'_>,
    sink: &mut dyn FnMut(usize, Outcome),
) -> Result<(), RefreshError> {
    let mut done = 0;
    loop {
        ticker.tick(Stage::Chunk, done, jobs.len())?;
        match heard.recv_timeout(PATIENCE) {
            Ok(outcome) => {
                let (job, outcome) = outcome?;
                done += 1;
                ticker.count(if let Outcome::Indexed(document) = &outcome { document.lines } else { 0 });
                sink(job, outcome);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

type EmbeddingThread<'scope> = ScopedJoinHandle<'scope, Result<Embedded, RefreshError>>;

/// Waits for the last vectors and says how far they are; a stop ends the wait soon.
fn wait_for_embedding(
    thread: EmbeddingThread<'_>,
    embedding: Option<&Embedding<'_>>,
    ticker: &mut Ticker<'_>,
    stop: &AtomicBool,
) -> Result<Embedded, RefreshError> {
    let mut stopped = None;
    while !thread.is_finished() {
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (made, asked) = embedding.map_or((0, 0), |embedding| (count(&embedding.made), count(&embedding.asked)));
        if stopped.is_none()
            && let Err(error) = ticker.tick(Stage::Embed, made, asked)
        {
            stop.store(true, Ordering::Relaxed);
            stopped = Some(error);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let embedded = thread.join().expect("an embedder does not panic");
    match stopped {
        Some(error) => Err(error),
        None => embedded,
    }
}

/// The thread of one lane. Begins a segment with the first document, so that nothing to write writes nothing. Returns
/// the names of the segments.
fn write_segments(
    lane: &dyn Lane,
    store: &Path,
    documents: &Receiver<Arc<Document>>,
    stop: &AtomicBool,
    steps: &Steps,
) -> Result<Vec<String>, RefreshError> {
    let mut names = Vec::new();
    let mut writer: Option<Box<dyn LaneWriter>> = None;
    for document in documents {
        if stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let current = match &mut writer {
            Some(current) => current,
            None => {
                steps.next("beginning a segment")?;
                names.push(fresh(store, lane.prefix()));
                writer.insert(lane.begin(&store.join(names.last().expect("just pushed")))?)
            }
        };
        current.add(&document)?;
        if let Some(full) = writer.take_if(|writer| writer.is_full()) {
            steps.next("finishing a segment")?;
            full.finish()?;
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    if let Some(writer) = writer {
        steps.next("finishing a segment")?;
        writer.finish()?;
    }
    Ok(names)
}

/// One of the threads that read.
struct Reader<'a> {
    jobs: &'a [Job],
    next: &'a AtomicUsize,
    stop: &'a AtomicBool,
    text: &'a LexicalWriter,
    turns: &'a Turns,
    segments: Vec<(&'static dyn Lane, SyncSender<Arc<Document>>)>,
    embedding: Option<(&'a Embedding<'a>, SyncSender<Texts>)>,
    outcomes: SyncSender<Result<(usize, Outcome), RefreshError>>,
}

impl Reader<'_> {
    fn run(self) {
        while !self.stop.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(at) else { return };
            let outcome = match self.read(job) {
                Ok(Some(outcome)) => Ok((at, outcome)),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let failed = outcome.is_err();
            if self.outcomes.send(outcome).is_err() || failed {
                return;
            }
        }
    }

    /// Nothing where a lane has ended; it knows why.
    fn read(&self, job: &Job) -> Result<Option<Outcome>, RefreshError> {
        let content = match Content::read(&job.path, &job.absolute, self.turns) {
            Ok(content) => content,
            Err(reason) => return Ok(Some(Outcome::Skipped(reason))),
        };
        if let Some((file, key)) = job.known
            && key == content.key
        {
            let stamp = content.stamp;
            if job.lacks_vectors {
                self.embed(&Document::new(file, &job.path, content));
            }
            return Ok(Some(Outcome::Same(stamp)));
        }
        let document = Arc::new(Document::new(job.file, &job.path, content));
        self.text.add(&document)?;
        for (lane, queue) in &self.segments {
            if document.bare.is_some() && !lane.takes_bare() {
                continue;
            }
            if queue.send(Arc::clone(&document)).is_err() {
                self.stop.store(true, Ordering::Relaxed);
                return Ok(None);
            }
        }
        self.embed(&document);
        Ok(Some(Outcome::Indexed(document)))
    }

    fn embed(&self, document: &Document) {
        if let Some((embedding, queue)) = &self.embedding {
            let texts = embedding.texts(document);
            if !texts.is_empty() {
                // A closed queue means that the embedder failed, which costs only its own lane.
                let _ = queue.send(texts);
            }
        }
    }
}
