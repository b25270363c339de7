//! Which files are tests, and which decide what a test means? The one list, for the plan, the monitor and the verifier.

/// Suffixes of scripts.
const SCRIPT: &[&str] = &["js", "ts", "jsx", "tsx", "mjs", "cjs", "mts", "cts"];
/// File names that decide how tests are found, run or reported, wherever they lie.
const DECIDING_NAMES: &[&str] = &[
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
const DECIDING_STARTS: &[&str] =
    &["jest.config.", "jest.setup.", "vitest.config.", "vitest.workspace.", "vite.config.", "karma.conf.", ".mocharc."];
/// Their ends.
const DECIDING_ENDS: &[&str] = &[".pth", ".egg-link", ".gradle", ".gradle.kts"];
/// Directories in which everything does.
const DECIDING_DIRS: &[&str] = &[
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

/// Is this the name of a file that a runner collects?
pub fn is_collected(path: &str) -> bool {
    let (_, name) = split(path);
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    let python = stem.starts_with("test_") || stem.ends_with("_test") || stem == "test" || stem == "tests";
    match suffix {
        "py" => python,
        "rs" => python || stem.ends_with("_tests"),
        "go" => stem.ends_with("_test"),
        "java" | "kt" => stem.ends_with("Test") || stem.ends_with("Tests") || stem.ends_with("IT"),
        "c" | "cc" | "cpp" | "sh" | "rb" => stem.starts_with("test_") || stem.ends_with("_test"),
        _ if SCRIPT.contains(&suffix) => {
            let ends = [".test", ".spec", "-test", "_test"].iter().any(|end| stem.ends_with(end));
            ends || stem.starts_with("test-") || stem == "test"
        }
        _ => false,
    }
}

/// Is this a test, or does it lie where tests and what they compare with lie?
pub fn is_test(path: &str) -> bool {
    let (mut dirs, name) = split(path);
    is_collected(path) || name.starts_with("test_") || dirs.any(|dir| TEST_DIRS.contains(&dir))
}

/// Does this file decide how tests are found, run or reported?
pub fn decides(path: &str) -> bool {
    let (mut dirs, name) = split(path);
    DECIDING_NAMES.contains(&name)
        || DECIDING_STARTS.iter().any(|start| name.starts_with(start))
        || DECIDING_ENDS.iter().any(|end| name.ends_with(end))
        || dirs.any(|dir| DECIDING_DIRS.contains(&dir))
}

/// Is this a file of JavaScript or TypeScript?
pub fn is_script(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, suffix)| SCRIPT.contains(&suffix))
}

/// The directories of a path, innermost first, and its name.
fn split(path: &str) -> (impl Iterator<Item = &str>, &str) {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    (parts, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_the_names_that_runners_collect() {
        for path in [
            "test_a.py",
            "pkg/a_test.go",
            "web/a.spec.ts",
            "web/test-a.mjs",
            "src/gate/tests.rs",
            "a/ATest.java",
            "tests/golden.txt",
            "web/__tests__/a.js",
            "spec/a.rb",
        ] {
            assert!(is_test(path) && !decides(path), "{path}");
        }
        for path in ["a.py", "src/lib.rs", "latest.js", "contest.go", "testing.py", "src/attest.rs", "README.md"] {
            assert!(!is_test(path) && !decides(path), "{path}");
        }
        for path in ["conftest.py", "a/conftest.py", "x.pth", ".github/a.yml", "node_modules/a/b.js", "build.rs"] {
            assert!(decides(path), "{path}");
        }
    }
}
