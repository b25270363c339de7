//! Which tokens does this text have, and which text these tokens?
//!
//! The shapes are those of llama.cpp's server (its `README.md`, "POST /tokenize" and "POST /detokenize"):
//! `{"content", "add_special", "parse_special", "with_pieces"}` gives `{"tokens": [ID, …]}`, or `{"tokens": [{"id", "piece"}, …]}`
//! where a piece that is no whole text is a list of bytes; `{"tokens"}` gives `{"content"}`. As there, control tokens in
//! the text count unless `parse_special` is false. No vocabulary that is served here has a token that is put before or
//! behind every text, so `add_special` changes nothing.

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use super::Backend;
use super::error::ApiError;
use super::fields::{Fields, wrong_type};
use super::state::Server;
use super::turn::{json_body, off_thread, within_deadline};
use crate::Special;

/// A text that is cut at most; with its pieces it comes back about 40 times as large.
const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Tokens that are put together at most.
const TOKENS_MAX: usize = 1 << 18;

/// POST /tokenize.
pub(super) async fn tokenize<B: Backend>(
    State(server): State<Server<B>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    within_deadline(&server, async {
        let backend = server.backend()?.clone();
        let cut = Cut::read(&json_body(&server, request).await?)?;
        Ok(Json(off_thread(&server, move || cut.apply(&backend)).await?))
    })
    .await
}

/// POST /detokenize.
pub(super) async fn detokenize<B: Backend>(
    State(server): State<Server<B>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    within_deadline(&server, async {
        let backend = server.backend()?.clone();
        let ids = ids(&json_body(&server, request).await?)?;
        let content = off_thread(&server, move || join(&backend, &ids)).await??;
        Ok(Json(json!({"content": content})))
    })
    .await
}

/// A text to be cut.
#[derive(Debug)]
pub(super) struct Cut {
    content: String,
    special: Special,
    with_pieces: bool,
}

impl Cut {
    pub fn read(json: &Value) -> Result<Cut, ApiError> {
        let fields = Fields::of(json, String::new())?;
        let content = fields.string("content")?.ok_or_else(|| fields.missing("content"))?;
        if content.len() > CONTENT_BYTES_MAX {
            return Err(fields.refuse("content", "invalid_value", format!("at most {CONTENT_BYTES_MAX} bytes")));
        }
        fields.boolean("add_special")?;
        let special = if fields.boolean("parse_special")? == Some(false) { Special::Forbid } else { Special::Allow };
        let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
        Ok(Cut { content: content.to_owned(), special, with_pieces })
    }

    fn apply<B: Backend>(&self, backend: &B) -> Value {
        let ids = backend.encode_text(&self.content, self.special);
        if !self.with_pieces {
            return json!({"tokens": ids});
        }
        let piece = |id: &u32| {
            let bytes = backend.token_bytes(*id).unwrap_or_default();
            let piece = std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text));
            json!({"id": id, "piece": piece})
        };
        json!({"tokens": ids.iter().map(piece).collect::<Vec<_>>()})
    }
}

/// The ids of a request.
pub(super) fn ids(json: &Value) -> Result<Vec<u32>, ApiError> {
    let fields = Fields::of(json, String::new())?;
    let ids = fields.array("tokens")?.ok_or_else(|| fields.missing("tokens"))?;
    if ids.len() > TOKENS_MAX {
        return Err(fields.refuse("tokens", "invalid_value", format!("at most {TOKENS_MAX} tokens")));
    }
    read_ids("tokens", ids)
}

/// Ids out of the field `name`.
pub(super) fn read_ids(name: &str, items: &[Value]) -> Result<Vec<u32>, ApiError> {
    let id = |(at, item): (usize, &Value)| {
        let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| wrong_type(format!("{name}[{at}]"), "the id of a token", item))
    };
    items.iter().enumerate().map(id).collect()
}

fn join<B: Backend>(backend: &B, ids: &[u32]) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        bytes.extend(backend.token_bytes(*id).ok_or_else(|| {
            let message = format!("invalid 'tokens[{at}]': this model has no token {id}");
            ApiError::invalid(format!("tokens[{at}]"), "invalid_value", message)
        })?);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
