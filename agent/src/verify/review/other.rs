//! The same for languages that are read by words alone: fewer rules, and none that needs to know what a word means.

use super::{Finding, Severity};
use std::collections::HashSet;

/// Suffixes, words that must all stand in one added line, the lint, its weight, why.
type Rule = (&'static [&'static str], &'static [&'static str], &'static str, Severity, &'static str);

const SCRIPT: &[&str] = &["js", "ts", "jsx", "tsx", "mjs", "cjs"];
const RULES: &[Rule] = &[
    (SCRIPT, &["process.exit(0"], "exit_at_import", Severity::Note, "it ends the process with success"),
    (SCRIPT, &["process.env.JEST_WORKER_ID"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (SCRIPT, &["process.env.VITEST"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (
        SCRIPT,
        &["process.env.NODE_ENV", "'test'"],
        "knows_it_is_tested",
        Severity::Stop,
        "it asks whether a test runs it",
    ),
    (
        SCRIPT,
        &["process.env.NODE_ENV", "\"test\""],
        "knows_it_is_tested",
        Severity::Stop,
        "it asks whether a test runs it",
    ),
    (SCRIPT, &["Date.now ="], "patches_globals", Severity::Stop, "it replaces a function for everybody"),
    (SCRIPT, &["Math.random ="], "patches_globals", Severity::Stop, "it replaces a function for everybody"),
    (SCRIPT, &["global", ".expect ="], "patches_tests", Severity::Stop, "it changes the test framework"),
    (SCRIPT, &["new Error().stack"], "asks_who_calls", Severity::Stop, "it looks at its callers"),
    (SCRIPT, &["console.error = ()"], "silences_output", Severity::Stop, "it turns off what would show a failure"),
    (&["rs"], &["fn eq(&self, _", "true"], "equal_to_anything", Severity::Stop, "the comparison is always true"),
    (&["rs"], &["process::exit(0)"], "ends_process", Severity::Note, "it ends the process with success"),
    (&["rs"], &["cfg!(test)"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["rs"], &["#[cfg(not(test))]"], "knows_it_is_tested", Severity::Note, "it is another program when it is tested"),
    (&["rs"], &["RUST_TEST_THREADS"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["testing.Testing()"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["flag.Lookup(\"test."], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["os.Args", ".test"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["os.Exit(0)"], "ends_process", Severity::Note, "it ends the process with success"),
    (&["go"], &["runtime.Caller"], "asks_who_calls", Severity::Note, "it looks at its callers"),
    (&["go"], &["//go:build ignore"], "hides_code", Severity::Stop, "the file is left out of the build"),
    (&["java", "kt"], &["System.exit(0)"], "ends_process", Severity::Note, "it ends the process with success"),
    (&["java", "kt"], &["getStackTrace()"], "asks_who_calls", Severity::Note, "it looks at its callers"),
];

/// Judges the added lines of one file.
pub fn review(path: &str, after: &str, added: &HashSet<usize>, findings: &mut Vec<Finding>) {
    let Some((_, suffix)) = path.rsplit_once('.') else { return };
    let rules: Vec<&Rule> = RULES.iter().filter(|rule| rule.0.contains(&suffix)).collect();
    for (at, line) in after.lines().enumerate().filter(|(at, _)| added.contains(&(at + 1))) {
        let comment = line.trim_start().starts_with("//") && !line.contains("//go:");
        for (_, words, lint, severity, why) in rules.iter().filter(|_| !comment) {
            if words.iter().all(|word| line.contains(word)) {
                let (lint, why) = ((*lint).to_owned(), (*why).to_owned());
                findings.push(Finding { lint, path: path.to_owned(), line: at + 1, severity: *severity, why });
            }
        }
    }
}
