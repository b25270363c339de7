//! What does a request want of its tokens: a form, calls, weights, probabilities, several answers?
//!
//! The same things in the words of several dialects. Schemas are only read here; what is wrong with one is found when it
//! is compiled, and told by the path that it carries.

use serde_json::{Value, json};

use super::error::ApiError;
use super::fields::{Fields, wrong_type};
use crate::grammar::{CallShape, ToolShape};

/// Answers to one request: each is a sequence of its own in the engine.
const CHOICES_MAX: i64 = 8;
/// Alternatives told for a token.
pub(super) const LOGPROBS_MAX: i64 = 20;
/// Tokens that are made likelier or less likely.
const BIASED_MAX: usize = 1024;

/// Whether tools are called.
#[derive(Debug, PartialEq)]
pub(super) enum ToolChoice {
    /// As the model likes.
    Auto,
    /// They are not even shown.
    None,
    /// Some tool.
    Required,
    /// This one.
    Named(String),
}

/// `tool_choice` in OpenAI's words: those of chat and those of responses.
pub(super) fn tool_choice(fields: &Fields) -> Result<ToolChoice, ApiError> {
    let words = "only 'auto', 'none', 'required' and one function are supported";
    match fields.get("tool_choice") {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(choice)) => match choice.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            _ => Err(fields.refuse("tool_choice", "unsupported_value", words)),
        },
        Some(choice) => {
            let choice = Fields::of(choice, fields.path("tool_choice"))?;
            if choice.string("type")?.ok_or_else(|| choice.missing("type"))? != "function" {
                return Err(choice.refuse("type", "unsupported_value", words));
            }
            let named = choice.object("function")?;
            let named = named.as_ref().unwrap_or(&choice);
            Ok(ToolChoice::Named(named.string("name")?.ok_or_else(|| named.missing("name"))?.to_owned()))
        }
    }
}

/// A tool, and whether its calls are held to its schema even where none is forced.
pub(super) struct Offered {
    pub shape: ToolShape,
    pub strict: bool,
}

/// What calls are held to, if anything. `answer`: whether words would be held to a schema, so that a call must be one of
/// the ways to answer. `choice` is named in refusals by `field`.
pub(super) fn calls(
    fields: &Fields,
    choice: &ToolChoice,
    tools: Vec<Offered>,
    answer: bool,
    several: bool,
) -> Result<Option<CallShape>, ApiError> {
    let (required, several) = match choice {
        ToolChoice::None => return Ok(None),
        ToolChoice::Auto if tools.is_empty() || !(answer || tools.iter().any(|tool| tool.strict)) => return Ok(None),
        ToolChoice::Auto => (false, several),
        ToolChoice::Required => (true, several),
        ToolChoice::Named(_) => (true, false),
    };
    let wanted = |tool: &Offered| match choice {
        ToolChoice::Named(name) => tool.shape.name == *name,
        _ => true,
    };
    let held = |tool: Offered| match required || tool.strict {
        true => tool.shape,
        false => ToolShape { arguments: None, ..tool.shape },
    };
    let tools: Vec<ToolShape> = tools.into_iter().filter(wanted).map(held).collect();
    if tools.is_empty() {
        let message = "the call that is asked for is of no tool in 'tools'";
        return Err(fields.refuse("tool_choice", "invalid_value", message));
    }
    Ok(Some(CallShape { tools, required, several }))
}

/// The schema of the answer, with its place, as a format says it: `text`, `json_object` or `json_schema`.
pub(super) fn format(format: &Fields) -> Result<Option<(String, Value)>, ApiError> {
    match format.string("type")?.ok_or_else(|| format.missing("type"))? {
        "text" => Ok(None),
        "json_object" => Ok(Some((format.within.clone(), json!({"type": "object"})))),
        "json_schema" => {
            let inner = format.object("json_schema")?;
            let inner = inner.as_ref().unwrap_or(format);
            inner.boolean("strict")?;
            let schema = inner.object("schema")?.ok_or_else(|| inner.missing("schema"))?;
            Ok(Some((schema.within, inner.get("schema").cloned().unwrap_or_default())))
        }
        _ => {
            let message = "only 'text', 'json_object' and 'json_schema' are supported";
            Err(format.refuse("type", "unsupported_value", message))
        }
    }
}

/// `logit_bias`: ids as keys, what is added to their scores as values.
pub(super) fn bias(fields: &Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(Value::Object(entries)) = fields.get("logit_bias") else {
        return fields.object("logit_bias").map(|_| Vec::new());
    };
    if entries.len() > BIASED_MAX {
        return Err(fields.refuse("logit_bias", "invalid_value", format!("at most {BIASED_MAX} tokens")));
    }
    let within = Fields::of(fields.get("logit_bias").unwrap_or(&Value::Null), fields.path("logit_bias"))?;
    let entry = |id: &String| {
        let bias = within.number(id, -100.0, 100.0)?.unwrap_or(0.0) as f32;
        let id = id.parse().map_err(|_| within.refuse(id, "invalid_value", "a key is the id of a token"))?;
        Ok((id, bias))
    };
    entries.keys().map(entry).collect()
}

/// How many answers are wanted.
pub(super) fn choices(fields: &Fields) -> Result<usize, ApiError> {
    Ok(fields.integer("n", 1, CHOICES_MAX)?.unwrap_or(1) as usize)
}

/// Chat's `logprobs` and `top_logprobs`.
pub(super) fn chat_logprobs(fields: &Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    match fields.integer("top_logprobs", 0, LOGPROBS_MAX)? {
        Some(_) if !wanted => Err(fields.refuse("top_logprobs", "invalid_value", "it needs 'logprobs': true")),
        top => Ok(wanted.then_some(top.unwrap_or(0) as usize)),
    }
}

/// The `logprobs` of completions: a number, or false.
pub(super) fn completion_logprobs(fields: &Fields) -> Result<Option<usize>, ApiError> {
    match fields.get("logprobs") {
        Some(Value::Bool(false)) => Ok(None),
        Some(other) if !other.is_i64() => Err(wrong_type(fields.path("logprobs"), "the number of alternatives", other)),
        _ => Ok(fields.integer("logprobs", 0, LOGPROBS_MAX)?.map(|top| top as usize)),
    }
}
