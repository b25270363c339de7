//! Does the change itself look like a way around the tests? Deterministic lints over the lines that it adds.
//!
//! A lint never proves a change wrong. `stop` means that a person has to look before it may count; `note` is said and
//! nothing more. What a lint cannot see: an answer that is special-cased in a form that no rule knows.

mod literals;
mod other;
mod python;
mod tokens;

use super::files;
use crate::workspace::Change;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use tokens::{Line, Source};

pub use tokens::{Sort, Source as PythonSource};

/// Findings that are reported; of more than this a person learns nothing new.
const FINDINGS_MAX: usize = 50;
/// Files larger than this are data, in bytes.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It is said in the report.
    Note,
    /// The change does not count as done.
    Stop,
}

/// Something that a lint saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The lint, for example `exit_at_import`.
    pub lint: String,
    /// The file.
    pub path: String,
    /// The line in the changed file, from 1.
    pub line: usize,
    /// Its weight.
    pub severity: Severity,
    /// What it means, in a sentence.
    pub why: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {} ({})", crate::text::quote(&self.path, 256), self.line, self.why, self.lint)
    }
}

/// What a lint looks at: one changed Python file.
struct Seen<'a> {
    path: &'a str,
    /// The file as changed.
    source: &'a Source,
    /// The file as it was; empty when it is new.
    base: &'a Source,
    /// For every logical line: did the change touch it?
    touched: Vec<bool>,
    /// For every logical line: touched, and its text stood in no changed file before? Moved code is not new.
    new: Vec<bool>,
    /// Is it a test of the agent's own?
    test: bool,
    /// What the tests of the base say.
    tests: &'a Tests,
}

impl Seen<'_> {
    fn line(&self, at: usize) -> &Line {
        &self.source.lines[at]
    }
}

/// The tests of the base, as far as a change could copy from them.
#[derive(Debug, Default)]
pub struct Tests {
    /// Their file names, without directories.
    names: Vec<String>,
    /// The literals that occur together in one test.
    groups: Vec<HashSet<String>>,
}

impl Tests {
    /// Reads the test files of the base: path and bytes.
    pub fn read(files: &[(String, Vec<u8>)]) -> Self {
        let mut tests = Self::default();
        for (path, bytes) in files.iter().filter(|(_, bytes)| bytes.len() <= FILE_BYTES_MAX) {
            tests.names.push(path.rsplit('/').next().unwrap_or(path).to_owned());
            if path.ends_with(".py") {
                tests.groups.extend(literals::groups(&Source::read(&String::from_utf8_lossy(bytes))));
            }
        }
        tests
    }
}

/// Reads a change: what it adds to the sources, and what it adds as tests of its own.
pub fn review(changes: &[Change], tests: &Tests) -> Vec<Finding> {
    let mut findings = Vec::new();
    let before: Vec<Source> = changes.iter().map(|change| Source::read(&text(&change.before))).collect();
    let stood: HashSet<String> = before.iter().flat_map(|source| &source.lines).map(spelled).collect();
    for (change, base) in changes.iter().zip(&before) {
        let after = text(&change.after);
        let added = added_lines(&text(&change.before), &after);
        if !change.path.ends_with(".py") {
            other::review(&change.path, (&text(&change.before), &after), &added, &mut findings);
            continue;
        }
        let source = Source::read(&after);
        let touched: Vec<bool> =
            source.lines.iter().map(|line| (line.span.0..=line.span.1).any(|number| added.contains(&number))).collect();
        let new = source.lines.iter().zip(&touched).map(|(line, on)| *on && !stood.contains(&spelled(line))).collect();
        let test = files::kind(&change.path, None) != files::Kind::Source;
        python::review(&Seen { path: &change.path, source: &source, base, touched, new, test, tests }, &mut findings);
    }
    findings.sort_by(|a, b| (&a.path, a.line, &a.lint).cmp(&(&b.path, b.line, &b.lint)));
    findings.dedup_by(|a, b| (&a.path, a.line, &a.lint) == (&b.path, b.line, &b.lint));
    findings.truncate(FINDINGS_MAX);
    findings
}

fn text(side: &Option<Vec<u8>>) -> String {
    let bytes = side.as_deref().filter(|bytes| bytes.len() <= FILE_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// A line without its layout.
fn spelled(line: &Line) -> String {
    line.tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// The numbers of the lines that were not there before, from 1.
fn added_lines(before: &str, after: &str) -> HashSet<usize> {
    let diff = similar::TextDiff::from_lines(before, after);
    let inserted = diff.iter_all_changes().filter(|change| change.tag() == similar::ChangeTag::Insert);
    inserted.filter_map(|change| change.new_index()).map(|index| index + 1).collect()
}
