//! How does a refusal look on the wire?
//!
//! OpenAI's error object, `{"error": {"message", "type", "param", "code"}}`, with the status and the headers that
//! its clients act on; Anthropic's where its API is spoken. One constructor for each thing that can go wrong.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::SubmitError;
use crate::grammar::GrammarError;

/// After how many seconds a client may try again when the queue is full or the model still loads.
const RETRY_AFTER_SECONDS: u32 = 5;

/// A request that gets no answer, or no whole one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    param: Option<String>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None }
    }

    /// The field `param` cannot be what it is.
    pub fn invalid(param: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, code, message) }
    }

    /// The body is not a JSON object.
    pub fn not_json(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    /// The body does not say that it is JSON. Asking for the header keeps web pages out: a page may send other types
    /// to a local port without asking the browser's permission first.
    pub fn not_declared_json() -> Self {
        let message = "send the body with the header content-type: application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// The body could not be read, with the status that says why.
    pub fn body(status: StatusCode, bytes_max: usize) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("the body is larger than {bytes_max} bytes");
            return Self::new(status, "request_too_large", message);
        }
        Self::new(StatusCode::BAD_REQUEST, "body_not_read", "the body ended before it was complete")
    }

    pub fn model_not_found(model: &str, served: &str) -> Self {
        let message = format!("the model '{model}' does not exist here; this server has '{served}'");
        let error = Self::new(StatusCode::NOT_FOUND, "model_not_found", message);
        Self { param: Some("model".into()), ..error }
    }

    /// The prompt, which stands in `field`, leaves no room for an answer. Clients look for these words.
    pub fn context_exceeded(field: &'static str, prompt_tokens: usize, context_tokens: usize) -> Self {
        let message = format!(
            "prompt is too long: this model's maximum context length is {context_tokens} tokens, and '{field}' has \
             {prompt_tokens} tokens; no room is left for an answer"
        );
        Self::invalid(field, "context_length_exceeded", message)
    }

    /// The engine does not take the request whose prompt stands in `field`.
    pub fn not_accepted(field: &'static str, error: SubmitError) -> Self {
        match error {
            SubmitError::PromptTooLong { prompt_tokens, context_tokens_max } => {
                Self::context_exceeded(field, prompt_tokens, context_tokens_max)
            }
            SubmitError::PromptEmpty | SubmitError::UnknownToken { .. } => {
                Self::invalid(field, "invalid_value", format!("invalid '{field}': {error}"))
            }
            SubmitError::Invalid { .. } => Self::new(StatusCode::BAD_REQUEST, "invalid_value", error.to_string()),
            SubmitError::QueueFull => Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", error.to_string()),
            SubmitError::Stopped => Self::failed(&error.to_string()),
        }
    }

    /// The vocabulary has no token for the place that is to be filled.
    pub fn cannot_fill(token: &str) -> Self {
        let message = format!(
            "invalid 'suffix': this model cannot fill in the middle, its vocabulary has no {token}; leave 'suffix' out, or \
             serve a model that was trained for it, such as Qwen2.5-Coder"
        );
        Self::invalid("suffix", "unsupported_value", message)
    }

    /// An answer cannot be held to a schema of the request.
    pub fn schema(error: GrammarError) -> Self {
        let message = format!("invalid '{}': this schema cannot be enforced: {}", error.path, error.reason);
        Self::invalid(error.path, "invalid_schema", message)
    }

    pub fn no_such_url(method: &str, path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_url", format!("nothing is served at {method} {path}"))
    }

    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let message = format!("{path} does not answer to {method}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub fn host_not_allowed() -> Self {
        let message = "the Host header must name this machine: localhost or a loopback address";
        Self::new(StatusCode::FORBIDDEN, "host_not_allowed", message)
    }

    pub fn key_not_known() -> Self {
        let message = "this server asks for an API key that it knows: send the header authorization: Bearer KEY";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    pub fn loading() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_loading", "the model is still loading")
    }

    pub fn failed(reason: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_failed", format!("the model cannot be used: {reason}"))
    }

    pub fn shutting_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the server is shutting down")
    }

    pub fn deadline(seconds: u64) -> Self {
        let message = format!("the answer was not complete after {seconds} seconds");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", message)
    }

    /// The request's own deadline passed in the engine.
    pub fn expired() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", "the answer was not complete at its deadline")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// The JSON object, for a body or for a stream that has begun.
    pub fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        }})
    }

    /// The same as Anthropic's API says it.
    pub fn to_anthropic_json(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }

    /// What went wrong, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
        let headers = response.headers_mut();
        if matches!(self.code, "queue_full" | "model_loading") {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        } else if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        } else if self.status.is_server_error() {
            // OpenAI's clients repeat every 5xx unless told: what took too long once would take as long again.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        // For whoever has to say it in other words.
        response.extensions_mut().insert(self);
        response
    }
}
