//! Which changed file may count, which is a test, and which decides what a test means?

use crate::plan::Plan;
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

/// File names that decide how tests are found, run or reported, wherever they lie.
const MEANS_NAMES: &[&str] = &[
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    // In the root they stand before the real ones.
    "unittest.py",
    "pytest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "noxfile.py",
    ".coveragerc",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    "Taskfile.yml",
    "build.rs",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".gitignore",
    ".gitattributes",
    "go.work",
    "mvnw",
    "gradlew",
    ".npmrc",
    ".mocharc",
    ".env",
    ".cargo-ok",
];
/// The beginning of such names.
const MEANS_STARTS: &[&str] =
    &["jest.config.", "jest.setup.", "vitest.config.", "vitest.workspace.", "vite.config.", "karma.conf.", ".mocharc."];
/// Their ends.
const MEANS_ENDS: &[&str] = &[".pth", ".egg-link", ".gradle", ".gradle.kts"];
/// Directories in which everything does.
const MEANS_DIRS: &[&str] = &[
    ".cargo",
    ".config",
    ".mvn",
    ".github",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".ci",
    ".venv",
    "venv",
    "node_modules",
    "target",
    ".tox",
    ".nox",
    "__pycache__",
    ".git",
    ".cloister",
    ".eggs",
];
/// Directories that hold tests or what they compare with.
const TEST_DIRS: &[&str] = &[
    "tests",
    "test",
    "__tests__",
    "__snapshots__",
    "snapshots",
    "golden",
    "goldens",
    "testdata",
    "fixtures",
    "spec",
    "e2e",
];
/// How a module begins that only tests import.
const TEST_MODULES: &[&str] = &["testutil", "testhelper", "testlib", "fixtures"];
/// Words in the name of a file that a test compares with.
const RECORDED: &[&str] = &["golden", "expected", "snapshot", "approved", "baseline"];

/// What this path is.
pub fn kind(path: &str, plan: Option<&Plan>) -> Kind {
    let name = path.rsplit('/').next().unwrap_or(path);
    let dirs = || path.split('/').rev().skip(1);
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    let starts = MEANS_STARTS.iter().any(|start| name.starts_with(start));
    let ends = MEANS_ENDS.iter().any(|end| name.ends_with(end));
    if MEANS_NAMES.contains(&name) || starts || ends || dirs().any(|dir| MEANS_DIRS.contains(&dir)) {
        return Kind::Means;
    }
    // What the test command itself names: a script, an interpreter.
    if plan.is_some_and(|plan| plan.argv.iter().any(|word| word.trim_start_matches("./") == path)) && !is_test(name) {
        return Kind::Means;
    }
    let recorded = suffix == "snap" || (!is_code(suffix) && RECORDED.iter().any(|word| stem.contains(word)));
    let helps = is_code(suffix) && TEST_MODULES.iter().any(|start| stem.starts_with(start));
    if is_test(name) || recorded || helps || dirs().any(|dir| TEST_DIRS.contains(&dir)) {
        return Kind::Test;
    }
    if plan.is_some_and(|plan| plan.protects(path)) { Kind::Test } else { Kind::Source }
}

fn is_code(suffix: &str) -> bool {
    matches!(
        suffix,
        "py" | "rs" | "go" | "js" | "ts" | "jsx" | "tsx" | "mjs" | "java" | "kt" | "c" | "h" | "cpp" | "hpp"
    )
}

/// Is this the name of a file that a runner collects?
pub fn is_test(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    match suffix {
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || stem == "test" || stem == "tests",
        "go" => stem.ends_with("_test"),
        "js" | "ts" | "jsx" | "tsx" | "mjs" | "cjs" | "mts" | "cts" => {
            stem.ends_with(".test") || stem.ends_with(".spec")
        }
        "java" | "kt" => stem.ends_with("Test") || stem.ends_with("Tests") || stem.ends_with("IT"),
        _ => false,
    }
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
            Kind::Test if super::weaker::still_says(&change) => sorted.tests.push(change),
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
