//! What is being asked: one name, a path, a few words, an issue, or a trace?
//!
//! Read from the form of the text alone, before anything is looked up. Gives the words to look for with their
//! weights, the names and paths that the text mentions, and the places that a trace in it points at.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::lexical::Wanted;
use crate::tokenize::{is_stop_word, words};
use crate::trace::{Trace, normal, trace};

/// A text of more words than this, or of more lines than [`LINES_SHORT`], is an issue.
const WORDS_SHORT: usize = 40;
const LINES_SHORT: usize = 2;
/// Distinct words that are kept of a text.
const WORDS_MAX: usize = 1000;
/// Names and paths that are kept of a text.
const NAMES_MAX: usize = 64;

/// How much a word counts by where it stands in an issue.
const TITLE_WEIGHT: f32 = 3.0;
const BODY_WEIGHT: f32 = 1.0;
const INLINE_WEIGHT: f32 = 1.5;
const BLOCK_WEIGHT: f32 = 0.5;
const TRACE_WEIGHT: f32 = 0.3;
/// A compound identifier against a plain word, and its parts beside it.
const WHOLE_WEIGHT: f32 = 1.5;
const PART_WEIGHT: f32 = 0.6;

/// The form of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryKind {
    /// One name, plain or qualified.
    Identifier,
    /// A path, or its end.
    Path,
    /// A few words or a sentence.
    Words,
    /// The text of an issue or a task: a title, prose, code.
    Issue,
    /// A stack trace, compiler errors, the output of tests.
    Trace,
}

impl QueryKind {
    /// Whether it says much at once: what happened, what was expected, what the program said.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, QueryKind::Issue | QueryKind::Trace)
    }
}

impl fmt::Display for QueryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueryKind::Identifier => "identifier",
            QueryKind::Path => "path",
            QueryKind::Words => "words",
            QueryKind::Issue => "issue",
            QueryKind::Trace => "trace",
        })
    }
}

/// A question, understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub kind: QueryKind,
    /// In the order of their first appearance; all of them, the caller cuts.
    pub wanted: Vec<Wanted>,
    /// Names as written with `.` between their parts, in order, once each.
    pub names: Vec<String>,
    /// Paths as mentioned, in order, once each.
    pub paths: Vec<String>,
    pub trace: Trace,
    pub tests_asked: bool,
    pub docs_asked: bool,
}

impl Asked {
    pub(crate) fn of(text: &str) -> Asked {
        let trace = trace(text);
        let kind = kind(text, &trace);
        let mut reader = Reader::default();
        match kind {
            QueryKind::Issue | QueryKind::Trace => reader.issue(text, &trace),
            QueryKind::Identifier | QueryKind::Path => reader.segment(text, BODY_WEIGHT, true),
            QueryKind::Words => reader.inline(text, BODY_WEIGHT),
        }
        let Reader { seen, order, names, paths, .. } = reader;
        let all = order.into_iter().map(|text| {
            let tally = seen[&text];
            Wanted { weight: tally.weight.sqrt(), inflected: !tally.is_name, text }
        });
        let all: Vec<Wanted> = all.collect();
        let short = !kind.is_long();
        let asks = |words: &[&str]| short && all.iter().any(|word| words.contains(&word.text.as_str()));
        let tests_asked = asks(&["test", "tests", "testing"]);
        let docs_asked = asks(&["docs", "documentation", "readme", "changelog"]);
        let telling: Vec<Wanted> = all.iter().filter(|word| !is_stop_word(&word.text)).cloned().collect();
        let wanted = if telling.is_empty() { all } else { telling };
        Asked { kind, wanted, names, paths, trace, tests_asked, docs_asked }
    }
}

fn kind(text: &str, trace: &Trace) -> QueryKind {
    let text = text.trim();
    let (lines, count) = (text.lines().count(), text.split_whitespace().count());
    if count <= 1 {
        return if mentioned_path(text).is_some() { QueryKind::Path } else { QueryKind::Identifier };
    }
    let places = trace.places.len() + trace.symbols.len();
    if places > 0 && (lines <= LINES_SHORT || trace.lines.len() * 3 > lines) {
        return QueryKind::Trace;
    }
    if lines > LINES_SHORT || count > WORDS_SHORT { QueryKind::Issue } else { QueryKind::Words }
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    weight: f32,
    is_name: bool,
}

#[derive(Default)]
struct Reader {
    seen: FxHashMap<String, Tally>,
    order: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
}

impl Reader {
    fn issue(&mut self, text: &str, trace: &Trace) {
        let mut in_block = false;
        let mut in_comment = false;
        for (at, line) in text.lines().enumerate() {
            let bare = line.trim();
            if bare.starts_with("```") || bare.starts_with("~~~") {
                in_block = !in_block;
                continue;
            }
            // What the template of the issue says to its writer.
            if in_comment || bare.starts_with("<!--") {
                in_comment = !bare.contains("-->");
                continue;
            }
            if at == 0 {
                self.inline(bare, TITLE_WEIGHT);
            } else if trace.lines.binary_search(&at).is_ok() {
                self.segment(bare, TRACE_WEIGHT, true);
            } else if is_noise(bare) {
            } else if in_block || line.starts_with("    ") || line.starts_with('\t') || bare.starts_with(">>>") {
                self.segment(bare, BLOCK_WEIGHT, true);
            } else {
                self.inline(bare, BODY_WEIGHT);
            }
        }
    }

    /// Prose with code between back quotes.
    fn inline(&mut self, line: &str, weight: f32) {
        let quotes = line.matches('`').count();
        for (at, segment) in line.split('`').enumerate() {
            let is_code = at % 2 == 1 && at < quotes + quotes % 2;
            self.segment(segment, if is_code { weight * INLINE_WEIGHT } else { weight }, is_code);
        }
    }

    fn segment(&mut self, segment: &str, weight: f32, is_code: bool) {
        let breaks = |c: char| {
            !(c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '\\' | '-' | '#' | '@' | '~' | '\'' | '’'))
        };
        for token in segment.split(breaks) {
            let token = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
            if token.is_empty() {
                continue;
            }
            if let Some((_, rest)) = token.split_once("://") {
                self.paths(blob_path(rest));
                continue;
            }
            self.paths(mentioned_path(token));
            self.name(token, is_code);
            self.words(token, weight, is_code);
        }
    }

    fn words(&mut self, token: &str, weight: f32, is_code: bool) {
        let mut whole_end = 0;
        let found: Vec<_> = words(token).collect();
        for (at, word) in found.iter().enumerate() {
            let is_part = word.start < whole_end;
            let is_whole =
                !is_part && found.get(at + 1).is_some_and(|next| next.start < word.end && next.start >= word.start);
            if is_whole {
                whole_end = word.end;
            }
            let factor = if is_part {
                PART_WEIGHT
            } else if is_whole {
                WHOLE_WEIGHT
            } else {
                1.0
            };
            if !self.seen.contains_key(&word.text) {
                if self.order.len() == WORDS_MAX {
                    continue;
                }
                self.order.push(word.text.clone());
            }
            let tally = self.seen.entry(word.text.clone()).or_default();
            tally.weight += weight * factor;
            tally.is_name |= is_whole || is_code && !is_part;
        }
    }

    /// A token that can only be a name: compound or qualified, or anything in code.
    fn name(&mut self, token: &str, is_code: bool) {
        let flat = token.replace("::", ".").replace('#', ".");
        let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        if !flat.chars().all(is_plain) || !flat.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return;
        }
        let inner = flat.trim_start_matches('_');
        let is_compound = inner.contains(['_', '.'])
            || inner.chars().skip(1).any(char::is_uppercase) && inner.chars().any(char::is_lowercase);
        if (is_compound || is_code) && flat.len() > 2 && self.names.len() < NAMES_MAX && !self.names.contains(&flat) {
            self.names.push(flat);
        }
    }

    fn paths(&mut self, path: Option<String>) {
        if let Some(path) = path.filter(|path| self.paths.len() < NAMES_MAX && !self.paths.contains(path)) {
            self.paths.push(path);
        }
    }
}

/// Endings that make a word without `/` a path. Others (`.send`, `.com`) are as often something else.
const ENDINGS: &[&str] = &[
    "bash", "c", "cc", "cfg", "cpp", "cs", "css", "go", "h", "hpp", "html", "java", "js", "json", "jsx", "kt", "lua",
    "md", "mjs", "php", "proto", "py", "rb", "rs", "rst", "scala", "sh", "sql", "swift", "toml", "ts", "tsx", "yaml",
    "yml",
];

fn mentioned_path(token: &str) -> Option<String> {
    let token = token
        .split_once(':')
        .map_or(token, |(path, rest)| if rest.starts_with(|c: char| c.is_ascii_digit()) { path } else { token });
    let path = normal(token);
    let name = path.rsplit('/').next()?;
    let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending);
    let is_known = ending.is_some_and(|ending| ENDINGS.contains(&ending));
    (is_known || path.matches('/').count() >= 2 && ending.is_some()).then_some(path)
}

/// The path in the address of a file on a code host: what follows `blob/` and the revision.
fn blob_path(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("/blob/")?;
    let (_, path) = rest.split_once('/')?;
    mentioned_path(path.split(['#', '?']).next()?)
}

/// Lines that say with what and not where: boxes to tick, versions, rules.
fn is_noise(line: &str) -> bool {
    if line.starts_with("- [") || line.starts_with("* [") {
        return true;
    }
    if ["platform ", "rootdir:", "plugins:", "collected ", "cachedir:"].iter().any(|head| line.starts_with(head)) {
        return true;
    }
    if !line.chars().any(char::is_alphabetic) {
        return true;
    }
    let parts: Vec<&str> = line.split_whitespace().collect();
    let is_version = |part: &str| part.starts_with(|c: char| c.is_ascii_digit()) && part.contains('.');
    parts.len() <= 3 && parts.len() > 1 && parts[1..].iter().any(|part| is_version(part))
        || parts.len() == 1 && parts[0].contains("==")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_kind(text: &str, expected: QueryKind) {
        assert_eq!(Asked::of(text).kind, expected, "{text}");
    }

    #[test]
    fn the_form_of_a_question_is_known() {
        for name in ["Router", "Session.close", "Session::close", "parse_header()", "重试"] {
            check_kind(name, QueryKind::Identifier);
        }
        for path in ["src/a.rs", "sessions.py", "src/a.rs:10", "a/b/c.unheard"] {
            check_kind(path, QueryKind::Path);
        }
        check_kind("how are requests retried", QueryKind::Words);
        check_kind("error[E1]: no\n  --> src/a.rs:7:13", QueryKind::Trace);
        check_kind("A title\n\nSome text about what happens.\nAnd more.", QueryKind::Issue);
    }

    #[test]
    fn a_title_counts_more_than_a_body_and_code_blocks_less() {
        let asked = Asked::of("redirects lose method\n\nThe session does.\n```\nassert foo\n```\n- [x] ticked\n");
        let weight = |text: &str| asked.wanted.iter().find(|word| word.text == text).map(|word| word.weight);
        assert!(weight("redirects") > weight("session") && weight("session") > weight("foo"));
        assert_eq!(weight("ticked"), None);
    }

    #[test]
    fn stop_words_fall_out_unless_nothing_else_is_there() {
        let texts = |text: &str| Asked::of(text).wanted.into_iter().map(|word| word.text).collect::<Vec<_>>();
        assert_eq!(texts("where is the retry"), ["retry"]);
        assert_eq!(texts("where is it"), ["where", "is", "it"]);
    }

    #[test]
    fn names_and_paths_are_taken_as_written() {
        let asked = Asked::of(
            "`send` fails in requests.exceptions.Timeout\nSee lib/a.py, https://example.invalid/o/r/blob/main/src/b.py#L3 \
             and resolve_redirects.\nAnd Session.send::x.",
        );
        assert_eq!(asked.names, ["send", "requests.exceptions.Timeout", "resolve_redirects", "Session.send.x"]);
        assert_eq!(asked.paths, ["lib/a.py", "src/b.py"]);
    }

    #[test]
    fn words_of_prose_have_other_forms_and_names_have_none() {
        let asked = Asked::of("how `route` handles retry_delay");
        let forms: Vec<(&str, bool)> = asked.wanted.iter().map(|word| (word.text.as_str(), word.inflected)).collect();
        assert_eq!(
            forms,
            [("route", false), ("handles", true), ("retry_delay", false), ("retry", true), ("delay", true)]
        );
    }
}
