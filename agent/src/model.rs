//! What does the agent need from a model? Messages in, text out, and an honest count of tokens.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a call with a deadline looks at the clock.
const POLL: Duration = Duration::from_millis(20);

/// Who a message speaks as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The frozen instructions.
    System,
    /// The task, and everything the harness reports.
    User,
    /// The model.
    Assistant,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass, in (0, 1].
    pub top_p: f32,
    /// The same seed gives the same tokens.
    pub seed: u64,
}

impl Sampling {
    /// The most likely token, always.
    pub const GREEDY: Self = Self { temperature: 0.0, top_p: 1.0, seed: 0 };
}

/// One call of the model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The whole conversation, oldest first; a stable prefix of the call before wherever nothing was rolled back.
    pub messages: Vec<Message>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The longest reply, in tokens.
    pub tokens_max: usize,
    /// How the reply begins, put into the model's mouth; empty to let it begin itself. A model that cannot be led
    /// (behind a URL) ignores it.
    pub prefix: String,
}

/// What a call cost, in tokens and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of those, taken from the prefix cache.
    pub cached_tokens: usize,
    /// Tokens of the reply.
    pub generated_tokens: usize,
    /// Milliseconds from the request to its end.
    pub millis: u64,
}

impl Usage {
    /// Prompt tokens that had to be computed.
    pub fn computed_tokens(&self) -> usize {
        self.prompt_tokens.saturating_sub(self.cached_tokens)
    }
}

/// A finished call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The text, as far as it was wanted.
    pub text: String,
    /// What it cost.
    pub usage: Usage,
    /// False when the token limit cut it off.
    pub complete: bool,
}

/// Does the agent want more text?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    More,
    /// The turn is whole; stop generating.
    Enough,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The conversation no longer fits.
    #[error("the conversation has {prompt_tokens} tokens, the model reads at most {context_tokens_max}")]
    ContextFull {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// What fits.
        context_tokens_max: usize,
    },
    /// Somebody pressed Ctrl-C.
    #[error("cancelled")]
    Cancelled,
    /// The engine or the server failed.
    #[error("the model failed: {0}")]
    Failed(String),
}

/// A language model, in this process or behind a URL.
pub trait Model {
    /// The name that the cost sheet and the log show.
    fn name(&self) -> &str;
    /// The longest conversation, in tokens.
    fn context_tokens_max(&self) -> usize;
    /// Speaks. `on_text` sees the reply so far after every piece and may end it; `cancel` ends it from outside.
    fn complete(
        &mut self,
        request: &Request,
        on_text: &mut dyn FnMut(&str) -> Flow,
        cancel: &AtomicBool,
    ) -> Result<Reply, ModelError>;
}

/// One call that ends at its deadline, also when the model is silent.
///
/// # Errors
/// What the model says; [`ModelError::Cancelled`] only when `cancel` was set.
pub fn complete_within(
    model: &mut dyn Model,
    request: &Request,
    limit: Duration,
    on_text: &mut dyn FnMut(&str) -> Flow,
    cancel: &AtomicBool,
) -> Result<Reply, ModelError> {
    let (stop, done, begun) = (AtomicBool::new(false), AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if begun.elapsed() >= limit || cancel.load(Ordering::Relaxed) {
                    return stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(POLL);
            }
        });
        let reply = model.complete(request, on_text, &stop);
        done.store(true, Ordering::Relaxed);
        match reply {
            Err(ModelError::Cancelled) if !cancel.load(Ordering::Relaxed) => {
                Err(ModelError::Failed(format!("no answer within {} s", limit.as_secs())))
            }
            reply => reply,
        }
    })
}
