//! What may a program read of a session? A versioned stream, one JSON object a line.
//!
//! Every line has `v` (the version of the stream, 1), `event` and `at_ms` (since the session began). New events and
//! fields may be added under the same version; a field never changes its meaning.

use agent::drive::Event;
use agent::model::Usage;
use agent::session::Record;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;

/// The version of the stream.
pub const VERSION: u32 = 1;

/// Writes events to standard output.
#[derive(Clone, Copy)]
pub struct Stream {
    start: Instant,
}

impl Stream {
    /// Begins now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Writes one line; a reader that has gone away ends nothing.
    pub fn emit(&self, event: &str, mut body: Value) {
        body["v"] = json!(VERSION);
        body["event"] = json!(event);
        body["at_ms"] = json!(self.start.elapsed().as_millis() as u64);
        let _ = writeln!(std::io::stdout().lock(), "{body}");
    }

    /// An event of the loop. Partial replies are not sent.
    pub fn watch(&self, event: &Event<'_>) {
        match event {
            Event::Speaking(_) => {}
            Event::Judged { agent_id, call, judgement } => {
                self.emit("verdict", whose(json!({ "call": call, "judgement": judgement }), *agent_id));
            }
            Event::Recorded(record) => {
                let (record, agent_id) = match record {
                    Record::Child { agent_id, happened } => (&**happened, Some(agent_id.as_str())),
                    record => (*record, None),
                };
                let mut body = serde_json::to_value(record).unwrap_or_default();
                let name = body["record"].as_str().unwrap_or("record").to_owned();
                if let Some(fields) = body.as_object_mut() {
                    fields.remove("record");
                }
                self.emit(&name, whose(body, agent_id));
            }
        }
    }
}

/// What happened to a sub-agent names it.
fn whose(mut body: Value, agent_id: Option<&str>) -> Value {
    if let Some(id) = agent_id {
        body["agent_id"] = json!(id);
    }
    body
}

/// The cost sheet: one object a model call, and the sum.
pub fn costs(calls: &[Usage]) -> Value {
    let rows: Vec<Value> = calls
        .iter()
        .map(|usage| {
            json!({
                "prompt_tokens": usage.prompt_tokens,
                "reused_tokens": usage.cached_tokens,
                "computed_tokens": usage.computed_tokens(),
                "generated_tokens": usage.generated_tokens,
                "millis": usage.millis,
            })
        })
        .collect();
    let sum = |of: fn(&Usage) -> usize| calls.iter().map(of).sum::<usize>();
    json!({
        "calls": rows,
        "prompt_tokens": sum(|u| u.prompt_tokens),
        "reused_tokens": sum(|u| u.cached_tokens),
        "computed_tokens": sum(Usage::computed_tokens),
        "generated_tokens": sum(|u| u.generated_tokens),
        "millis": calls.iter().map(|u| u.millis).sum::<u64>(),
    })
}
