//! What does a request of the Messages API ask for?
//!
//! Its blocks become plain messages: text blocks of one turn are joined by line breaks, each result of a tool is a message
//! of its own, in the order written. A result that is an error says so, because the flag itself reaches no template.

use serde_json::{Value, json};

use crate::api::ask::{self, Ask, Prompt};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::wanted::{self, Offered, ToolChoice};
use crate::grammar::{Shape, ToolShape};
use crate::{Message, Role, ToolCall};

/// Between two blocks of text.
const BETWEEN: &str = "\n";

pub(super) fn read(fields: &Fields, seed: u64, tokens_max: Option<usize>) -> Result<Ask, ApiError> {
    refuse_unsupported(fields)?;
    let (choice, several) = tool_choice(fields)?;
    let (mut tools, offered): (Vec<Value>, Vec<Offered>) = tools(fields)?.into_iter().unzip();
    if choice == ToolChoice::None {
        tools.clear();
    }
    let config = fields.object("output_config")?;
    let format = match (fields.object("output_format")?, config) {
        (None, Some(config)) => config.object("format")?,
        (format, _) => format,
    };
    let answer = format.map(|format| wanted::format(&format)).transpose()?.flatten();
    let calls = wanted::calls(fields, &choice, offered, answer.is_some(), several)?;
    let prompt = Prompt::Chat { messages: messages(fields)?, tools };
    let (stop, shape) = (ask::stop(fields, "stop_sequences")?, Shape { answer, calls });
    Ok(Ask { tokens_max, stop, shape, ..Ask::read(fields, prompt, seed)? })
}

/// Refuses what would be a different answer from the one asked for.
fn refuse_unsupported(fields: &Fields) -> Result<(), ApiError> {
    if fields.array("mcp_servers")?.is_some_and(|servers| !servers.is_empty()) {
        let message = "this server calls no other: give the tools in 'tools' and call them yourself";
        return Err(fields.refuse("mcp_servers", "unsupported_value", message));
    }
    if fields.get("container").is_some() {
        return Err(fields.refuse("container", "unsupported_value", "this server runs nothing"));
    }
    Ok(())
}

/// Tools in the form of OpenAI's chat completions, which is the one that templates know.
fn tools(fields: &Fields) -> Result<Vec<(Value, Offered)>, ApiError> {
    let tool = |(at, item): (usize, &Value)| {
        let tool = Fields::of(item, format!("tools[{at}]"))?;
        if tool.string("type")?.is_some_and(|kind| kind != "custom") {
            let message = "only tools of type 'custom', which the client runs, are supported";
            return Err(tool.refuse("type", "unsupported_value", message));
        }
        let name = ask::tool_name(&tool)?;
        tool.object("input_schema")?.ok_or_else(|| tool.missing("input_schema"))?;
        let mut function = json!({"name": name});
        if let Some(description) = tool.string("description")? {
            function["description"] = description.into();
        }
        function["parameters"] = tool.get("input_schema").cloned().unwrap_or_default();
        let shape = ToolShape {
            name: name.to_owned(),
            path: tool.path("input_schema"),
            arguments: tool.get("input_schema").cloned(),
        };
        let strict = tool.boolean("strict")?.unwrap_or(false);
        Ok((json!({"type": "function", "function": function}), Offered { shape, strict }))
    };
    ask::tools(fields)?.iter().enumerate().map(tool).collect()
}

/// Whether tools are called, and whether several at once.
fn tool_choice(fields: &Fields) -> Result<(ToolChoice, bool), ApiError> {
    let Some(choice) = fields.object("tool_choice")? else { return Ok((ToolChoice::Auto, true)) };
    let several = !choice.boolean("disable_parallel_tool_use")?.unwrap_or(false);
    let which = match choice.string("type")?.ok_or_else(|| choice.missing("type"))? {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => ToolChoice::Named(choice.string("name")?.ok_or_else(|| choice.missing("name"))?.to_owned()),
        _ => return Err(choice.refuse("type", "invalid_value", "it is auto, any, tool or none")),
    };
    Ok((which, several))
}

fn messages(fields: &Fields) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::new();
    if let Some(system) = ask::text(fields, "system", &["text"], BETWEEN)? {
        messages.push(Message::new(Role::System, system));
    }
    let items = fields.array("messages")?.ok_or_else(|| fields.missing("messages"))?;
    let mut last = Role::Assistant;
    for (at, item) in items.iter().enumerate() {
        let turn = Fields::of(item, format!("messages[{at}]"))?;
        last = match turn.string("role")?.ok_or_else(|| turn.missing("role"))? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            other => {
                let message = format!("'{other}' is neither user nor assistant");
                return Err(turn.refuse("role", "invalid_value", message));
            }
        };
        read_turn(&turn, last, &mut messages)?;
    }
    if items.is_empty() {
        return Err(fields.refuse("messages", "invalid_value", "at least one message is needed"));
    }
    if last != Role::User {
        let message = "the last message must be the user's: an answer cannot be begun for the model";
        return Err(fields.refuse("messages", "unsupported_value", message));
    }
    Ok(messages)
}

/// Adds what one turn of the conversation says.
fn read_turn(turn: &Fields, role: Role, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let blocks = match turn.get("content") {
        None => return Err(turn.missing("content")),
        Some(Value::String(text)) => {
            messages.push(Message::new(role, text.as_str()));
            return Ok(());
        }
        Some(Value::Array(blocks)) => blocks,
        Some(other) => return Err(turn.wrong_type("content", "a string or a list of blocks", other)),
    };
    let mut said: Option<Message> = None;
    for (at, block) in blocks.iter().enumerate() {
        let block = Fields::of(block, format!("{}[{at}]", turn.path("content")))?;
        match (block.string("type")?.ok_or_else(|| block.missing("type"))?, role) {
            ("text", _) => {
                let text = block.string("text")?.ok_or_else(|| block.missing("text"))?;
                let said = said.get_or_insert_with(|| Message::new(role, ""));
                if !said.content.is_empty() {
                    said.content.push_str(BETWEEN);
                }
                said.content.push_str(text);
            }
            ("tool_use", Role::Assistant) => {
                said.get_or_insert_with(|| Message::new(role, "")).tool_calls.push(tool_use(&block)?);
            }
            ("tool_result", Role::User) => {
                messages.extend(said.take());
                messages.push(tool_result(&block)?);
            }
            // What another model thought about an earlier turn.
            ("thinking" | "redacted_thinking", Role::Assistant) => {}
            ("tool_use" | "tool_result", _) => {
                return Err(block.refuse("type", "invalid_value", format!("it is not for the {} to say", role.name())));
            }
            _ => return Err(ask::text_only(&block)),
        }
    }
    // A turn without a word is a turn still, except where the results of tools were all of it.
    if said.is_some() || role == Role::Assistant || blocks.is_empty() {
        messages.push(said.unwrap_or_else(|| Message::new(role, "")));
    }
    Ok(())
}

fn tool_use(block: &Fields) -> Result<ToolCall, ApiError> {
    let input = block.get("input").filter(|input| input.is_object());
    Ok(ToolCall {
        id: Some(block.string("id")?.ok_or_else(|| block.missing("id"))?.to_owned()),
        name: block.string("name")?.ok_or_else(|| block.missing("name"))?.to_owned(),
        arguments: input.ok_or_else(|| block.refuse("input", "invalid_type", "expected an object"))?.clone(),
    })
}

fn tool_result(block: &Fields) -> Result<Message, ApiError> {
    let id = block.string("tool_use_id")?.ok_or_else(|| block.missing("tool_use_id"))?;
    let mut content = ask::text(block, "content", &["text"], BETWEEN)?.unwrap_or_default();
    let says_so = content.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if block.boolean("is_error")?.unwrap_or(false) && !says_so {
        content.insert_str(0, "Error: ");
    }
    Ok(Message { tool_call_id: Some(id.to_owned()), ..Message::new(Role::Tool, content) })
}
