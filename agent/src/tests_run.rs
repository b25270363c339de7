//! What did the tests say? The command, how it ended, and how many failed.

use crate::text::shown;
use crate::verify::{self, Case};
use crate::workspace::{Ended, Ran};
use serde::{Deserialize, Serialize};

/// The most that a model is shown of one run, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 1_800;
/// Failures that are shown whole; of the others the count is enough.
const FAILURES_SHOWN_MAX: usize = 2;

/// One run of the project's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// As a person would type it.
    pub command: String,
    /// Exit status 0.
    pub passed: bool,
    /// How it ended, in words: `exit 1`, `killed after 20 s`.
    pub ended: String,
    /// How many tests failed, where the output says.
    pub failed: Option<usize>,
    /// How many tests ran, where the output says.
    pub ran: Option<usize>,
    /// The output, made safe and bounded.
    pub output: String,
    /// Wall time.
    pub millis: u64,
    /// The tests by name, where the runner's output tells them: cargo, go, node. Not shown to a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
}

impl TestRun {
    /// Reads what a command left behind.
    pub fn read(command: &[String], ran: &Ran) -> Self {
        let whole = String::from_utf8_lossy(&ran.output);
        let (failed, count) = counts(&whole);
        let passed = ran.ended == Ended::Exited(0);
        Self {
            command: command.join(" "),
            passed,
            ended: match &ran.ended {
                Ended::Exited(code) => format!("exit {code}"),
                Ended::Stopped(why) => why.clone(),
            },
            failed: if passed { Some(0) } else { failed },
            ran: count,
            output: shown(&condense(&whole), OUTPUT_BYTES_MAX).text,
            millis: (ran.seconds * 1000.0) as u64,
            cases: verify::cases(&whole),
        }
    }

    /// One line: `exit 1, 2 of 7 failed`.
    pub fn summary(&self) -> String {
        match (self.failed, self.ran) {
            // Sub-tests fail more than once in one test.
            (Some(failed), Some(ran)) if !self.passed && failed > ran => format!("{}, {failed} failures", self.ended),
            (Some(failed), Some(ran)) if !self.passed => format!("{}, {failed} of {ran} failed", self.ended),
            (_, Some(ran)) if self.passed => format!("{ran} passed"),
            _ => self.ended.clone(),
        }
    }
}

/// Keeps what tells a failure apart: long runs of one repeated frame and of passing tests say nothing.
fn condense(output: &str) -> Vec<u8> {
    let lines: Vec<&str> = first_failures(output);
    let mut kept: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        // A traceback that repeats its last `period` lines is a recursion: one turn and a count are enough.
        let repeats = (1..=4).find_map(|period| {
            let count = (1..).take_while(|n| {
                let (from, to) = (at + n * period, at + (n + 1) * period);
                to <= lines.len() && lines[from..to] == lines[at..at + period]
            });
            let count = count.count();
            (count * period >= 6).then_some((period, count))
        });
        if let Some((period, count)) = repeats {
            kept.extend(lines[at..at + period].iter().map(|line| (*line).to_owned()));
            kept.push(format!("  [the {period} lines above repeated {count} more times]"));
            at += period * (count + 1);
            continue;
        }
        // What unittest adds to an unequal list repeats the two lists.
        let repeats = ["First differing", "First list contains", "Second list contains", "- [", "+ [", "?  "];
        if !(lines[at].ends_with("... ok")
            || repeats.iter().any(|start| lines[at].starts_with(start))
            || lines[at].chars().all(|c| "-=~^ ".contains(c)))
        {
            kept.push(timeless(lines[at]));
        }
        at += 1;
    }
    kept.join("\n").into_bytes()
}

/// The lines of a unittest report without the failures after the first few; of any other report all lines.
fn first_failures(output: &str) -> Vec<&str> {
    let rule = |line: &&str| line.len() >= 40 && line.chars().all(|c| c == '=');
    let mut failures = 0;
    let mut lines = Vec::new();
    for line in output.lines() {
        failures += usize::from(rule(&line));
        let closing = line.starts_with("Ran ") || line.starts_with("FAILED (");
        if failures <= FAILURES_SHOWN_MAX || closing {
            lines.push(line);
        }
    }
    lines
}

/// A line without how long something took (`0.004s`): two runs of the same tests say the same.
fn timeless(line: &str) -> String {
    let is_time = |word: &str| {
        let seconds = word.strip_suffix('s').and_then(|word| word.split_once('.'));
        seconds.is_some_and(|(a, b)| {
            [a, b].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let word = |word: &str| {
        let bare = word.trim_matches(['(', ')', ',', ';']);
        if is_time(bare) { word.replace(bare, "?s") } else { word.to_owned() }
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// `(failed, ran)` from the closing lines of unittest, pytest, cargo test, go test, TAP, node's runner, jest and mocha.
fn counts(output: &str) -> (Option<usize>, Option<usize>) {
    let number_before = |text: &str, word: &str| -> Option<usize> {
        let at = text.find(word)?;
        text[..at].trim_end().rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let number_after = |text: &str, word: &str| -> Option<usize> {
        let rest = &text[text.find(word)? + word.len()..];
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut failing: Option<usize> = None;
    for line in output.lines().rev().take(40) {
        if let Some(ran) = line.strip_prefix("Ran ").and_then(|rest| rest.split(' ').next()?.parse().ok()) {
            let tail = output.lines().rev().find(|line| line.starts_with("FAILED (") || line.starts_with("OK"));
            let failed = tail
                .map(|tail| number_after(tail, "failures=").unwrap_or(0) + number_after(tail, "errors=").unwrap_or(0));
            return (failed, Some(ran));
        }
        if line.starts_with("test result:") {
            // One line for each binary of cargo, and the last is often of no test at all.
            let lines = output.lines().filter(|line| line.starts_with("test result:"));
            let both = lines.map(|line| [" failed", " passed"].map(|word| number_before(line, word).unwrap_or(0)));
            let [failed, passed] = both.fold([0, 0], |sum, both| [sum[0] + both[0], sum[1] + both[1]]);
            return (Some(failed), Some(passed + failed));
        }
        let counted =
            |word: &str| line.strip_prefix("# ").or(line.strip_prefix("ℹ "))?.strip_prefix(word)?.parse().ok();
        failing = counted("fail ").or(failing);
        if let Some(ran) = counted("tests ") {
            return (failing, Some(ran));
        }
        if line.starts_with("Tests:") && line.contains(" total") {
            return (Some(number_before(line, " failed").unwrap_or(0)), number_before(line, " total"));
        }
        let mocha = |word: &str| line.trim_start().split_once(word).filter(|(count, _)| is_number(count));
        failing = mocha(" failing").and_then(|(count, _)| count.parse().ok()).or(failing);
        if let Some(passed) = mocha(" passing (").and_then(|(count, _)| count.parse::<usize>().ok()) {
            return (failing.or(Some(0)), Some(passed + failing.unwrap_or(0)));
        }
        if line.starts_with("==") && (line.contains(" passed") || line.contains(" failed") || line.contains(" error")) {
            let failed = number_before(line, " failed").unwrap_or(0) + number_before(line, " error").unwrap_or(0);
            return (Some(failed), Some(failed + number_before(line, " passed").unwrap_or(0)));
        }
    }
    let gone = output.lines().filter(|line| line.trim_start().starts_with("--- FAIL")).count();
    ((gone > 0).then_some(gone), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expected: (Option<usize>, Option<usize>)) {
        assert_eq!(counts(output), expected, "{output}");
    }

    #[test]
    fn the_closing_lines_of_seven_runners_are_read() {
        check("Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n", (Some(2), Some(3)));
        check("Ran 3 tests in 0.001s\n\nOK\n", (Some(0), Some(3)));
        check("====== 2 failed, 5 passed in 0.12s ======\n", (Some(2), Some(7)));
        check("test result: FAILED. 6 passed; 1 failed; 0 ignored; 0 measured\n", (Some(1), Some(7)));
        let documented =
            "test result: ok. 2 passed; 0 failed; 0 ignored\n   Doc-tests a\ntest result: ok. 0 passed; 0 failed\n";
        check(documented, (Some(0), Some(2)));
        check("# tests 3\n# suites 0\n# pass 2\n# fail 1\n# todo 0\n", (Some(1), Some(3)));
        check("Tests:       1 failed, 2 passed, 3 total\nTime:  1 s\n", (Some(1), Some(3)));
        check("  3 passing (5ms)\n  1 failing\n\n  1) adds\n", (Some(1), Some(4)));
        check("--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n", (Some(2), None));
        check("Segmentation fault\n", (None, None));
    }

    #[test]
    fn a_recursion_is_shown_once_with_its_count() {
        let frame = "  File \"gcd.py\", line 5, in gcd\n    return gcd(a % b, b)\n";
        let text = format!("Traceback\n{}RecursionError: depth", frame.repeat(50));
        let short = String::from_utf8(condense(&text)).unwrap();
        assert_eq!(short.matches("return gcd").count(), 1, "{short}");
        assert!(short.contains("repeated 49 more times") && short.ends_with("RecursionError: depth"), "{short}");
    }

    #[test]
    fn of_many_failures_the_first_are_shown_and_the_count() {
        let failure = format!(
            "{}\nFAIL: test\nAssertionError: [1] != [2]\n\nFirst differing element 0:\n1\n2\n\n- [1]\n+ [2]\n",
            "=".repeat(70)
        );
        let text = format!("{}\nRan 1 test in 0.1s\n\nFAILED (failures=9)\n", failure.repeat(9));
        let short = String::from_utf8(condense(&text)).unwrap();
        assert_eq!(short.matches("AssertionError").count(), 2, "{short}");
        assert!(!short.contains("First differing") && short.contains("FAILED (failures=9)"), "{short}");
    }

    #[test]
    fn a_run_that_was_killed_has_not_passed() {
        let ran = Ran {
            ended: Ended::Stopped("killed after 20 s".into()),
            output: b"...".to_vec(),
            errors: Vec::new(),
            seconds: 20.0,
        };
        let run = TestRun::read(&["python3".into()], &ran);
        assert!(!run.passed);
        assert_eq!(run.summary(), "killed after 20 s");
    }
}
