//! Which lines match this pattern?
//!
//! The search of ripgrep, bounded, over bytes that the caller holds ([`grep`], [`grep_bytes`]) or over a directory
//! ([`grep_dir`]). A pattern that is no regular expression is taken literally, and the answer says so.
//!
//! What is found is what `rg -n` finds in the same files, line for line, with one difference on purpose: a file with
//! a NUL byte anywhere is binary and left out whole, where ripgrep shows what stands before the NUL and then stops.
//! Which files are searched is said at [`grep_dir`].

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::grep_files::{grep_paths, read};
use crate::prefix::{OutsideTree, is_within, normal_prefix};
use crate::trigram::Plan;

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
    pub(crate) pattern: Pattern,
    searcher: Searcher,
    within: Option<String>,
    notes: Vec<String>,
    plan: Plan,
}

/// What a thread needs to search files; clones share nothing that is locked.
#[derive(Clone)]
pub(crate) struct Pattern {
    pub(crate) regex: RegexMatcher,
    pub(crate) matches_max: usize,
    line_bytes_max: usize,
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
        let (regex, literal) = match build(line, options, options.literal) {
            Ok(regex) => (regex, options.literal),
            Err(error) if options.literal => return Err(GrepError::Pattern(error)),
            Err(error) => {
                let first = error.lines().rev().find(|line| line.contains("error")).unwrap_or(&error).trim().to_owned();
                notes.push(format!("not a valid regular expression ({first}); searched for the text itself"));
                (build(line, options, true).map_err(GrepError::Pattern)?, true)
            }
        };
        let plan = Plan::of(line, literal, options.ignore_case);
        let within = options.path_prefix.as_deref().map(normal_prefix).transpose();
        let within = within.map_err(|OutsideTree(prefix)| GrepError::PathOutside(prefix))?.flatten();
        let (matches_max, line_bytes_max) = (options.matches_max.max(1), options.line_bytes_max.max(20));
        let pattern = Pattern { regex, matches_max, line_bytes_max };
        Ok(Matcher { pattern, searcher: searcher(), within, notes, plan })
    }

    /// Whether a file lies within the path prefix; those that do not need not be read.
    pub fn wants(&self, path: &str) -> bool {
        self.within.as_deref().is_none_or(|within| is_within(path, within))
    }

    /// What a page must hold for the pattern to match one of its lines.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
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

/// Goes line by line, counts lines, and stops at a NUL that decoding brings to light.
pub(crate) fn searcher() -> Searcher {
    SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).build()
}

/// Searches one file and adds to `out`. `Break` means that `out` is full and the caller can stop. A file with a NUL
/// byte, or outside of the path prefix, is left out.
pub fn grep_bytes(matcher: &Matcher, path: &str, bytes: &[u8], out: &mut Matches) -> ControlFlow<()> {
    let room = matcher.pattern.matches_max.saturating_sub(out.matches.len());
    if room == 0 {
        out.truncated = true;
        return ControlFlow::Break(());
    }
    if !matcher.wants(path) {
        return ControlFlow::Continue(());
    }
    out.files_searched += 1;
    let found = matcher.pattern.search(&mut matcher.searcher.clone(), path, bytes, room);
    out.files_matched += usize::from(!found.matches.is_empty());
    out.matches.extend(found.matches);
    out.truncated |= found.more;
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

/// Searches the files of a directory: no ignored, hidden, secret or binary ones, no symbolic links, and none of more
/// than 64 MiB.
///
/// These are the files of `rg --no-config --no-require-git --no-ignore-parent --no-ignore-global --hidden` without
/// hidden names (but `.github` and the like are searched), names and first lines that say credentials, paths that
/// are not UTF-8, binary files and giant ones. Files too large or with lines too long for the rest of the index are
/// searched like any other.
pub fn grep_dir(directory: &Path, pattern: &str, options: &GrepOptions) -> Result<Matches, GrepError> {
    let matcher = Matcher::new(pattern, options)?;
    let error = |source| GrepError::Directory { path: directory.to_path_buf(), source };
    std::fs::read_dir(directory).map_err(error)?;
    let mut out = matcher.begin();
    for path in grep_paths(directory) {
        if !matcher.wants(&path) {
            continue;
        }
        let Some(bytes) = read(&directory.join(&path)) else { continue };
        if grep_bytes(&matcher, &path, &bytes, &mut out).is_break() {
            break;
        }
    }
    Ok(out)
}

/// What one file holds.
pub(crate) struct InFile {
    pub matches: Vec<Match>,
    /// There are more than were asked for.
    pub more: bool,
}

impl Pattern {
    /// Searches one file for at most `room` matching lines.
    pub(crate) fn search(&self, searcher: &mut Searcher, path: &str, bytes: &[u8], room: usize) -> InFile {
        if memchr::memchr(0, bytes).is_some() {
            return InFile { matches: Vec::new(), more: false };
        }
        self.search_text(searcher, path, bytes, room)
    }

    /// Like [`Pattern::search`]; legal for bytes without a NUL.
    pub(crate) fn search_text(&self, searcher: &mut Searcher, path: &str, bytes: &[u8], room: usize) -> InFile {
        let mut found = InFile { matches: Vec::new(), more: false };
        let lines = Lines { pattern: self, path, room, found: &mut found };
        // Reading from memory cannot fail, and our sink gives no errors.
        let _ = searcher.search_slice(&self.regex, bytes, lines);
        found
    }

    /// Like [`Pattern::search`], of what is read; nothing where that does not go to its end.
    pub(crate) fn search_stream(&self, searcher: &mut Searcher, path: &str, text: impl Read, room: usize) -> InFile {
        let mut found = InFile { matches: Vec::new(), more: false };
        let lines = Lines { pattern: self, path, room, found: &mut found };
        if searcher.search_reader(&self.regex, text, lines).is_err() {
            found.matches.clear();
        }
        found
    }
}

struct Lines<'a> {
    pattern: &'a Pattern,
    path: &'a str,
    room: usize,
    found: &'a mut InFile,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found.matches.len() >= self.room {
            self.found.more = true;
            return Ok(false);
        }
        let line = found.line_number().unwrap_or(0) as usize;
        let text = shown(self.pattern, found.bytes());
        self.found.matches.push(Match { path: self.path.to_owned(), line, text });
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.found.matches.clear();
        Ok(false)
    }
}

/// The line, or the part of it around the first match.
fn shown(pattern: &Pattern, line: &[u8]) -> String {
    use grep_matcher::Matcher as _;

    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= pattern.line_bytes_max {
        return String::from_utf8_lossy(line).into_owned();
    }
    let at = pattern.regex.find(line).ok().flatten().map_or(0, |found| found.start());
    let start = at.saturating_sub(pattern.line_bytes_max / 4);
    let end = (start + pattern.line_bytes_max).min(line.len());
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
