//! Stand-in for the engine's own types until its branch is merged.
#![allow(missing_docs)]

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Message {
    pub role: String,
    #[serde(default)]
    pub content: Option<String>,
    #[serde(default)]
    pub tool_calls: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Default)]
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

#[derive(Debug, Clone, Default)]
pub struct Usage {
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
    pub computed_tokens: usize,
    pub generated_tokens: usize,
    pub prefill_seconds: f64,
    pub decode_seconds: f64,
    pub diverged_at: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    Length,
    Cancelled,
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
    #[error("the prompt has {prompt_tokens} tokens and the context holds {context_tokens}")]
    PromptTooLong { prompt_tokens: usize, context_tokens: usize },
    #[error("{waiting} requests are already waiting")]
    QueueFull { waiting: usize },
    #[error("the engine has stopped")]
    Stopped,
}
