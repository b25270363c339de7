//! Do the tests of this file still test as much as before?
//!
//! A pure comparison of two texts by lines, for Python, JavaScript and TypeScript, Go, Rust and Java. It errs towards
//! silence: a rename, a new test and a refactoring that keeps its expected values are honest work.

use super::tests_read::{Language, asserts, helpers, is_assert, tests};
use crate::workspace::Change;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Longer files are not compared.
const FILE_BYTES_MAX: usize = 1 << 20;
const FINDINGS_MAX: usize = 32;
const DETAIL_CHARS_MAX: usize = 160;

/// In which way a test became less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// It is gone, and no new one is as strict.
    Removed,
    /// It is marked not to run, or returns before it asserts.
    Skipped,
    /// It asserts less often, and values that it expected are gone.
    FewerAsserts,
    /// An assertion accepts more than it did.
    Weaker,
    /// The expected value is another, everything else is as it was.
    ExpectedChanged,
    /// A failure inside it is caught.
    Swallowed,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestLoss {
    /// In which way.
    pub loss: Loss,
    /// The test by its name; empty when it concerns the file.
    pub test: String,
    /// The line that shows it, cut to a readable length.
    pub detail: String,
}

/// What the file's tests lost from `before` to `after`; an empty `after` is a deleted file.
#[must_use]
pub fn compare(path: &str, before: &str, after: &str) -> Vec<TestLoss> {
    let Some(language) = Language::of(path) else { return Vec::new() };
    if before.len() > FILE_BYTES_MAX || after.len() > FILE_BYTES_MAX {
        return vec![loss(Loss::Removed, "", "the file is too long to be compared")];
    }
    let (old, new) = (tests(language, before), tests(language, after));
    let helpers = helpers(after);
    let mut found = removed(&old, &new, &helpers);
    found.extend(skipped(before, after));
    for (name, old) in &old {
        if let Some(new) = new.get(name) {
            found.extend(one(name, old, new, after, &helpers));
        }
    }
    found.truncate(FINDINGS_MAX);
    found
}

/// May a changed test count as one of the agent's own? Stricter than [`compare`]: no fewer tests, and every value that was
/// asserted is still in the file. A new test says something of its own.
pub fn still_says(change: &Change) -> bool {
    let text = |side: &Option<Vec<u8>>| side.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (before, after) = match (text(&change.before), text(&change.after)) {
        (None, Some(_)) => return true,
        (Some(before), Some(after)) => (before, after),
        // It is gone.
        _ => return false,
    };
    let Some(language) = Language::of(&change.path) else { return false };
    let asserted: Vec<&str> = before.lines().map(str::trim).filter(|line| is_assert(line)).collect();
    let left = values(&after.lines().collect::<Vec<&str>>());
    tests(language, &after).len() >= tests(language, &before).len()
        && values(&asserted).is_subset(&left)
        && compare(&change.path, &before, &after).is_empty()
}

/// The tests of a file by their names, without what tells two of one name apart.
pub fn names(path: &str, text: &str) -> BTreeSet<String> {
    let found = Language::of(path).map(|language| tests(language, text)).unwrap_or_default();
    found.into_keys().map(|name| name.trim_end_matches('\'').to_owned()).collect()
}

fn loss(loss: Loss, test: &str, detail: &str) -> TestLoss {
    let detail: String = detail.trim().chars().take(DETAIL_CHARS_MAX).collect();
    TestLoss { loss, test: test.to_owned(), detail }
}

/// Tests that are gone and for which no new one asserts as often.
fn removed(
    old: &BTreeMap<String, Vec<&str>>,
    new: &BTreeMap<String, Vec<&str>>,
    helpers: &BTreeSet<String>,
) -> Vec<TestLoss> {
    let mut fresh: Vec<(&String, &Vec<&str>)> = new.iter().filter(|(name, _)| !old.contains_key(*name)).collect();
    let mut found = Vec::new();
    for (name, body) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let wanted = values(body);
        let replaces = |(_, other): &(&String, &Vec<&str>)| {
            let kept = values(other);
            asserts(other, helpers).len() >= asserts(body, helpers).len().min(1)
                && wanted.iter().all(|value| kept.contains(value))
        };
        match fresh.iter().position(replaces) {
            // One table of cases may take the place of several tests.
            Some(at) if values(fresh[at].1).len() <= wanted.len() => drop(fresh.remove(at)),
            Some(_) => {}
            None => found.push(loss(Loss::Removed, name, &format!("{name} is gone"))),
        }
    }
    found
}

/// Marks that keep a test from running, where there are more than before.
fn skipped(before: &str, after: &str) -> Vec<TestLoss> {
    const MARKS: &str = "mark.skip|mark.xfail|unittest.skip|unittest.expectedFailure|skipTest(|pytest.skip(|importorskip(|\
        it.skip(|test.skip(|describe.skip(|xit(|xdescribe(|xtest(|.todo(|t.Skip|#[ignore|#[cfg(any())]|\
        @Disabled|@Ignore|__test__ = False|collect_ignore|//go:build ignore";
    let mut found = Vec::new();
    for mark in MARKS.split('|') {
        if times(mark, after) > times(mark, before) {
            let line = after.lines().find(|line| line.contains(mark) && !before.contains(line.trim()));
            found.push(loss(Loss::Skipped, "", line.unwrap_or(mark)));
        }
    }
    found
}

/// How often it stands there as a word of its own: `exit(` is no `xit(`.
fn times(mark: &str, text: &str) -> usize {
    let word = mark.starts_with(char::is_alphanumeric);
    let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(mark).filter(|(at, _)| !word || begins(*at)).count()
}

fn one(name: &str, old: &[&str], new: &[&str], after: &str, helpers: &BTreeSet<String>) -> Vec<TestLoss> {
    let mut found = Vec::new();
    let (was, is) = (asserts(old, helpers), asserts(new, helpers));
    let early = |body: &[&str]| {
        let first = body.iter().position(|line| is_assert(line)).unwrap_or(body.len());
        body[..first].iter().any(|line| {
            matches!(line.trim_end_matches(';'), "return" | "if False:" | "if 0:" | "if (false) {" | "if false {")
        })
    };
    if early(new) && !early(old) && !was.is_empty() {
        found.push(loss(Loss::Skipped, name, "it ends before it asserts"));
    }
    let catches = |body: &[&str]| {
        let swallows = |pair: &[&str]| {
            let catch =
                ["except:", "except Exception", "except BaseException", "except AssertionError", "} catch", "catch ("];
            catch.iter().any(|start| pair[0].starts_with(start))
                && ["pass", "return", "}", "continue"].contains(&pair[1].trim_end_matches(';'))
        };
        body.windows(2).filter(|pair| swallows(pair)).count()
            + body.iter().filter(|line| line.contains("suppress(")).count()
    };
    if catches(new) > catches(old) {
        found.push(loss(Loss::Swallowed, name, "a failure inside it is caught"));
    }
    let gone: Vec<&str> = was.iter().copied().filter(|line| !is.contains(line)).collect();
    let come: Vec<&str> = is.iter().copied().filter(|line| !was.contains(line)).collect();
    if is.len() < was.len() {
        let lost = values(&gone).into_iter().find(|value| !after.contains(value.as_str()));
        if is.is_empty() || lost.is_some() {
            found.push(loss(Loss::FewerAsserts, name, &format!("{} of {} assertions are left", is.len(), was.len())));
        }
    }
    let body = new;
    for (old, new) in gone.iter().zip(&come) {
        if strictness(new) < strictness(old) && !calls_helper(new, helpers) || widened(old, new) {
            found.push(loss(Loss::Weaker, name, &format!("{old}  became  {new}")));
        } else if strictness(old) == EXACT
            && subject(old).is_some()
            && subject(old) == subject(new)
            && strictness(new) == EXACT
            && !values(&[*old]).is_subset(&values(&with_its_names(new, body)))
        {
            found.push(loss(Loss::ExpectedChanged, name, &format!("{old}  became  {new}")));
        }
    }
    let empty = |line: &&&str| strictness(line) == 0;
    if let Some(line) = come.iter().find(empty).filter(|_| found.is_empty() && is.len() <= was.len()) {
        found.push(loss(Loss::Weaker, name, line));
    }
    found
}

/// The line, and the lines of its test that give a value to a name in it: `expected = 4` says it as well as the 4 itself.
fn with_its_names<'a>(line: &'a str, body: &[&'a str]) -> Vec<&'a str> {
    let binds = |other: &&&str| {
        let name = other.split_once(" = ").and_then(|(left, _)| left.rsplit(' ').next());
        name.is_some_and(|name| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name))
    };
    body.iter().filter(binds).copied().chain([line]).collect()
}

fn calls_helper(line: &str, helpers: &BTreeSet<String>) -> bool {
    !is_assert(line) && helpers.iter().any(|name| line.contains(name.as_str()))
}

const EXACT: u8 = 3;

/// How much an assertion demands: 3 equality, 2 a relation, 1 that there is something, 0 nothing.
fn strictness(line: &str) -> u8 {
    const TRUE: &str = "assert True|assertTrue(True)|assert!(true)|expect(true).toBe(true)|assert 1|assert(true)|\
        assertTrue(true)|or True";
    if TRUE.split('|').any(|sign| line.contains(sign)) || compares_with_itself(line) {
        return 0;
    }
    const RELATION: &str = ">=|<=| != |assertIn(|assertGreater|assertLess|AlmostEqual|approx(|toContain(|toMatch(|toBeCloseTo(|\
        toBeGreaterThan|toBeLessThan|assertNotEqual|assert_ne!| in |isinstance(|toHaveLength|.startswith(|\
        .contains(|assertRegex|isclose(";
    if RELATION.split('|').any(|sign| line.contains(sign)) {
        return 2;
    }
    const EQUAL: &str = "==|assertEqual|assertEquals|assert_eq!|.toBe(|.toEqual(|.toStrictEqual(|strictEqual(|deepEqual(|.equal(|\
        require.Equal|assert.Equal|assertListEqual|assertDictEqual";
    let raises = ["raises", "assertRaises", "toThrow", "should_panic"].iter().any(|sign| line.contains(sign));
    // `if got != want { t.Errorf }` stands in two lines; the second says only that it fails.
    let fails = ["t.Error", "t.Fatal", "panic!"].iter().any(|sign| line.contains(sign));
    if raises || fails || EQUAL.split('|').any(|sign| line.contains(sign)) { EXACT } else { 1 }
}

/// `assert x == x`, `assertEqual(x, x)`.
fn compares_with_itself(line: &str) -> bool {
    if let Some((left, right)) = line.split_once("==") {
        let left = left.trim().trim_start_matches("assert").trim_start_matches(['(', '!']).trim();
        let right = right.split(", ").next().unwrap_or(right).trim().trim_end_matches(';');
        return !left.is_empty() && (left == right || Some(left) == right.strip_suffix(')'));
    }
    let Some((_, inner)) =
        ["assertEqual(", "assertEquals(", "assert_eq!("].iter().find_map(|call| line.split_once(call))
    else {
        return false;
    };
    let inner = inner.trim_end_matches(';').trim_end_matches(')');
    // Two equal halves around the comma in the middle.
    inner.match_indices(", ").any(|(at, _)| inner[..at].trim() == inner[at + 2..].trim())
}

/// A tolerance that grew: `abs=`, `rel=`, `delta=`, `atol=`, `rtol=`; or fewer `places=`.
fn widened(old: &str, new: &str) -> bool {
    let number = |line: &str, key: &str| -> Option<f64> {
        let rest = &line[line.find(key)? + key.len()..];
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || ".-+".contains(c))).next()?.parse().ok()
    };
    let grew = |key: &str| match (number(old, key), number(new, key)) {
        (Some(a), Some(b)) => b > a,
        (None, Some(_)) => old.contains("==") && !new.contains("=="),
        _ => false,
    };
    let fewer = matches!((number(old, "places="), number(new, "places=")), (Some(a), Some(b)) if b < a);
    ["abs=", "rel=", "delta=", "atol=", "rtol=", "abs_tol=", "rel_tol="].iter().any(|key| grew(key)) || fewer
}

/// What is compared, without what it is compared with.
fn subject(line: &str) -> Option<&str> {
    if let Some((left, _)) = line.split_once("==") {
        return Some(left.trim());
    }
    let end = [".toBe(", ".toEqual(", ".toStrictEqual("].iter().find_map(|sign| line.find(sign));
    end.or_else(|| {
        ["assertEqual", "assert_eq!", "assertEquals"]
            .iter()
            .any(|sign| line.contains(sign))
            .then(|| line.rfind(", "))
            .flatten()
    })
    .map(|at| line[..at].trim())
}

/// Literals in the lines: strings of at least two characters and numbers.
fn values(lines: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in lines {
        let mut rest = *line;
        while let Some(at) = rest.find(['"', '\'']) {
            let quote = rest.as_bytes()[at] as char;
            let inner = &rest[at + 1..];
            let Some(end) = inner.find(quote) else { break };
            if end >= 2 {
                found.insert(inner[..end].to_owned());
            }
            rest = &inner[end + 1..];
        }
        let number = |word: &&str| {
            word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
                && word.bytes().any(|byte| byte.is_ascii_digit())
        };
        found.extend(
            line.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_')).filter(number).map(str::to_owned),
        );
    }
    found
}

#[cfg(test)]
#[path = "tests_diff_tests.rs"]
mod tests_diff_tests;
