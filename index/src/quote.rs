//! What does a text quote of a file, word for word?
//!
//! Who reports a fault copies what the program said, and the program holds that message; or a line of its code, out of
//! a trace. Runs of [`RUN`] words that both have are rare enough to be such a quotation. Punctuation and the breaks of
//! lines do not count, so that a message is found that its source cuts into several strings. An option of a command
//! that the text names, `--like-this`, is quoted where it is a string of its own: where the program declares it.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

/// Words of one run.
const RUN: usize = 4;
/// Runs of a text that are looked for.
const RUNS_MAX: usize = 4000;

/// The runs of words of a text.
pub(crate) struct Quotes {
    /// By hash: the number of the run.
    runs: FxHashMap<u64, usize>,
}

impl Quotes {
    /// Every run within a line of the text.
    pub(crate) fn of(text: &str) -> Quotes {
        let mut runs = FxHashMap::default();
        for line in text.lines() {
            each_run(line, false, |run, _| {
                let next = runs.len();
                if next < RUNS_MAX {
                    runs.entry(run).or_insert(next);
                }
            });
        }
        Quotes { runs }
    }

    /// The runs that stand in `text` too, with the first line, from 1, on which each of them ends.
    pub(crate) fn found_in(&self, text: &str) -> Vec<(usize, usize)> {
        let (mut line, mut counted) = (1, 0);
        let mut found: FxHashMap<usize, usize> = FxHashMap::default();
        each_run(text, true, |run, end| {
            if let Some(number) = self.runs.get(&run) {
                line += text.as_bytes()[counted..end].iter().filter(|byte| **byte == b'\n').count();
                counted = end;
                found.entry(*number).or_insert(line);
            }
        });
        found.into_iter().collect()
    }
}

/// Calls `each` with the hash of every run of words, and of every option (in a source, every `literal` one), and where it
/// ends.
fn each_run(text: &str, literal: bool, mut each: impl FnMut(u64, usize)) {
    let mut last = [0u64; RUN];
    let (mut count, mut at) = (0, 0);
    let bytes = text.as_bytes();
    // A letter of any script is a word's; bytes beyond ASCII are all taken for such.
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    while at < bytes.len() {
        if let Some(length) = option(&bytes[at..]).filter(|length| !literal || is_literal(bytes, at, at + length)) {
            let mut run = FxHasher::default();
            run.write(&bytes[at..at + length]);
            each(run.finish(), at + length);
        }
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let mut word = FxHasher::default();
        while at < bytes.len() && is_word(bytes[at]) {
            word.write_u8(bytes[at].to_ascii_lowercase());
            at += 1;
        }
        last.rotate_left(1);
        last[RUN - 1] = word.finish();
        count += 1;
        if count >= RUN {
            let mut run = FxHasher::default();
            last.iter().for_each(|word| run.write_u64(*word));
            each(run.finish(), at);
        }
    }
}

/// Whether the bytes between are a whole string of the source.
fn is_literal(bytes: &[u8], start: usize, end: usize) -> bool {
    let quote = start.checked_sub(1).map(|before| bytes[before]);
    quote.is_some_and(|quote| matches!(quote, b'"' | b'\'' | b'`') && bytes.get(end) == Some(&quote))
}

/// The length of the option of a command, `--like-this`, that the bytes begin with.
fn option(bytes: &[u8]) -> Option<usize> {
    let name = bytes.strip_prefix(b"--").filter(|name| name.first().is_some_and(u8::is_ascii_lowercase))?;
    let length =
        name.iter().take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || **byte == b'-').count();
    (length > 2).then_some(2 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_where_the_source_cuts_it_and_nothing_else_is() {
        let quotes = Quotes::of("It fails:\n>Using skip outside of a test is not allowed.\nsays it\n");
        let source = "def f():\n    raise Error(\n        \"Using skip outside of \"\n        \"a test is not allowed. {x}\"\n    )\n";
        let mut lines: Vec<usize> = quotes.found_in(source).into_iter().map(|(_, line)| line).collect();
        lines.sort_unstable();
        assert_eq!(lines, [3, 4, 4, 4, 4, 4]);
        assert_eq!(quotes.found_in("using skip outside a test of it is allowed"), []);
    }

    #[test]
    fn an_option_is_quoted_where_it_is_a_string_of_its_own() {
        let quotes = Quotes::of("`tool --collect-only` is too long");
        assert_eq!(quotes.found_in("run(\n    \"--collect-only\",\n").len(), 1);
        assert_eq!(quotes.found_in("# see --collect-only\n'--collect-only=x' '--collect'"), []);
    }

    #[test]
    fn a_run_does_not_go_over_the_lines_of_the_question() {
        assert_eq!(Quotes::of("one two\nthree four").found_in("one two three four"), []);
        assert_eq!(Quotes::of("one two three four").found_in("ONE, two\n\"three\" four.").len(), 1);
        assert_eq!(Quotes::of("").found_in("größe 重试"), []);
    }
}
