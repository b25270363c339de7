//! How far is one request, and what is said of it?

use super::held::{Held, Masker, Next};
use super::request::{Event, Finish, FinishReason, Job, Usage};
use super::sampler::Sampler;
use super::schedule::{Progress, Task};
use super::steer::Score;
use super::stream::Stream;
use crate::kv::{Lease, PrefixCache};
use crate::tokenizer::Tokenizer;
use std::time::{Duration, Instant};

/// A request from its arrival to its end.
pub(super) struct Run {
    pub job: Job,
    pub ticket: u64,
    /// The prompt, and then what was chosen.
    pub tokens: Vec<u32>,
    /// How many of them have their KV in the lease.
    pub computed: usize,
    /// None while it waits.
    pub lease: Option<Lease>,
    pub ended: Option<FinishReason>,
    pub usage: Usage,
    pub stream: Stream,
    pub generated: Vec<u32>,
    sampler: Sampler,
    held: Option<Held>,
    /// What the grammar has to say on the next token, once it was asked for.
    next: Next,
    /// When it first held something, and when its first token was chosen.
    pub begun: Option<Instant>,
    answering: Option<Instant>,
}

impl Run {
    pub fn new(job: Job, ticket: u64) -> Run {
        let (prompt, stop, sampling) = (job.request.prompt.clone(), job.request.stop.clone(), job.request.sampling);
        let steer = &job.request.steer;
        let held = steer.grammar.clone().map(|grammar| Held::new(grammar, steer.logprobs.is_none()));
        Run {
            ticket,
            computed: 0,
            lease: None,
            ended: None,
            usage: Usage { prompt_tokens: prompt.len(), ..Usage::default() },
            tokens: prompt,
            stream: Stream::new(stop),
            generated: Vec::new(),
            sampler: Sampler::new(sampling),
            held,
            next: Next::Free,
            begun: None,
            answering: None,
            job,
        }
    }

    /// What the schedule must know of it.
    pub fn task(&self, cache: &PrefixCache, now: Instant) -> Task {
        let request = &self.job.request;
        let progress = match &self.lease {
            Some(lease) => Progress::Begun { computed: self.computed, blocks: lease.blocks().len() },
            None if request.cache => Progress::Waiting(cache.known(request.namespace, &self.tokens)),
            None => Progress::Waiting(Default::default()),
        };
        let waited = now.saturating_duration_since(self.job.accepted);
        Task { ticket: self.ticket, namespace: request.namespace, waited, tokens: self.tokens.len(), progress }
    }

    /// Whether its time is over.
    pub fn expired(&self, now: Instant) -> bool {
        let deadline = self.job.request.deadline;
        deadline.is_some_and(|deadline| now.saturating_duration_since(self.job.accepted) >= deadline)
    }

    /// Notes that the next `tokens` were computed.
    pub fn advance(&mut self, tokens: usize) {
        let prompt_left = self.usage.prompt_tokens.saturating_sub(self.computed);
        self.usage.computed_tokens += tokens.min(prompt_left);
        self.computed += tokens;
    }

    /// Has its grammar work out what may come next, beside the forward pass.
    pub fn ask(&mut self, masker: &mut Masker) {
        self.held.iter_mut().for_each(|held| held.ask(masker));
    }

    /// Whether its grammar has said what may come next, waiting for it at most so long.
    pub fn may_choose(&mut self, wait: Duration) -> bool {
        self.next = self.held.as_mut().map_or(Next::Free, |held| held.next(wait));
        !matches!(self.next, Next::Late)
    }

    /// Chooses the next token, or takes those that are forced, and reports it.
    pub fn choose(&mut self, scores: &[f32], tokenizer: &Tokenizer, context_tokens: usize) {
        let steer = &self.job.request.steer;
        let tokens = match std::mem::replace(&mut self.next, Next::Free) {
            Next::Forced(tokens) => tokens,
            Next::Among(mask) => vec![self.sampler.choose(&steer.apply(scores, Some(&mask)))],
            Next::Free | Next::Late => vec![self.sampler.choose(&steer.apply(scores, None))],
            Next::Failed(reason) => {
                self.ended = Some(FinishReason::Failed(reason));
                return;
            }
        };
        let score = steer.score(scores, tokens[0]);
        self.time();
        self.answering.get_or_insert_with(Instant::now);
        for (at, &token) in tokens.iter().enumerate() {
            let last = at + 1 == tokens.len();
            self.take(token, last, score.clone(), tokenizer, context_tokens);
            if self.ended.is_some() {
                return;
            }
        }
    }

    /// Adds a token to the answer and reports it.
    fn take(&mut self, token: u32, last: bool, score: Option<Score>, tokenizer: &Tokenizer, context_tokens: usize) {
        self.usage.generated_tokens += 1;
        let ends_turn = tokenizer.ends_turn(token);
        let mut text = String::new();
        if !ends_turn {
            self.generated.push(token);
            text = self.stream.push(tokenizer.bytes(token));
        }
        // What was forced the grammar has taken as a whole.
        let over = last && self.held.as_mut().is_some_and(|held| held.take(token, tokenizer.bytes(token)));
        let full =
            self.usage.generated_tokens >= self.job.request.tokens_max || self.tokens.len() + 1 >= context_tokens;
        self.tokens.push(token);
        self.ended = match () {
            () if ends_turn || over || self.stream.stopped() => Some(FinishReason::Stop),
            () if full => Some(FinishReason::Length),
            () => None,
        };
        if self.ended.is_some() {
            text.push_str(&self.stream.close());
        }
        // Sending fails only when the receiver is gone, and then the cancel flag is set.
        let _ = self.job.events.send(Event::Text { text, token, score: score.filter(|_| !ends_turn) });
    }

    /// Sends the last event. Before that `remember` gets the text and the tokens that it was made of: whoever asks again at
    /// once, with this answer in the prompt, shall find them known.
    pub fn close(mut self, remember: impl FnOnce(&str, &[u32])) {
        if self.usage.generated_tokens == 0 {
            self.time();
        }
        self.stream.close();
        let (text, stopped_by) = self.stream.into_text();
        let reason = self.ended.unwrap_or(FinishReason::Cancelled);
        remember(&text, &self.generated);
        self.job.done(Finish { reason, text, stopped_by, usage: self.usage });
    }

    fn time(&mut self) {
        match (self.begun, self.answering) {
            (_, Some(since)) => self.usage.decode_seconds = since.elapsed().as_secs_f64(),
            (Some(since), None) => self.usage.prefill_seconds = since.elapsed().as_secs_f64(),
            (None, None) => {}
        }
    }
}
