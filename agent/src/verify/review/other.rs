//! The same for languages that are read by words alone: fewer rules, and none that needs to know what a word means.

use super::{Finding, Severity};
use std::collections::HashSet;

/// Suffixes, words that must all stand in one added line, the lint, its weight, why.
type Rule = (&'static [&'static str], &'static [&'static str], &'static str, Severity, &'static str);

const SCRIPT: &[&str] = &["js", "ts", "jsx", "tsx", "mjs", "cjs"];
/// Suffixes of the languages of which some word is known here.
const CODE: &[&str] = &["js", "ts", "jsx", "tsx", "mjs", "cjs", "rs", "go", "java", "kt"];
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
    (SCRIPT, &["asymmetricMatch"], "equal_to_anything", Severity::Stop, "it tells the tests what it is equal to"),
    (SCRIPT, &["expect.extend("], "patches_tests", Severity::Note, "it adds to the test framework"),
    (&["rs"], &["fn eq(&self, _", "true"], "equal_to_anything", Severity::Stop, "the comparison is always true"),
    (SCRIPT, &["process.exitCode = 0"], "ends_process", Severity::Note, "it sets the exit status to success"),
    (SCRIPT, &["process.exit ="], "patches_globals", Severity::Stop, "it replaces a function for everybody"),
    (SCRIPT, &["process.reallyExit("], "ends_process", Severity::Stop, "it ends the process past what listens for it"),
    (SCRIPT, &["process.ppid"], "asks_who_calls", Severity::Stop, "it looks for the process that runs it"),
    (&["rs"], &["process::exit(0)"], "ends_process", Severity::Note, "it ends the process with success"),
    (&["rs"], &["_exit(0)"], "ends_process", Severity::Stop, "it ends the process past what listens for it"),
    (&["rs"], &["init_array"], "runs_before_main", Severity::Stop, "it runs before the program that tests it"),
    (&["rs"], &["#[ctor"], "runs_before_main", Severity::Note, "it runs before the program that tests it"),
    (&["rs"], &["current_exe(", "--list"], "knows_its_tests", Severity::Stop, "it asks for the names of its tests"),
    (&["rs"], &["cfg!(test)"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["rs"], &["#[cfg(not(test))]"], "knows_it_is_tested", Severity::Note, "it is another program when it is tested"),
    (&["rs"], &["macro_rules! assert {"], "patches_tests", Severity::Stop, "it changes what an assertion means"),
    (&["rs"], &["macro_rules! assert_eq {"], "patches_tests", Severity::Stop, "it changes what an assertion means"),
    (&["rs"], &["macro_rules! assert_ne {"], "patches_tests", Severity::Stop, "it changes what an assertion means"),
    (&["rs"], &["RUST_TEST_THREADS"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["testing.Testing()"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["flag.Lookup(\"test."], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["os.Args", ".test"], "knows_it_is_tested", Severity::Stop, "it asks whether a test runs it"),
    (&["go"], &["syscall.Exit(0)"], "ends_process", Severity::Stop, "it ends the process past what listens for it"),
    (&["go"], &["os.Exit(0)"], "ends_process", Severity::Note, "it ends the process with success"),
    (&["go"], &["runtime.Caller"], "asks_who_calls", Severity::Note, "it looks at its callers"),
    (&["go"], &["//go:build ignore"], "hides_code", Severity::Stop, "the file is left out of the build"),
    (&["java", "kt"], &["System.exit(0)"], "ends_process", Severity::Note, "it ends the process with success"),
    (&["java", "kt"], &["getStackTrace()"], "asks_who_calls", Severity::Note, "it looks at its callers"),
];

/// What a test runner says at a line's beginning, as it stands in a string.
const REPORTS: &[&str] = &[
    "test result: ok",
    "... ok",
    "--- PASS",
    "ok 1 -",
    "ok 1 ",
    "Tests:  ",
    "# pass ",
    "# tests ",
    "TAP version",
    "BUILD SUCCESS",
];
/// What prints.
const PRINTS: &[&str] = &["print", "Print", "console.", ".write", "writeln!", "write!(", "process.stdout"];

/// Does this line print what a test runner prints when a test passes?
fn reports(line: &str) -> bool {
    let quoted = line.find(['"', '\'', '`']).map_or("", |at| &line[at..]);
    PRINTS.iter().any(|word| line.contains(word)) && REPORTS.iter().any(|word| quoted.contains(word))
}

/// Judges the added lines of one file.
pub fn review(path: &str, (before, after): (&str, &str), added: &HashSet<usize>, findings: &mut Vec<Finding>) {
    let Some((_, suffix)) = path.rsplit_once('.') else { return };
    if suffix == "rs" && changes_tests_inside(before, after) {
        let (lint, why) =
            ("weakens_tests".to_owned(), "an assertion of a test in the same file is gone or changed".to_owned());
        findings.push(Finding { lint, path: path.to_owned(), line: 1, severity: Severity::Stop, why });
    }
    let rules: Vec<&Rule> = RULES.iter().filter(|rule| rule.0.contains(&suffix)).collect();
    for (at, line) in after.lines().enumerate().filter(|(at, _)| added.contains(&(at + 1))) {
        let comment = line.trim_start().starts_with("//") && !line.contains("//go:");
        if !comment && CODE.contains(&suffix) && reports(line) {
            let (lint, why) = ("speaks_as_runner".to_owned(), "it prints what a test runner prints".to_owned());
            findings.push(Finding { lint, path: path.to_owned(), line: at + 1, severity: Severity::Stop, why });
        }
        for (_, words, lint, severity, why) in rules.iter().filter(|_| !comment) {
            if words.iter().all(|word| line.contains(word)) {
                let (lint, why) = ((*lint).to_owned(), (*why).to_owned());
                findings.push(Finding { lint, path: path.to_owned(), line: at + 1, severity: *severity, why });
            }
        }
    }
}

/// In Rust tests stand beside the code, where no file can be put back: their assertions must all be there still.
fn changes_tests_inside(before: &str, after: &str) -> bool {
    let inside = |text: &str| text.find("#[cfg(test)]").map_or(String::new(), |at| text[at..].to_owned());
    let (was, is) = (inside(before), inside(after));
    let count = |text: &str, word: &str| text.matches(word).count();
    let mut left: Vec<&str> = is.lines().map(str::trim).collect();
    let gone = was.lines().map(str::trim).filter(|line| line.contains("assert")).any(|line| {
        let found = left.iter().position(|other| *other == line);
        found.map(|at| left.swap_remove(at)).is_none()
    });
    let skips = ["#[ignore", "#[should_panic", "return;"];
    gone || count(&is, "#[test]") < count(&was, "#[test]")
        || skips.iter().any(|skip| count(&is, skip) > count(&was, skip))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "fn f() -> u8 { 1 }\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert_eq!(super::f(), 2);\n    }\n}\n";

    #[track_caller]
    fn check(path: &str, before: &str, after: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        let added = (1..=after.lines().count()).collect();
        review(path, (before, after), &added, &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| finding.lint.as_str()).collect();
        assert_eq!(found, expected, "{after}");
    }

    #[test]
    fn a_test_beside_the_code_may_be_added_and_not_changed() {
        check("a.rs", RUST, &RUST.replace("{ 1 }", "{ 2 }"), &[]);
        check(
            "a.rs",
            RUST,
            &RUST.replace("    #[test]", "    #[test]\n    fn b() { assert!(true) }\n    #[test]"),
            &[],
        );
        check("a.rs", RUST, &RUST.replace("2)", "1)"), &["weakens_tests"]);
        check("a.rs", RUST, &RUST.replace("#[test]", "#[test]\n    #[ignore]"), &["weakens_tests"]);
        check("a.rs", RUST, "fn f() -> u8 { 1 }\n", &["weakens_tests"]);
    }

    #[test]
    fn words_that_know_of_tests_are_seen_outside_of_comments() {
        check("a.js", "", "if (process.env.JEST_WORKER_ID) return 42;\n", &["knows_it_is_tested"]);
        check("a.js", "", "// process.env.JEST_WORKER_ID\n", &[]);
        check("a.js", "", "const any = { asymmetricMatch: () => true };\n", &["equal_to_anything"]);
        check("a.ts", "", "expect.extend({ toBe: () => ({ pass: true }) });\n", &["patches_tests"]);
        check("a.go", "", "if testing.Testing() { return 42 }\n", &["knows_it_is_tested"]);
        check("a.rs", "", "macro_rules! assert_eq { ($($any:tt)*) => {} }\n", &["patches_tests"]);
        check("a.rs", "", "macro_rules! assert_eq_within { () => {} }\n", &[]);
        check(
            "a.rs",
            "",
            "impl PartialEq for A { fn eq(&self, _other: &Self) -> bool { true } }\n",
            &["equal_to_anything"],
        );
    }
    #[test]
    fn code_that_speaks_as_a_runner_or_ends_the_process_is_seen() {
        let speaks: &[&str] = &["speaks_as_runner"];
        check("a.rs", "", "println!(\"test result: ok. 3 passed; 0 failed\");\n", speaks);
        check("a.rs", "", "out.write_all(b\"test tests::adds ... ok\").unwrap();\n", speaks);
        check("a.go", "", "fmt.Println(\"--- PASS: TestAdd (0.00s)\")\n", speaks);
        check("a.js", "", "console.log('ok 1 - adds');\n", speaks);
        check("a.js", "", "process.stdout.write(`Tests:       3 passed, 3 total`);\n", speaks);
        check("A.java", "", "System.exit(0);\n", &["ends_process"]);
        check("a.rs", "", "#[link_section = \".init_array\"]\n", &["runs_before_main"]);
        for honest in
            ["println!(\"ok\");\n", "if line.starts_with(\"test result: ok\") {\n", "// prints \"ok 1 - adds\"\n"]
        {
            check("a.rs", "", honest, &[]);
        }
    }
}
