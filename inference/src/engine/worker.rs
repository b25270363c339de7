//! What does the engine thread do, step after step?
//!
//! A step is: end what was cancelled, let the [`Schedule`] decide, compute that in one forward call, and settle: choose
//! tokens, share full blocks, end what is over. Whatever was computed is given to the cache, however a request ended. While
//! there is no request, blocks are written to the disk.

use super::held::Masker;
use super::keeper::Keeper;
use super::request::{Event, FinishReason, Job};
use super::run::Run;
use super::schedule::{Chunk, Schedule, Step, Task};
use crate::chat::Chat;
use crate::kv::{Arena, BLOCK_TOKENS, CacheFull, PrefixCache};
use crate::model::{ForwardError, Model, Sequence};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// What is not written to the disk when the last handle is gone may take so long.
const LAST_WRITES_MAX: Duration = Duration::from_secs(2);

/// How long a step waits, where there is one request alone, for what its grammar has to say. Beside others there is no waiting.
const MASK_WAIT: Duration = Duration::from_millis(20);

/// Everything that the engine thread owns.
pub(super) struct Worker {
    pub model: Model,
    pub arena: Arena,
    pub cache: PrefixCache,
    pub chat: Arc<Chat>,
    pub context_tokens: usize,
    pub blocks_max: usize,
    pub stop: Arc<AtomicBool>,
    pub keeper: Option<Keeper>,
    pub schedule: Schedule,
    /// Requests that were accepted and have not begun.
    pub queued: Arc<AtomicUsize>,
    /// What was accepted and has not ended.
    pub runs: Vec<Run>,
    /// How many requests there were.
    pub tickets: u64,
    /// Works out what answers that are held to a grammar may say.
    pub masker: Masker,
}

/// The next tokens of a run, in a forward call.
struct Part {
    run: usize,
    tokens: usize,
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Forward(#[from] ForwardError),
    #[error(transparent)]
    Full(#[from] CacheFull),
}

impl Worker {
    /// Serves requests until the last handle is gone or the engine is shut down; each is answered either way.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        while self.receive(jobs) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.step())) {
                self.begin_anew(&*panic);
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < LAST_WRITES_MAX && self.write_one() {}
    }

    /// Takes the requests that have come; while there is none, writes blocks and then waits. False at the end.
    fn receive(&mut self, jobs: &Receiver<Job>) -> bool {
        loop {
            let job = match jobs.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Disconnected) => return !self.runs.is_empty(),
                Err(TryRecvError::Empty) if !self.runs.is_empty() => return true,
                Err(TryRecvError::Empty) if self.write_one() => continue,
                Err(TryRecvError::Empty) => match jobs.recv() {
                    Ok(job) => job,
                    Err(_) => return false,
                },
            };
            self.tickets += 1;
            self.runs.push(Run::new(job, self.tickets));
        }
    }

    fn step(&mut self) {
        let now = Instant::now();
        self.end_unwanted(now);
        let parts = self.plan(now);
        for part in parts.iter().filter(|part| self.completes(part)).map(|part| part.run).collect::<Vec<_>>() {
            self.runs[part].ask(&mut self.masker);
        }
        match self.compute(&parts) {
            Ok(scores) => self.settle(&parts, &scores, now.elapsed()),
            Err(error) => {
                for Part { run, .. } in parts {
                    self.runs[run].ended = Some(FinishReason::Failed(error.to_string()));
                }
            }
        }
        self.bury();
    }

    fn end_unwanted(&mut self, now: Instant) {
        let stopped = self.stop.load(Ordering::Relaxed);
        for run in &mut self.runs {
            if stopped || run.job.cancel.load(Ordering::Relaxed) {
                run.ended = Some(FinishReason::Cancelled);
            } else if run.expired(now) {
                run.ended = Some(FinishReason::Expired);
            }
        }
        self.bury();
    }

    /// Has the schedule decide, and makes room and places for what it decided.
    fn plan(&mut self, now: Instant) -> Vec<Part> {
        loop {
            let tasks: Vec<Task> = self.runs.iter().map(|run| run.task(&self.cache, now)).collect();
            match self.schedule.next(&tasks, self.cache.available()) {
                Step::Idle => return Vec::new(),
                Step::Preempt(run) => self.release(run),
                Step::Compute { decode, chunk } => {
                    let mut parts: Vec<Part> = decode.into_iter().map(|run| Part { run, tokens: 1 }).collect();
                    if let Some(Chunk { task: run, tokens }) = chunk {
                        if self.runs[run].lease.is_none() {
                            self.begin(run);
                        }
                        let missing = self.runs[run].tokens.len() - self.runs[run].computed;
                        parts.push(Part { run, tokens: tokens.min(missing) });
                    }
                    return parts;
                }
            }
        }
    }

    /// Holds what the cache and the disk know of a waiting request.
    fn begin(&mut self, run: usize) {
        let run = &mut self.runs[run];
        let request = &run.job.request;
        let (mut cached, mut from_disk, mut diverged_at) = (0, 0, None);
        run.lease = Some(if request.cache {
            let (mut lease, reuse) = self.cache.begin(request.namespace, &run.tokens);
            if let Some(seed) = reuse.seed {
                self.arena.copy(seed.from, seed.to);
            }
            (cached, diverged_at) = (reuse.tokens, reuse.diverged_at);
            if let Some(keeper) = &mut self.keeper {
                let (cache, arena) = (&mut self.cache, &mut self.arena);
                cached = keeper.fetch(request.namespace, &run.tokens, reuse.tokens, &mut lease, cache, arena);
                from_disk = cached - reuse.tokens;
            }
            lease
        } else {
            self.cache.begin_alone()
        });
        run.computed = cached;
        if run.begun.is_none() {
            run.begun = Some(Instant::now());
            self.queued.fetch_sub(1, Ordering::Relaxed);
            (run.usage.cached_tokens, run.usage.disk_tokens, run.usage.diverged_at) = (cached, from_disk, diverged_at);
            let started = Event::Started { prompt_tokens: run.usage.prompt_tokens, cached_tokens: cached };
            let _ = run.job.events.send(started);
        }
    }

    /// One forward call, and the scores after each part that ends where its run ends, one row after another.
    fn compute(&mut self, parts: &[Part]) -> Result<Vec<f32>, StepError> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        for part in parts {
            let run = &mut self.runs[part.run];
            let lease = run.lease.as_mut().expect("what is computed has begun");
            while lease.blocks().len() * BLOCK_TOKENS < run.computed + part.tokens {
                self.cache.grow(lease)?;
            }
        }
        let sequence = |part: &Part| {
            let run = &self.runs[part.run];
            let tokens = &run.tokens[run.computed..run.computed + part.tokens];
            let blocks = run.lease.as_ref().expect("what is computed has begun").blocks();
            Sequence { tokens, position: run.computed, blocks }
        };
        let sequences: Vec<Sequence> = parts.iter().map(sequence).collect();
        let hidden = self.model.forward(&sequences, &mut self.arena)?;
        let width = self.model.shape().hidden;
        let (mut last_rows, mut end) = (Vec::new(), 0);
        for part in parts {
            end += part.tokens * width;
            if self.completes(part) {
                last_rows.extend_from_slice(&hidden[end - width..end]);
            }
        }
        Ok(if last_rows.is_empty() { Vec::new() } else { self.model.logits(&last_rows)? })
    }

    fn completes(&self, part: &Part) -> bool {
        self.runs[part.run].computed + part.tokens == self.runs[part.run].tokens.len()
    }

    fn settle(&mut self, parts: &[Part], scores: &[f32], took: Duration) {
        let mut scores = scores.chunks_exact(self.model.shape().vocabulary);
        let wait = if self.runs.len() == 1 { MASK_WAIT } else { Duration::ZERO };
        for part in parts {
            let completes = self.completes(part);
            let run = &mut self.runs[part.run];
            let scores = if completes { scores.next() } else { None };
            // Whoever does not know yet what may come next computes its last token again in the next step.
            let late = scores.is_some() && !run.may_choose(wait);
            let computed = part.tokens - usize::from(late);
            let request = &run.job.request;
            self.schedule.charge(request.namespace, computed);
            let (share, lease) = (request.cache, run.lease.as_mut());
            if let Some(lease) = lease.filter(|_| share) {
                self.cache.publish(lease, &run.tokens[..run.computed + computed]);
            }
            run.advance(computed);
            if let Some(scores) = scores.filter(|_| !late) {
                run.choose(scores, self.chat.tokenizer(), self.context_tokens);
            }
        }
        match parts {
            [alone] => self.keeper.iter_mut().for_each(|keeper| keeper.computed(alone.tokens, took.as_secs_f64())),
            // The chunk comes last, and is one only if it has several tokens.
            [.., chunk] if chunk.tokens > 1 => self.schedule.took(chunk.tokens, took),
            _ => {}
        }
    }

    /// Gives the blocks of a run to the cache; it may begin again.
    fn release(&mut self, run: usize) {
        let run = &mut self.runs[run];
        let computed = &run.tokens[..std::mem::take(&mut run.computed)];
        match run.lease.take() {
            Some(lease) if run.job.request.cache => {
                self.cache.finish(lease, computed);
                self.keeper.iter_mut().for_each(|keeper| keeper.remember(run.job.request.namespace, computed));
            }
            Some(lease) => self.cache.discard(lease),
            None => {}
        }
    }

    /// Answers what has ended.
    fn bury(&mut self) {
        while let Some(at) = self.runs.iter().position(|run| run.ended.is_some()) {
            self.release(at);
            let run = self.runs.swap_remove(at);
            if run.begun.is_none() {
                self.queued.fetch_sub(1, Ordering::Relaxed);
            }
            run.close(|text, generated| self.chat.remember(text, generated));
        }
    }

    /// After a panic the books may be wrong, and with them every cached block: what held some has failed.
    fn begin_anew(&mut self, panic: &(dyn Any + Send)) {
        self.cache = PrefixCache::new(self.blocks_max);
        self.keeper.iter_mut().for_each(Keeper::forget);
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        // Were there none, whoever waits would meet the same panic again.
        let any = self.runs.iter().any(|run| run.lease.is_some());
        for run in self.runs.iter_mut().filter(|run| run.lease.is_some() || !any) {
            run.lease = None;
            run.ended = Some(FinishReason::Failed(format!("the engine panicked: {words}")));
        }
        self.bury();
    }

    fn write_one(&mut self) -> bool {
        self.keeper.as_mut().is_some_and(|keeper| keeper.write_one(&self.cache, &self.arena))
    }
}
