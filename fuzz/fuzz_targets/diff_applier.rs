//! Does an edit put into a file what it says, and nothing where it says nothing? And does the diff that a person is
//! shown lead from the old text to the new one?
//!
//! The input is two texts, cut at the first NUL byte: a file, and the block that a model wrote.
#![no_main]

use agent::Code;
use agent::code::{Definition, Found, Matches};
use agent::edit::splice;
use agent::session::Files;
use agent::verify::diff;
use agent::workspace::Change;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (old, block) = text.split_once('\0').unwrap_or((&text, ""));
    if let Ok(new) = splice("a.py", old, block, &Lines) {
        assert_ne!(new.trim(), old.trim(), "an edit that changes nothing is refused");
    }
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let change = Change { path: "a.py".into(), before: bytes(old), after: bytes(block) };
    assert!(!agent::audit::applied(&change).is_empty());
    assert_eq!(patched(old, &diff(&change)), block, "the diff leads somewhere else");
});

/// The smallest reader of a unified diff of one file: lines of context and removed lines must be where they are said
/// to be.
fn patched(old: &str, diff: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut at, mut new) = (0, Vec::new());
    let mut lines = diff.split_inclusive('\n').skip(2).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("@@") {
            let (start, length) = old_range(line);
            // Of an empty range the line before it is named.
            let from = if length == 0 { start } else { start - 1 };
            new.extend(old[at..from].iter().map(|line| (*line).to_owned()));
            at = from;
            continue;
        }
        let mut body = line.get(1..).unwrap_or_default().to_owned();
        if lines.next_if(|next| next.starts_with("\\ No newline")).is_some() {
            body.pop();
        }
        match line.as_bytes()[0] {
            b'+' => new.push(body),
            b'-' | b' ' => {
                assert_eq!(old[at], body, "the diff speaks of a line that is not there");
                at += 1;
                if line.starts_with(' ') {
                    new.push(body);
                }
            }
            other => panic!("a line of a diff begins with byte {other}"),
        }
    }
    new.extend(old[at..].iter().map(|line| (*line).to_owned()));
    new.concat()
}

/// `@@ -START,LENGTH +…`
fn old_range(header: &str) -> (usize, usize) {
    let range = header.strip_prefix("@@ -").and_then(|rest| rest.split(' ').next()).expect("a hunk header");
    let (start, length) = range.split_once(',').unwrap_or((range, "1"));
    (start.parse().expect("a start"), length.parse().expect("a length"))
}

/// A reading of Python good enough to have definitions, nested ones and neighbours: `def` and `class` at the start of a
/// line, up to the next line that is indented no further.
struct Lines;

impl Code for Lines {
    fn search(&self, _: &str, _: usize) -> Result<Vec<Found>, String> {
        Ok(Vec::new())
    }

    fn lay_over(&self, _: &Files) {}

    fn may_match(&self, _: &str, paths: Vec<String>) -> Vec<String> {
        paths
    }

    fn grep(&self, _: &str, _: &mut dyn Iterator<Item = (String, Vec<u8>)>, _: usize) -> Result<Matches, String> {
        Ok(Matches::default())
    }

    fn defined(&self, _: &str) -> Vec<(String, usize)> {
        Vec::new()
    }

    fn outline(&self, _: &str, bytes: &[u8]) -> Vec<Definition> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
        let mut lines: Vec<(usize, usize, &str)> = Vec::new();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let body = line.trim_start();
            lines.push((offset, line.len() - body.len(), body));
            offset += line.len();
        }
        let mut found: Vec<Definition> = Vec::new();
        for (at, (start, depth, body)) in lines.iter().enumerate() {
            let Some(name) = body.strip_prefix("def ").or_else(|| body.strip_prefix("class ")) else { continue };
            let next = lines[at + 1..].iter().find(|(_, inner, body)| inner <= depth && !body.is_empty());
            let end = next.map_or(text.len(), |(next, _, _)| *next);
            let end = start + depth + text[start + depth..end].trim_end().len();
            let start = start + depth;
            let parent = found.iter().rev().find(|outer| outer.bytes.end >= end && outer.bytes.start < start);
            let parent = parent.map(|outer| outer.name.clone());
            let name = name.split(['(', ':', '\n']).next().unwrap_or_default().to_owned();
            found.push(Definition { name, parent, bytes: start..end });
        }
        found
    }

    fn parses(&self, _: &str, bytes: &[u8]) -> Option<Result<(), usize>> {
        let text = String::from_utf8_lossy(bytes);
        Some(text.lines().position(|line| line.contains("def (")).map_or(Ok(()), |at| Err(at + 1)))
    }
}
