//! How does one chat completion run, from its bytes to its last event?
//!
//! Read the body, render and encode, submit, then forward what the engine says, at once or as a stream. The whole of
//! it stands under one deadline and ends early when the server must go. Nothing here watches for the client's leaving:
//! when it leaves, the server drops this future or stream wherever it stands, and with it the engine's receiver, which
//! is what cancels the generation.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::Backend;
use super::error::ApiError;
use super::guard::Namespace;
use super::reply::{Reply, finish_word, random};
use super::request::ChatRequest;
use super::state::Server;
use super::toolcall::Splitter;
use crate::{Event, Finish, FinishReason, GenerateRequest};

/// How often a silent stream says that it lives: a long prompt may be computed for minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// POST /v1/chat/completions.
pub(super) async fn completions<B: Backend>(State(server): State<Server<B>>, request: Request) -> Response {
    let deadline = Instant::now() + server.limits.request_time_max;
    let begun = server.bounded(deadline, begin(&server, request, deadline)).await;
    match begun.and_then(|begun| begun) {
        Ok(turn) if turn.stream => {
            Sse::new(events(turn)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
        }
        Ok(turn) => match whole(turn).await {
            Ok(completion) => Json(completion).into_response(),
            Err(error) => error.into_response(),
        },
        Err(error) => error.into_response(),
    }
}

/// A generation that the engine has accepted.
struct Turn<B> {
    server: Server<B>,
    deadline: Instant,
    events: BoxStream<'static, Event>,
    splitter: Splitter,
    reply: Reply,
    stream: bool,
}

impl<B: Backend> Turn<B> {
    /// The engine's next word. An engine that falls silent without a last word has failed.
    async fn next(&mut self) -> Result<Event, ApiError> {
        let event = self.server.bounded(self.deadline, self.events.next()).await?;
        if let Some(Event::Done(finish)) = &event {
            self.server.metrics.done(&finish.reason, &finish.usage);
        }
        event.ok_or_else(|| ApiError::internal("the engine ended without finishing the answer"))
    }
}

impl<B> Drop for Turn<B> {
    fn drop(&mut self) {
        self.server.metrics.leave();
    }
}

async fn begin<B: Backend>(server: &Server<B>, request: Request, deadline: Instant) -> Result<Turn<B>, ApiError> {
    let backend = server.backend()?.clone();
    let namespace = request.extensions().get().map_or(0, |Namespace(own)| *own);
    let body = body(server, request).await?;
    let mut chat = ChatRequest::parse(&body, random())?;
    drop(body);
    let steadied = server.limits.steady.apply(&mut chat.messages, &mut chat.tools);
    if chat.model != backend.model_id() {
        return Err(ApiError::model_not_found(&chat.model, backend.model_id()));
    }
    let (chat, prompt) = encode(server, backend.clone(), chat).await?;
    let room_tokens = backend.context_tokens().saturating_sub(prompt.len());
    if room_tokens == 0 {
        return Err(ApiError::context_exceeded(prompt.len(), backend.context_tokens()));
    }
    let events = backend.submit(GenerateRequest {
        prompt,
        sampling: chat.sampling,
        tokens_max: chat.tokens_max.map_or(room_tokens, |tokens| tokens.min(room_tokens)),
        stop: chat.stop,
        cache: chat.cache,
        namespace,
        deadline: None,
    })?;
    server.metrics.begin();
    Ok(Turn {
        server: server.clone(),
        deadline,
        events,
        splitter: Splitter::new(chat.tool_names),
        reply: Reply::new(&chat.model, chat.include_usage, steadied),
        stream: chat.stream,
    })
}

async fn body<B: Backend>(server: &Server<B>, request: Request) -> Result<Bytes, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::not_declared_json());
    }
    let bytes_max = server.limits.body_bytes_max;
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|bytes: usize| bytes > bytes_max) {
        return Err(ApiError::body(StatusCode::PAYLOAD_TOO_LARGE, bytes_max));
    }
    Bytes::from_request(request, &()).await.map_err(|rejection| ApiError::body(rejection.status(), bytes_max))
}

/// Renders and encodes off the async threads, a few at a time: megabytes of text take seconds.
async fn encode<B: Backend>(
    server: &Server<B>,
    backend: B,
    chat: ChatRequest,
) -> Result<(ChatRequest, Vec<u32>), ApiError> {
    let permit = Arc::clone(&server.encoders).acquire_owned().await;
    let encoded = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        backend.encode_chat(&chat.messages, &chat.tools).map(|prompt| (chat, prompt))
    });
    match encoded.await {
        Ok(Ok(encoded)) => Ok(encoded),
        Ok(Err(reason)) => {
            let message = format!("the model's chat template refused the messages: {reason}");
            Err(ApiError::invalid("messages", "invalid_value", message))
        }
        Err(_) => Err(ApiError::internal("the messages could not be encoded")),
    }
}

/// Everything the engine says, as one completion.
async fn whole<B: Backend>(mut turn: Turn<B>) -> Result<Value, ApiError> {
    let mut content = String::new();
    loop {
        match turn.next().await? {
            Event::Started { .. } => {}
            Event::Text { text, .. } => content.push_str(turn.splitter.push(&text)),
            Event::Done(Finish { reason, usage, .. }) => {
                let (rest, calls) = turn.splitter.finish(reason == FinishReason::Stop);
                content.push_str(rest);
                let word = finish_word(reason, !calls.is_empty())?;
                return Ok(turn.reply.completion(&content, &calls, word, &usage));
            }
        }
    }
}

/// The same as a stream. A whole answer ends with `[DONE]`, a failed one with an error object: never both.
fn events<B: Backend>(turn: Turn<B>) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let role = turn.reply.role();
    let rest = stream::unfold(Some(turn), async |turn| {
        let mut turn = turn?;
        let event = turn.next().await;
        let (chunks, over) = chunks(&mut turn, event);
        Some((stream::iter(chunks), (!over).then_some(turn)))
    });
    stream::once(async move { role.to_string() }).chain(rest.flatten()).map(|data| Ok(SseEvent::default().data(data)))
}

/// What one word of the engine becomes on the wire, and whether it was the last.
fn chunks<B: Backend>(turn: &mut Turn<B>, event: Result<Event, ApiError>) -> (Vec<String>, bool) {
    let reply = &turn.reply;
    let Finish { reason, usage, .. } = match event {
        Err(error) => return (vec![error.to_json().to_string()], true),
        Ok(Event::Started { .. }) => return (Vec::new(), false),
        Ok(Event::Text { text, .. }) => {
            let shown = turn.splitter.push(&text);
            let chunk = (!shown.is_empty()).then(|| reply.text(shown).to_string());
            return (chunk.into_iter().collect(), false);
        }
        Ok(Event::Done(finish)) => finish,
    };
    let (rest, calls) = turn.splitter.finish(reason == FinishReason::Stop);
    let word = match finish_word(reason, !calls.is_empty()) {
        Ok(word) => word,
        Err(error) => return (vec![error.to_json().to_string()], true),
    };
    let mut chunks = Vec::new();
    if !rest.is_empty() {
        chunks.push(reply.text(rest).to_string());
    }
    if !calls.is_empty() {
        chunks.push(reply.calls(&calls).to_string());
    }
    chunks.push(reply.finish(word).to_string());
    chunks.extend(reply.usage(&usage).map(|usage| usage.to_string()));
    chunks.push("[DONE]".to_owned());
    (chunks, true)
}
