//! Which tests ran, and how did each end, as the runner of another language prints it?
//!
//! Weaker than [`super::channel`]: the code under test writes to the same output and can print such lines itself. It cannot
//! take away a failure that the runner counts in its exit status.

use crate::test_files::is_script;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tests that are kept of one run.
const CASES_MAX: usize = 2_000;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 300;

/// One test as a runner named it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Did it pass? `None`: it was left out.
    pub passed: Option<bool>,
}

/// Reads the lines of `cargo test`, `go test -v`, TAP, node's runner, jest, vitest and mocha.
pub fn read(output: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    // What cargo shows again of the tests that failed: their own output.
    let mut captured = false;
    for line in output.lines() {
        captured = line == "failures:" || (captured && !line.starts_with("test result: "));
        let found = (!captured).then(|| cargo(line).or_else(|| go(line)).or_else(|| script(line))).flatten();
        cases.extend(found.filter(|case| !case.name.is_empty() && case.name.len() <= NAME_BYTES_MAX));
        if cases.len() >= CASES_MAX {
            break;
        }
    }
    cases
}

/// How often each test is said to have ended so.
pub fn count(cases: &[Case], passed: bool) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for case in cases.iter().filter(|case| case.passed == Some(passed)) {
        *counts.entry(case.name.as_str()).or_default() += 1;
    }
    counts
}

fn case(name: &str, passed: Option<bool>) -> Option<Case> {
    Some(Case { name: name.trim().to_owned(), passed })
}

fn cargo(line: &str) -> Option<Case> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    // The line at which an example of the documentation stands moves with every change above it.
    let name = name.rsplit_once(" (line ").map_or(name, |(name, _)| name);
    match result.split([',', ' ']).next()? {
        "ok" => case(name, Some(true)),
        "FAILED" => case(name, Some(false)),
        "ignored" => case(name, None),
        _ => None,
    }
}

fn go(line: &str) -> Option<Case> {
    let (result, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
    match result {
        "PASS" => case(name, Some(true)),
        "FAIL" => case(name, Some(false)),
        "SKIP" => case(name, None),
        _ => None,
    }
}

fn script(line: &str) -> Option<Case> {
    let line = line.trim();
    let tap = |rest: &str| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').trim_start_matches("- ").to_owned()
    };
    let left_out = |rest: &str| ["# SKIP", "# TODO"].iter().any(|mark| rest.contains(mark));
    let plan = line.strip_prefix("ok ").map(|rest| (rest, true));
    let plan = plan.or_else(|| Some((line.strip_prefix("not ok ")?, false)));
    if let Some((rest, passed)) = plan.filter(|(rest, _)| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let name = tap(rest.split(" # ").next()?);
        return case(&name, (!left_out(rest)).then_some(passed)).filter(|case| !is_script(&case.name));
    }
    let passed = ["✓ ", "✔ ", "√ "].iter().find_map(|mark| line.strip_prefix(mark)).map(|rest| (rest, true));
    let (rest, passed) =
        passed.or_else(|| ["✕ ", "✖ ", "× "].iter().find_map(|mark| Some((line.strip_prefix(mark)?, false))))?;
    let timed = rest.rsplit_once(" (").filter(|(_, time)| time.ends_with("s)")).map_or(rest, |(name, _)| name);
    let is_time = |word: &str| word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit());
    let timed = timed.rsplit_once(' ').filter(|(_, word)| is_time(word)).map_or(timed, |(name, _)| name);
    // A line for a whole file is no test: it fails with any of its tests.
    let counted = |tests: &str| tests.ends_with(" tests)") || tests == "1 test)";
    let name = timed.rsplit_once(" (").filter(|(_, tests)| counted(tests)).map_or(timed, |(name, _)| name);
    case(name, Some(passed)).filter(|case| !is_script(&case.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, name: &str, passed: Option<bool>) {
        assert_eq!(read(line), [Case { name: name.into(), passed }], "{line}");
    }

    #[test]
    fn the_lines_of_five_runners_are_read() {
        check("test gate::tests::a_rule ... ok", "gate::tests::a_rule", Some(true));
        check("test gate::a ... FAILED", "gate::a", Some(false));
        check("test gate::a ... ignored, slow", "gate::a", None);
        check("    --- FAIL: TestA/sub (0.00s)", "TestA/sub", Some(false));
        check("--- PASS: TestB (0.01s)", "TestB", Some(true));
        check("not ok 3 - adds two numbers", "adds two numbers", Some(false));
        check("ok 1 - adds # time=2ms", "adds", Some(true));
        check("ok 2 - later # SKIP", "later", None);
        check("  ✓ adds two numbers (2 ms)", "adds two numbers", Some(true));
        check("✖ fails (0.5ms)", "fails", Some(false));
        check("✓ adds 3 ms apart 2ms", "adds 3 ms apart", Some(true));
        check("not ok 3 - later # TODO", "later", None);
        check("test src/lib.rs - add (line 12) ... ok", "src/lib.rs - add", Some(true));
        for file in ["ok 1 - /work/a.test.js", "✓ src/a.test.ts (3 tests) 5ms", "✔ /work/a.test.mjs (19.5ms)"] {
            assert!(read(file).is_empty(), "{file}");
        }
        assert!(read("all is ok\nRan 3 tests\nok example.invalid/a/b 0.1s").is_empty());
    }
    #[test]
    fn what_a_failed_test_of_cargo_printed_is_not_read_as_a_report() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\ntest b ... ok\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed\ntest c ... ok\n";
        let names: Vec<Case> = read(output);
        assert_eq!(names.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    }
}
