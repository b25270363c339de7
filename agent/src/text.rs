//! How does untrusted text become safe to show to a model and on a terminal?
//!
//! Repository text, tool output and model output are hostile. Three dangers are removed here: it acts on the
//! terminal (escapes, control characters), it reads differently from what it is (invisible and bidirectional
//! characters), or it speaks as the system (chat control tokens). It is also bounded, keeping the head and the
//! tail, because test runners print the failure at the end. What goes to a model or into the log is [`shown`]: that,
//! without secrets and bounded in lines too. [`fenced`] closes it in, so that no text ends its own quotation.

mod escapes;
mod secrets;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub(crate) use secrets::entropy;
pub use secrets::{redact_keeping_lines, redact_secrets, restore_secrets};

/// The most lines of one text that a model is shown.
pub const LINES_MAX: usize = 400;

/// Text that holds no terminal escapes, no control characters but `\n` and `\t`, no invisible or bidirectional
/// characters and no chat control tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Safe {
    /// The text itself.
    pub text: String,
    /// Bytes left out of the middle to keep the limit.
    pub truncated_bytes: u64,
    /// Escape sequences, control characters and invisible characters that were removed or made visible.
    pub removed_controls: u64,
}

/// Makes `raw` safe and at most `limit_bytes` long. When it is too long the middle is left out and a line says
/// how much. Invalid UTF-8 becomes U+FFFD.
#[must_use]
pub fn sanitize(raw: &[u8], limit_bytes: usize) -> Safe {
    reduce(raw, limit_bytes, usize::MAX, &clean)
}

/// As [`sanitize`], and without what looks like a credential, in at most [`LINES_MAX`] lines.
#[must_use]
pub fn shown(raw: &[u8], limit_bytes: usize) -> Safe {
    let clean = |raw: &[u8]| {
        let (text, removed) = clean(raw);
        (redact_secrets(&text).0, removed)
    };
    reduce(raw, limit_bytes, LINES_MAX, &clean)
}

/// The text as a quotation that it cannot close itself: its fence is longer than any run of backquotes that begins a
/// line of it.
#[must_use]
pub fn fenced(text: &str) -> String {
    let text = text.trim_end();
    let fence = fence(text);
    format!("{fence}\n{text}\n{fence}")
}

/// See [`fenced`].
#[must_use]
pub fn fence(text: &str) -> String {
    let ticks = |line: &str| line.trim_start().bytes().take_while(|byte| *byte == b'`').count();
    "`".repeat(text.lines().map(ticks).max().unwrap_or(0).max(2) + 1)
}

fn reduce(raw: &[u8], limit_bytes: usize, lines_max: usize, clean: &dyn Fn(&[u8]) -> (String, u64)) -> Safe {
    // A 200 MB file must not cost 200 MB of work: only what can survive the cut is read. Twice the limit at each
    // end, because removing escapes can shrink what is read.
    let window = limit_bytes.saturating_mul(2).max(4096);
    if raw.len() <= window.saturating_mul(2) {
        let (text, removed) = clean(raw);
        let (head, tail, skipped) = few_lines(&text, None, lines_max);
        let (text, truncated) = bound(head, tail, skipped, limit_bytes);
        return Safe { text, truncated_bytes: truncated, removed_controls: removed };
    }
    let (head, removed_head) = clean(&raw[..window]);
    let (tail, removed_tail) = clean(&raw[raw.len() - window..]);
    let (first, last, fewer) = few_lines(&head, Some(&tail), lines_max);
    let skipped = (raw.len() - 2 * window) as u64 + fewer;
    let (text, truncated) = bound(first, last, skipped, limit_bytes);
    Safe { text, truncated_bytes: truncated, removed_controls: removed_head + removed_tail }
}

/// The first and the last lines where there are more than allowed, and how many bytes lie between. `last` is where
/// the tail is taken from; without it, from `first` too.
fn few_lines<'a>(first: &'a str, last: Option<&'a str>, lines_max: usize) -> (&'a str, &'a str, u64) {
    let count = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    let lines = count(first) + last.map_or(0, count);
    if lines <= lines_max {
        return (first, last.unwrap_or_default(), 0);
    }
    // One line is for the note.
    let keep = lines_max.saturating_sub(1) / 2;
    let end = first.match_indices('\n').nth(keep.saturating_sub(1)).map_or(first.len(), |(at, _)| at + 1);
    let from = last.unwrap_or(first);
    let begin = from
        .strip_suffix('\n')
        .unwrap_or(from)
        .rmatch_indices('\n')
        .nth(keep.saturating_sub(1))
        .map_or(0, |(at, _)| at + 1);
    let begin = if last.is_none() { begin.max(end) } else { begin };
    let whole = first.len() + last.map_or(0, str::len);
    (&first[..end], &from[begin..], (whole - end - (from.len() - begin)) as u64)
}

/// One line of at most about `limit_bytes`, for a message that quotes untrusted text.
#[must_use]
pub fn quote(raw: &str, limit_bytes: usize) -> String {
    // Most texts need no cleaning: nothing acts in them, and nothing opens a token.
    let is_safe = raw.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'<' && b != b'[');
    let safe = if is_safe { raw.into() } else { Cow::from(clean(raw.as_bytes()).0.replace(['\n', '\t'], " ")) };
    if safe.len() <= limit_bytes {
        return safe.into_owned();
    }
    format!("{}...", &safe[..floor(&safe, limit_bytes)])
}

/// The exact text, for a person who must decide about it: nothing is removed, and every character that is not drawn
/// as itself is written as its code. Only newlines stay, so whoever shows it puts a mark before each line.
#[must_use]
pub fn visible(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        let looks_like_a_space = c != ' ' && c != '\n' && c.is_whitespace();
        let private = matches!(c, '\u{FE0E}' | '\u{FE0F}' | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}');
        if (c.is_control() && c != '\n') || is_invisible(c) || looks_like_a_space || private {
            out.push_str(&format!("<U+{:04X}>", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether this character is drawn as nothing or changes the order in which others are drawn.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0D}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Removes what acts and shows what hides. The order matters: an escape inside a token would otherwise hide it.
fn clean(raw: &[u8]) -> (String, u64) {
    let decoded = String::from_utf8_lossy(raw);
    let (plain, mut removed) = escapes::strip(&decoded);
    let mut shown = String::with_capacity(plain.len());
    for (at, c) in plain.char_indices() {
        if !is_invisible(c) {
            shown.push(c);
            continue;
        }
        removed += 1;
        let byte_order_mark = at == 0 && c == '\u{FEFF}';
        if !byte_order_mark {
            shown.push_str(&format!("<U+{:04X}>", c as u32));
        }
    }
    (break_control_tokens(&shown), removed)
}

/// Tags with which model families open a tool call, a tool result, hidden reasoning or a turn.
const TAGS: [&str; 10] = [
    "tool_call",
    "tool_response",
    "tool_result",
    "tools",
    "think",
    "start_of_turn",
    "end_of_turn",
    "function_results",
    "bos",
    "eos",
];

/// Words in square brackets with which other families do the same.
const BRACKETED: [&str; 7] =
    ["INST", "SYSTEM_PROMPT", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS", "TOOL_CONTENT", "THINK"];

/// Puts a space inside `<|name|>`, `<tag>`, `</tag>`, `<<SYS>>` and `[INST]`, so that no tokenizer reads them as one
/// control token.
fn break_control_tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '[']) {
        let (before, from) = rest.split_at(at + 1);
        out.push_str(before);
        if if before.ends_with('<') { opens_token(from) } else { opens_bracket(from) } {
            out.push(' ');
        }
        rest = from;
    }
    out.push_str(rest);
    out
}

/// Whether the text after a `<` would complete a control token.
fn opens_token(after: &str) -> bool {
    for bar in ['|', '\u{FF5C}'] {
        if let Some(body) = after.strip_prefix(bar) {
            // A name, then the bar again. The name is bounded: control tokens are short.
            let end = body.char_indices().take(65).find(|(_, c)| *c == bar || *c == '>' || *c == '<' || *c == '\n');
            return matches!(end, Some((at, c)) if c == bar && at > 0 && body[at + bar.len_utf8()..].starts_with('>'));
        }
    }
    if ["<SYS>>", "</SYS>>"].iter().any(|token| after.starts_with(token)) {
        return true;
    }
    let name = after.strip_prefix('/').unwrap_or(after);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
    TAGS.contains(&&name[..end]) && name[end..].starts_with('>')
}

fn opens_bracket(after: &str) -> bool {
    let name = after.strip_prefix('/').unwrap_or(after);
    BRACKETED.iter().any(|token| name.strip_prefix(token).is_some_and(|rest| rest.starts_with(']')))
}

/// Keeps the head of `head` and the tail of `tail` within the limit; when nothing was skipped, `head` is the whole text.
fn bound(head: &str, tail: &str, skipped: u64, limit_bytes: usize) -> (String, u64) {
    let whole = head.len() + tail.len();
    if skipped == 0 && whole <= limit_bytes {
        return (format!("{head}{tail}"), 0);
    }
    const NOTE_BYTES: usize = 64;
    if limit_bytes < 2 * NOTE_BYTES {
        let cut = floor(head, limit_bytes);
        return (head[..cut].to_owned(), skipped + (whole - cut) as u64);
    }
    let room = limit_bytes - NOTE_BYTES;
    let first = at_line_end(head, floor(head, room / 2));
    let last_from = if skipped == 0 { head } else { tail };
    let start = at_line_start(last_from, ceil(last_from, last_from.len().saturating_sub(room - room / 2)));
    let last = &last_from[start..];
    let left_out = skipped + (whole - first - last.len()) as u64;
    let begin = &head[..first];
    let begin = begin.strip_suffix('\n').unwrap_or(begin);
    (format!("{begin}\n[... {left_out} bytes left out ...]\n{last}"), left_out)
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len())
}

/// The end of the last whole line before `cut`, unless that would lose more than a quarter of the part.
fn at_line_end(text: &str, cut: usize) -> usize {
    match text[..cut].rfind('\n') {
        Some(newline) if newline + 1 >= cut - cut / 4 => newline + 1,
        _ => cut,
    }
}

/// The start of the first whole line after `cut`, unless that would lose more than a quarter of the part.
fn at_line_start(text: &str, cut: usize) -> usize {
    let kept = text.len() - cut;
    match text[cut..].find('\n') {
        Some(newline) if newline < kept / 4 => cut + newline + 1,
        _ => cut,
    }
}

#[cfg(test)]
mod tests;
