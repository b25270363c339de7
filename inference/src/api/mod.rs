//! How does a program speak to the engine over HTTP?
//!
//! In four dialects for one generation, and with a few things around it:
//!
//! | | |
//! |---|---|
//! | `POST /v1/chat/completions` | OpenAI's chat, streaming and not, with tools |
//! | `POST /v1/completions` | OpenAI's, one prompt; with `suffix` the gap is filled |
//! | `POST /v1/responses` | OpenAI's, nothing stored, streaming and not, with tools |
//! | `POST /v1/messages`, `/v1/messages/count_tokens` | Anthropic's, streaming and not, with tools |
//! | `POST /tokenize`, `POST /detokenize` | as llama.cpp's server has them |
//! | `GET /v1/models` | the one model that is loaded |
//! | `GET /metrics` | counts in tokens, for Prometheus |
//! | `GET /health` | 200 when ready, 503 while loading or when that failed, with the reason |
//!
//! Answers are held to JSON schemas and calls to their tools where a request says so: see [`wanted`] and [`crate::grammar`].
//! Ours alone are `usage.cloister` and `top_k`; `cache_prompt` is llama.cpp's. [`steady`] takes out of a request what would cost the cache
//! and says nothing to the model. What a request leaves open about sampling is what suits the Qwen2.5
//! family. Without API keys ([`keys`]) it listens on loopback only and checks the Host header ([`guard`]); whoever can reach
//! the address may use it. Read on in [`turn`] for the life of one request, in [`dialect`] for
//! its words, in [`toolcall`] for how calls are found in what a model writes.

mod ask;
mod dialect;
mod error;
mod fields;
mod guard;
mod keys;
mod metrics;
mod scored;
mod serve;
mod served;
mod state;
pub mod steady;
mod tokens;
pub mod toolcall;
mod turn;
mod wanted;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::Bytes;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::grammar::{Grammar, GrammarError, Shape};
use crate::{Event, GenerateRequest, Message, Special, SubmitError};
use error::ApiError;
pub use keys::{Keys, KeysError};
pub use serve::{ServeError, bind, serve, serve_blocking, serve_on, serve_routes_blocking};
pub use served::Served;
use state::Server;
pub use state::{Limits, Slot};

/// What the server needs from an engine. The real one is [`Served`].
pub trait Backend: Clone + Send + Sync + 'static {
    /// The name under which the model is served.
    fn model_id(&self) -> &str;

    /// How many tokens prompt and answer may have together.
    fn context_tokens(&self) -> usize;

    /// Whether requests can be served; otherwise why not.
    fn health(&self) -> Result<(), String>;

    /// Renders the model's chat template and encodes it. May take seconds; called off the async threads.
    fn encode_chat(&self, messages: &[Message], tools: &[Value]) -> Result<Vec<u32>, String>;

    /// The ids of a text, and whether control tokens count in it. May take seconds; called off the async threads.
    fn encode_text(&self, text: &str, special: Special) -> Vec<u32>;

    /// The bytes that a token stands for, which may end inside a character; None for an id that there is not.
    fn token_bytes(&self, id: u32) -> Option<&[u8]>;

    /// The id of a control token, where the vocabulary has it.
    fn control_id(&self, token: &str) -> Option<u32>;

    /// Compiles what an answer shall be held to. May take seconds; called off the async threads.
    fn grammar(&self, shape: Shape) -> Result<Grammar, GrammarError>;

    /// Accepts a generation or refuses it at once. Dropping the events cancels it, queued or running.
    fn submit(&self, request: GenerateRequest) -> Result<BoxStream<'static, Event>, SubmitError>;
}

/// The routes alone, with default limits, for whoever brings their own listener.
pub fn router<B: Backend>(backend: impl Into<Slot<B>>) -> Router {
    let (_, cut) = watch::channel(false);
    routes(Server::new(backend.into(), Limits::default(), cut))
}

fn routes<B: Backend>(server: Server<B>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(turn::answer::<B, dialect::Chat>))
        .route("/v1/completions", post(turn::answer::<B, dialect::Completions>))
        .route("/v1/responses", post(turn::answer::<B, dialect::Responses>))
        .route("/v1/messages", post(turn::answer::<B, dialect::Messages>))
        .route("/v1/messages/count_tokens", post(turn::count::<B>))
        .route("/tokenize", post(tokens::tokenize::<B>))
        .route("/detokenize", post(tokens::detokenize::<B>))
        .route("/v1/models", get(models::<B>))
        .route("/health", get(health::<B>))
        .route("/metrics", get(metrics::<B>))
        .fallback(async |request: Request| ApiError::no_such_url(request.method().as_str(), request.uri().path()))
        .method_not_allowed_fallback(async |request: Request| {
            ApiError::method_not_allowed(request.method().as_str(), request.uri().path())
        })
        .layer(DefaultBodyLimit::max(server.limits.body_bytes_max))
        .layer(middleware::from_fn_with_state(server.clone(), guard::admit::<B>))
        .layer(middleware::from_fn(dialect::in_their_shape))
        .with_state(server)
}

async fn models<B: Backend>(State(server): State<Server<B>>) -> Result<Json<Value>, ApiError> {
    let backend = server.backend()?;
    Ok(Json(json!({"object": "list", "data": [{
        "id": backend.model_id(),
        "object": "model",
        "created": 0,
        "owned_by": "cloister",
        "cloister": {"context_tokens": backend.context_tokens()},
    }]})))
}

async fn metrics<B: Backend>(State(server): State<Server<B>>) -> Result<Response, ApiError> {
    let text = server.metrics.text(server.slot.get()?.model_id());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

async fn health<B: Backend>(State(server): State<Server<B>>) -> Response {
    match server.backend() {
        Ok(backend) => Json(json!({"status": "ready", "model": backend.model_id()})).into_response(),
        Err(error) => error.into_response(),
    }
}
