//! How does OpenAI's `/v1/chat/completions` ask and answer?

use serde_json::{Map, Value, json};

use super::{Dialect, End, Frame, arguments, id, now};
use crate::Message;
use crate::api::ask::{self, Ask, Prompt};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::toolcall::ToolCall;

/// What is the same in every object of one answer.
pub(in crate::api) struct Chat {
    id: String,
    created: u64,
    model: String,
    /// Chunks then carry `usage: null`, and the last one the numbers.
    include_usage: bool,
}

impl Dialect for Chat {
    const PROMPT: &'static str = "messages";

    fn read(fields: &Fields, seed: u64) -> Result<(Ask, Self), ApiError> {
        refuse_unsupported(fields)?;
        let tools = if ask::tools_wanted(fields)? { ask::tools(fields)? } else { &[] };
        tools.iter().enumerate().try_for_each(|(at, item)| tool(at, item))?;
        let prompt = Prompt::Chat { messages: messages(fields)?, tools: tools.to_vec() };
        let limit = ask::tokens(fields, "max_tokens")?;
        let ask = Ask {
            tokens_max: ask::tokens(fields, "max_completion_tokens")?.or(limit),
            stop: ask::stop(fields, "stop")?,
            ..Ask::read(fields, prompt, seed)?
        };
        let include_usage = include_usage(fields)?;
        let chat = Self { id: id("chatcmpl-"), created: now(), model: ask.model.clone(), include_usage };
        Ok((ask, chat))
    }

    /// A chunk that only says whose turn it is.
    fn at_once(&mut self) -> Vec<Frame> {
        vec![self.chunk(json!({"role": "assistant", "content": ""}), None)]
    }

    fn text(&mut self, text: &str) -> Vec<Frame> {
        vec![self.chunk(json!({"content": text}), None)]
    }

    fn end(&mut self, end: &End) -> Vec<Frame> {
        let mut frames = Vec::new();
        if !end.calls.is_empty() {
            let indexed = end.calls.iter().enumerate().map(|(at, item)| {
                let mut item = call(item);
                item["index"] = at.into();
                item
            });
            frames.push(self.chunk(json!({"tool_calls": indexed.collect::<Value>()}), None));
        }
        frames.push(self.chunk(json!({}), Some(end.finish_word())));
        if self.include_usage {
            let mut chunk = self.chunk_json(Value::Null, None);
            chunk["choices"] = json!([]);
            chunk["usage"] = end.usage_json();
            frames.push(Frame::data(chunk));
        }
        frames.push(Frame::data("[DONE]"));
        frames
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        vec![Frame::data(error.to_json())]
    }

    fn whole(&mut self, said: &str, end: &End) -> Value {
        let mut message = json!({"role": "assistant", "content": said, "refusal": null});
        if !end.calls.is_empty() {
            message["tool_calls"] = end.calls.iter().map(call).collect();
            if said.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": end.finish_word()}],
            "usage": end.usage_json(),
        })
    }
}

impl Chat {
    fn chunk(&self, delta: Value, finish: Option<&'static str>) -> Frame {
        Frame::data(self.chunk_json(delta, finish))
    }

    fn chunk_json(&self, delta: Value, finish: Option<&'static str>) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": id("call_"),
        "type": "function",
        "function": {"name": call.name, "arguments": arguments(call)},
    })
}

/// Whether a stream shall end with what it cost.
pub(super) fn include_usage(fields: &Fields) -> Result<bool, ApiError> {
    match fields.object("stream_options")? {
        Some(options) => Ok(options.boolean("include_usage")?.unwrap_or(false)),
        None => Ok(false),
    }
}

/// Refuses a number of answers other than one.
pub(super) fn only_one(fields: &Fields, name: &str) -> Result<(), ApiError> {
    match fields.integer(name, i64::MIN, i64::MAX)? {
        None | Some(1) => Ok(()),
        Some(_) => Err(fields.refuse(name, "unsupported_value", format!("only {name} = 1 is supported"))),
    }
}

/// Refuses what would be a different answer from the one asked for.
fn refuse_unsupported(fields: &Fields) -> Result<(), ApiError> {
    only_one(fields, "n")?;
    if let Some(format) = fields.object("response_format")?
        && format.string("type")?.is_some_and(|kind| kind != "text")
    {
        return Err(format.refuse("type", "unsupported_value", "only the response format 'text' is supported"));
    }
    Ok(())
}

fn tool(at: usize, tool: &Value) -> Result<(), ApiError> {
    let tool = Fields::of(tool, format!("tools[{at}]"))?;
    if tool.string("type")?.ok_or_else(|| tool.missing("type"))? != "function" {
        return Err(tool.refuse("type", "unsupported_value", "only tools of type 'function' are supported"));
    }
    let function = tool.object("function")?.ok_or_else(|| tool.missing("function"))?;
    ask::tool_name(&function)?;
    function.object("parameters")?;
    function.string("description")?;
    Ok(())
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
    let content = ask::text(&fields, "content", &["text"], "")?;
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
