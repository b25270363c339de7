//! What does a request of the Responses API ask for?
//!
//! Nothing is stored here, so a request carries its whole conversation as items. The items become plain messages: calls
//! that follow what the model said belong to that turn, and their outputs are messages of their own.

use serde_json::{Value, json};

use crate::api::ask::{self, Ask, Prompt};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::wanted::{self, Offered, ToolChoice};
use crate::grammar::{Shape, ToolShape};
use crate::{Message, Role, ToolCall};

/// Types of a part of a message that are text.
const TEXT: [&str; 3] = ["input_text", "output_text", "text"];
/// What would have to be kept on the server from one request to the next.
const STORED: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

pub(super) fn read(fields: &Fields, seed: u64) -> Result<Ask, ApiError> {
    refuse_unsupported(fields)?;
    let choice = wanted::tool_choice(fields)?;
    let (mut tools, offered): (Vec<Value>, Vec<Offered>) = tools(fields)?.into_iter().unzip();
    if choice == ToolChoice::None {
        tools.clear();
    }
    let format = fields.object("text")?.map(|text| text.object("format")).transpose()?.flatten();
    let answer = format.map(|format| wanted::format(&format)).transpose()?.flatten();
    let several = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let calls = wanted::calls(fields, &choice, offered, answer.is_some(), several)?;
    let prompt = Prompt::Chat { messages: messages(fields)?, tools };
    Ok(Ask {
        tokens_max: ask::tokens(fields, "max_output_tokens")?,
        shape: Shape { answer, calls },
        ..Ask::read(fields, prompt, seed)?
    })
}

/// Refuses what would be a different answer from the one asked for.
fn refuse_unsupported(fields: &Fields) -> Result<(), ApiError> {
    if let Some(name) = STORED.into_iter().find(|name| fields.get(name).is_some()) {
        let message = "this server stores nothing: send the whole conversation in 'input' each time";
        return Err(fields.refuse(name, "unsupported_value", format!("{message}; what was sent before is cached")));
    }
    if fields.boolean("store")?.unwrap_or(false) {
        let message =
            "this server stores nothing: leave it out or say false, and send the whole conversation in 'input'";
        return Err(fields.refuse("store", "unsupported_value", message));
    }
    if fields.boolean("background")?.unwrap_or(false) {
        return Err(fields.refuse(
            "background",
            "unsupported_value",
            "use 'stream': an answer lives with its connection",
        ));
    }
    Ok(())
}

/// Tools in the form of OpenAI's chat completions, which is the one that templates know.
fn tools(fields: &Fields) -> Result<Vec<(Value, Offered)>, ApiError> {
    let tool = |(at, item): (usize, &Value)| {
        let tool = Fields::of(item, format!("tools[{at}]"))?;
        if tool.string("type")?.ok_or_else(|| tool.missing("type"))? != "function" {
            return Err(tool.refuse("type", "unsupported_value", "only tools of type 'function' are supported"));
        }
        let mut function = json!({"name": ask::tool_name(&tool)?});
        if let Some(description) = tool.string("description")? {
            function["description"] = description.into();
        }
        tool.object("parameters")?;
        if let Some(parameters) = tool.get("parameters") {
            function["parameters"] = parameters.clone();
        }
        let (name, path) = (ask::tool_name(&tool)?.to_owned(), tool.path("parameters"));
        let shape = ToolShape { name, path, arguments: tool.get("parameters").cloned() };
        let strict = tool.boolean("strict")?.unwrap_or(false);
        Ok((json!({"type": "function", "function": function}), Offered { shape, strict }))
    };
    ask::tools(fields)?.iter().enumerate().map(tool).collect()
}

fn messages(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::new();
    if let Some(instructions) = fields.string("instructions")? {
        messages.push(Message::new(Role::System, instructions));
    }
    match fields.get("input").ok_or_else(|| fields.missing("input"))? {
        Value::String(text) => messages.push(Message::new(Role::User, text.as_str())),
        Value::Array(items) if items.is_empty() => {
            return Err(fields.refuse("input", "invalid_value", "at least one item is needed"));
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                read_item(&Fields::of(item, format!("input[{at}]"))?, &mut messages)?;
            }
        }
        other => return Err(fields.wrong_type("input", "a string or a list of items", other)),
    }
    Ok(messages)
}

/// Adds what one item says.
fn read_item(item: &Fields, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    match item.string("type")?.unwrap_or("message") {
        "message" => messages.push(message(item)?),
        "function_call" => {
            let call = call(item)?;
            match messages.last_mut().filter(|last| last.role == Role::Assistant) {
                Some(last) => last.tool_calls.push(call),
                None => messages.push(Message { tool_calls: vec![call], ..Message::new(Role::Assistant, "") }),
            }
        }
        "function_call_output" => {
            let id = item.string("call_id")?.ok_or_else(|| item.missing("call_id"))?;
            let output = ask::text(item, "output", &TEXT, "")?.ok_or_else(|| item.missing("output"))?;
            messages.push(Message { tool_call_id: Some(id.to_owned()), ..Message::new(Role::Tool, output) });
        }
        // What another model thought about an earlier turn.
        "reasoning" => {}
        "item_reference" => {
            let message = "this server stores nothing: send the item itself";
            return Err(item.refuse("type", "unsupported_value", message));
        }
        other => {
            let message = format!("'{other}' is none of message, function_call and function_call_output");
            return Err(item.refuse("type", "unsupported_value", message));
        }
    }
    Ok(())
}

fn message(item: &Fields) -> Result<Message, ApiError> {
    let role = match item.string("role")?.ok_or_else(|| item.missing("role"))? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => {
            let message = format!("'{other}' is none of system, developer, user and assistant");
            return Err(item.refuse("role", "invalid_value", message));
        }
    };
    let content = ask::text(item, "content", &TEXT, "")?.ok_or_else(|| item.missing("content"))?;
    Ok(Message::new(role, content))
}

fn call(item: &Fields) -> Result<ToolCall, ApiError> {
    let arguments = item.string("arguments")?.ok_or_else(|| item.missing("arguments"))?;
    Ok(ToolCall {
        id: Some(item.string("call_id")?.ok_or_else(|| item.missing("call_id"))?.to_owned()),
        name: item.string("name")?.ok_or_else(|| item.missing("name"))?.to_owned(),
        // As with chat: what is no JSON was said all the same.
        arguments: serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into()),
    })
}
