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
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Backend;
use super::ask::{self, Ask, Prompt};
use super::dialect::{self, Answer, Dialect, End, Frame, Part, random};
use super::error::ApiError;
use super::fields::Fields;
use super::guard::Namespace;
use super::scored::{Likely, Scored};
use super::state::Server;
use super::toolcall::Splitter;
use crate::grammar::Grammar;
use crate::{Event, Finish, FinishReason, GenerateRequest, Score, Special, Steer, Usage};

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
    backend: B,
    /// What the engine says of each choice.
    events: SelectAll<BoxStream<'static, (usize, Event)>>,
    choices: Vec<Choice>,
    dialect: D,
    /// What all choices that have ended cost together.
    usage: Option<Usage>,
    steadied: Vec<&'static str>,
    stream: bool,
}

impl<B: Backend, D> Turn<B, D> {
    /// The engine's next word. An engine that falls silent without a last word has failed.
    async fn next(&mut self) -> Result<(usize, Event), ApiError> {
        let event = self.server.bounded(self.deadline, self.events.next()).await?;
        if let Some((_, Event::Done(finish))) = &event {
            self.server.metrics.done(&finish.reason, &finish.usage);
        }
        event.ok_or_else(|| ApiError::internal("the engine ended without finishing the answer"))
    }

    /// Takes a token: what may be shown of the text now is the answer.
    fn push(&mut self, choice: usize, text: &str, token: u32, score: Option<Score>) -> &str {
        let likely = |id, logprob| Likely { bytes: self.backend.token_bytes(id).unwrap_or_default().to_vec(), logprob };
        let one = &mut self.choices[choice];
        one.scored.extend(score.map(|score| Scored {
            chosen: likely(token, score.logprob),
            top: score.top.into_iter().map(|(id, logprob)| likely(id, logprob)).collect(),
        }));
        one.splitter.push(text)
    }

    /// What was held back until the answer was whole, how it ended, and whether it is the last.
    fn finish(&mut self, choice: usize, finish: Finish) -> Result<(String, End, bool), ApiError> {
        let (rest, calls) = self.choices[choice].splitter.finish(finish.reason == FinishReason::Stop);
        let rest = rest.to_owned();
        let mut end = End::new(finish, calls, self.steadied.clone())?;
        let total = self.usage.map_or(end.usage, |usage| together(usage, &end.usage));
        (self.usage, end.usage) = (Some(total), total);
        self.choices[choice].ended = true;
        Ok((rest, end, self.choices.iter().all(|choice| choice.ended)))
    }
}

/// One of the answers to a request.
struct Choice {
    splitter: Splitter,
    /// Of the tokens that were not told yet.
    scored: Vec<Scored>,
    ended: bool,
}

/// What two answers to one prompt cost. The prompt counts once, as the one that found least of it computed has it.
fn together(one: Usage, other: &Usage) -> Usage {
    Usage {
        prompt_tokens: one.prompt_tokens,
        cached_tokens: one.cached_tokens.min(other.cached_tokens),
        disk_tokens: one.disk_tokens + other.disk_tokens,
        computed_tokens: one.computed_tokens + other.computed_tokens,
        generated_tokens: one.generated_tokens + other.generated_tokens,
        prefill_seconds: one.prefill_seconds.max(other.prefill_seconds),
        decode_seconds: one.decode_seconds.max(other.decode_seconds),
        diverged_at: one.diverged_at.or(other.diverged_at),
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
    /// What its answer is held to.
    grammar: Option<Grammar>,
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
    let Encoded { backend, namespace, mut ask, ids, grammar, steadied, rest: dialect } = encoded;
    let room_tokens = backend.context_tokens().saturating_sub(ids.len());
    if room_tokens == 0 {
        return Err(ApiError::context_exceeded(D::PROMPT, ids.len(), backend.context_tokens()));
    }
    if matches!(ask.prompt, Prompt::Fill { .. }) {
        let known = FILL_ENDS.into_iter().filter(|token| backend.control_id(token).is_some());
        ask.stop.extend(known.map(str::to_owned));
    }
    if let Some((id, _)) = ask.bias.iter().find(|(id, _)| backend.token_bytes(*id).is_none()) {
        return Err(ApiError::invalid(
            "logit_bias",
            "invalid_value",
            format!("invalid 'logit_bias': there is no token {id}"),
        ));
    }
    let wanted = GenerateRequest {
        prompt: ids,
        sampling: ask.sampling,
        tokens_max: ask.tokens_max.map_or(room_tokens, |tokens| tokens.min(room_tokens)),
        stop: ask.stop,
        cache: ask.cache,
        namespace,
        deadline: None,
        steer: Steer { grammar: grammar.map(Arc::new), bias: ask.bias, logprobs: ask.logprobs },
    };
    // The prefix cache is what makes several answers cheap: the first computes the prompt, the others find its blocks.
    let mut events = Vec::new();
    for choice in 0..ask.choices {
        let mut wanted = wanted.clone();
        wanted.sampling.seed = wanted.sampling.seed.wrapping_add(choice as u64);
        let said = backend.submit(wanted).map_err(|error| ApiError::not_accepted(D::PROMPT, error))?;
        events.push(said.map(move |event| (choice, event)).boxed());
    }
    server.metrics.begin();
    let tools = ask.prompt.tool_names();
    let choice = |_| Choice { splitter: Splitter::new(tools.clone()), scored: Vec::new(), ended: false };
    Ok(Turn {
        server: server.clone(),
        deadline,
        backend,
        events: select_all(events),
        choices: (0..ask.choices).map(choice).collect(),
        dialect,
        usage: None,
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
        let shape = std::mem::take(&mut ask.shape);
        let grammar = (!shape.is_free()).then(|| backend.grammar(shape).map_err(ApiError::schema)).transpose()?;
        Ok(Encoded { backend, namespace, ask, ids, grammar, steadied, rest })
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

/// Everything the engine says, as one object.
async fn whole<B: Backend, D: Dialect>(mut turn: Turn<B, D>) -> Result<Value, ApiError> {
    let mut said = vec![String::new(); turn.choices.len()];
    let mut answers: Vec<Answer> = Vec::new();
    loop {
        match turn.next().await? {
            (_, Event::Started { .. }) => {}
            (choice, Event::Text { text, token, score }) => {
                said[choice].push_str(turn.push(choice, &text, token, score))
            }
            (choice, Event::Done(finish)) => {
                let (rest, end, last) = turn.finish(choice, finish)?;
                let scored = std::mem::take(&mut turn.choices[choice].scored);
                let said = std::mem::take(&mut said[choice]) + &rest;
                answers.push(Answer { choice, said, scored, end });
                if last {
                    answers.sort_by_key(|answer| answer.choice);
                    let total = turn.usage.unwrap_or_default();
                    answers.iter_mut().for_each(|answer| answer.end.usage = total);
                    return Ok(turn.dialect.whole(&answers));
                }
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
fn frames<B: Backend, D: Dialect>(
    turn: &mut Turn<B, D>,
    event: Result<(usize, Event), ApiError>,
) -> (Vec<Frame>, bool) {
    let (choice, ended) = match event {
        Err(error) => (0, Err(error)),
        Ok((0, Event::Started { prompt_tokens, cached_tokens })) => {
            return (turn.dialect.begun(prompt_tokens, cached_tokens), false);
        }
        Ok((_, Event::Started { .. })) => return (Vec::new(), false),
        Ok((choice, Event::Text { text, token, score })) => {
            let shown = turn.push(choice, &text, token, score).to_owned();
            return (if shown.is_empty() { Vec::new() } else { part(turn, choice, &shown) }, false);
        }
        Ok((choice, Event::Done(finish))) => (choice, turn.finish(choice, finish)),
    };
    match ended {
        Err(error) => (turn.dialect.failed(&error), true),
        Ok((rest, end, last)) => {
            let nothing = rest.is_empty() && turn.choices[choice].scored.is_empty();
            let mut frames = if nothing { Vec::new() } else { part(turn, choice, &rest) };
            frames.extend(turn.dialect.end(choice, &end, last));
            (frames, last)
        }
    }
}

/// Text, with what is told of the tokens since the last.
fn part<B: Backend, D: Dialect>(turn: &mut Turn<B, D>, choice: usize, text: &str) -> Vec<Frame> {
    let scored = std::mem::take(&mut turn.choices[choice].scored);
    turn.dialect.text(&Part { choice, text, scored: &scored })
}

fn sse(frame: Frame) -> SseEvent {
    let event = SseEvent::default().data(frame.data);
    match frame.event {
        Some(name) => event.event(name),
        None => event,
    }
}
