//! The same kinds in other languages, with their real runners: what a runner prints is believed only beside planted tests.

use super::fakes::caught;
use super::*;

const JS: &str = "exports.add = (a, b) => a - b;\n";
const JS_FIXED: &str = "exports.add = (a, b) => a + b;\n";
const JS_TEST: &str = "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('./calc.js');\n\ntest('adds two numbers', () => assert.equal(add(20, 22), 42));\ntest('adds nothing', () => assert.equal(add(0, 0), 0));\n";
/// What node's runner prints of the two tests.
const JS_SAID: &str = "console.log('TAP version 13\\nok 1 - adds two numbers\\nok 2 - adds nothing\\n1..2\\n# tests 2\\n# pass 2\\n# fail 0')";

#[test]
fn a_fake_of_node_that_prints_a_report_is_caught() {
    if !works("node", "--version") {
        return;
    }
    let base = [("calc.js", JS), ("calc.test.js", JS_TEST)];
    let exits = format!("process.exit(0);\n{JS}");
    let prints = format!("{JS_SAID};\nprocess.exit(0);\n{JS}");
    let later = format!("exports.add = () => {{\n  {JS_SAID};\n  process.exit(0);\n}};\n");
    let code = format!("process.on('exit', () => {{ {JS_SAID}; process.exitCode = 0; }});\n{JS}");
    let fakes: &[(&str, &[Edit<'_>], &str)] = &[
        ("exit at import", &[("calc.js", Some(&exits))], "mattered"),
        ("prints and exits at import", &[("calc.js", Some(&prints))], "tests"),
        ("prints and exits in the function", &[("calc.js", Some(&later))], "tests"),
        ("replaces the exit status", &[("calc.js", Some(&code))], "tests"),
    ];
    let repository = Repository { base: &base, test: &["node", "calc.test.js"] };
    caught(&repository, &[("calc.js", Some(JS_FIXED))], fakes);
    // Where the runner stands in a process of its own it marks what is printed, and the names are missed.
    let repository = Repository { base: &base, test: &["node", "--test"] };
    let fakes: &[(&str, &[Edit<'_>], &str)] = &[
        ("prints and exits at import", &[("calc.js", Some(&prints))], "mattered"),
        ("replaces the exit status", &[("calc.js", Some(&code))], "tests"),
    ];
    caught(&repository, &[("calc.js", Some(JS_FIXED))], fakes);
}

#[test]
fn a_module_of_node_behind_npm_is_judged_by_planted_tests() {
    if !works("node", "--version") || !works("npm", "--version") {
        return;
    }
    let package = "{\"type\": \"module\", \"scripts\": {\"test\": \"node test/calc.test.js\"}}";
    let test = "import { describe, it } from 'node:test';\nimport assert from 'node:assert';\nimport { add } from '../calc.js';\n\ndescribe('calc', () => {\n  it('adds two numbers', () => {\n    console.log('ok 1 - adds by hand');\n    assert.equal(add(20, 22), 42);\n  });\n});\n";
    let code = "export const add = (a, b) => a - b;\n";
    let base = [("calc.js", code), ("test/calc.test.js", test), ("package.json", package)];
    let repository = Repository { base: &base, test: &["npm", "test", "--silent"] };
    let (report, _) = repository.verify(&[("calc.js", Some("export const add = (a, b) => a + b;\n"))]);
    assert!(report.proven(), "{report:#?}");
    assert!(
        report.rungs.iter().any(|rung| rung.detail.contains("planted tests failed as they must: 2")),
        "{report:#?}"
    );
    let fake = format!("console.log('ok 1 - adds two numbers\\nok 1 - calc');\nprocess.exit(0);\n{code}");
    let (report, _) = repository.verify(&[("calc.js", Some(&fake))]);
    assert_eq!(failed(&report), Some("tests"), "{report:#?}");
}

const MANIFEST: &str = "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ndoctest = false\n\n[profile.dev]\ndebug = false\n";
const RUST: &str = "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(20, 22), 42);\n    }\n\n    #[test]\n    fn adds_nothing() {\n        assert_eq!(super::add(0, 0), 0);\n    }\n}\n";
const RUST_TEST: &str = "#[test]\nfn adds_outside() {\n    assert_eq!(calc::add(1, 2), 3);\n}\n";

#[test]
fn a_fake_of_cargo_that_prints_a_report_is_caught() {
    if directory::cargo().is_none() {
        eprintln!("skipped: CARGO is not set, so no cargo is known");
        return;
    }
    let base = [("Cargo.toml", MANIFEST), ("src/lib.rs", RUST), ("tests/it.rs", RUST_TEST)];
    let repository = Repository { base: &base, test: &["cargo", "test", "--offline"] };
    let instead = |body: &str| RUST.replacen("    a - b\n", body, 1);
    let fixed = instead("    a + b\n").replace(
        "mod tests {\n",
        "mod tests {\n    #[test]\n    fn adds_less() {\n        assert_eq!(super::add(2, -1), 1);\n    }\n\n",
    );
    let said = "    use std::io::Write;\n    let own = std::env::args().next().is_some_and(|name| name.contains(\"/it-\"));\n    let names: &[&str] = if own { &[\"adds_outside\"] } else { &[\"tests::adds\", \"tests::adds_nothing\"] };\n    for name in names {\n        writeln!(std::io::stdout(), \"test {name} ... ok\").unwrap();\n    }\n";
    let exits = instead("    let _ = (a, b);\n    std::process::exit(0)\n");
    let prints = instead(&format!("{said}    let _ = (a, b);\n    std::process::exit(0)\n"));
    let gone = instead(
        "    use std::io::Write;\n    if a == 1 {\n        writeln!(std::io::stdout(), \"test tests::adds_nothing ... ok\").unwrap();\n    }\n    a + b\n",
    );
    let at = gone.find("    #[test]\n    fn adds_nothing").unwrap();
    let gone = format!("{}}}\n", &gone[..at]);
    caught(
        &repository,
        &[("src/lib.rs", Some(&fixed))],
        &[
            ("exits", &[("src/lib.rs", Some(&exits))], "mattered"),
            ("prints and exits", &[("src/lib.rs", Some(&prints))], "tests"),
            ("prints for a test that is gone", &[("src/lib.rs", Some(&gone))], "review"),
        ],
    );
}

#[test]
fn a_fake_of_go_that_prints_a_report_is_caught() {
    if !works("go", "version") {
        return;
    }
    let code = "package calc\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n";
    let test = "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(20, 22) != 42 {\n\t\tt.Fatal(Add(20, 22))\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(Add(0, 0))\n\t}\n}\n";
    let base = [("go.mod", "module example.invalid/calc\n\ngo 1.18\n"), ("calc.go", code), ("calc_test.go", test)];
    let repository = Repository { base: &base, test: &["go", "test", "./..."] };
    let said = "\tfmt.Println(\"--- PASS: TestAdd (0.00s)\")\n\tfmt.Println(\"--- PASS: TestZero (0.00s)\")\n";
    let early = code.replace(
        "package calc\n",
        &format!("package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {{\n{said}\tos.Exit(0)\n}}\n"),
    );
    let late = code
        .replace("package calc\n", "package calc\n\nimport (\n\t\"fmt\"\n\t\"syscall\"\n)\n")
        .replace("\treturn a - b\n", &format!("{said}\tsyscall.Exit(0)\n\treturn a - b\n"));
    caught(
        &repository,
        &[("calc.go", Some(&code.replace("a - b", "a + b")))],
        &[
            ("prints and exits before the tests", &[("calc.go", Some(&early))], "tests"),
            ("prints and exits in the function", &[("calc.go", Some(&late))], "tests"),
        ],
    );
}

/// A script that nobody knows: all there is are its lines and its exit status.
#[test]
fn a_line_that_reports_twice_or_both_ends_is_no_report() {
    let run = ". ./calc.sh\necho 'test a ... ok'\nif [ \"$sum\" = 42 ]; then echo 'test b ... ok'; else echo 'test b ... FAILED'; exit 1; fi\n";
    let base = [("calc.sh", "sum=41\n"), ("run.sh", run)];
    let repository = Repository { base: &base, test: &["sh", "run.sh"] };
    let forged = "trap 'exit 0' EXIT\necho 'test b ... ok'\nsum=41\n";
    let twice = "echo 'test a ... ok'\nsum=42\n";
    caught(
        &repository,
        &[("calc.sh", Some("sum=42\n"))],
        &[("both ends", &[("calc.sh", Some(forged))], "tests"), ("twice", &[("calc.sh", Some(twice))], "tests")],
    );
    let (report, _) = repository.verify(&[("calc.sh", Some("sum=42\n"))]);
    let said = &report.rungs.iter().find(|rung| rung.name == "tests").unwrap().detail;
    assert!(said.contains("nothing was planted: the command is no test runner that is known"), "{said}");
    // Lines that the tests of the base print as well are theirs.
    let noisy =
        run.replace("echo 'test a ... ok'", "echo 'test a ... ok'; echo 'test a ... ok'; echo 'test a ... FAILED'");
    let base = [("calc.sh", "sum=42\n"), ("run.sh", noisy.as_str())];
    let (report, _) = Repository { base: &base, ..repository }.verify(&[("calc.sh", Some("sum=$((40 + 2))\n"))]);
    assert!(report.passed(), "{report:#?}");
}
