//! What does the engine thread do with one request after another?
//!
//! For each: hold what the cache knows of the prompt, compute the rest in chunks, then choose and compute one token at a
//! time. The cancel flag is looked at before each forward call. Whatever was computed is given to the cache, however the
//! request ended. Between requests, blocks are written to the disk.

use super::keeper::Keeper;
use super::request::{Event, FinishReason, GenerateRequest, Job, Usage};
use super::sampler::Sampler;
use super::stream::Stream;
use crate::chat::Chat;
use crate::kv::{Arena, BLOCK_TOKENS, CacheFull, Lease, PrefixCache};
use crate::model::{ForwardError, Model, Sequence};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// What is not written to the disk when the last handle is gone may take so long.
const LAST_WRITES_MAX: Duration = Duration::from_secs(2);

/// Everything that the engine thread owns.
pub(super) struct Worker {
    pub model: Model,
    pub arena: Arena,
    pub cache: PrefixCache,
    pub chat: Arc<Chat>,
    pub context_tokens: usize,
    pub chunk_tokens: usize,
    pub blocks_max: usize,
    pub stop: Arc<AtomicBool>,
    pub keeper: Option<Keeper>,
}

/// A request under way.
struct Run<'a> {
    job: &'a Job,
    lease: Lease,
    /// The ids whose KV is in the lease, from the first on.
    computed: Vec<u32>,
    stream: Stream,
    generated: Vec<u32>,
    usage: Usage,
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Forward(#[from] ForwardError),
    #[error(transparent)]
    Full(#[from] CacheFull),
}

impl Worker {
    /// Serves requests until the last handle is gone or the engine is shut down; each is answered either way.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        while let Some(job) = self.next(jobs) {
            if self.cancelled(&job) {
                let usage = Usage { prompt_tokens: job.request.prompt.len(), ..Usage::default() };
                job.done(FinishReason::Cancelled, String::new(), usage);
                continue;
            }
            let served = catch_unwind(AssertUnwindSafe(|| self.serve(&job)));
            if let Err(panic) = served {
                // The books may be wrong now, and with them every cached block: begin with new ones.
                self.cache = PrefixCache::new(self.blocks_max);
                self.keeper.iter_mut().for_each(Keeper::forget);
                let words = panic.downcast_ref::<String>().map(String::as_str);
                let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                job.done(
                    FinishReason::Failed(format!("the engine panicked: {words}")),
                    String::new(),
                    Usage::default(),
                );
            }
        }
    }

    /// The next request; blocks are written until there is one.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        loop {
            match jobs.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) if self.write_one() => {}
                Err(TryRecvError::Empty) => match jobs.recv() {
                    Ok(job) => return Some(job),
                    Err(_) => break,
                },
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < LAST_WRITES_MAX && self.write_one() {}
        None
    }

    fn write_one(&mut self) -> bool {
        self.keeper.as_mut().is_some_and(|keeper| keeper.write_one(&self.cache, &self.arena))
    }

    fn serve(&mut self, job: &Job) {
        let mut run = self.start(job);
        let reason = match self.generate(&mut run) {
            Ok(reason) => reason,
            Err(error) => FinishReason::Failed(error.to_string()),
        };
        let Run { lease, computed, mut stream, generated, usage, .. } = run;
        match job.request.cache {
            true => {
                self.cache.finish(lease, &computed);
                self.keeper.iter_mut().for_each(|keeper| keeper.remember(&computed));
            }
            false => self.cache.discard(lease),
        }
        stream.close();
        let text = stream.into_text();
        self.chat.remember(&text, &generated);
        job.done(reason, text, usage);
    }

    fn start<'a>(&mut self, job: &'a Job) -> Run<'a> {
        let GenerateRequest { prompt, stop, cache, .. } = &job.request;
        let mut usage = Usage { prompt_tokens: prompt.len(), ..Usage::default() };
        let lease = if *cache {
            let (mut lease, reuse) = self.cache.begin(prompt);
            if let Some(seed) = reuse.seed {
                self.arena.copy(seed.from, seed.to);
            }
            usage.cached_tokens = reuse.tokens;
            usage.diverged_at = reuse.diverged_at;
            if let Some(keeper) = &mut self.keeper {
                let held = keeper.fetch(prompt, reuse.tokens, &mut lease, &mut self.cache, &mut self.arena);
                usage.disk_tokens = held - reuse.tokens;
                usage.cached_tokens = held;
            }
            lease
        } else {
            self.cache.begin_alone()
        };
        let computed = prompt[..usage.cached_tokens].to_vec();
        let started = Event::Started { prompt_tokens: prompt.len(), cached_tokens: usage.cached_tokens };
        // Sending fails only when the receiver is gone, and then the cancel flag is set.
        let _ = job.events.send(started);
        Run { job, lease, computed, stream: Stream::new(stop.clone()), generated: Vec::new(), usage }
    }

    fn generate(&mut self, run: &mut Run) -> Result<FinishReason, RunError> {
        let request = &run.job.request;
        let begun = Instant::now();
        let prefilled = self.prefill(run);
        run.usage.prefill_seconds = begun.elapsed().as_secs_f64();
        run.usage.computed_tokens = run.computed.len() - run.usage.cached_tokens;
        if let Some(keeper) = &mut self.keeper {
            keeper.computed(run.usage.computed_tokens, run.usage.prefill_seconds);
        }
        let Some(mut logits) = prefilled? else { return Ok(FinishReason::Cancelled) };

        let begun = Instant::now();
        let mut sampler = Sampler::new(request.sampling);
        loop {
            let token = sampler.choose(&logits);
            let ended = self.emit(run, token);
            run.usage.decode_seconds = begun.elapsed().as_secs_f64();
            if let Some(reason) = ended {
                return Ok(reason);
            }
            if self.cancelled(run.job) {
                return Ok(FinishReason::Cancelled);
            }
            logits = self.advance(run, &[token])?;
        }
    }

    /// Computes what is missing of the prompt. None when cancelled.
    fn prefill(&mut self, run: &mut Run) -> Result<Option<Vec<f32>>, RunError> {
        let prompt = &run.job.request.prompt;
        let mut logits = None;
        while run.computed.len() < prompt.len() {
            if self.cancelled(run.job) {
                return Ok(None);
            }
            let from = run.computed.len();
            let chunk = &prompt[from..prompt.len().min(from + self.chunk_tokens)];
            let hidden = self.forward(run, chunk)?;
            if run.computed.len() == prompt.len() {
                logits = Some(self.last_logits(&hidden)?);
            }
        }
        Ok(logits)
    }

    fn advance(&mut self, run: &mut Run, tokens: &[u32]) -> Result<Vec<f32>, RunError> {
        let hidden = self.forward(run, tokens)?;
        Ok(self.last_logits(&hidden)?)
    }

    fn forward(&mut self, run: &mut Run, tokens: &[u32]) -> Result<Vec<f32>, RunError> {
        let position = run.computed.len();
        while run.lease.blocks().len() * BLOCK_TOKENS < position + tokens.len() {
            self.cache.grow(&mut run.lease)?;
        }
        let sequence = Sequence { tokens, position, blocks: run.lease.blocks() };
        let hidden = self.model.forward(&[sequence], &mut self.arena)?;
        run.computed.extend_from_slice(tokens);
        Ok(hidden)
    }

    fn last_logits(&self, hidden: &[f32]) -> Result<Vec<f32>, ForwardError> {
        let width = self.model.shape().hidden;
        self.model.logits(&hidden[hidden.len() - width..])
    }

    /// Reports a chosen token; gives the reason when it is the last one.
    fn emit(&self, run: &mut Run, token: u32) -> Option<FinishReason> {
        run.usage.generated_tokens += 1;
        let tokenizer = self.chat.tokenizer();
        let ends_turn = tokenizer.ends_turn(token);
        let mut text = String::new();
        if !ends_turn {
            run.generated.push(token);
            text = run.stream.push(tokenizer.bytes(token));
        }
        let full =
            run.usage.generated_tokens >= run.job.request.tokens_max || run.computed.len() + 1 >= self.context_tokens;
        let reason = match () {
            () if ends_turn || run.stream.stopped() => Some(FinishReason::Stop),
            () if full => Some(FinishReason::Length),
            () => None,
        };
        if reason.is_some() {
            text.push_str(&run.stream.close());
        }
        let _ = run.job.events.send(Event::Text { text, token });
        reason
    }

    fn cancelled(&self, job: &Job) -> bool {
        job.cancel.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }
}
