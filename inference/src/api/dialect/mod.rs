//! In which words is a request made, and in which is it answered?
//!
//! One generation ([`turn`](super::turn)), four ways to ask for it. A dialect reads a JSON object into an
//! [`Ask`], and writes what becomes of it: as one object, or as the events of a stream. It holds no
//! socket and awaits nothing.

mod chat;
mod completions;
mod messages;
mod responses;

pub(super) use chat::Chat;
pub(super) use completions::Completions;
pub(super) use messages::{Messages, counted, in_their_shape};
pub(super) use responses::Responses;

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::ask::Ask;
use super::error::ApiError;
use super::fields::Fields;
use super::scored::Scored;
use super::toolcall::ToolCall;
use crate::{Finish, FinishReason, Usage};

/// One protocol; a value of it is the state of one answer.
pub(super) trait Dialect: Send + Sized + 'static {
    /// The field that holds the prompt, for what is wrong with it as a whole.
    const PROMPT: &'static str;

    /// What the request asks for. `seed` is used when it gives none.
    fn read(fields: &Fields, seed: u64) -> Result<(Ask, Self), ApiError>;

    /// The first events of a stream, sent before the engine has said anything.
    fn at_once(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    /// The prompt has that many tokens, and so many of them were computed before.
    fn begun(&mut self, _prompt_tokens: usize, _cached_tokens: usize) -> Vec<Frame> {
        Vec::new()
    }

    /// More of what the model says.
    fn text(&mut self, part: &Part) -> Vec<Frame>;

    /// The last events of an answer that is whole; `last` where no other is still to end, and then the usage is that of all.
    fn end(&mut self, choice: usize, end: &End, last: bool) -> Vec<Frame>;

    /// The last events of one that failed.
    fn failed(&mut self, error: &ApiError) -> Vec<Frame>;

    /// The answers as one object. There is at least one, and each has the usage of all.
    fn whole(&mut self, answers: &[Answer]) -> Value;

    /// What a silent stream says to show that it lives; without one a comment does.
    fn alive() -> Option<Frame> {
        None
    }
}

/// An event of a stream.
#[derive(Debug, PartialEq)]
pub(super) struct Frame {
    pub event: Option<&'static str>,
    pub data: String,
}

impl Frame {
    /// Without a name.
    pub fn data(data: impl ToString) -> Frame {
        Frame { event: None, data: data.to_string() }
    }

    /// With a name, which the data repeats as its `type`.
    pub fn named(event: &'static str, fields: Value) -> Frame {
        let mut data = json!({"type": event});
        if let (Value::Object(data), Value::Object(fields)) = (&mut data, fields) {
            data.extend(fields);
        }
        Frame { event: Some(event), data: data.to_string() }
    }
}

/// A piece of an answer: text, or what is told of tokens, or both.
pub(super) struct Part<'t> {
    /// Which answer, where there are several.
    pub choice: usize,
    pub text: &'t str,
    /// The tokens since the last piece, where their probabilities are wanted.
    pub scored: &'t [Scored],
}

/// An answer that is whole.
pub(super) struct Answer {
    pub choice: usize,
    pub said: String,
    pub scored: Vec<Scored>,
    pub end: End,
}

/// How an answer ended that is whole.
#[derive(Debug)]
pub(super) struct End {
    pub how: How,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
    /// The rules of [`steady`](super::steady) that changed the request.
    pub steadied: Vec<&'static str>,
}

/// Why there is no more of it.
#[derive(Debug, PartialEq)]
pub(super) enum How {
    /// The model ended its turn.
    Turn,
    /// This stop string appeared.
    StopText(String),
    /// It ended its turn with calls.
    Calls,
    /// The tokens allowed, or the context, were used up.
    Length,
}

impl End {
    /// The error where the answer did not end but was abandoned.
    pub fn new(finish: Finish, calls: Vec<ToolCall>, steadied: Vec<&'static str>) -> Result<End, ApiError> {
        let how = match finish.reason {
            FinishReason::Stop if !calls.is_empty() => How::Calls,
            FinishReason::Stop => finish.stopped_by.map_or(How::Turn, How::StopText),
            FinishReason::Length => How::Length,
            FinishReason::Cancelled => return Err(ApiError::shutting_down()),
            FinishReason::Expired => return Err(ApiError::expired()),
            FinishReason::Failed(reason) => {
                return Err(ApiError::internal(format!("the engine failed: {reason}")));
            }
        };
        Ok(End { how, calls, usage: finish.usage, steadied })
    }

    /// OpenAI's word for it.
    fn finish_word(&self) -> &'static str {
        match self.how {
            How::Turn | How::StopText(_) => "stop",
            How::Calls => "tool_calls",
            How::Length => "length",
        }
    }

    /// The usage of OpenAI's completions.
    fn usage_json(&self) -> Value {
        let usage = &self.usage;
        json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.generated_tokens,
            "total_tokens": usage.prompt_tokens + usage.generated_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "cloister": self.cost(),
        })
    }

    /// Ours alone, in the usage of every dialect: the tokens that were really computed, those read from the disk, the
    /// seconds they took, where the prompt left the longest prefix that was cached, and which rules changed the request.
    fn cost(&self) -> Value {
        json!({
            "computed_tokens": self.usage.computed_tokens,
            "disk_tokens": self.usage.disk_tokens,
            "prefill_seconds": self.usage.prefill_seconds,
            "decode_seconds": self.usage.decode_seconds,
            "diverged_at": self.usage.diverged_at,
            "steadied": self.steadied,
        })
    }
}

/// A number that differs from call to call: for ids, and for the seed of a request that gives none.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// An id that nothing else has.
fn id(prefix: &str) -> String {
    format!("{prefix}{:016x}", random())
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The arguments of a call as OpenAI has them: JSON in a string.
fn arguments(call: &ToolCall) -> String {
    Value::Object(call.arguments.clone()).to_string()
}
