//! What can the engine be asked, and what does it answer?

use super::steer::{Score, Steer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Stop strings in one request at most.
const STOPS_MAX: usize = 16;
/// Length of a stop string at most, in bytes.
const STOP_BYTES_MAX: usize = 256;

/// One continuation to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateRequest {
    /// The ids to continue, usually from [`crate::Chat::encode`].
    pub prompt: Vec<u32>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Tokens to generate at most; the context may end it earlier.
    pub tokens_max: usize,
    /// Texts that end the answer where they appear; they are not part of it.
    pub stop: Vec<String>,
    /// Whether to use the prefix cache and to leave the blocks of this request in it.
    pub cache: bool,
    /// Whose request it is: nothing is reused across namespaces, and the engine is shared fairly between them.
    pub namespace: u64,
    /// The time from its acceptance to its end, waiting included; None for no limit.
    pub deadline: Option<Duration>,
    /// What its tokens are held to, and what is told of them.
    pub steer: Steer,
}

/// How the next token is chosen from the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the best token; 1 samples from the model's own distribution.
    pub temperature: f32,
    /// Keep the likeliest tokens that together have this probability; 1 keeps all.
    pub top_p: f32,
    /// Keep this many tokens; 0 keeps all.
    pub top_k: usize,
    /// The same seed gives the same tokens.
    pub seed: u64,
}

impl Sampling {
    /// Always the best token.
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, seed: 0 };
}

impl GenerateRequest {
    /// A greedy request with the cache on.
    pub fn greedy(prompt: Vec<u32>, tokens_max: usize) -> GenerateRequest {
        let (sampling, stop) = (Sampling::GREEDY, Vec::new());
        GenerateRequest {
            prompt,
            sampling,
            tokens_max,
            stop,
            cache: true,
            namespace: 0,
            deadline: None,
            steer: Steer::default(),
        }
    }

    pub(super) fn check(&self, context_tokens_max: usize, vocabulary: usize) -> Result<(), SubmitError> {
        let prompt_tokens = self.prompt.len();
        if prompt_tokens == 0 {
            return Err(SubmitError::PromptEmpty);
        }
        // One place must be left for the answer.
        if prompt_tokens >= context_tokens_max {
            return Err(SubmitError::PromptTooLong { prompt_tokens, context_tokens_max });
        }
        if let Some(&id) = self.prompt.iter().find(|&&id| id as usize >= vocabulary) {
            return Err(SubmitError::UnknownToken { id, vocabulary });
        }
        self.steer.check(vocabulary)?;
        let invalid = |what: &str| Err(SubmitError::Invalid { what: what.to_owned() });
        if self.tokens_max == 0 {
            return invalid("tokens_max is 0");
        }
        if !(0.0..=10.0).contains(&self.sampling.temperature) {
            return invalid("the temperature is outside 0..=10");
        }
        if !(self.sampling.top_p > 0.0 && self.sampling.top_p <= 1.0) {
            return invalid("top_p is not above 0 and at most 1");
        }
        if self.stop.len() > STOPS_MAX || self.stop.iter().any(|stop| stop.is_empty() || stop.len() > STOP_BYTES_MAX) {
            return invalid("stop is not at most 16 strings of 1 to 256 bytes");
        }
        Ok(())
    }
}

/// Why a request was not accepted. Nothing was computed for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// There is nothing to continue.
    #[error("the prompt is empty")]
    PromptEmpty,
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {prompt_tokens} tokens, the context holds {context_tokens_max} with the answer")]
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens that prompt and answer may have together.
        context_tokens_max: usize,
    },
    /// The prompt holds an id that the model does not have.
    #[error("token id {id} is outside the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// How many ids there are.
        vocabulary: usize,
    },
    /// A parameter is outside its range.
    #[error("invalid request: {what}")]
    Invalid {
        /// The parameter and its range.
        what: String,
    },
    /// As many requests wait as may.
    #[error("the queue is full")]
    QueueFull,
    /// The engine was shut down.
    #[error("the engine is stopped")]
    Stopped,
}

/// What happens to an accepted request, in this order: `Started`, one `Text` for each token, `Done`. A request that ends
/// before it starts has only `Done`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The prompt was looked up in the cache; computing begins.
    Started {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens of it that were computed before.
        cached_tokens: usize,
    },
    /// One token was chosen.
    Text {
        /// The text that is certain now: empty while a character is incomplete or a stop string may be beginning.
        text: String,
        /// The token; the one that ends the turn is reported too.
        token: u32,
        /// How likely it was, where the request wants to know.
        score: Option<Score>,
    },
    /// The end; nothing follows.
    Done(Finish),
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// All of the text.
    pub text: String,
    /// The stop string that ended it, which is not part of the text.
    pub stopped_by: Option<String>,
    /// What it cost.
    pub usage: Usage,
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn, or a stop string appeared.
    Stop,
    /// The tokens allowed, or the context, were used up.
    Length,
    /// The caller cancelled, or dropped the [`Generation`], or the engine was shut down.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// The engine failed; the text says how.
    Failed(String),
}

/// What a request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// Tokens in the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were computed before.
    pub cached_tokens: usize,
    /// Those of them that were read from the disk.
    pub disk_tokens: usize,
    /// Tokens of the prompt that were computed for this request.
    pub computed_tokens: usize,
    /// Tokens chosen, the one that ended the turn included.
    pub generated_tokens: usize,
    /// Time from the moment it began to its first token, in seconds; what was computed for others in it is part of it.
    pub prefill_seconds: f64,
    /// Time from the first token to the last, in seconds.
    pub decode_seconds: f64,
    /// The first token of the prompt at which it left the longest known path, when that path went on otherwise.
    pub diverged_at: Option<usize>,
}

/// A request under way. Dropping it cancels the request.
pub struct Generation {
    events: UnboundedReceiver<Event>,
    cancel: Arc<AtomicBool>,
    done: bool,
}

impl Generation {
    /// The next event; None after [`Event::Done`]. Blocks; inside async code use [`Generation::next`].
    pub fn recv(&mut self) -> Option<Event> {
        let event = if self.done { None } else { self.events.blocking_recv() };
        self.note(event)
    }

    /// The next event; None after [`Event::Done`].
    pub async fn next(&mut self) -> Option<Event> {
        let event = if self.done { None } else { self.events.recv().await };
        self.note(event)
    }

    /// Asks the engine to stop; the events still end with [`Event::Done`].
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// A handle that cancels from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.cancel.clone())
    }

    /// Waits for the end. Blocks.
    pub fn finish(mut self) -> Finish {
        loop {
            match self.recv() {
                Some(Event::Done(finish)) => return finish,
                Some(_) => {}
                None => unreachable!("the events of a request end with Done"),
            }
        }
    }

    /// Keeps the promise of exactly one `Done`, even if the engine thread should be gone.
    fn note(&mut self, event: Option<Event>) -> Option<Event> {
        if self.done {
            return None;
        }
        let event = event.unwrap_or_else(|| {
            let reason = FinishReason::Failed("the engine thread ended".into());
            Event::Done(Finish { reason, text: String::new(), stopped_by: None, usage: Usage::default() })
        });
        self.done = matches!(event, Event::Done(_));
        Some(event)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Cancels one request from elsewhere, such as a signal handler.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Asks the engine to stop this request.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A request on its way to the engine thread.
pub(super) struct Job {
    pub request: GenerateRequest,
    pub events: UnboundedSender<Event>,
    pub cancel: Arc<AtomicBool>,
    pub accepted: Instant,
}

impl Job {
    pub fn new(request: GenerateRequest) -> (Job, Generation) {
        let (events, received) = unbounded_channel();
        let cancel = Arc::new(AtomicBool::new(false));
        let job = Job { request, events, cancel: cancel.clone(), accepted: Instant::now() };
        (job, Generation { events: received, cancel, done: false })
    }

    /// Sends the last event.
    pub fn done(&self, finish: Finish) {
        // The receiver may be gone; then nobody is left to tell.
        let _ = self.events.send(Event::Done(finish));
    }
}
