//! How does OpenAI's `/v1/chat/completions` ask and answer?

use serde_json::{Map, Value, json};

use super::{Answer, Dialect, End, Frame, Part, arguments, id, now};
use crate::Message;
use crate::api::ask::{self, Ask, Prompt};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::scored;
use crate::api::toolcall::ToolCall;
use crate::api::wanted::{self, Offered, ToolChoice};
use crate::grammar::{Shape, ToolShape};

/// What is the same in every object of one answer.
pub(in crate::api) struct Chat {
    id: String,
    created: u64,
    model: String,
    /// Chunks then carry `usage: null`, and the last one the numbers.
    include_usage: bool,
    choices: usize,
}

impl Dialect for Chat {
    const PROMPT: &'static str = "messages";

    fn read(fields: &Fields, seed: u64) -> Result<(Ask, Self), ApiError> {
        let choice = wanted::tool_choice(fields)?;
        let tools = if choice == ToolChoice::None { &[] } else { ask::tools(fields)? };
        let offered = tools.iter().enumerate().map(|(at, item)| tool(at, item)).collect::<Result<_, _>>()?;
        let answer = fields.object("response_format")?.map(|format| wanted::format(&format)).transpose()?.flatten();
        let several = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
        let calls = wanted::calls(fields, &choice, offered, answer.is_some(), several)?;
        let prompt = Prompt::Chat { messages: messages(fields)?, tools: tools.to_vec() };
        let limit = ask::tokens(fields, "max_tokens")?;
        let ask = Ask {
            tokens_max: ask::tokens(fields, "max_completion_tokens")?.or(limit),
            stop: ask::stop(fields, "stop")?,
            shape: Shape { answer, calls },
            bias: wanted::bias(fields)?,
            logprobs: wanted::chat_logprobs(fields)?,
            choices: wanted::choices(fields)?,
            ..Ask::read(fields, prompt, seed)?
        };
        let include_usage = include_usage(fields)?;
        let chat =
            Self { id: id("chatcmpl-"), created: now(), model: ask.model.clone(), include_usage, choices: ask.choices };
        Ok((ask, chat))
    }

    /// A chunk that only says whose turn it is.
    fn at_once(&mut self) -> Vec<Frame> {
        (0..self.choices).map(|choice| self.chunk(choice, json!({"role": "assistant", "content": ""}), None)).collect()
    }

    fn text(&mut self, part: &Part) -> Vec<Frame> {
        let mut chunk = self.chunk_json(part.choice, json!({"content": part.text}), None);
        chunk["choices"][0]["logprobs"] = scored::chat(part.scored);
        vec![Frame::data(chunk)]
    }

    fn end(&mut self, choice: usize, end: &End, last: bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        if !end.calls.is_empty() {
            let indexed = end.calls.iter().enumerate().map(|(at, item)| {
                let mut item = call(item);
                item["index"] = at.into();
                item
            });
            frames.push(self.chunk(choice, json!({"tool_calls": indexed.collect::<Value>()}), None));
        }
        frames.push(self.chunk(choice, json!({}), Some(end.finish_word())));
        if !last {
            return frames;
        }
        if self.include_usage {
            let mut chunk = self.chunk_json(0, Value::Null, None);
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

    fn whole(&mut self, answers: &[Answer]) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": answers.iter().map(choice).collect::<Value>(),
            "usage": answers[0].end.usage_json(),
        })
    }
}

impl Chat {
    fn chunk(&self, choice: usize, delta: Value, finish: Option<&'static str>) -> Frame {
        Frame::data(self.chunk_json(choice, delta, finish))
    }

    fn chunk_json(&self, choice: usize, delta: Value, finish: Option<&'static str>) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": choice, "delta": delta, "logprobs": null, "finish_reason": finish}],
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

fn choice(answer: &Answer) -> Value {
    let Answer { choice, said, scored, end } = answer;
    let mut message = json!({"role": "assistant", "content": said, "refusal": null});
    if !end.calls.is_empty() {
        message["tool_calls"] = end.calls.iter().map(call).collect();
        if said.is_empty() {
            message["content"] = Value::Null;
        }
    }
    let logprobs = scored::chat(scored);
    json!({"index": choice, "message": message, "logprobs": logprobs, "finish_reason": end.finish_word()})
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

fn tool(at: usize, tool: &Value) -> Result<Offered, ApiError> {
    let tool = Fields::of(tool, format!("tools[{at}]"))?;
    if tool.string("type")?.ok_or_else(|| tool.missing("type"))? != "function" {
        return Err(tool.refuse("type", "unsupported_value", "only tools of type 'function' are supported"));
    }
    let function = tool.object("function")?.ok_or_else(|| tool.missing("function"))?;
    function.object("parameters")?;
    function.string("description")?;
    let (name, path) = (ask::tool_name(&function)?.to_owned(), function.path("parameters"));
    let arguments = function.get("parameters").cloned();
    let strict = function.boolean("strict")?.unwrap_or(false);
    Ok(Offered { shape: ToolShape { name, path, arguments }, strict })
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
