//! Does a script of sed or awk write files or run commands?

use super::{Effect, has, operands, unclear, values, write};
use crate::gate::shell::Word;

pub(super) fn sed(words: &[Word]) -> Vec<Effect> {
    if values(words, "--file").next().is_some() || has(words, 'f') {
        return unclear("sed takes its script from a file");
    }
    let given: Vec<Word> = words
        .windows(2)
        .filter(|w| ["-e", "--expression"].contains(&w[0].text.as_str()))
        .map(|w| w[1].clone())
        .collect();
    let glued =
        words.iter().any(|w| w.text.starts_with("-e") && w.text.len() > 2 || w.text.starts_with("--expression="));
    let mut files = operands(words, &["-e", "--expression", "-l"]);
    let scripts = if given.is_empty() && !files.is_empty() { vec![files.remove(0).clone()] } else { given };
    if glued || !scripts.iter().all(|s| s.known && is_plain_sed(&s.text)) {
        return unclear("this sed script may write files or run commands, or it is not understood");
    }
    let changes = words.iter().any(|w| w.text.starts_with("--in-place") || w.text.starts_with("-i")) || has(words, 'i');
    if changes { files.into_iter().map(write).collect() } else { vec![] }
}

/// `5p`, `1,20p`, `/re/d`, `s/a/b/g`, joined by `;`: no command that writes, reads or runs.
fn is_plain_sed(script: &str) -> bool {
    let mut rest = script.trim_start();
    while !rest.is_empty() {
        let Some(after) = sed_address(rest) else { return false };
        let after = after.trim_start_matches([' ', '!']);
        let Some(command) = after.chars().next() else { return false };
        let body = &after[command.len_utf8()..];
        let end = match command {
            'p' | 'd' | 'q' | '=' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | 'P' | 'D' => Some(body),
            's' | 'y' => sed_substitution(body),
            _ => None,
        };
        let Some(end) = end.map(|end| end.trim_start_matches(' ')) else { return false };
        rest = match end.strip_prefix([';', '\n']) {
            Some(next) => next.trim_start(),
            None if end.is_empty() => end,
            None => return false,
        };
    }
    true
}

/// What follows the line numbers or patterns in front of a command.
fn sed_address(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = match rest.strip_prefix('/') {
            Some(pattern) => after_delimiter(pattern, '/')?,
            None => rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$' || c == '~' || c == '+'),
        };
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some(rest),
        }
    }
}

fn sed_substitution(body: &str) -> Option<&str> {
    let delimiter = body.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    let rest = after_delimiter(&body[1..], delimiter)?;
    let rest = after_delimiter(rest, delimiter)?;
    Some(rest.trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit()))
}

fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

/// A program of awk may run commands and write files; without these signs it does neither.
pub(super) fn awk(words: &[Word]) -> Vec<Effect> {
    let valued = ["-F", "-v"];
    let options = words[1..].iter().filter(|w| w.text.starts_with('-'));
    let known = |w: &Word| ["-F", "-v"].iter().any(|o| w.text.starts_with(o)) || w.text == "--";
    let operands = operands(words, &valued);
    let plain = |w: &&Word| {
        w.known
            && !["system", "getline", "@", "close"].iter().any(|sign| w.text.contains(sign))
            && sends_nothing(&w.text)
    };
    match operands.first() {
        Some(code) if options.into_iter().all(known) && plain(code) => vec![],
        None => vec![],
        Some(_) => unclear("this awk program may write files or run commands, or it is not understood"),
    }
}

/// Whether `>` and `|` in a program of awk only compare and join: outside of braces, in parentheses, or in a string.
/// A pattern between slashes or a comment could hide where a string begins, so with these they are refused.
fn sends_nothing(program: &str) -> bool {
    let program = program.replace("\\n", "").replace("\\t", "");
    if program.contains('\\') {
        return false;
    }
    if !program.contains(['>', '|']) {
        return true;
    }
    let (mut braces, mut parentheses, mut string) = (0_i32, 0_i32, false);
    for c in program.chars() {
        match c {
            '"' => string = !string,
            _ if string => {}
            '/' | '#' => return false,
            '{' => braces += 1,
            '}' => braces -= 1,
            '(' => parentheses += 1,
            ')' => parentheses -= 1,
            '>' | '|' if braces != 0 && parentheses <= 0 => return false,
            _ => {}
        }
    }
    !string
}
