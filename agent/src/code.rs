//! What does the agent need from an index? To find code, to read its outline, to know whether it parses.

use crate::session::Files;
use std::ops::Range;

/// A piece of code that a search found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Relative to the root of the repository.
    pub path: String,
    /// First and last line, from 1, both included.
    pub lines: (usize, usize),
    /// The function or class, where there is one.
    pub symbol: Option<String>,
    /// The text.
    pub text: String,
}

/// A function, method or class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its own name.
    pub name: String,
    /// The class or module around it.
    pub parent: Option<String>,
    /// Where it stands, decorators included, in bytes.
    pub bytes: Range<usize>,
}

/// Lines that match a pattern.
#[derive(Debug, Clone, Default)]
pub struct Matches {
    /// Path, line from 1, text.
    pub lines: Vec<(String, usize, String)>,
    /// True when there were more.
    pub truncated: bool,
    /// For example that the pattern is no regular expression and was taken literally.
    pub note: Option<String>,
}

/// Where things are, and whether they parse.
pub trait Code {
    /// The best pieces for some words, best first.
    fn search(&self, query: &str, limit: usize) -> Result<Vec<Found>, String>;
    /// From now on everything is found as it stands in these files, which the session has written, and below them as in
    /// the repository.
    fn lay_over(&self, written: &Files);
    /// Of these paths those in which the pattern may match, as the repository has them.
    fn may_match(&self, pattern: &str, paths: Vec<String>) -> Vec<String>;
    /// Every line of `files` that matches, at most `limit`.
    fn grep(
        &self,
        pattern: &str,
        files: &mut dyn Iterator<Item = (String, Vec<u8>)>,
        limit: usize,
    ) -> Result<Matches, String>;
    /// Where functions and classes of this name are defined: path and line. Empty when nowhere.
    fn defined(&self, name: &str) -> Vec<(String, usize)>;
    /// The definitions of a file in order; empty when its language is unknown.
    fn outline(&self, path: &str, bytes: &[u8]) -> Vec<Definition>;
    /// `None` when the language is unknown; the line of the first error when it does not parse.
    fn parses(&self, path: &str, bytes: &[u8]) -> Option<Result<(), usize>>;
}

#[cfg(test)]
pub(crate) mod fake {
    //! A reading of Python by indentation, for tests of the pure parts.
    use super::*;

    /// Finds `def` and `class` at one of two depths.
    pub struct Indents;

    impl Code for Indents {
        fn search(&self, _: &str, _: usize) -> Result<Vec<Found>, String> {
            Ok(Vec::new())
        }

        fn lay_over(&self, _: &Files) {}

        fn may_match(&self, _: &str, paths: Vec<String>) -> Vec<String> {
            paths
        }

        fn grep(
            &self,
            pattern: &str,
            files: &mut dyn Iterator<Item = (String, Vec<u8>)>,
            limit: usize,
        ) -> Result<Matches, String> {
            let mut found = Matches::default();
            for (path, bytes) in files {
                for (at, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
                    if line.contains(pattern) && found.lines.len() < limit {
                        found.lines.push((path.clone(), at + 1, line.to_owned()));
                    }
                }
            }
            Ok(found)
        }

        fn defined(&self, _: &str) -> Vec<(String, usize)> {
            Vec::new()
        }

        fn outline(&self, _: &str, bytes: &[u8]) -> Vec<Definition> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let mut starts: Vec<(usize, usize, String, bool)> = Vec::new();
            let mut offset = 0;
            let mut ends: Vec<usize> = Vec::new();
            for line in text.split_inclusive('\n') {
                let body = line.trim_start();
                let depth = line.len() - body.len();
                if !body.trim().is_empty() {
                    for (at, start) in starts.iter().enumerate() {
                        if ends[at] == usize::MAX && depth <= start.0 {
                            ends[at] = start.1 + text[start.1..offset].trim_end().len();
                        }
                    }
                }
                for (word, class) in [("def ", false), ("class ", true)] {
                    if let Some(rest) = body.strip_prefix(word) {
                        let name = rest.split(['(', ':']).next().unwrap_or_default().to_owned();
                        starts.push((depth, offset + depth, name, class));
                        ends.push(usize::MAX);
                    }
                }
                offset += line.len();
            }
            let whole = text.trim_end().len();
            let all: Vec<_> = starts.iter().zip(&ends).map(|(s, e)| (s, (*e).min(whole))).collect();
            all.iter()
                .map(|(start, end)| Definition {
                    name: start.2.clone(),
                    parent: all
                        .iter()
                        .rev()
                        .find(|(outer, to)| outer.3 && outer.1 < start.1 && *to >= *end)
                        .map(|(outer, _)| outer.2.clone()),
                    bytes: start.1..*end,
                })
                .collect()
        }

        fn parses(&self, _: &str, bytes: &[u8]) -> Option<Result<(), usize>> {
            let text = String::from_utf8_lossy(bytes);
            Some(text.lines().position(|line| line.contains("def (")).map_or(Ok(()), |at| Err(at + 1)))
        }
    }
}
