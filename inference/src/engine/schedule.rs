//! What is computed next, and for whom?
//!
//! Pure: it sees the requests as numbers and decides one step. All sequences that only want their next token are computed
//! together, beside one piece of one prompt. Which prompt: of the namespace that was served least; within it the one of
//! which most is computed or cached, and waiting counts as cached tokens, so that nobody waits for ever. Who is next and
//! does not fit into memory is waited for: nobody new is let past.
//!
//! A request may run as soon as its prompt fits, because most answers are far shorter than they are allowed to be. When the
//! blocks run out all the same, the youngest goes back to waiting and its blocks to the cache; the oldest is never sent
//! back, and every accepted request fits alone, so each comes to its end.

use crate::kv::{BLOCK_TOKENS, Known};
use std::collections::HashMap;
use std::time::Duration;

/// A second of waiting is worth as many cached tokens.
const AGE_TOKENS_PER_SECOND: f64 = 200.0;
/// Time for one step while others wait for their next token.
const STEP_TIME: Duration = Duration::from_millis(50);
/// The smallest piece of a prompt: below it a token costs much more (measured: docs/decisions/15-continuous-batching.md).
const CHUNK_TOKENS_MIN: usize = 16;
/// Blocks that a new request leaves to each running one to grow into.
const SPARE_BLOCKS: usize = 1;

/// A request, as far as the decision goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Lower is older.
    pub ticket: u64,
    pub namespace: u64,
    /// Since it was accepted.
    pub waited: Duration,
    /// Tokens of the prompt, and of the answer so far.
    pub tokens: usize,
    pub progress: Progress,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It holds nothing; this much of it is known to the cache.
    Waiting(Known),
    /// It holds `blocks`, with the KV of its first `computed` tokens.
    Begun { computed: usize, blocks: usize },
}

/// What to do; requests by their place in what was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no request.
    Idle,
    /// Take the blocks of this one, let it wait, and ask again.
    Preempt(usize),
    /// Compute the last token of each of `decode` and a piece of one prompt, in one call.
    Compute { decode: Vec<usize>, chunk: Option<Chunk> },
}

/// The next tokens of a request that wants more than one, or that waited until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub task: usize,
    /// At most so many.
    pub tokens: usize,
}

/// What the decisions depend on besides the requests.
#[derive(Debug)]
pub(super) struct Schedule {
    sequences_max: usize,
    chunk_tokens_max: usize,
    /// The size of a chunk beside others, from how long the last ones took.
    chunk_tokens: usize,
    served: HashMap<u64, Served>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Served {
    tokens: u64,
    active: bool,
}

impl Task {
    fn missing(&self) -> usize {
        match self.progress {
            Progress::Waiting(_) => self.tokens,
            Progress::Begun { computed, .. } => self.tokens - computed,
        }
    }

    fn begun(&self) -> bool {
        matches!(self.progress, Progress::Begun { .. })
    }

    fn wants_next(&self) -> bool {
        self.begun() && self.missing() == 1
    }

    /// Tokens that can be computed without another block.
    fn room(&self) -> usize {
        match self.progress {
            Progress::Waiting(_) => 0,
            Progress::Begun { computed, blocks } => blocks * BLOCK_TOKENS - computed,
        }
    }

    /// Blocks that it still takes from the others before it has its next token but one.
    fn wanted_blocks(&self) -> usize {
        let held = match self.progress {
            Progress::Waiting(known) => known.held,
            Progress::Begun { blocks, .. } => blocks,
        };
        (self.tokens + 1).div_ceil(BLOCK_TOKENS).saturating_sub(held)
    }

    fn rank(&self) -> f64 {
        let there = match self.progress {
            Progress::Waiting(known) => known.tokens,
            Progress::Begun { computed, .. } => computed,
        };
        there as f64 + self.waited.as_secs_f64() * AGE_TOKENS_PER_SECOND
    }
}

impl Schedule {
    /// For `sequences_max` requests at once, and prompts in pieces of at most `chunk_tokens_max`.
    pub fn new(sequences_max: usize, chunk_tokens_max: usize) -> Schedule {
        let (sequences_max, chunk_tokens_max) = (sequences_max.max(1), chunk_tokens_max.max(1));
        let chunk_tokens = CHUNK_TOKENS_MIN.min(chunk_tokens_max);
        Schedule { sequences_max, chunk_tokens_max, chunk_tokens, served: HashMap::new() }
    }

    /// Decides the next step of these requests, when `available` blocks are held by nobody.
    pub fn next(&mut self, tasks: &[Task], available: usize) -> Step {
        self.note_active(tasks);
        let begun = tasks.iter().filter(|task| task.begun()).count();
        let youngest = (0..tasks.len()).filter(|&i| tasks[i].begun()).max_by_key(|&i| tasks[i].ticket);
        let decode: Vec<usize> = (0..tasks.len()).filter(|&i| tasks[i].wants_next()).collect();
        let needed = decode.iter().filter(|&&i| tasks[i].room() == 0).count();
        if let Some(youngest) = youngest
            && needed > available
            && begun > 1
        {
            return Step::Preempt(youngest);
        }
        let Some(task) = self.next_prompt(tasks, begun, available) else {
            return if decode.is_empty() { Step::Idle } else { Step::Compute { decode, chunk: None } };
        };
        let size = if decode.is_empty() { self.chunk_tokens_max } else { self.chunk_tokens };
        let mut tokens = size.min(tasks[task].missing());
        if tasks[task].begun() && begun > 1 {
            tokens = tokens.min(tasks[task].room() + available.saturating_sub(needed) * BLOCK_TOKENS);
        }
        match youngest {
            Some(youngest) if tokens == 0 && (youngest != task || decode.is_empty()) => Step::Preempt(youngest),
            _ => Step::Compute { decode, chunk: (tokens > 0).then_some(Chunk { task, tokens }) },
        }
    }

    /// Notes that `tokens` were computed for a namespace.
    pub fn charge(&mut self, namespace: u64, tokens: usize) {
        self.served.entry(namespace).or_default().tokens += tokens as u64;
    }

    /// Notes how long a step took that had a chunk of `tokens` beside others.
    pub fn took(&mut self, tokens: usize, time: Duration) {
        // A last, shorter piece says nothing about longer ones, unless it was too slow already.
        if tokens < self.chunk_tokens && time < STEP_TIME {
            return;
        }
        let ratio = (STEP_TIME.as_secs_f64() / time.as_secs_f64().max(1e-6)).clamp(0.5, 2.0);
        let wanted = (tokens as f64 * ratio) as usize;
        self.chunk_tokens = wanted.max(CHUNK_TOKENS_MIN).min(self.chunk_tokens_max);
    }

    /// Whose prompt is next.
    fn next_prompt(&self, tasks: &[Task], begun: usize, available: usize) -> Option<usize> {
        let served = |i: usize| self.served.get(&tasks[i].namespace).map_or(0, |served| served.tokens);
        let earlier = |&a: &usize, &b: &usize| {
            let by_rank = || tasks[b].rank().total_cmp(&tasks[a].rank());
            served(a).cmp(&served(b)).then_with(by_rank).then(tasks[a].ticket.cmp(&tasks[b].ticket))
        };
        let prompts = || (0..tasks.len()).filter(|&i| !tasks[i].wants_next());
        let first = prompts().min_by(earlier)?;
        let promised: usize = tasks.iter().filter(|task| task.begun()).map(Task::wanted_blocks).sum();
        let fits = || tasks[first].wanted_blocks() + promised + begun * SPARE_BLOCKS <= available;
        if tasks[first].begun() || begun == 0 || (begun < self.sequences_max && fits()) {
            return Some(first);
        }
        prompts().filter(|&i| tasks[i].begun()).min_by(earlier)
    }

    /// A namespace that comes back has no claim on the time in which it asked for nothing: it begins with what the least
    /// served of the others has.
    fn note_active(&mut self, tasks: &[Task]) {
        if tasks.is_empty() {
            self.served.clear();
            return;
        }
        let least = self.served.values().filter(|served| served.active).map(|served| served.tokens).min();
        let before: HashMap<u64, Served> = self.served.clone();
        self.served.values_mut().for_each(|served| served.active = false);
        for task in tasks {
            let served = self.served.entry(task.namespace).or_default();
            served.active = true;
            if !before.get(&task.namespace).is_some_and(|before| before.active) {
                served.tokens = served.tokens.max(least.unwrap_or(0));
            }
        }
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
