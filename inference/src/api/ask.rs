//! What does a request ask for, whichever dialect it is written in?
//!
//! Each dialect reads its JSON into one [`Ask`], or an error that names the field. Fields that nobody here knows are
//! ignored, because clients send many; a null counts as absent, as it does with OpenAI. What would change the answer and
//! cannot be done is refused instead of ignored. What the dialects have
//! in common is read here.

use serde_json::Value;

use super::error::ApiError;
use super::fields::{Fields, wrong_type};
use crate::grammar::Shape;
use crate::{Message, Sampling};

const STOP_MAX: usize = 4;
const STOP_BYTES_MAX: usize = 256;
const TOOLS_MAX: usize = 128;
const TOOL_NAME_BYTES_MAX: usize = 64;
/// For what a request leaves open: what the makers of the Qwen2.5 family recommend for it.
const SAMPLING: Sampling = Sampling { temperature: 0.7, top_p: 0.8, top_k: 20, seed: 0 };

/// A request as meant, every field within its limits.
#[derive(Debug)]
pub(super) struct Ask {
    pub model: String,
    pub prompt: Prompt,
    pub sampling: Sampling,
    /// None: as many as the context has room for.
    pub tokens_max: Option<usize>,
    pub stop: Vec<String>,
    pub stream: bool,
    /// Whether what is cached may be used, and what is computed kept: `cache_prompt`, as with llama.cpp's server.
    pub cache: bool,
    /// What the answer is held to.
    pub shape: Shape,
    /// Tokens by their ids, and what is added to their scores.
    pub bias: Vec<(u32, f32)>,
    /// How many alternatives are told for each token, where its probability is.
    pub logprobs: Option<usize>,
    /// How many answers there are.
    pub choices: usize,
}

/// What is to be continued.
#[derive(Debug, PartialEq)]
pub(super) enum Prompt {
    /// A conversation, for the model's template. The tools are in the form of OpenAI's chat completions.
    Chat { messages: Vec<Message>, tools: Vec<Value> },
    /// Text as the client has laid it out, control tokens included.
    Text(String),
    /// The same as ids.
    Ids(Vec<u32>),
    /// What stands before and behind the place that is to be filled. Text of files: no control token counts in it.
    Fill { prefix: String, suffix: String },
}

impl Prompt {
    /// The names of the tools that may be called.
    pub fn tool_names(&self) -> Vec<String> {
        let Prompt::Chat { tools, .. } = self else { return Vec::new() };
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect()
    }
}

impl Ask {
    /// Reads what all dialects write alike; `seed` is used when the client gives none.
    pub fn read(fields: &Fields, prompt: Prompt, seed: u64) -> Result<Ask, ApiError> {
        Ok(Ask {
            model: fields.string("model")?.ok_or_else(|| fields.missing("model"))?.to_owned(),
            prompt,
            sampling: sampling(fields, seed)?,
            tokens_max: None,
            stop: Vec::new(),
            stream: fields.boolean("stream")?.unwrap_or(false),
            cache: fields.boolean("cache_prompt")?.unwrap_or(true),
            shape: Shape::default(),
            bias: Vec::new(),
            logprobs: None,
            choices: 1,
        })
    }
}

/// A body's JSON object.
pub(super) fn object(body: &[u8]) -> Result<Value, ApiError> {
    let json: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::not_json(format!("the body is not valid JSON: {error}")))?;
    if json.is_object() { Ok(json) } else { Err(ApiError::not_json("the body must be a JSON object")) }
}

/// A number of tokens of at least one.
pub(super) fn tokens(fields: &Fields, name: &str) -> Result<Option<usize>, ApiError> {
    let tokens = fields.integer(name, 1, i64::MAX)?;
    Ok(tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX)))
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

/// One stop string or a few.
pub(super) fn stop(fields: &Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let item = |(at, item): (usize, &Value)| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type(format!("{}[{at}]", fields.path(name)), "a string", item))
    };
    let stop: Vec<String> = match fields.get(name) {
        None => Vec::new(),
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(items)) if items.len() > STOP_MAX => {
            return Err(fields.refuse(name, "invalid_value", format!("at most {STOP_MAX} stop strings")));
        }
        Some(Value::Array(items)) => items.iter().enumerate().map(item).collect::<Result<_, _>>()?,
        Some(other) => return Err(fields.wrong_type(name, "a string or a list of strings", other)),
    };
    if stop.iter().any(|text| text.is_empty() || text.len() > STOP_BYTES_MAX) {
        return Err(fields.refuse(name, "invalid_value", format!("a stop string has 1 to {STOP_BYTES_MAX} bytes")));
    }
    Ok(stop)
}

/// The tools of a request, not more than a model can choose from.
pub(super) fn tools<'j>(fields: &Fields<'j>) -> Result<&'j [Value], ApiError> {
    let tools = fields.array("tools")?.unwrap_or_default();
    if tools.len() > TOOLS_MAX {
        return Err(fields.refuse("tools", "invalid_value", format!("at most {TOOLS_MAX} tools")));
    }
    Ok(tools)
}

/// The name of a tool, in the object that has it.
pub(super) fn tool_name<'j>(tool: &Fields<'j>) -> Result<&'j str, ApiError> {
    let name = tool.string("name")?.ok_or_else(|| tool.missing("name"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX || !name.chars().all(plain) {
        let message = format!("a name has 1 to {TOOL_NAME_BYTES_MAX} letters, digits, '_', '-' and '.'");
        return Err(tool.refuse("name", "invalid_value", message));
    }
    Ok(name)
}

/// Text, or a list of blocks of text joined by `between`. `kinds` are the types that such a block may have.
pub(super) fn text(fields: &Fields, name: &str, kinds: &[&str], between: &str) -> Result<Option<String>, ApiError> {
    let parts = match fields.get(name) {
        None => return Ok(None),
        Some(Value::String(text)) => return Ok(Some(text.clone())),
        Some(Value::Array(parts)) => parts,
        Some(other) => return Err(fields.wrong_type(name, "a string or a list of text parts", other)),
    };
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        let part = Fields::of(part, format!("{}[{at}]", fields.path(name)))?;
        if !kinds.contains(&part.string("type")?.ok_or_else(|| part.missing("type"))?) {
            return Err(text_only(&part));
        }
        text.push_str(if at > 0 { between } else { "" });
        text.push_str(part.string("text")?.ok_or_else(|| part.missing("text"))?);
    }
    Ok(Some(text))
}

/// A part of a message that is no text.
pub(super) fn text_only(part: &Fields) -> ApiError {
    part.refuse("type", "unsupported_value", "this model reads text only")
}
