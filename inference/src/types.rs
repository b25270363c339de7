//! Stand-in for the engine's own types until its branch is merged.
#![allow(missing_docs)]

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Message {
    pub role: Role,
    #[serde(default, deserialize_with = "content")]
    pub content: String,
    #[serde(default)]
    pub tool_calls: Vec<Value>,
}

fn content<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: usize,
    pub seed: u64,
}

#[derive(Debug, Clone)]
pub struct GenerateRequest {
    pub prompt: Vec<u32>,
    pub sampling: Sampling,
    pub tokens_max: usize,
    pub stop: Vec<String>,
    pub cache: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
    pub computed_tokens: usize,
    pub generated_tokens: usize,
    pub prefill_seconds: f64,
    pub decode_seconds: f64,
    pub diverged_at: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    Length,
    Cancelled,
    Failed(String),
}

#[derive(Debug, Clone)]
pub struct Finish {
    pub reason: FinishReason,
    pub text: String,
    pub usage: Usage,
}

#[derive(Debug, Clone)]
pub enum Event {
    Started { prompt_tokens: usize, cached_tokens: usize },
    Text { text: String, token: u32 },
    Done(Finish),
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    #[error("the prompt is empty")]
    PromptEmpty,
    #[error("too long")]
    PromptTooLong { prompt_tokens: usize, context_tokens_max: usize },
    #[error("token id {id} is outside the vocabulary of {vocabulary}")]
    UnknownToken { id: u32, vocabulary: usize },
    #[error("invalid request: {what}")]
    Invalid { what: String },
    #[error("the queue is full")]
    QueueFull,
    #[error("the engine is stopped")]
    Stopped,
}
