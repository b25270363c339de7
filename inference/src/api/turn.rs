//! How does one generation run, from a request's bytes to the last event, whatever the dialect?
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
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Backend;
use super::ask::{self, Ask, Prompt};
use super::dialect::{self, Dialect, End, Frame, random};
use super::error::ApiError;
use super::fields::Fields;
use super::guard::Namespace;
use super::state::Server;
use super::toolcall::Splitter;
use crate::{Event, Finish, FinishReason, GenerateRequest, Special};

/// How often a silent stream says that it lives: a long prompt may be computed for minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The control tokens around the two sides of a gap, in the order in which they are written (Qwen2.5-Coder's report).
const FILL: [&str; 3] = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"];
/// What a model may write behind the text that fills a gap, where it knows these tokens.
const FILL_ENDS: [&str; 3] = ["<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"];

/// Answers a request of the dialect `D`.
pub(super) async fn answer<B: Backend, D: Dialect>(State(server): State<Server<B>>, request: Request) -> Response {
    let deadline = Instant::now() + server.limits.request_time_max;
    let begun = server.bounded(deadline, begin::<B, D>(&server, request, deadline)).await;
    match begun.and_then(|begun| begun) {
        Ok(turn) if turn.stream => {
            let alive = KeepAlive::new().interval(KEEP_ALIVE);
            let alive = match D::alive() {
                Some(frame) => alive.event(sse(frame)),
                None => alive,
            };
            Sse::new(events(turn)).keep_alive(alive).into_response()
        }
        Ok(turn) => match whole(turn).await {
            Ok(answer) => Json(answer).into_response(),
            Err(error) => error.into_response(),
        },
        Err(error) => error.into_response(),
    }
}

/// Counts the tokens that the prompt of such a request has: Anthropic's `count_tokens`.
pub(super) async fn count<B: Backend>(
    State(server): State<Server<B>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    within_deadline(&server, async {
        let read = |fields: &Fields| Ok((dialect::counted(fields)?, ()));
        let encoded = encoded(&server, request, "messages", read).await?;
        Ok(Json(json!({"input_tokens": encoded.ids.len()})))
    })
    .await
}

/// Awaits what has no turn of its own.
pub(super) async fn within_deadline<B: Backend, T>(
    server: &Server<B>,
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let deadline = Instant::now() + server.limits.request_time_max;
    server.bounded(deadline, work).await?
}

/// A generation that the engine has accepted.
struct Turn<B, D> {
    server: Server<B>,
    deadline: Instant,
    events: BoxStream<'static, Event>,
    splitter: Splitter,
    dialect: D,
    steadied: Vec<&'static str>,
    stream: bool,
}

impl<B: Backend, D> Turn<B, D> {
    /// The engine's next word. An engine that falls silent without a last word has failed.
    async fn next(&mut self) -> Result<Event, ApiError> {
        let event = self.server.bounded(self.deadline, self.events.next()).await?;
        if let Some(Event::Done(finish)) = &event {
            self.server.metrics.done(&finish.reason, &finish.usage);
        }
        event.ok_or_else(|| ApiError::internal("the engine ended without finishing the answer"))
    }

    /// What was held back until the turn was whole, and how it ended.
    fn finish(&mut self, finish: Finish) -> Result<(&str, End), ApiError> {
        let (rest, calls) = self.splitter.finish(finish.reason == FinishReason::Stop);
        Ok((rest, End::new(finish, calls, std::mem::take(&mut self.steadied))?))
    }
}

impl<B, D> Drop for Turn<B, D> {
    fn drop(&mut self) {
        self.server.metrics.leave();
    }
}

/// A request that was read and encoded, with what else was read out of it.
struct Encoded<B, T> {
    backend: B,
    namespace: u64,
    ask: Ask,
    ids: Vec<u32>,
    /// The rules that changed it.
    steadied: Vec<&'static str>,
    rest: T,
}

async fn begin<B: Backend, D: Dialect>(
    server: &Server<B>,
    request: Request,
    deadline: Instant,
) -> Result<Turn<B, D>, ApiError> {
    let encoded = encoded(server, request, D::PROMPT, |fields| D::read(fields, random())).await?;
    let Encoded { backend, namespace, mut ask, ids, steadied, rest: dialect } = encoded;
    let room_tokens = backend.context_tokens().saturating_sub(ids.len());
    if room_tokens == 0 {
        return Err(ApiError::context_exceeded(D::PROMPT, ids.len(), backend.context_tokens()));
    }
    if matches!(ask.prompt, Prompt::Fill { .. }) {
        let known = FILL_ENDS.into_iter().filter(|token| backend.control_id(token).is_some());
        ask.stop.extend(known.map(str::to_owned));
    }
    let events = backend.submit(GenerateRequest {
        prompt: ids,
        sampling: ask.sampling,
        tokens_max: ask.tokens_max.map_or(room_tokens, |tokens| tokens.min(room_tokens)),
        stop: ask.stop,
        cache: ask.cache,
        namespace,
        deadline: None,
    });
    let events = events.map_err(|error| ApiError::not_accepted(D::PROMPT, error))?;
    server.metrics.begin();
    Ok(Turn {
        server: server.clone(),
        deadline,
        events,
        splitter: Splitter::new(ask.prompt.tool_names()),
        dialect,
        steadied,
        stream: ask.stream,
    })
}

/// Reads and encodes a request whose prompt stands in `field`.
async fn encoded<B: Backend, T: Send + 'static>(
    server: &Server<B>,
    request: Request,
    field: &'static str,
    read: impl FnOnce(&Fields) -> Result<(Ask, T), ApiError>,
) -> Result<Encoded<B, T>, ApiError> {
    let backend = server.backend()?.clone();
    let namespace = request.extensions().get().map_or(0, |Namespace(own)| *own);
    let json = json_body(server, request).await?;
    let (mut ask, rest) = read(&Fields::of(&json, String::new())?)?;
    drop(json);
    if ask.model != backend.model_id() {
        return Err(ApiError::model_not_found(&ask.model, backend.model_id()));
    }
    let steadied = match &mut ask.prompt {
        Prompt::Chat { messages, tools } => server.limits.steady.apply(messages, tools),
        _ => Vec::new(),
    };
    off_thread(server, move || {
        let ids = encode(&backend, &ask.prompt, field)?;
        Ok(Encoded { backend, namespace, ask, ids, steadied, rest })
    })
    .await?
}

fn encode<B: Backend>(backend: &B, prompt: &Prompt, field: &'static str) -> Result<Vec<u32>, ApiError> {
    match prompt {
        Prompt::Chat { messages, tools } => backend.encode_chat(messages, tools).map_err(|reason| {
            let message = format!("the model's chat template refused the messages: {reason}");
            ApiError::invalid(field, "invalid_value", message)
        }),
        Prompt::Text(text) => Ok(backend.encode_text(text, Special::Allow)),
        Prompt::Ids(ids) => Ok(ids.clone()),
        Prompt::Fill { prefix, suffix } => {
            let mut tokens = [0; 3];
            for (id, token) in tokens.iter_mut().zip(FILL) {
                *id = backend.control_id(token).ok_or_else(|| ApiError::cannot_fill(token))?;
            }
            let [before, behind, middle] = tokens;
            let mut ids = vec![before];
            ids.extend(backend.encode_text(prefix, Special::Forbid));
            ids.push(behind);
            ids.extend(backend.encode_text(suffix, Special::Forbid));
            ids.push(middle);
            Ok(ids)
        }
    }
}

/// Works off the async threads, a few requests at a time: to encode megabytes of text takes seconds.
pub(super) async fn off_thread<B: Backend, T: Send + 'static>(
    server: &Server<B>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let permit = Arc::clone(&server.encoders).acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.map_err(|_| ApiError::internal("the request could not be encoded"))
}

/// The JSON object in a request's body.
pub(super) async fn json_body<B: Backend>(server: &Server<B>, request: Request) -> Result<Value, ApiError> {
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
    let body = Bytes::from_request(request, &()).await;
    ask::object(&body.map_err(|rejection| ApiError::body(rejection.status(), bytes_max))?)
}

/// Everything the engine says, as one answer.
async fn whole<B: Backend, D: Dialect>(mut turn: Turn<B, D>) -> Result<Value, ApiError> {
    let mut said = String::new();
    loop {
        match turn.next().await? {
            Event::Started { .. } => {}
            Event::Text { text, .. } => said.push_str(turn.splitter.push(&text)),
            Event::Done(finish) => {
                let (rest, end) = turn.finish(finish)?;
                said.push_str(rest);
                return Ok(turn.dialect.whole(&said, &end));
            }
        }
    }
}

/// The same as a stream. A whole answer ends as its dialect says, a failed one with an error: never both.
fn events<B: Backend, D: Dialect>(mut turn: Turn<B, D>) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let at_once = turn.dialect.at_once();
    let rest = stream::unfold(Some(turn), async |turn| {
        let mut turn = turn?;
        let event = turn.next().await;
        let (frames, over) = frames(&mut turn, event);
        Some((stream::iter(frames), (!over).then_some(turn)))
    });
    stream::iter(at_once).chain(rest.flatten()).map(|frame| Ok(sse(frame)))
}

/// What one word of the engine becomes on the wire, and whether it was the last.
fn frames<B: Backend, D: Dialect>(turn: &mut Turn<B, D>, event: Result<Event, ApiError>) -> (Vec<Frame>, bool) {
    let ended = match event {
        Err(error) => Err(error),
        Ok(Event::Started { prompt_tokens, cached_tokens }) => {
            return (turn.dialect.begun(prompt_tokens, cached_tokens), false);
        }
        Ok(Event::Text { text, .. }) => {
            let shown = turn.splitter.push(&text);
            return (if shown.is_empty() { Vec::new() } else { turn.dialect.text(shown) }, false);
        }
        Ok(Event::Done(finish)) => turn.finish(finish).map(|(rest, end)| (rest.to_owned(), end)),
    };
    let frames = match ended {
        Err(error) => turn.dialect.failed(&error),
        Ok((rest, end)) => {
            let mut frames = if rest.is_empty() { Vec::new() } else { turn.dialect.text(&rest) };
            frames.extend(turn.dialect.end(&end));
            frames
        }
    };
    (frames, true)
}

fn sse(frame: Frame) -> SseEvent {
    let event = SseEvent::default().data(frame.data);
    match frame.event {
        Some(name) => event.event(name),
        None => event,
    }
}
