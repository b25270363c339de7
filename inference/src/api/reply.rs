//! How does an answer look on the wire?
//!
//! The objects of OpenAI's chat completions, whole and in chunks. Ours alone is `usage.cloister`: the tokens that were
//! really computed, those read from the disk, the seconds they took, where the
//! prompt left the longest prefix that was cached, and which rules of [`steady`](super::steady) changed the request.

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::error::ApiError;
use super::toolcall::ToolCall;
use crate::{FinishReason, Usage};

/// What is the same in every object of one answer.
pub(super) struct Reply {
    id: String,
    created: u64,
    model: String,
    /// Chunks then carry `usage: null`, and the last one the numbers.
    include_usage: bool,
    /// The rules that changed something in the request.
    steadied: Vec<&'static str>,
}

impl Reply {
    pub fn new(model: &str, include_usage: bool, steadied: Vec<&'static str>) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { id: format!("chatcmpl-{:016x}", random()), created, model: model.to_owned(), include_usage, steadied }
    }

    /// The whole answer at once.
    pub fn completion(&self, content: &str, calls: &[ToolCall], finish: &'static str, usage: &Usage) -> Value {
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !calls.is_empty() {
            message["tool_calls"] = calls.iter().map(call).collect();
            if content.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
            "usage": self.usage_json(usage),
        })
    }

    /// The first chunk, which only says whose turn it is.
    pub fn role(&self) -> Value {
        self.chunk(json!({"role": "assistant", "content": ""}), None)
    }

    pub fn text(&self, text: &str) -> Value {
        self.chunk(json!({"content": text}), None)
    }

    pub fn calls(&self, calls: &[ToolCall]) -> Value {
        let indexed = calls.iter().enumerate().map(|(at, item)| {
            let mut item = call(item);
            item["index"] = at.into();
            item
        });
        self.chunk(json!({"tool_calls": indexed.collect::<Value>()}), None)
    }

    pub fn finish(&self, finish: &'static str) -> Value {
        self.chunk(json!({}), Some(finish))
    }

    /// The chunk without choices that ends a stream for which usage was asked.
    pub fn usage(&self, usage: &Usage) -> Option<Value> {
        self.include_usage.then(|| {
            let mut chunk = self.chunk(Value::Null, None);
            chunk["choices"] = json!([]);
            chunk["usage"] = self.usage_json(usage);
            chunk
        })
    }

    fn usage_json(&self, usage: &Usage) -> Value {
        json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.generated_tokens,
            "total_tokens": usage.prompt_tokens + usage.generated_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "cloister": {
                "computed_tokens": usage.computed_tokens,
                "disk_tokens": usage.disk_tokens,
                "prefill_seconds": usage.prefill_seconds,
                "decode_seconds": usage.decode_seconds,
                "diverged_at": usage.diverged_at,
                "steadied": self.steadied,
            },
        })
    }

    fn chunk(&self, delta: Value, finish: Option<&'static str>) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

/// OpenAI's word for how the turn ended, or the error when it did not end but was abandoned.
pub(super) fn finish_word(reason: FinishReason, has_calls: bool) -> Result<&'static str, ApiError> {
    match reason {
        FinishReason::Stop if has_calls => Ok("tool_calls"),
        FinishReason::Stop => Ok("stop"),
        FinishReason::Length => Ok("length"),
        FinishReason::Cancelled => Err(ApiError::shutting_down()),
        FinishReason::Expired => Err(ApiError::expired()),
        FinishReason::Failed(reason) => Err(ApiError::internal(format!("the engine failed: {reason}"))),
    }
}

/// A number that differs from call to call: for ids, and for the seed of a request that gives none.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn call(call: &ToolCall) -> Value {
    // OpenAI's form: the arguments are JSON in a string.
    let arguments = Value::Object(call.arguments.clone()).to_string();
    json!({
        "id": format!("call_{:016x}", random()),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    })
}
