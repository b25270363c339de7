//! At the end of every test file, with the words by which the file itself declares and asserts.
//!
//! A test that throws shows that the runner still counts failures; one that asserts what is false, in the ways in which the
//! file asserts, shows that the asserts do.

use super::{FILES_MAX, Nothing, Plants, Test, random, text};
use crate::test_files::{decides, is_collected, is_script, is_test};
use crate::verify::tests_diff;
use crate::workspace::{Workspace, WorkspaceError};
use serde_json::Value;

/// Programs that run tests in JavaScript.
pub const RUNNERS: &[&str] = &["node", "npm", "npx", "pnpm", "yarn", "jest", "vitest", "mocha"];
/// Those among them that run every test file they find.
const FINDING_RUNNERS: &[&str] = &["jest", "vitest", "mocha"];
/// Options with which only some tests of a file run.
const FILTERS: &[&str] = &[
    "--test-name-pattern",
    "--test-skip-pattern",
    "--test-only",
    "--testNamePattern",
    "--grep",
    "--fgrep",
    " -t ",
    " -g ",
    " -f ",
];
/// Ways to assert: what a file says that asserts so, and the same about what is false.
const ASSERTS: &[(&str, &str)] = &[
    ("assert(", "assert(false)"),
    ("assert.ok(", "assert.ok(false)"),
    ("assert.equal(", "assert.equal('a', 'b')"),
    ("assert.strictEqual(", "assert.strictEqual('a', 'b')"),
    ("assert.deepEqual(", "assert.deepEqual(['a'], ['b'])"),
    ("assert.deepStrictEqual(", "assert.deepStrictEqual(['a'], ['b'])"),
    ("assert.throws(", "assert.throws(() => {})"),
    (").toBe(", "expect('a').toBe('b')"),
    (").toEqual(", "expect(['a']).toEqual(['b'])"),
    (").toStrictEqual(", "expect(['a']).toStrictEqual(['b'])"),
    (").toBeTruthy(", "expect(false).toBeTruthy()"),
    (").toThrow(", "expect(() => {}).toThrow()"),
    (").to.equal(", "expect('a').to.equal('b')"),
    (").to.eql(", "expect(['a']).to.eql(['b'])"),
    (").to.deep.equal(", "expect(['a']).to.deep.equal(['b'])"),
    (").to.throw(", "expect(() => {}).to.throw()"),
];
/// Where the words of these asserts come from, in a file that does not get them from its runner.
const SOURCES: &[&str] = &["assert'", "assert\"", "chai", "expect'", "expect\"", "vitest", "@jest/globals"];

/// Chooses the places.
pub fn choose(view: &dyn Workspace, asked: &[String]) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let package = text(view, "package.json").and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let script = package.as_ref().and_then(|package| package["scripts"]["test"].as_str()).unwrap_or_default();
    let command = format!("{} {script}", asked.join(" "));
    if command.contains("bail") || package.is_some_and(|package| package.to_string().contains("\"bail\"")) {
        return Ok(Err("the runner stops at the first failure"));
    }
    if FILTERS.iter().any(|filter| command.contains(filter)) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let given = ["jest", "vitest"].iter().any(|runner| command.contains(runner));
    let mut tests = Vec::new();
    for path in view.walk()?.into_iter().filter(|path| is_script(path) && is_test(path) && !decides(path)) {
        let Some(file) = text(view, &path).filter(|_| tests.len() < FILES_MAX) else { continue };
        let declares = |word: &str| file.lines().any(|line| line.trim_start().starts_with(word));
        let word = if declares("test(") { "test" } else { "it" };
        let beside = tests_diff::names(&path, &file);
        if !declares("test(") && !declares("it(") || file.contains(".only(") || beside.is_empty() {
            continue;
        }
        for what in ["throw new Error('planted')"].into_iter().chain(asserts(&file, given)) {
            let name = format!("planted_{}", random()?);
            let text = format!("\n;{word}('{name}', () => {{ {what}; }});\n");
            let (place, beside) = (format!("{path} > "), Some(beside.clone()));
            tests.push(Test { path: path.clone(), at: None, name, text, what, place, beside, closing: None });
        }
    }
    let all_run = FINDING_RUNNERS.iter().any(|runner| command.contains(runner))
        && tests.iter().any(|test: &Test| is_collected(&test.path));
    Ok(Ok(Plants { tests, argv: asked.to_vec(), all_run, compiled: None }))
}

/// The asserts of this file, about what is false.
fn asserts(file: &str, given: bool) -> impl Iterator<Item = &'static str> {
    let known = given || SOURCES.iter().any(|source| file.contains(source));
    // A name of the file's own means what it says there.
    let own = ["function assert", "function expect", "const assert = (", "const expect = ("]
        .iter()
        .any(|own| file.contains(own));
    ASSERTS.iter().filter(move |(says, _)| known && !own && file.contains(says)).map(|(_, fails)| *fails)
}
