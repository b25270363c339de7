//! What each rung says, and what is carried over.

use super::*;

const CALC: &str = "def add(a, b):\n    return a - b\n";
const FIXED: &str = "def add(a, b):\n    return a + b\n";
const TEST: &str = "import unittest\n\nfrom calc import add\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(20, 22), 42)\n\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n";
const UNITTEST: &[&str] = &["python3", "-m", "unittest", "-v", "test_calc"];

fn detail<'a>(report: &'a Report, name: &str) -> (&'a str, Mark) {
    let rung = report.rungs.iter().find(|rung| rung.name == name).unwrap_or_else(|| panic!("no {name}: {report:#?}"));
    (rung.detail.as_str(), rung.mark)
}

#[test]
fn a_proof_names_what_failed_before_and_counts_what_reported() {
    if !python_works() {
        return;
    }
    let repository = Repository { base: &[("calc.py", CALC), ("test_calc.py", TEST)], test: UNITTEST };
    let (report, _) = repository.verify(&[("calc.py", Some(FIXED))]);
    let names: Vec<&str> = report.rungs.iter().map(|rung| rung.name.as_str()).collect();
    assert_eq!(names, ["change", "parses", "lint", "build", "mattered", "tests", "review"]);
    assert_eq!(detail(&report, "mattered").0, "1 failed before the change and pass now");
    assert!(detail(&report, "tests").0.contains("2 passed, each reported once"), "{report:#?}");
    assert!(report.proven() && report.diff.contains("+    return a + b"));
}

#[test]
fn a_base_that_was_green_proves_nothing() {
    if !python_works() {
        return;
    }
    let repository = Repository { base: &[("calc.py", FIXED), ("test_calc.py", TEST)], test: UNITTEST };
    let (report, _) = repository.verify(&[("calc.py", Some("def add(first, second):\n    return first + second\n"))]);
    assert!(report.passed() && !report.proven(), "{report:#?}");
    assert_eq!(detail(&report, "mattered").1, Mark::Skipped);
}

#[test]
fn tests_of_a_module_that_could_not_be_imported_are_expected_all_the_same() {
    if !python_works() {
        return;
    }
    let test = "import unittest\n\nfrom calc import add, double\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(20, 22), 42)\n\n    def test_double(self):\n        self.assertEqual(double(4), 8)\n";
    let repository = Repository { base: &[("calc.py", FIXED), ("test_calc.py", test)], test: UNITTEST };
    let whole = format!("{FIXED}\n\ndef double(n):\n    return n + n\n");
    let (report, _) = repository.verify(&[("calc.py", Some(&whole))]);
    assert!(report.proven(), "{report:#?}");
    assert_eq!(detail(&report, "mattered").0, "2 failed before the change and pass now");
    // A test class that takes itself away at import is missed.
    let sly = format!(
        "{whole}\n\nimport unittest\n\n\ndef load_tests(*rest):\n    return unittest.TestSuite()\n\n\nimport sys\nsys.modules['test_calc'].load_tests = load_tests\n"
    );
    let (report, _) = repository.verify(&[("calc.py", Some(&sly))]);
    assert!(!report.passed(), "{report:#?}");
}

#[test]
fn a_class_that_its_fixture_skips_is_not_missed() {
    if !python_works() {
        return;
    }
    let test = format!(
        "{TEST}\n\nclass Elsewhere(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        raise unittest.SkipTest('no such host')\n\n    def test_there(self):\n        self.fail()\n"
    );
    let repository = Repository { base: &[("calc.py", CALC), ("test_calc.py", &test)], test: UNITTEST };
    let (report, _) = repository.verify(&[("calc.py", Some(FIXED))]);
    assert!(report.proven(), "{report:#?}");
    assert_eq!(detail(&report, "mattered").0, "1 failed before the change and pass now");
}

#[test]
fn a_base_that_loops_for_ever_costs_little_and_is_red() {
    if !python_works() {
        return;
    }
    let looping = "def add(a, b):\n    while a != b:\n        a += 1\n    return a\n";
    let base = [("calc.py", looping), ("test_calc.py", TEST)];
    let repository = Repository { base: &base, test: UNITTEST };
    let plan = Plan::parse("v", "test = ['python3', '-m', 'unittest', '-v', 'test_calc']\nseconds = 1").unwrap();
    let looped = TestRun {
        command: String::new(),
        passed: false,
        ended: "killed: still running after 1 s".into(),
        failed: None,
        ran: None,
        output: String::new(),
        millis: 1_000,
        cases: Vec::new(),
    };
    let endless = looping.replace("a != b", "True");
    let base = [("calc.py", endless.as_str()), ("test_calc.py", TEST)];
    let repository = Repository { base: &base, ..repository };
    let (report, _) = judge(&repository.view(&[("calc.py", Some(FIXED))]), Some(&plan), Some(&looped), None);
    assert!(report.proven(), "{report:#?}");
    // And a change that loops is not proven.
    let (report, _) =
        judge(&repository.view(&[("calc.py", Some(&format!("{endless}\n")))]), Some(&plan), Some(&looped), None);
    assert!(detail(&report, "tests").0.contains("still running after 1 s"), "{report:#?}");
}

#[test]
fn own_tests_run_separately_and_only_those_that_pass_are_carried_over() {
    if !python_works() {
        return;
    }
    let repository = Repository { base: &[("calc.py", CALC), ("test_calc.py", TEST)], test: UNITTEST };
    let own = |value: &str| {
        format!(
            "import unittest\n\nfrom calc import add\n\n\nclass More(unittest.TestCase):\n    def test_more(self):\n        self.assertEqual(add(1, 2), {value})\n"
        )
    };
    let (report, changes) = repository.verify(&[("calc.py", Some(FIXED)), ("test_more.py", Some(&own("3")))]);
    assert!(report.proven() && changes.len() == 2, "{report:#?}");
    assert_eq!(detail(&report, "own tests"), ("test_more.py: 1 passed", Mark::Passed));
    let (report, changes) = repository.verify(&[("calc.py", Some(FIXED)), ("test_more.py", Some(&own("4")))]);
    assert!(report.proven() && changes.len() == 1, "{report:#?}");
    assert_eq!(report.dropped, ["test_more.py"]);
    // A test of one's own is no proof of anything.
    let (report, _) = repository.verify(&[("test_more.py", Some(&own("-1")))]);
    assert_eq!(failed(&report), Some("tests"), "{report:#?}");
}

#[test]
fn a_linter_that_is_missing_is_skipped_and_one_that_complains_fails() {
    let base = [("calc.py", CALC), (".flake8", ""), ("run.sh", "exit 0\n")];
    let repository = Repository { base: &base, test: &["sh", "run.sh"] };
    let (report, _) = repository.verify(&[("calc.py", Some(FIXED))]);
    let (said, mark) = detail(&report, "lint");
    assert!(mark == Mark::Skipped && said.contains("not in the box: flake8"), "{report:#?}");
    let asked = |script: &str| {
        let mut plan = repository.plan();
        plan.lint = ["sh", "-c", script].map(str::to_owned).to_vec();
        judge(&repository.view(&[("calc.py", Some(FIXED))]), Some(&plan), None, None).0
    };
    let report = asked("! grep -n 'a + b' calc.py");
    assert_eq!(failed(&report), Some("lint"), "{report:#?}");
    assert!(detail(&report, "lint").0.contains("return a + b"), "{report:#?}");
    // It complained before: not this change's fault.
    let report = asked("! grep -n 'def add' calc.py");
    assert_eq!(detail(&report, "lint").1, Mark::Skipped, "{report:#?}");
}

#[test]
fn a_build_that_fails_ends_the_climb_and_cannot_touch_the_tests() {
    let base =
        [("calc.py", CALC), ("test_calc.py", TEST), ("run.sh", "grep -q 42 test_calc.py && grep -q 'a + b' calc.py\n")];
    let repository = Repository { base: &base, test: &["sh", "run.sh"] };
    let edits: &[Edit<'_>] = &[("calc.py", Some(FIXED))];
    let with = |build: &str| {
        let mut plan = repository.plan();
        plan.build = ["sh", "-c", build].map(str::to_owned).to_vec();
        judge(&repository.view(edits), Some(&plan), None, None).0
    };
    assert_eq!(failed(&with("echo broken; exit 2")), Some("build"));
    let report = with("echo > test_calc.py; echo exit 0 > run.sh");
    assert!(report.proven(), "what the build wrote over the tests is put back: {report:#?}");
}

#[test]
fn a_runner_that_prints_its_tests_is_read_by_name() {
    let run = "echo 'test a ... ok'; if grep -q 'a + b' calc.py; then echo 'test b ... ok'; else echo 'test b ... FAILED'; exit 1; fi\n";
    let base = [("calc.py", CALC), ("run.sh", run)];
    let repository = Repository { base: &base, test: &["sh", "run.sh"] };
    let (report, _) = repository.verify(&[("calc.py", Some(FIXED))]);
    assert!(report.proven(), "{report:#?}");
    assert!(detail(&report, "tests").0.contains("by what it printed"), "{report:#?}");
    let fewer = "import sys\nprint('a + b')\n";
    let base = [
        ("calc.py", CALC),
        ("run.sh", "echo 'test a ... ok'; cat calc.py | grep -q 'a + b' || echo 'test b ... ok'; exit 0\n"),
    ];
    let repository = Repository { base: &base, ..repository };
    let (report, _) = repository.verify(&[("calc.py", Some(fewer))]);
    assert_eq!(failed(&report), Some("tests"), "exit 0 with a test missing: {report:#?}");
}

#[test]
fn a_change_that_no_longer_fits_the_base_is_refused() {
    let base = [("calc.py", CALC)];
    let repository = Repository { base: &base, test: &["true"] };
    struct Moved(Directory, Directory);
    impl Workspace for Moved {
        fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
            self.0.read(path)
        }
        fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
            self.0.write(path, bytes)
        }
        fn remove(&mut self, path: &str) -> Result<(), WorkspaceError> {
            self.0.remove(path)
        }
        fn revert(&mut self, path: &str) -> Result<(), WorkspaceError> {
            self.0.revert(path)
        }
        fn list(&self, dir: &str) -> Result<Vec<crate::workspace::Entry>, WorkspaceError> {
            self.0.list(dir)
        }
        fn walk(&self) -> Result<Vec<String>, WorkspaceError> {
            self.0.walk()
        }
        fn run(
            &mut self,
            command: &crate::workspace::Command,
            cancel: &AtomicBool,
        ) -> Result<crate::workspace::Ran, WorkspaceError> {
            self.0.run(command, cancel)
        }
        fn changes(&self) -> Result<Vec<Change>, WorkspaceError> {
            self.0.changes()
        }
        fn fresh(&self) -> Result<Box<dyn Workspace>, WorkspaceError> {
            self.1.fresh()
        }
    }
    let moved = Repository { base: &[("calc.py", "# somebody else\n")], test: &["true"] };
    let view = Moved(repository.view(&[("calc.py", Some(FIXED))]), moved.view(&[]));
    let (policy, cancel) = (Policy::shipped().unwrap(), AtomicBool::new(false));
    let trial = Trial {
        workspace: &view,
        code: &Indents,
        policy: &policy,
        plan: None,
        base: None,
        untested_claim: None,
        cancel: &cancel,
    };
    let (report, _) = verify(&trial).unwrap();
    assert!(detail(&report, "change").0.contains("no longer what it was"), "{report:#?}");
}
