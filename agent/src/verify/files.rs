//! Which changed file may count, which is a test, and which decides what a test means?

use crate::plan::Plan;
use crate::test_files::{decides, is_collected, is_test};
use crate::workspace::Change;

/// What a changed file is to the verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What the work is about: it goes into the sealed run.
    Source,
    /// A test, its data, its recorded output: in the sealed run it is as in the base.
    Test,
    /// It decides how tests are found, run or reported: as in the base, and never carried over.
    Means,
}

/// How a module begins that only tests import.
const TEST_MODULES: &[&str] = &["testutil", "testhelper", "testlib", "fixtures"];
/// Words in the name of a file that a test compares with.
const RECORDED: &[&str] = &["golden", "expected", "snapshot", "approved", "baseline"];

/// What this path is.
pub fn kind(path: &str, plan: Option<&Plan>) -> Kind {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    if decides(path) {
        return Kind::Means;
    }
    // What the test command itself names: a script, an interpreter.
    if plan.is_some_and(|plan| plan.argv.iter().any(|word| word.trim_start_matches("./") == path))
        && !is_collected(path)
    {
        return Kind::Means;
    }
    let recorded = suffix == "snap" || (!is_code(suffix) && RECORDED.iter().any(|word| stem.contains(word)));
    let helps = is_code(suffix) && TEST_MODULES.iter().any(|start| stem.starts_with(start));
    let named = plan.is_some_and(|plan| plan.protects(path));
    if is_test(path) || recorded || helps || named { Kind::Test } else { Kind::Source }
}

fn is_code(suffix: &str) -> bool {
    matches!(
        suffix,
        "py" | "rs" | "go" | "js" | "ts" | "jsx" | "tsx" | "mjs" | "java" | "kt" | "c" | "h" | "cpp" | "hpp"
    )
}

/// A module of tests beside the code of a crate that is new: a source file names it, and without it nothing compiles.
fn is_needed(change: &Change) -> bool {
    let in_source = change.path.starts_with("src/") || change.path.contains("/src/");
    change.before.is_none() && in_source && change.path.ends_with(".rs")
}

/// What running the tests leaves behind; nobody's change.
pub fn is_litter(path: &str) -> bool {
    let litter = ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];
    path.starts_with(crate::tools::SPILL_DIRECTORY)
        || path.split('/').any(|part| litter.contains(&part))
        || path.ends_with(".pyc")
}

/// A change, sorted by what it may do.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Goes into the sealed run.
    pub source: Vec<Change>,
    /// New tests, and tests that still say what they said: run separately.
    pub tests: Vec<Change>,
    /// Put back; path, and why where it is not plain.
    pub dropped: Vec<String>,
}

/// Sorts the changes of an agent. `writable` is the policy's word on a path.
pub fn sort(changes: Vec<Change>, plan: Option<&Plan>, writable: impl Fn(&str) -> bool) -> Sorted {
    let mut sorted = Sorted::default();
    for change in changes {
        if !writable(&change.path) {
            sorted.dropped.push(change.path);
            continue;
        }
        match kind(&change.path, plan) {
            Kind::Means => sorted.dropped.push(change.path),
            Kind::Test if is_needed(&change) => sorted.source.push(change),
            Kind::Test if super::tests_diff::still_says(&change) => sorted.tests.push(change),
            Kind::Test => sorted.dropped.push(change.path),
            Kind::Source => {
                let (change, put_back) = super::restore::sections(change);
                sorted.dropped.extend(put_back);
                if change.before != change.after {
                    sorted.source.push(change);
                }
            }
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Kind) {
        let plan = Plan::parse("v", "test = ['sh', './run.sh']\nprotected = ['data/answers.txt']").unwrap();
        assert_eq!(kind(path, Some(&plan)), expected, "{path}");
    }

    #[test]
    fn a_file_is_source_a_test_or_what_a_test_means() {
        for path in ["a.py", "src/lib.rs", "README.md", "package.json", "src/testing.py", "expected_value.py"] {
            check(path, Kind::Source);
        }
        for path in [
            "test_a.py",
            "a/tests/b.py",
            "x_test.go",
            "a.spec.ts",
            "data/answers.txt",
            "a/golden/1.txt",
            "b.snap",
            "src/testutils.py",
        ] {
            check(path, Kind::Test);
        }
        let means = ["conftest.py", "a/b/conftest.py", "x.pth", ".venv/bin/python", "run.sh", "build.rs", "a/Makefile"];
        for path in means.iter().chain(&["jest.config.js", "sitecustomize.py", ".cargo/config.toml", ".gitignore"]) {
            check(path, Kind::Means);
        }
    }
}
