//! Which lines match this pattern?
//!
//! The search of ripgrep, bounded, over bytes that the caller holds ([`grep`], [`grep_bytes`]) or over a directory
//! ([`grep_dir`]). A pattern that is no regular expression is taken literally, and the answer says so.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::admit::admit;
use crate::prefix::{OutsideTree, is_within, normal_prefix};
use crate::walk::walk;

/// A compiled pattern may use this much memory.
const PATTERN_BYTES_MAX: usize = 10 * 1024 * 1024;

/// How to match, and how much to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepOptions {
    /// The pattern is text, not a regular expression.
    pub literal: bool,
    /// Letter case does not matter.
    pub ignore_case: bool,
    /// Only whole words.
    pub word: bool,
    /// Only what lies in this directory, or this one file; relative like the paths that are searched.
    pub path_prefix: Option<String>,
    /// Stop after this many matching lines.
    pub matches_max: usize,
    /// Longer lines are cut to about this many bytes around the match.
    pub line_bytes_max: usize,
}

impl Default for GrepOptions {
    fn default() -> GrepOptions {
        GrepOptions {
            literal: false,
            ignore_case: false,
            word: false,
            path_prefix: None,
            matches_max: 200,
            line_bytes_max: 300,
        }
    }
}

/// Why nothing was searched.
#[derive(Debug, thiserror::Error)]
pub enum GrepError {
    /// There is nothing to look for.
    #[error("the pattern is empty")]
    Empty,
    /// The pattern cannot be compiled, neither as a regular expression nor literally.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// The path prefix points outside of what is searched.
    #[error("the path prefix {0:?} is not inside the tree")]
    PathOutside(String),
    /// The directory is not there.
    #[error("cannot search {path}: {source}")]
    Directory {
        /// The directory as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A pattern ready to be used on many files.
pub struct Matcher {
    regex: RegexMatcher,
    searcher: Searcher,
    matches_max: usize,
    line_bytes_max: usize,
    within: Option<String>,
    notes: Vec<String>,
}

/// One matching line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// As given by the caller, or relative to the directory.
    pub path: String,
    /// From 1.
    pub line: usize,
    /// The line without its end, cut where it is too long; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// What was found, in the order of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// At most `matches_max` of them.
    pub matches: Vec<Match>,
    /// Files that were looked into.
    pub files_searched: usize,
    /// Files among them that match.
    pub files_matched: usize,
    /// Whether there may be more than `matches` holds.
    pub truncated: bool,
    /// How the pattern was understood, where that is not as written.
    pub notes: Vec<String>,
}

impl Matcher {
    /// Compiles a pattern.
    pub fn new(pattern: &str, options: &GrepOptions) -> Result<Matcher, GrepError> {
        let mut notes = Vec::new();
        let line = one_line(pattern, &mut notes).ok_or(GrepError::Empty)?;
        let regex = match build(line, options, options.literal) {
            Ok(regex) => regex,
            Err(error) if options.literal => return Err(GrepError::Pattern(error)),
            Err(error) => {
                let first = error.lines().rev().find(|line| line.contains("error")).unwrap_or(&error).trim().to_owned();
                notes.push(format!("not a valid regular expression ({first}); searched for the text itself"));
                build(line, options, true).map_err(GrepError::Pattern)?
            }
        };
        let searcher = SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).build();
        let within = options.path_prefix.as_deref().map(normal_prefix).transpose();
        let within = within.map_err(|OutsideTree(prefix)| GrepError::PathOutside(prefix))?.flatten();
        let (matches_max, line_bytes_max) = (options.matches_max.max(1), options.line_bytes_max.max(20));
        Ok(Matcher { regex, searcher, matches_max, line_bytes_max, within, notes })
    }

    /// Whether a file lies within the path prefix; those that do not need not be read.
    pub fn wants(&self, path: &str) -> bool {
        self.within.as_deref().is_none_or(|within| is_within(path, within))
    }

    /// An empty answer that carries the notes about the pattern.
    pub fn begin(&self) -> Matches {
        Matches { notes: self.notes.clone(), ..Matches::default() }
    }
}

/// A search goes line by line: of a pattern with several lines the first that is not blank is taken.
fn one_line<'a>(pattern: &'a str, notes: &mut Vec<String>) -> Option<&'a str> {
    if !pattern.contains('\n') {
        return (!pattern.is_empty()).then_some(pattern);
    }
    let line = pattern.lines().find(|line| !line.trim().is_empty())?;
    notes.push(format!("the pattern has several lines; searched for its first: {line:?}"));
    Some(line)
}

fn build(pattern: &str, options: &GrepOptions, literal: bool) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .case_insensitive(options.ignore_case)
        .word(options.word)
        .fixed_strings(literal)
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build(pattern)
        .map_err(|error| error.to_string())
}

/// Searches one file and adds to `out`. `Break` means that `out` is full and the caller can stop. A file with a NUL
/// byte, or outside of the path prefix, is left out.
pub fn grep_bytes(matcher: &Matcher, path: &str, bytes: &[u8], out: &mut Matches) -> ControlFlow<()> {
    if out.matches.len() >= matcher.matches_max {
        out.truncated = true;
        return ControlFlow::Break(());
    }
    if !matcher.wants(path) {
        return ControlFlow::Continue(());
    }
    let before = out.matches.len();
    out.files_searched += 1;
    let mut lines = Lines { matcher, path, out, before };
    // Reading from memory cannot fail, and our sink gives no errors.
    let _ = matcher.searcher.clone().search_slice(&matcher.regex, bytes, &mut lines);
    if out.matches.len() > before {
        out.files_matched += 1;
    }
    if out.truncated { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Searches files that the caller reads, until there are enough matches.
pub fn grep<P: AsRef<str>, B: AsRef<[u8]>>(
    files: impl IntoIterator<Item = (P, B)>,
    pattern: &str,
    options: &GrepOptions,
) -> Result<Matches, GrepError> {
    let matcher = Matcher::new(pattern, options)?;
    let mut out = matcher.begin();
    for (path, bytes) in files {
        if grep_bytes(&matcher, path.as_ref(), bytes.as_ref(), &mut out).is_break() {
            break;
        }
    }
    Ok(out)
}

/// Searches the files of a directory that the index would take: no ignored, hidden, binary, giant or secret ones.
pub fn grep_dir(directory: &Path, pattern: &str, options: &GrepOptions) -> Result<Matches, GrepError> {
    let matcher = Matcher::new(pattern, options)?;
    let error = |source| GrepError::Directory { path: directory.to_path_buf(), source };
    std::fs::read_dir(directory).map_err(error)?;
    let mut out = matcher.begin();
    for entry in walk(directory, &mut |_| true).files {
        if !matcher.wants(&entry.path) {
            continue;
        }
        let Ok(admitted) = admit(&entry.absolute) else { continue };
        if grep_bytes(&matcher, &entry.path, &admitted.bytes, &mut out).is_break() {
            break;
        }
    }
    Ok(out)
}

struct Lines<'a> {
    matcher: &'a Matcher,
    path: &'a str,
    out: &'a mut Matches,
    before: usize,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.out.matches.len() >= self.matcher.matches_max {
            self.out.truncated = true;
            return Ok(false);
        }
        let line = found.line_number().unwrap_or(0) as usize;
        let text = shown(self.matcher, found.bytes());
        self.out.matches.push(Match { path: self.path.to_owned(), line, text });
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.out.matches.truncate(self.before);
        Ok(false)
    }
}

/// The line, or the part of it around the first match.
fn shown(matcher: &Matcher, line: &[u8]) -> String {
    use grep_matcher::Matcher as _;

    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= matcher.line_bytes_max {
        return String::from_utf8_lossy(line).into_owned();
    }
    let at = matcher.regex.find(line).ok().flatten().map_or(0, |found| found.start());
    let start = at.saturating_sub(matcher.line_bytes_max / 4);
    let end = (start + matcher.line_bytes_max).min(line.len());
    let is_inside = |byte: &u8| (byte & 0xC0) == 0x80;
    let start = start + line[start..end].iter().take_while(|byte| is_inside(byte)).count();
    let end = end - if end < line.len() { cut_char_bytes(&line[start..end], line[end]) } else { 0 };
    let (head, tail) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{head}{}{tail}", String::from_utf8_lossy(&line[start..end]))
}

/// How many bytes at the end of `part` belong to a character that goes on in `next`.
fn cut_char_bytes(part: &[u8], next: u8) -> usize {
    if (next & 0xC0) != 0x80 {
        return 0;
    }
    let inside = part.iter().rev().take(3).take_while(|byte| (*byte & 0xC0) == 0x80).count();
    (inside + 1).min(part.len())
}
