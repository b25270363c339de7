//! Does this turn end in a call of one of the tools, and where does the call begin?
//!
//! Models of the Qwen2.5 family write a call in three ways: between `<tool_call>` tags, as bare JSON, or as JSON in
//! a code fence. The same text is also how an example of a call looks, so only what ends the turn counts: a call that
//! is followed by anything but more calls is prose. A call inside a code block that shows something else is prose too.
//!
//! This file knows no HTTP and no engine. [`parse`] judges a whole turn, [`Splitter`] does the same while the
//! turn is still arriving: it shows the text of which it is already certain that it belongs to no call.

use std::io::{self, Read};

use serde_json::{Map, Value};

/// What a call begins and ends with, where a model marks it.
pub(crate) const OPEN_TAG: &str = "<tool_call>";
pub(crate) const CLOSE_TAG: &str = "</tool_call>";
const FENCE: &str = "```";
/// What may follow the backticks of a fence that holds a call.
const FENCE_INFO: [&str; 3] = ["", "json", "tool_call"];

/// One call that the model asks for. Its name is one of the tools that were offered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments, in the order written. Not checked against the tool's schema.
    pub arguments: Map<String, Value>,
}

/// Splits a whole turn into what was said and the calls that end it. Without a call the text comes back untouched.
pub fn parse<'t>(turn: &'t str, tools: &[String]) -> (&'t str, Vec<ToolCall>) {
    match first_action(turn, 0, tools) {
        Some((at, Verdict::Calls(calls))) => (turn[..at].trim_end(), calls),
        _ => (turn, Vec::new()),
    }
}

/// The same judgement over a turn that arrives in pieces.
///
/// Whatever the pieces, the text shown in total is the text that [`parse`] gives for the whole, and never has to be
/// taken back.
pub struct Splitter {
    tools: Vec<String>,
    turn: String,
    /// Everything before is with the client already.
    shown_bytes: usize,
    /// No action begins before this byte, whatever follows.
    cleared_bytes: usize,
}

impl Splitter {
    /// A splitter for one turn. Without tools it holds nothing back.
    pub fn new(tools: Vec<String>) -> Self {
        Self { tools, turn: String::new(), shown_bytes: 0, cleared_bytes: 0 }
    }

    /// Takes the next piece and returns what may be shown now, possibly nothing.
    pub fn push(&mut self, piece: &str) -> &str {
        self.turn.push_str(piece);
        let mut safe_bytes = self.turn.len();
        if !self.tools.is_empty() {
            let held = first_action(&self.turn, self.cleared_bytes, &self.tools);
            self.cleared_bytes = held.map_or(safe_bytes, |(at, _)| at);
            // White space before a call is not part of what was said, so it waits until a word follows.
            safe_bytes = self.turn[..self.cleared_bytes].trim_end().len();
        }
        let from = self.shown_bytes.min(safe_bytes);
        self.shown_bytes = self.shown_bytes.max(safe_bytes);
        &self.turn[from..safe_bytes]
    }

    /// Ends the turn: the rest of the text, and the calls. A turn that was cut short (`whole` is false) has no calls,
    /// because nobody knows what would have followed them.
    pub fn finish(&self, whole: bool) -> (&str, Vec<ToolCall>) {
        let (said, calls) = if whole { parse(&self.turn, &self.tools) } else { (self.turn.as_str(), Vec::new()) };
        (&said[self.shown_bytes.min(said.len())..], calls)
    }
}

/// What a piece of text that might be an action turned out to be.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// No continuation makes it one, and nothing that begins in its first so many bytes is one either: those are whole
    /// calls, and what follows them is neither a call nor the end.
    Never { cleared_bytes: usize },
    /// Not yet, but a continuation could.
    Open,
    /// It is one, if the turn ends here.
    Calls(Vec<ToolCall>),
}

/// The first place from `from` on that is, or could become, the action which ends the turn.
fn first_action(turn: &str, from: usize, tools: &[String]) -> Option<(usize, Verdict)> {
    if tools.is_empty() {
        return None;
    }
    let mut cleared = from;
    for at in candidates(turn) {
        if at < cleared {
            continue;
        }
        match judge(&turn[at..], tools) {
            Verdict::Never { cleared_bytes } => cleared = at + cleared_bytes,
            verdict => return Some((at, verdict)),
        }
    }
    None
}

/// Where an action could begin: a tag anywhere, a fence or a bracket at the start of a line; nothing inside a fence.
fn candidates(turn: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut fence: Option<usize> = None;
    let mut line_at = 0;
    for line in turn.split_inclusive('\n') {
        let text = line.trim_start();
        let text_at = line_at + line.len() - text.len();
        let ticks = text.len() - text.trim_start_matches('`').len();
        line_at += line.len();
        if let Some(opened_with) = fence {
            if ticks >= opened_with && text[ticks..].trim().is_empty() {
                fence = None;
            }
            continue;
        }
        if ticks >= FENCE.len() && !text[ticks..].contains('`') {
            found.push(text_at);
            fence = Some(ticks);
            continue;
        }
        let starts_fence = !text.is_empty() && FENCE.starts_with(text);
        if starts_fence || text.starts_with(['{', '[']) {
            found.push(text_at);
        }
        found.extend(text.match_indices('<').filter_map(|(at, _)| {
            let rest = &text[at..];
            (rest.starts_with(OPEN_TAG) || OPEN_TAG.starts_with(rest)).then_some(text_at + at)
        }));
    }
    found
}

/// Judges text from a candidate on: one call after another until the end, and nothing else.
fn judge(text: &str, tools: &[String]) -> Verdict {
    let mut calls = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return if calls.is_empty() { Verdict::Open } else { Verdict::Calls(calls) };
        }
        let item = if let Some(inside) = rest.strip_prefix(OPEN_TAG) {
            enclosed(inside, CLOSE_TAG, Form::Tagged, tools)
        } else if rest.starts_with(FENCE) {
            fenced(rest, tools)
        } else if rest.starts_with(['{', '[']) {
            value(rest, Form::Bare, tools)
        } else if OPEN_TAG.starts_with(rest) || FENCE.starts_with(rest) {
            Item::Open
        } else {
            Item::Never
        };
        match item {
            Item::Never => return Verdict::Never { cleared_bytes: text.len() - rest.len() },
            Item::Open => return Verdict::Open,
            Item::Calls(found, after) => {
                calls.extend(found);
                rest = after;
            }
        }
    }
}

/// What stands at the front of a text: like [`Verdict`], with the text that follows the calls.
enum Item<'t> {
    Never,
    Open,
    Calls(Vec<ToolCall>, &'t str),
}

/// How a call was written. Only tags make it unmistakable, so only there may the arguments be missing.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Tagged,
    Bare,
}

fn fenced<'t>(text: &'t str, tools: &[String]) -> Item<'t> {
    let after_ticks = text.trim_start_matches('`');
    let ticks = &text[..text.len() - after_ticks.len()];
    match after_ticks.split_once('\n') {
        Some((info, inside)) if FENCE_INFO.contains(&info.trim()) => enclosed(inside, ticks, Form::Bare, tools),
        None if FENCE_INFO.iter().any(|known| known.starts_with(after_ticks.trim())) => Item::Open,
        _ => Item::Never,
    }
}

/// One or more JSON values up to `close`. The end of the turn closes too: models forget.
fn enclosed<'t>(text: &'t str, close: &str, form: Form, tools: &[String]) -> Item<'t> {
    let mut calls = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() && !calls.is_empty() {
            return Item::Calls(calls, rest);
        }
        if close.starts_with(rest) && rest != close {
            return Item::Open;
        }
        if let Some(after) = rest.strip_prefix(close) {
            return if calls.is_empty() { Item::Never } else { Item::Calls(calls, after) };
        }
        match value(rest, form, tools) {
            Item::Calls(found, after) => {
                calls.extend(found);
                rest = after;
            }
            other => return other,
        }
    }
}

/// One JSON value that is a call, or an array of them. Doubled outer braces are accepted, because the template inside
/// some model files shows them so and the models copy it.
fn value<'t>(text: &'t str, form: Form, tools: &[String]) -> Item<'t> {
    let doubled = text.starts_with("{{");
    let (json, mut after) = match leading_json(if doubled { &text[1..] } else { text }) {
        Leading::Value(json, after) => (json, after),
        Leading::Open => return Item::Open,
        Leading::Never => return Item::Never,
    };
    if doubled {
        after = after.trim_start();
        match after.strip_prefix('}') {
            Some(behind) => after = behind,
            None if after.is_empty() => return Item::Open,
            None => return Item::Never,
        }
    }
    let items = match json {
        Value::Array(items) => items,
        one => vec![one],
    };
    let calls: Option<Vec<ToolCall>> = items.into_iter().map(|item| call(item, form, tools)).collect();
    match calls {
        Some(calls) if !calls.is_empty() => Item::Calls(calls, after),
        _ => Item::Never,
    }
}

fn call(item: Value, form: Form, tools: &[String]) -> Option<ToolCall> {
    let Value::Object(mut fields) = item else { return None };
    let Some(Value::String(name)) = fields.shift_remove("name") else { return None };
    if !tools.contains(&name) {
        return None;
    }
    let arguments = match fields.shift_remove("arguments").or_else(|| fields.shift_remove("parameters")) {
        Some(Value::Object(arguments)) => arguments,
        // OpenAI's own form: the arguments are JSON in a string.
        Some(Value::String(text)) => serde_json::from_str(&text).ok()?,
        None if form == Form::Tagged => Map::new(),
        _ => return None,
    };
    Some(ToolCall { name, arguments })
}

enum Leading<'t> {
    Never,
    Open,
    Value(Value, &'t str),
}

/// The JSON object or array at the front of a text. Line breaks and tabs inside strings are accepted as written,
/// because small models do not escape them.
fn leading_json(text: &str) -> Leading<'_> {
    if !text.starts_with(['{', '[']) {
        return if text.is_empty() { Leading::Open } else { Leading::Never };
    }
    let mut strict =
        Escaped { bytes: text.as_bytes().iter(), pending: None, added_bytes: 0, in_string: false, escape: false };
    let mut stream = serde_json::Deserializer::from_reader(&mut strict).into_iter::<Value>();
    match stream.next() {
        Some(Ok(json)) => {
            let end = stream.byte_offset() - strict.added_bytes;
            Leading::Value(json, &text[end..])
        }
        Some(Err(error)) if error.is_eof() => Leading::Open,
        _ => Leading::Never,
    }
}

/// Text with the line breaks and tabs inside its JSON strings escaped. Read lazily, so that a text which is no JSON
/// costs only as far as it looks like some.
struct Escaped<'t> {
    bytes: std::slice::Iter<'t, u8>,
    pending: Option<u8>,
    added_bytes: usize,
    in_string: bool,
    escape: bool,
}

impl Escaped<'_> {
    fn next_byte(&mut self) -> Option<u8> {
        if let Some(byte) = self.pending.take() {
            return Some(byte);
        }
        let byte = *self.bytes.next()?;
        if self.in_string
            && !self.escape
            && let Some(short) = short_escape(byte)
        {
            self.pending = Some(short);
            self.added_bytes += 1;
            return Some(b'\\');
        }
        self.in_string ^= byte == b'"' && !self.escape;
        self.escape = self.in_string && byte == b'\\' && !self.escape;
        Some(byte)
    }
}

impl Read for Escaped<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < out.len()
            && let Some(byte) = self.next_byte()
        {
            out[count] = byte;
            count += 1;
        }
        Ok(count)
    }
}

fn short_escape(byte: u8) -> Option<u8> {
    match byte {
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
