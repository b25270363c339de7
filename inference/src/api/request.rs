//! What does the body of a chat completion ask for?
//!
//! JSON becomes one [`ChatRequest`], or an error that names the field. Fields that nobody here knows are ignored,
//! because clients send many; a null counts as absent, as it does with OpenAI. What would change the answer and cannot
//! be done (several choices, forced tools, enforced schemas) is refused instead of ignored.

use serde_json::{Map, Value};

use super::error::ApiError;
use super::fields::{Fields, wrong_type};
use crate::{Message, Sampling};

const STOP_MAX: usize = 4;
const STOP_BYTES_MAX: usize = 256;
const TOOLS_MAX: usize = 128;
const TOOL_NAME_BYTES_MAX: usize = 64;
/// For what a request leaves open: what the makers of the Qwen2.5 family recommend for it.
const SAMPLING: Sampling = Sampling { temperature: 0.7, top_p: 0.8, top_k: 20, seed: 0 };

/// A chat completion as meant. Only [`ChatRequest::parse`] makes one, so every field is within its limits.
#[derive(Debug)]
pub(super) struct ChatRequest {
    pub model: String,
    pub messages: Vec<Message>,
    /// As given, for the template.
    pub tools: Vec<Value>,
    pub tool_names: Vec<String>,
    pub sampling: Sampling,
    pub tokens_max: Option<usize>,
    pub stop: Vec<String>,
    pub stream: bool,
    pub include_usage: bool,
    /// Whether what is cached may be used, and what is computed kept: `cache_prompt`, as with llama.cpp's server.
    pub cache: bool,
}

impl ChatRequest {
    /// `seed` is used when the client gives none.
    pub fn parse(body: &[u8], seed: u64) -> Result<Self, ApiError> {
        let json: Value = serde_json::from_slice(body)
            .map_err(|error| ApiError::not_json(format!("the body is not valid JSON: {error}")))?;
        if !json.is_object() {
            return Err(ApiError::not_json("the body must be a JSON object"));
        }
        let fields = Fields::of(&json, String::new())?;
        refuse_unsupported(&fields)?;
        let tools = if tools_wanted(&fields)? { fields.array("tools")?.unwrap_or_default() } else { &[] };
        if tools.len() > TOOLS_MAX {
            return Err(fields.refuse("tools", "invalid_value", format!("at most {TOOLS_MAX} tools")));
        }
        let tool_names = tools.iter().enumerate().map(|(at, tool)| tool_name(at, tool)).collect::<Result<_, _>>()?;
        let limit = fields.integer("max_tokens", 1, i64::MAX)?;
        let limit = fields.integer("max_completion_tokens", 1, i64::MAX)?.or(limit);
        let options = fields.object("stream_options")?;
        Ok(Self {
            model: fields.string("model")?.ok_or_else(|| fields.missing("model"))?.to_owned(),
            messages: messages(&fields)?,
            tools: tools.to_vec(),
            tool_names,
            sampling: sampling(&fields, seed)?,
            tokens_max: limit.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX)),
            stop: stop(&fields)?,
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage: match options {
                Some(options) => options.boolean("include_usage")?.unwrap_or(false),
                None => false,
            },
            cache: fields.boolean("cache_prompt")?.unwrap_or(true),
        })
    }
}

/// Refuses what would be a different answer from the one asked for.
fn refuse_unsupported(fields: &Fields) -> Result<(), ApiError> {
    if fields.integer("n", i64::MIN, i64::MAX)?.is_some_and(|n| n != 1) {
        return Err(fields.refuse("n", "unsupported_value", "only n = 1 is supported"));
    }
    if let Some(format) = fields.object("response_format")?
        && format.string("type")?.is_some_and(|kind| kind != "text")
    {
        return Err(format.refuse("type", "unsupported_value", "only the response format 'text' is supported"));
    }
    Ok(())
}

fn tools_wanted(fields: &Fields) -> Result<bool, ApiError> {
    match fields.get("tool_choice") {
        None => Ok(true),
        Some(Value::String(choice)) if choice == "auto" => Ok(true),
        Some(Value::String(choice)) if choice == "none" => Ok(false),
        Some(_) => {
            let message = "only 'auto' and 'none' are supported: a call cannot be forced";
            Err(fields.refuse("tool_choice", "unsupported_value", message))
        }
    }
}

fn tool_name(at: usize, tool: &Value) -> Result<String, ApiError> {
    let tool = Fields::of(tool, format!("tools[{at}]"))?;
    if tool.string("type")?.ok_or_else(|| tool.missing("type"))? != "function" {
        return Err(tool.refuse("type", "unsupported_value", "only tools of type 'function' are supported"));
    }
    let function = tool.object("function")?.ok_or_else(|| tool.missing("function"))?;
    let name = function.string("name")?.ok_or_else(|| function.missing("name"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX || !name.chars().all(plain) {
        let message = format!("a name has 1 to {TOOL_NAME_BYTES_MAX} letters, digits, '_', '-' and '.'");
        return Err(function.refuse("name", "invalid_value", message));
    }
    function.object("parameters")?;
    function.string("description")?;
    Ok(name.to_owned())
}

fn sampling(fields: &Fields, seed: u64) -> Result<Sampling, ApiError> {
    let mut sampling = Sampling { seed, ..SAMPLING };
    if let Some(temperature) = fields.number("temperature", 0.0, 2.0)? {
        sampling.temperature = temperature as f32;
    }
    if let Some(top_p) = fields.number("top_p", 0.0, 1.0)? {
        sampling.top_p = top_p as f32;
    }
    if let Some(top_k) = fields.integer("top_k", 0, i64::from(u32::MAX))? {
        sampling.top_k = top_k as usize;
    }
    if sampling.top_p == 0.0 {
        // The smallest set of likeliest tokens is the likeliest one.
        (sampling.top_k, sampling.top_p) = (1, 1.0);
    }
    if let Some(seed) = fields.integer("seed", i64::MIN, i64::MAX)? {
        sampling.seed = seed.cast_unsigned();
    }
    Ok(sampling)
}

fn stop(fields: &Fields) -> Result<Vec<String>, ApiError> {
    let stop: Vec<String> = match fields.get("stop") {
        None => Vec::new(),
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(items)) => {
            items.iter().enumerate().map(|(at, item)| stop_item(at, item)).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(fields.wrong_type("stop", "a string or a list of strings", other)),
    };
    if stop.len() > STOP_MAX {
        return Err(fields.refuse("stop", "invalid_value", format!("at most {STOP_MAX} stop strings")));
    }
    if stop.iter().any(|text| text.is_empty() || text.len() > STOP_BYTES_MAX) {
        return Err(fields.refuse("stop", "invalid_value", format!("a stop string has 1 to {STOP_BYTES_MAX} bytes")));
    }
    Ok(stop)
}

fn stop_item(at: usize, item: &Value) -> Result<String, ApiError> {
    item.as_str().map(str::to_owned).ok_or_else(|| wrong_type(format!("stop[{at}]"), "a string", item))
}

fn messages(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    let items = fields.array("messages")?.ok_or_else(|| fields.missing("messages"))?;
    if items.is_empty() {
        return Err(fields.refuse("messages", "invalid_value", "at least one message is needed"));
    }
    items.iter().enumerate().map(|(at, item)| message(at, item)).collect()
}

/// Brings one message to the plain form that [`Message`] reads: text content, calls checked.
fn message(at: usize, item: &Value) -> Result<Message, ApiError> {
    let fields = Fields::of(item, format!("messages[{at}]"))?;
    let role = match fields.string("role")?.ok_or_else(|| fields.missing("role"))? {
        "developer" => "system",
        role @ ("system" | "user" | "assistant" | "tool") => role,
        other => {
            let message = format!("'{other}' is none of system, developer, user, assistant and tool");
            return Err(fields.refuse("role", "invalid_value", message));
        }
    };
    let calls = fields.array("tool_calls")?.unwrap_or_default();
    for (call_at, call) in calls.iter().enumerate() {
        let call = Fields::of(call, format!("messages[{at}].tool_calls[{call_at}]"))?;
        let function = call.object("function")?.ok_or_else(|| call.missing("function"))?;
        function.string("name")?.ok_or_else(|| function.missing("name"))?;
        function.get("arguments").ok_or_else(|| function.missing("arguments"))?;
    }
    let content = content(&fields)?;
    if content.is_none() && role != "assistant" {
        return Err(fields.missing("content"));
    }
    let mut plain = Map::new();
    plain.insert("role".into(), role.into());
    plain.insert("content".into(), content.into());
    if let Some(id) = fields.string("tool_call_id")? {
        plain.insert("tool_call_id".into(), id.into());
    }
    if !calls.is_empty() {
        plain.insert("tool_calls".into(), calls.into());
    }
    serde_json::from_value(Value::Object(plain))
        .map_err(|error| ApiError::invalid(fields.within.as_str(), "invalid_value", format!("not a message: {error}")))
}

/// Text, or a list of text parts, which are joined.
fn content(fields: &Fields) -> Result<Option<String>, ApiError> {
    let parts = match fields.get("content") {
        None => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(text.clone())),
        Some(Value::Array(parts)) => parts,
        Some(other) => return Err(fields.wrong_type("content", "a string or a list of text parts", other)),
    };
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        let part = Fields::of(part, format!("{}[{at}]", fields.path("content")))?;
        if part.string("type")?.ok_or_else(|| part.missing("type"))? != "text" {
            return Err(part.refuse("type", "unsupported_value", "this model reads text only"));
        }
        text.push_str(part.string("text")?.ok_or_else(|| part.missing("text"))?);
    }
    Ok(Some(text))
}
