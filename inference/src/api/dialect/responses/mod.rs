//! How does OpenAI's Responses API, `/v1/responses`, answer?
//!
//! Its shapes are those of the API reference, "Responses" and "Streaming events". An answer is a list of items: one
//! message, where something was said, and one for each call. Nothing is stored: every answer says `store: false`.

mod request;

use serde_json::{Value, json};

use super::{Answer, Dialect, End, Frame, How, Part, arguments, id, now};
use crate::api::ask::Ask;
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::toolcall::ToolCall;

/// Makes what is said where a request is silent.
type Silent = fn() -> Value;

/// What an answer repeats of its request, and what it says where the request is silent.
const REPEATED: [(&str, Silent); 11] = [
    ("instructions", || Value::Null),
    ("max_output_tokens", || Value::Null),
    ("metadata", || json!({})),
    ("parallel_tool_calls", || json!(true)),
    ("reasoning", || Value::Null),
    ("temperature", || Value::Null),
    ("text", || json!({"format": {"type": "text"}})),
    ("tool_choice", || json!("auto")),
    ("tools", || json!([])),
    ("top_p", || Value::Null),
    ("user", || Value::Null),
];

/// The state of one answer.
pub(in crate::api) struct Responses {
    id: String,
    created: u64,
    model: String,
    repeated: Value,
    /// Events sent.
    events: usize,
    /// The items that are complete.
    output: Vec<Value>,
    /// The message under way: its id and what it says so far.
    message: Option<(String, String)>,
}

impl Dialect for Responses {
    const PROMPT: &'static str = "input";

    fn read(fields: &Fields, seed: u64) -> Result<(Ask, Self), ApiError> {
        let ask = request::read(fields, seed)?;
        let repeated = REPEATED.iter().map(|(name, silent)| {
            let value = fields.get(name).cloned().unwrap_or_else(silent);
            ((*name).to_owned(), value)
        });
        let own = Self {
            id: id("resp_"),
            created: now(),
            model: ask.model.clone(),
            repeated: Value::Object(repeated.collect()),
            events: 0,
            output: Vec::new(),
            message: None,
        };
        Ok((ask, own))
    }

    fn at_once(&mut self) -> Vec<Frame> {
        let response = self.response("in_progress");
        ["response.created", "response.in_progress"].map(|event| self.of_response(event, response.clone())).into()
    }

    fn text(&mut self, part: &Part) -> Vec<Frame> {
        let text = part.text;
        let mut frames = Vec::new();
        if self.message.is_none() {
            frames = self.begin_message();
        }
        if let Some((_, said)) = &mut self.message {
            said.push_str(text);
        }
        frames.push(self.of_part("response.output_text.delta", json!({"delta": text, "logprobs": []})));
        frames
    }

    fn end(&mut self, _choice: usize, end: &End, _last: bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.message.is_none() && end.calls.is_empty() {
            frames = self.begin_message();
        }
        frames.extend(self.end_message(&end.how));
        for call in &end.calls {
            frames.extend(self.call(call));
        }
        let response = self.ended(end);
        let event = if end.how == How::Length { "response.incomplete" } else { "response.completed" };
        frames.push(self.of_response(event, response));
        frames
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        let mut response = self.response("failed");
        response["error"] = json!({"code": "server_error", "message": error.message()});
        vec![self.of_response("response.failed", response)]
    }

    fn whole(&mut self, answers: &[Answer]) -> Value {
        let Answer { said, end, .. } = &answers[0];
        if !said.is_empty() || end.calls.is_empty() {
            self.output.push(message(&id("msg_"), said, status(&end.how)));
        }
        self.output.extend(end.calls.iter().map(function_call));
        self.ended(end)
    }
}

impl Responses {
    fn response(&self, status: &str) -> Value {
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "model": self.model,
            "output": self.output,
            "previous_response_id": null,
            "store": false,
            "truncation": "disabled",
            "usage": null,
        });
        if let (Value::Object(response), Value::Object(repeated)) = (&mut response, &self.repeated) {
            response.extend(repeated.clone());
        }
        response
    }

    /// The answer when all its items are complete.
    fn ended(&self, end: &End) -> Value {
        let mut response = self.response(status(&end.how));
        if end.how == How::Length {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        let usage = &end.usage;
        response["usage"] = json!({
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.generated_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.generated_tokens,
            "cloister": end.cost(),
        });
        response
    }

    fn begin_message(&mut self) -> Vec<Frame> {
        let id = id("msg_");
        let mut item = message(&id, "", "in_progress");
        item["content"] = json!([]);
        self.message = Some((id, String::new()));
        let added = self.of_item("response.output_item.added", json!({"item": item}));
        vec![added, self.of_part("response.content_part.added", json!({"part": part("")}))]
    }

    fn end_message(&mut self, how: &How) -> Vec<Frame> {
        let Some((id, said)) = self.message.clone() else { return Vec::new() };
        let item = message(&id, &said, status(how));
        let frames = vec![
            self.of_part("response.output_text.done", json!({"text": said, "logprobs": []})),
            self.of_part("response.content_part.done", json!({"part": part(&said)})),
            self.of_item("response.output_item.done", json!({"item": item})),
        ];
        self.message = None;
        self.output.push(item);
        frames
    }

    fn call(&mut self, call: &ToolCall) -> Vec<Frame> {
        let item = function_call(call);
        let (id, arguments) = (item["id"].clone(), item["arguments"].clone());
        let mut begun = item.clone();
        (begun["arguments"], begun["status"]) = (json!(""), json!("in_progress"));
        let frames = vec![
            self.of_item("response.output_item.added", json!({"item": begun})),
            self.of_item("response.function_call_arguments.delta", json!({"item_id": id, "delta": arguments})),
            self.of_item(
                "response.function_call_arguments.done",
                json!({"item_id": id, "name": call.name, "arguments": arguments}),
            ),
            self.of_item("response.output_item.done", json!({"item": item})),
        ];
        self.output.push(item);
        frames
    }

    fn of_response(&mut self, event: &'static str, response: Value) -> Frame {
        self.event(event, json!({"response": response}))
    }

    /// An event of the item that is under way.
    fn of_item(&mut self, event: &'static str, mut fields: Value) -> Frame {
        fields["output_index"] = self.output.len().into();
        self.event(event, fields)
    }

    /// An event of the text of the message that is under way.
    fn of_part(&mut self, event: &'static str, mut fields: Value) -> Frame {
        fields["item_id"] = self.message.as_ref().map(|(id, _)| id.as_str()).into();
        fields["content_index"] = 0.into();
        self.of_item(event, fields)
    }

    fn event(&mut self, event: &'static str, mut fields: Value) -> Frame {
        fields["sequence_number"] = self.events.into();
        self.events += 1;
        Frame::named(event, fields)
    }
}

fn message(id: &str, said: &str, status: &str) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": [part(said)]})
}

fn part(said: &str) -> Value {
    json!({"type": "output_text", "text": said, "annotations": [], "logprobs": []})
}

fn function_call(call: &ToolCall) -> Value {
    json!({
        "id": id("fc_"),
        "type": "function_call",
        "call_id": id("call_"),
        "name": call.name,
        "arguments": arguments(call),
        "status": "completed",
    })
}

fn status(how: &How) -> &'static str {
    if *how == How::Length { "incomplete" } else { "completed" }
}
