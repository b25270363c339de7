//! The same kinds in JavaScript, where the runner reports on a channel: node's own, jest, vitest and mocha as they are.

use super::fakes::caught;
use super::*;

/// How a project writes its code and its tests for one runner.
struct Project {
    package: &'static str,
    code: &'static str,
    test: (&'static str, &'static str),
    command: &'static [&'static str],
}

const SAID: &str = "console.log('TAP version 13\\nok 1 - adds two numbers\\nok 2 - adds nothing\\n1..2\\n# tests 2\\n# pass 2\\n# fail 0\\n  2 passing (5ms)\\nTests:       2 passed, 2 total')";

/// Tells jest, as a worker of jest does, that both tests passed.
const WORKER: &str = "const own = require('events').constructor('return process')();
const test = (title) => ({ ancestorTitles: ['calc'], title, fullName: 'calc ' + title, status: 'passed', failureMessages: [], failureDetails: [], numPassingAsserts: 1, invocations: 1, duration: 1, location: null, retryReasons: [] });
own.send([0, { testFilePath: __dirname + '/calc.test.js', testResults: [test('adds two numbers'), test('adds nothing')], numFailingTests: 0, numPassingTests: 2, numPendingTests: 0, numTodoTests: 0, failureMessage: null, leaks: false, skipped: false, openHandles: [], perfStats: { start: 1, end: 2, runtime: 1, slow: false, loadTestEnvironmentStart: 1, loadTestEnvironmentEnd: 1, setupFilesStart: 1, setupFilesEnd: 1, setupAfterEnvStart: 1, setupAfterEnvEnd: 1 }, snapshot: { added: 0, fileDeleted: false, matched: 0, unchecked: 0, unmatched: 0, updated: 0, uncheckedKeys: [] }, console: null }]);
";

impl Project {
    /// The honest twin is proven by a report, and each fake is caught where it says.
    #[track_caller]
    fn check(&self, fakes: &[(&str, &str, &str)]) {
        let base = [("package.json", self.package), ("calc.js", self.code), self.test];
        let repository = Repository { base: &base, test: self.command };
        let fixed = self.code.replace("a - b", "a + b");
        let (report, _) = repository.verify(&[("calc.js", Some(&fixed))]);
        let said = &report.rungs.iter().find(|rung| rung.name == "tests").expect("tests ran").detail;
        assert!(
            said.contains("each reported once") && said.contains("planted tests failed as they must"),
            "{report:#?}"
        );
        let checked = format!("// checked\n{}", self.code);
        let comment: Edit<'_> = ("calc.js", Some(&checked));
        let renamed = self.test.1.replace("('adds two numbers'", ".skip('adds two numbers'");
        let shim = "#!/bin/sh\necho 'Tests:       2 passed, 2 total'\nexit 0\n";
        let mut all: Vec<(&str, Vec<Edit<'_>>, &str)> = vec![
            ("a test that is skipped", vec![comment, (self.test.0, Some(&renamed))], "tests"),
            (
                "a test that is not collected",
                vec![comment, (self.test.0, None), ("checks.js", Some(self.test.1))],
                "tests",
            ),
            (
                "another runner",
                vec![
                    comment,
                    ("node_modules/.bin/jest", Some(shim)),
                    ("node_modules/.bin/mocha", Some(shim)),
                    ("node_modules/.bin/vitest", Some(shim)),
                    ("node_modules/.bin/node", Some(shim)),
                ],
                "tests",
            ),
        ];
        all.extend(fakes.iter().map(|(name, text, rung)| (*name, vec![("calc.js", Some(*text))], *rung)));
        let all: Vec<(&str, &[Edit<'_>], &str)> =
            all.iter().map(|(name, edits, rung)| (*name, &edits[..], *rung)).collect();
        caught(&repository, &[("calc.js", Some(&fixed))], &all);
    }
}

#[test]
fn fakes_in_nodes_own_runner_are_caught_and_the_honest_twin_is_proven() {
    if !works("node", "--version") || !python_works() {
        return;
    }
    let code = "exports.add = (a, b) => a - b;\n";
    let project = Project {
        package: "{\"scripts\": {\"test\": \"node --test\"}}",
        code,
        test: (
            "calc.test.js",
            "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('./calc.js');\n\ntest('adds two numbers', () => assert.equal(add(20, 22), 42));\ntest('adds nothing', () => assert.equal(add(0, 0), 0));\n",
        ),
        command: &["npm", "test", "--silent"],
    };
    project.check(&[
        ("exit at import", &format!("process.exit(0);\n{code}"), "mattered"),
        ("prints and exits", &format!("exports.add = () => {{ {SAID}; process.exit(0); }};\n"), "mattered"),
        (
            "replaces the exit status",
            &format!("process.on('exit', () => {{ {SAID}; process.exitCode = 0; }});\n{code}"),
            "tests",
        ),
        ("patches the assert", &format!("require('node:assert').equal = () => {{}};\n{code}"), "tests"),
    ]);
}

#[test]
fn fakes_in_jest_are_caught_and_the_honest_twin_is_proven() {
    if !modules_work() || !works("node", "--version") || !python_works() {
        return;
    }
    let code = "exports.add = (a, b) => a - b;\n";
    let project = Project {
        package: "{\"scripts\": {\"test\": \"jest\"}}",
        code,
        test: (
            "calc.test.js",
            "const { add } = require('./calc.js');\n\ndescribe('calc', () => {\n  test('adds two numbers', () => {\n    expect(add(20, 22)).toEqual(42);\n  });\n  test('adds nothing', () => {\n    expect(add(0, 0)).toBe(0);\n  });\n});\n",
        ),
        command: &["npm", "test", "--silent"],
    };
    project.check(&[
        ("exit at import", &format!("process.exit(0);\n{code}"), "tests"),
        ("prints and exits", &format!("exports.add = () => {{ {SAID}; process.exit(0); }};\n"), "tests"),
        (
            "replaces the exit status",
            &format!("process.on('exit', () => {{ {SAID}; process.exitCode = 0; }});\n{code}"),
            "tests",
        ),
        (
            "replaces expect",
            &format!("global.expect = () => new Proxy({{}}, {{ get: () => () => {{}} }});\n{code}"),
            "tests",
        ),
        (
            "extends expect",
            &format!("expect.extend({{ toEqual: () => ({{ pass: true }}), toBe: () => ({{ pass: true }}) }});\n{code}"),
            "tests",
        ),
        ("is equal to anything", "exports.add = (a, b) => (a ? { asymmetricMatch: () => true } : 0);\n", "review"),
        ("speaks as a worker", &format!("{WORKER}{code}"), "tests"),
    ]);
}

#[test]
fn fakes_in_vitest_are_caught_and_the_honest_twin_is_proven() {
    if !modules_work() || !works("node", "--version") || !python_works() {
        return;
    }
    let code = "export const add = (a, b) => a - b;\n";
    let project = Project {
        package: "{\"type\": \"module\", \"scripts\": {\"test\": \"vitest run\"}}",
        code,
        test: (
            "calc.test.js",
            "import { describe, expect, it } from 'vitest';\nimport { add } from './calc.js';\n\ndescribe('calc', () => {\n  it('adds two numbers', () => {\n    expect(add(20, 22)).toBe(42);\n  });\n  it('adds nothing', () => {\n    expect(add(0, 0)).toBe(0);\n  });\n});\n",
        ),
        command: &["npx", "vitest", "run"],
    };
    project.check(&[
        ("exit at import", &format!("process.exit(0);\n{code}"), "tests"),
        ("ends the process past its listeners", &format!("{SAID};\nprocess.reallyExit(0);\n{code}"), "tests"),
        (
            "replaces the exit status",
            &format!("process.on('exit', () => {{ {SAID}; process.exitCode = 0; }});\n{code}"),
            "tests",
        ),
        (
            "extends expect",
            &format!(
                "import {{ expect }} from 'vitest';\nexpect.extend({{ toBe: () => ({{ pass: true }}) }});\n{code}"
            ),
            "tests",
        ),
    ]);
}

#[test]
fn fakes_in_mocha_are_caught_and_the_honest_twin_is_proven() {
    if !modules_work() || !works("node", "--version") || !python_works() {
        return;
    }
    let code = "exports.add = (a, b) => a - b;\n";
    let project = Project {
        package: "{\"scripts\": {\"test\": \"mocha 'test/**/*.js'\"}}",
        code,
        test: (
            "test/calc.js",
            "const assert = require('node:assert');\nconst { add } = require('../calc.js');\n\ndescribe('calc', () => {\n  it('adds two numbers', () => {\n    assert.equal(add(20, 22), 42);\n  });\n  it('adds nothing', () => {\n    assert.equal(add(0, 0), 0);\n  });\n});\n",
        ),
        command: &["npm", "test"],
    };
    project.check(&[
        ("exit at import", &format!("process.exit(0);\n{code}"), "tests"),
        ("prints and exits", &format!("exports.add = () => {{ {SAID}; process.exit(0); }};\n"), "tests"),
        ("replaces the exit status", &format!("process.on('exit', () => {{ {SAID}; process.exitCode = 0; }});\n{code}"), "tests"),
        ("patches the assert", &format!("require('node:assert').equal = () => {{}};\n{code}"), "tests"),
        ("patches mocha", &format!("require('mocha').Runner.prototype.fail = function (test) {{ this.emit('pass', test); }};\n{code}"), "tests"),
        ("writes lines of its own to every pipe", &format!("for (let fd = 3; fd < 12; fd++) try {{ require('fs').writeSync(fd, 'x [\"ran\",\"a\",\"pass\"]\\n'); }} catch {{}}\n{}", code.replace("a - b", "a + b")), "tests"),
    ]);
}

#[test]
fn tests_of_a_file_that_the_base_cannot_load_are_expected_all_the_same() {
    if !works("node", "--version") || !python_works() {
        return;
    }
    let test = "const { describe, it } = require('node:test');\nconst assert = require('node:assert');\nconst { twice } = require('./twice.js');\n\ndescribe('twice', () => {\n  it('doubles', () => assert.equal(twice(4), 8));\n  it('keeps nothing', () => assert.equal(twice(0), 0));\n});\n";
    let base = [("calc.js", "exports.one = 1;\n"), ("twice.test.js", test)];
    let repository = Repository { base: &base, test: &["node", "--test"] };
    let (report, _) = repository.verify(&[("twice.js", Some("exports.twice = (n) => n + n;\n"))]);
    let mattered = &report.rungs.iter().find(|rung| rung.name == "mattered").unwrap().detail;
    assert!(report.proven() && mattered.starts_with("2 failed before"), "{report:#?}");
    let (report, _) = repository.verify(&[("twice.js", Some("process.exit(0);\n"))]);
    assert_eq!(failed(&report), Some("mattered"), "{report:#?}");
}

#[test]
fn a_runner_that_is_not_installed_is_believed_by_what_it_prints() {
    if !works("node", "--version") || !python_works() {
        return;
    }
    // No package.json, so no packages are installed; the script stands in for a runner that lies elsewhere.
    let script = "#!/bin/sh\necho 'test a ... ok'\ngrep -q 'a + b' calc.js\n";
    let base = [("calc.js", "exports.add = (a, b) => a - b;\n"), ("jest", script)];
    let repository = Repository { base: &base, test: &["env", "PATH=.:/usr/bin:/bin", "jest"] };
    let (report, _) = repository.verify(&[("calc.js", Some("exports.add = (a, b) => a + b;\n"))]);
    let said = &report.rungs.iter().find(|rung| rung.name == "tests").unwrap().detail;
    assert!(report.passed() && said.contains("by what it printed"), "{report:#?}");
}
