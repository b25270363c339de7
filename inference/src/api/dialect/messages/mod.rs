//! How does Anthropic's Messages API, `/v1/messages`, answer?
//!
//! Its shapes are those of the API reference, "Messages" and "Streaming Messages". What it has and we have not (images,
//! documents, tools that the provider runs, forced calls, an answer begun for the model) is refused by name; `thinking` is
//! ignored, because the models here do not think apart.
//!
//! Usage is true of the prefix cache, in that API's sense: the three numbers of the input add up to the prompt, what came
//! out of the cache is `cache_read_input_tokens`, and what was computed and is kept for the next request is
//! `cache_creation_input_tokens`. So `input_tokens` is 0 unless `cache_prompt` is false.

mod request;

use axum::Json;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::{Answer, Dialect, End, Frame, How, Part, arguments, id};
use crate::api::ask::{self, Ask};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::toolcall::ToolCall;

/// The state of one answer.
pub(in crate::api) struct Messages {
    id: String,
    model: String,
    cache: bool,
    /// How many blocks of content were begun.
    blocks: usize,
    /// Whether the last of them is text that may go on.
    open: bool,
}

impl Dialect for Messages {
    const PROMPT: &'static str = "messages";

    fn read(fields: &Fields, seed: u64) -> Result<(Ask, Self), ApiError> {
        let tokens_max = ask::tokens(fields, "max_tokens")?.ok_or_else(|| fields.missing("max_tokens"))?;
        let ask = request::read(fields, seed, Some(tokens_max))?;
        let own = Self::new(&ask);
        Ok((ask, own))
    }

    fn begun(&mut self, prompt_tokens: usize, cached_tokens: usize) -> Vec<Frame> {
        let usage = self.usage(prompt_tokens.saturating_sub(cached_tokens), cached_tokens, 0);
        let message = self.message(json!([]), Value::Null, Value::Null, usage);
        vec![Frame::named("message_start", json!({"message": message})), ping()]
    }

    fn text(&mut self, part: &Part) -> Vec<Frame> {
        let text = part.text;
        let mut frames = Vec::new();
        if !self.open {
            frames.push(self.start(json!({"type": "text", "text": ""})));
            self.open = true;
        }
        frames.push(self.delta(json!({"type": "text_delta", "text": text})));
        frames
    }

    fn end(&mut self, _choice: usize, end: &End, _last: bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.open {
            frames.push(self.stop());
        }
        for call in &end.calls {
            frames.push(self.start(tool_use(call, Map::new())));
            frames.push(self.delta(json!({"type": "input_json_delta", "partial_json": arguments(call)})));
            frames.push(self.stop());
        }
        let (reason, sequence) = stop_reason(&end.how);
        let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
        frames.push(Frame::named("message_delta", json!({"delta": delta, "usage": self.usage_of(end)})));
        frames.push(Frame::named("message_stop", json!({})));
        frames
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        vec![Frame { event: Some("error"), data: error.to_anthropic_json().to_string() }]
    }

    fn whole(&mut self, answers: &[Answer]) -> Value {
        let Answer { said, end, .. } = &answers[0];
        let text = (!said.is_empty()).then(|| json!({"type": "text", "text": said}));
        let calls = end.calls.iter().map(|call| tool_use(call, call.arguments.clone()));
        let (reason, sequence) = stop_reason(&end.how);
        self.message(text.into_iter().chain(calls).collect(), reason, sequence, self.usage_of(end))
    }

    fn alive() -> Option<Frame> {
        Some(ping())
    }
}

impl Messages {
    fn new(ask: &Ask) -> Self {
        Self { id: id("msg_"), model: ask.model.clone(), cache: ask.cache, blocks: 0, open: false }
    }

    fn message(&self, content: Value, reason: Value, sequence: Value, usage: Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence,
            "usage": usage,
        })
    }

    fn start(&mut self, block: Value) -> Frame {
        self.blocks += 1;
        self.of_block("content_block_start", json!({"content_block": block}))
    }

    fn delta(&self, delta: Value) -> Frame {
        self.of_block("content_block_delta", json!({"delta": delta}))
    }

    fn stop(&self) -> Frame {
        self.of_block("content_block_stop", json!({}))
    }

    /// An event of the block that was begun last.
    fn of_block(&self, event: &'static str, mut fields: Value) -> Frame {
        fields["index"] = self.blocks.saturating_sub(1).into();
        Frame::named(event, fields)
    }

    fn usage_of(&self, end: &End) -> Value {
        let usage = &end.usage;
        let mut json = self.usage(usage.computed_tokens, usage.cached_tokens, usage.generated_tokens);
        json["cloister"] = end.cost();
        json
    }

    fn usage(&self, computed_tokens: usize, cached_tokens: usize, generated_tokens: usize) -> Value {
        let (input, kept) = if self.cache { (0, computed_tokens) } else { (computed_tokens, 0) };
        json!({
            "input_tokens": input,
            "cache_creation_input_tokens": kept,
            "cache_read_input_tokens": cached_tokens,
            "output_tokens": generated_tokens,
        })
    }
}

/// A request of which only the tokens are counted; it needs no `max_tokens`.
pub(in crate::api) fn counted(fields: &Fields) -> Result<Ask, ApiError> {
    request::read(fields, 0, None)
}

/// Middleware: says in that API's shape what was refused at its addresses, wherever it was refused.
pub(in crate::api) async fn in_their_shape(request: Request, next: Next) -> Response {
    let behind = request.uri().path().strip_prefix("/v1/messages");
    let is_theirs = behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('/'));
    let response = next.run(request).await;
    let error = response.extensions().get::<ApiError>().filter(|_| is_theirs).cloned();
    let Some(error) = error else { return response };
    let (head, _) = response.into_parts();
    let mut own = (head.status, Json(error.to_anthropic_json())).into_response();
    for (name, value) in &head.headers {
        own.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    own
}

fn ping() -> Frame {
    Frame::named("ping", json!({}))
}

fn tool_use(call: &ToolCall, input: Map<String, Value>) -> Value {
    json!({"type": "tool_use", "id": id("toolu_"), "name": call.name, "input": input})
}

/// Why it ended, and by which stop string.
fn stop_reason(how: &How) -> (Value, Value) {
    match how {
        How::Turn => (json!("end_turn"), Value::Null),
        How::StopText(text) => (json!("stop_sequence"), json!(text)),
        How::Calls => (json!("tool_use"), Value::Null),
        How::Length => (json!("max_tokens"), Value::Null),
    }
}
