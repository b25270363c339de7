//! Which tests ran, and how did each end, as the runner of another language prints it?
//!
//! Weaker than [`super::python`]: the code under test writes to the same output and can print such lines itself. It cannot
//! take away a failure that the runner counts in its exit status.

use serde::{Deserialize, Serialize};

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
    let cases = output.lines().filter_map(|line| cargo(line).or_else(|| go(line)).or_else(|| script(line)));
    cases.filter(|case| !case.name.is_empty() && case.name.len() <= NAME_BYTES_MAX).take(CASES_MAX).collect()
}

fn case(name: &str, passed: Option<bool>) -> Option<Case> {
    Some(Case { name: name.trim().to_owned(), passed })
}

fn cargo(line: &str) -> Option<Case> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
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
    if let Some(rest) = line.strip_prefix("not ok ") {
        return case(&tap(rest), Some(false));
    }
    if let Some(rest) = line.strip_prefix("ok ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let skipped = rest.contains("# SKIP") || rest.contains("# TODO");
        return case(&tap(rest.split(" # ").next()?), (!skipped).then_some(true));
    }
    let passed = ["✓ ", "✔ ", "√ "].iter().find_map(|mark| line.strip_prefix(mark)).map(|rest| (rest, true));
    let (rest, passed) =
        passed.or_else(|| ["✕ ", "✖ ", "× "].iter().find_map(|mark| Some((line.strip_prefix(mark)?, false))))?;
    let timed = rest.rsplit_once(" (").filter(|(_, time)| time.ends_with("s)")).map_or(rest, |(name, _)| name);
    case(timed, Some(passed))
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
        assert!(read("all is ok\nRan 3 tests\nok example.invalid/a/b 0.1s").is_empty());
    }
}
