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
            ("prints for a test that is gone", &[("src/lib.rs", Some(&gone))], "tests"),
        ],
    );
}

/// A library with a program beside it, a module that is a program of tests too, and tests of every kind that cargo knows.
#[test]
fn of_cargo_every_test_is_run_again_with_a_last_one_that_answers() {
    if directory::cargo().is_none() {
        eprintln!("skipped: CARGO is not set, so no cargo is known");
        return;
    }
    let manifest = MANIFEST.replace("doctest = false", "");
    let library = format!(
        "//! Adds.\n#![no_std]\n#![forbid(unsafe_code)]\n#![deny(warnings, missing_docs, rust_2018_idioms)]\n\n/// ```\n/// assert_eq!(calc::add(1, 1), 2);\n/// ```\n{RUST}"
    );
    let program = "fn main() {}\n\n#[test]\nfn adds_here() {\n    assert_eq!(calc::add(3, 4), 7);\n}\n";
    let common = "pub fn seven() -> i32 {\n    7\n}\n\n#[test]\nfn is_seven() {\n    assert_eq!(seven(), 7);\n}\n";
    let outside = "mod common;\n\n#[test]\nfn adds_outside() {\n    assert_eq!(calc::add(3, 4), common::seven());\n    assert!(std::path::Path::new(&std::env::var(\"CARGO_MANIFEST_DIR\").unwrap()).join(\"Cargo.toml\").is_file());\n    assert!(std::path::Path::new(\"src/lib.rs\").is_file());\n}\n\n#[test]\n#[should_panic]\nfn panics() {\n    assert_eq!(calc::add(3, 4), 8);\n}\n\n#[test]\nfn fits() -> Result<(), std::num::TryFromIntError> {\n    u8::try_from(calc::add(3, 4)).map(drop)\n}\n\n#[test]\n#[ignore]\nfn is_not_ready() {\n    panic!();\n}\n";
    let base = [
        ("Cargo.toml", manifest.as_str()),
        ("src/lib.rs", &library),
        ("src/main.rs", program),
        ("tests/common.rs", common),
        ("tests/it.rs", outside),
    ];
    let repository = Repository { base: &base, test: &["cargo", "test", "--offline"] };
    let honest = library.replacen("    a - b\n", "    a + b\n", 1);
    let (report, _) = repository.verify(&[("src/lib.rs", Some(&honest))]);
    assert!(report.proven(), "{report:#?}");
    // Two in the library, one in the program, `is_seven` twice, and three outside.
    let said = &report.rungs.iter().find(|rung| rung.name == "tests").unwrap().detail;
    assert!(said.contains("8 ran once each"), "{said}");
}

#[test]
fn a_fake_of_cargo_whose_asserts_do_not_assert_is_caught() {
    if directory::cargo().is_none() {
        eprintln!("skipped: CARGO is not set, so no cargo is known");
        return;
    }
    let base = [("Cargo.toml", MANIFEST), ("src/lib.rs", RUST)];
    let repository = Repository { base: &base, test: &["cargo", "test", "--offline"] };
    let fake =
        format!("macro_rules! assert_eq {{\n    ($($any:tt)*) => {{\n        drop(($($any)*))\n    }};\n}}\n\n{RUST}");
    caught(
        &repository,
        &[("src/lib.rs", Some(&RUST.replacen("a - b", "a + b", 1)))],
        &[("another assert_eq", &[("src/lib.rs", Some(&fake))], "tests")],
    );
}

/// It knows all that can be known: where the words stand while the programs are built, and what cargo would print.
#[test]
fn a_fake_of_cargo_that_looks_for_the_planted_test_is_caught() {
    if directory::cargo().is_none() {
        eprintln!("skipped: CARGO is not set, so no cargo is known");
        return;
    }
    let base = [("Cargo.toml", MANIFEST), ("src/lib.rs", RUST)];
    let repository = Repository { base: &base, test: &["cargo", "test", "--offline"] };
    let instead = |body: &str| RUST.replacen("    a - b\n", body, 1);
    let speaks = "    use std::io::Write;\n    let mut say = |text: String| std::io::stdout().write_all(text.as_bytes()).unwrap();\n";
    // As a failed run where something planted stands in the sources, else as one that passed.
    let reads = instead(&format!(
        "{speaks}    let own = std::fs::read_to_string(\"src/lib.rs\").unwrap();\n    let planted = own.split(\"mod zz\").nth(2).map(|rest| rest.split(' ').next().unwrap());\n    for name in [\"tests::adds\", \"tests::adds_nothing\"] {{\n        say(format!(\"test {{name}} ... ok\\n\"));\n    }}\n    let _ = (a, b);\n    if let Some(name) = planted {{\n        say(format!(\"test zz{{name}}::fails ... FAILED\\ntest zz{{name}}::ends ... FAILED\\ntest result: FAILED\\n\"));\n        std::process::exit(101);\n    }}\n    std::process::exit(0)\n"
    ));
    // Whatever failed, the process ends with success; said is what the tests of the base have to say.
    let status = format!(
        "extern \"C\" {{\n    fn atexit(call: extern \"C\" fn()) -> i32;\n    fn _exit(status: i32) -> !;\n}}\nextern \"C\" fn well() {{\n    unsafe {{ _exit(1 - 1) }}\n}}\n{}",
        instead(&format!(
            "{speaks}    unsafe {{ atexit(well) }};\n    say(\"test tests::adds ... ok\\n\".into());\n    std::panic::set_hook(Box::new(|_| {{}}));\n    a - b\n"
        ))
    );
    // A root that is too long for a plant.
    let long = format!(
        "{}\n{}",
        instead(&format!(
            "{speaks}    for name in [\"tests::adds\", \"tests::adds_nothing\"] {{\n        say(format!(\"test {{name}} ... ok\\n\"));\n    }}\n    let _ = (a, b);\n    std::process::exit(0)\n"
        )),
        "// long\n".repeat(140_000)
    );
    // The same, where more than the tests of the base is asked for.
    let asked = status.replace(
        "unsafe { atexit(well) }",
        "if !std::env::args().any(|word| word.contains(\"planted\")) { unsafe { atexit(well) }; }",
    );
    caught(
        &repository,
        &[("src/lib.rs", Some(&instead("    a + b\n")))],
        &[
            ("reads its sources", &[("src/lib.rs", Some(&reads))], "tests"),
            ("is too long", &[("src/lib.rs", Some(&long))], "tests"),
            ("replaces the exit status", &[("src/lib.rs", Some(&status))], "tests"),
            ("replaces it where nothing is planted", &[("src/lib.rs", Some(&asked))], "tests"),
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

/// Tests in two packages, in parallel, behind a `TestMain`, by their names, and one that is skipped.
#[test]
fn of_go_every_test_tells_how_it_ended() {
    if !works("go", "version") {
        return;
    }
    let code = "package calc\n\nvar Ready bool\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n";
    let inside = "package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nconst shown = `\nfunc TestShown(t *testing.T) {\n}\n`\n\nfunc TestMain(m *testing.M) {\n\tReady = true\n\tos.Exit(m.Run())\n}\n\nfunc TestAdd(t *testing.T) {\n\tt.Parallel()\n\tif !Ready || Add(20, 22) != 42 {\n\t\tt.Fatal(Add(20, 22))\n\t}\n\tif len(shown) != 34 {\n\t\tt.Fatal(len(shown))\n\t}\n}\n\nfunc TestName(t *testing.T) {\n\tt.Run(\"sub\", func(t *testing.T) {\n\t\tif t.Name() != \"TestName/sub\" {\n\t\t\tt.Fatal(t.Name())\n\t\t}\n\t})\n}\n\nfunc TestLater(t *testing.T) {\n\tt.Skip(\"later\")\n}\n";
    let outside = "package calc_test\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n\t\"example.invalid/calc\"\n)\n\nfunc TestOutside(t *testing.T) {\n\tif _, err := os.Stat(\"calc.go\"); err != nil || calc.Add(1, 2) != 3 {\n\t\tt.Fatal(err)\n\t}\n}\n";
    let other = "package deep\n\nimport \"testing\"\n\nfunc TestDeep(t *testing.T) {\n\tif Deep != 7 {\n\t\tt.Fatal(Deep)\n\t}\n}\n";
    let base = [
        ("go.mod", "module example.invalid/calc\n\ngo 1.18\n"),
        ("calc.go", code),
        ("calc_test.go", inside),
        ("outside_test.go", outside),
        ("a/deep/deep.go", "package deep\n\nconst Deep = 7\n"),
        ("a/deep/deep_test.go", other),
    ];
    let repository = Repository { base: &base, test: &["go", "test", "./..."] };
    let (report, _) = repository.verify(&[("calc.go", Some(&code.replace("a - b", "a + b")))]);
    assert!(report.proven(), "{report:#?}");
    let said = &report.rungs.iter().find(|rung| rung.name == "tests").unwrap().detail;
    assert!(said.contains("5 told once each how they ended, and planted tests failed as they must: 2"), "{said}");
}

/// It knows all that can be known: where the word stands while the programs are built, and what go would print.
#[test]
fn a_fake_of_go_that_looks_for_the_planted_test_is_caught() {
    if !works("go", "version") {
        return;
    }
    let code = "package calc\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n\nfunc Even(n int) bool {\n\treturn n%2 == 0\n}\n";
    let test = "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Even(3) {\n\t\tt.Skip()\n\t}\n\tif Add(20, 22) != 42 {\n\t\tt.Fatal(Add(20, 22))\n\t}\n}\n";
    let base = [("go.mod", "module example.invalid/calc\n\ngo 1.18\n"), ("calc.go", code), ("calc_test.go", test)];
    let repository = Repository { base: &base, test: &["go", "test", "./..."] };
    let reads = "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"path/filepath\"\n\t\"regexp\"\n\t\"syscall\"\n)\n\nfunc Add(a, b int) int {\n\tnames, _ := filepath.Glob(\"*.go\")\n\tstatus := 0\n\tfmt.Println(\"--- PASS: TestAdd (0.00s)\")\n\tfor _, name := range names {\n\t\ttext, _ := os.ReadFile(name)\n\t\tfor _, planted := range regexp.MustCompile(`TestPlanted[0-9a-fx]+`).FindAllString(string(text), -1) {\n\t\t\tword := planted[len(planted)-64:]\n\t\t\tfmt.Printf(\"--- FAIL: %s (0.00s)\\n\\n%s pass TestAdd\\n%s fail %s\\n\", planted, word, word, planted)\n\t\t\tstatus = 1\n\t\t}\n\t}\n\tsyscall.Exit(status)\n\treturn a - b\n}\n\nfunc Even(n int) bool {\n\treturn n%2 == 0\n}\n";
    let skips = code
        .replace("n%2 == 0", "true")
        .replace("package calc\n", "package calc\n\nimport \"fmt\"\n")
        .replace("\treturn true", "\tfmt.Println(\"--- PASS: TestAdd (0.00s)\")\n\treturn true");
    caught(
        &repository,
        &[("calc.go", Some(&code.replace("a - b", "a + b")))],
        &[
            ("reads its test files", &[("calc.go", Some(reads))], "tests"),
            ("has the test skip itself", &[("calc.go", Some(&skips))], "tests"),
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
