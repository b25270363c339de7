//! How are this repository's tests run, and which files may an agent not change to make them pass?

use crate::test_files;
use crate::workspace::{Command, Workspace};
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use std::time::Duration;

/// Where a repository says it itself.
pub const VERIFY_FILE: &str = ".cloister/verify.toml";

const SECONDS_DEFAULT: u64 = 120;
const SECONDS_MAX: u64 = 3_600;
/// The test command with its limits.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its deadline, in seconds.
    pub seconds_max: u64,
    /// Builds what the tests need, where they do not do it themselves; may be empty.
    pub build: Vec<String>,
    /// Asks the formatter or the linter; empty: what the project configures.
    pub lint: Vec<String>,
    /// Beside the usual test files.
    protected: GlobSet,
}

/// Why a plan is not usable.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file is no such TOML.
    #[error("{file}: {why}")]
    Invalid {
        /// Where it was read.
        file: String,
        /// Key and reason.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    test: Vec<String>,
    seconds: Option<u64>,
    #[serde(default)]
    build: Vec<String>,
    #[serde(default)]
    lint: Vec<String>,
    #[serde(default)]
    protected: Vec<String>,
}

impl Plan {
    /// Reads `verify.toml`: `test`, `build`, `lint` (argv), `seconds`, `protected` (globs, added to the usual test files).
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let invalid = |why: String| PlanError::Invalid { file: file.to_owned(), why };
        let written: Written = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        if written.test.is_empty() {
            return Err(invalid("`test` is empty; write the test command as a list of words".into()));
        }
        let seconds_max = written.seconds.unwrap_or(SECONDS_DEFAULT);
        if !(1..=SECONDS_MAX).contains(&seconds_max) {
            return Err(invalid(format!("`seconds` is {seconds_max}; it must be 1 to {SECONDS_MAX}")));
        }
        let protected = globs(&written.protected).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { argv: written.test, seconds_max, build: written.build, lint: written.lint, protected })
    }

    /// The repository's own `.cloister/verify.toml`, else what its files say; `None` when they say nothing.
    pub fn find(workspace: &dyn Workspace, files: &[String]) -> Result<Option<Self>, PlanError> {
        if let Ok(bytes) = workspace.read(VERIFY_FILE) {
            return Self::parse(VERIFY_FILE, &String::from_utf8_lossy(&bytes)).map(Some);
        }
        let text =
            |path: &str| workspace.read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        Ok(detect(files, &text).map(|argv| Self {
            argv: argv.split(' ').map(str::to_owned).collect(),
            seconds_max: SECONDS_DEFAULT,
            build: Vec::new(),
            lint: Vec::new(),
            protected: GlobSet::empty(),
        }))
    }

    /// Is this a file whose change could make the tests mean something else?
    pub fn protects(&self, path: &str) -> bool {
        test_files::is_test(path) || test_files::decides(path) || self.protected.is_match(path)
    }

    /// The command for the box.
    pub fn command(&self) -> Command {
        Command::new(self.argv.clone(), Duration::from_secs(self.seconds_max))
    }
}

fn globs(globs: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob)?);
    }
    set.build()
}

fn detect(files: &[String], text: &dyn Fn(&str) -> String) -> Option<String> {
    let has = |name: &str| files.iter().any(|file| file == name);
    let tests = files.iter().find(|file| file.ends_with(".py") && test_files::is_collected(file));
    Some(match tests {
        _ if has("Cargo.toml") => "cargo test --offline".into(),
        _ if has("go.mod") => "go test ./...".into(),
        _ if has("package.json") && text("package.json").contains("\"test\"") => "npm test --silent".into(),
        _ if has("pom.xml") => "mvn -o -q test".into(),
        _ if has("gradlew") => "sh gradlew --offline test".into(),
        _ if has("build.gradle") || has("build.gradle.kts") => "gradle --offline test".into(),
        Some(first) => python(files, first, text),
        None => {
            let rules = text("Makefile");
            let target = ["test", "check"].into_iter();
            let mut target = target.filter(|name| rules.lines().any(|line| line.starts_with(&format!("{name}:"))));
            format!("make {}", target.next()?)
        }
    })
}

/// Pytest where something speaks of it, else unittest. What lies in `src/` is not installed in the box, so it is put on the
/// path; and unittest finds tests in a directory that is no package only when it begins there.
fn python(files: &[String], first: &str, text: &dyn Fn(&str) -> String) -> String {
    let has = |name: &str| files.iter().any(|file| file == name);
    let in_src = files.iter().any(|file| file.starts_with("src/") && file.ends_with(".py"));
    let path = if in_src { "env PYTHONPATH=src " } else { "" };
    let conftest = files.iter().any(|file| file.rsplit('/').next() == Some("conftest.py"));
    let pytest = conftest || has("pytest.ini") || text("pyproject.toml").contains("[tool.pytest");
    if pytest || text(first).contains("import pytest") {
        return format!("{path}python3 -m pytest -q");
    }
    let directory = first.rsplit_once('/').map(|(directory, _)| directory);
    let start = match directory.filter(|directory| !has(&format!("{directory}/__init__.py"))) {
        Some(directory) if !directory.contains(char::is_whitespace) => format!(" -s {directory}"),
        _ => String::new(),
    };
    format!("{path}python3 -m unittest discover -v{start}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[&str], expected: Option<&str>) {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(detect(&files, &|_| "\"test\"\ntest: all\n".into()).as_deref(), expected);
    }

    #[test]
    fn the_test_command_is_read_off_the_files() {
        check(&["Cargo.toml", "src/lib.rs"], Some("cargo test --offline"));
        check(&["go.mod"], Some("go test ./..."));
        check(&["package.json"], Some("npm test --silent"));
        check(&["a.py", "tests/test_a.py"], Some("python3 -m unittest discover -v -s tests"));
        check(&["a.py", "tests/__init__.py", "tests/test_a.py"], Some("python3 -m unittest discover -v"));
        check(
            &["src/a/__init__.py", "tests/__init__.py", "tests/test_a.py"],
            Some("env PYTHONPATH=src python3 -m unittest discover -v"),
        );
        check(&["conftest.py", "test_a.py"], Some("python3 -m pytest -q"));
        check(&["pom.xml"], Some("mvn -o -q test"));
        check(&["gradlew", "build.gradle"], Some("sh gradlew --offline test"));
        check(&["Makefile", "a.c"], Some("make test"));
    }

    #[test]
    fn a_plan_protects_tests_and_what_it_names() {
        let plan = Plan::parse("v", "test = ['make', 'check']\nseconds = 20\nprotected = ['golden/**']").unwrap();
        for path in ["golden/a.txt", "test_a.py", "pkg/tests/x.py", "conftest.py", ".cloister/verify.toml"] {
            assert!(plan.protects(path), "{path}");
        }
        assert!(!plan.protects("a.py"));
    }

    #[test]
    fn a_plan_with_a_typo_is_refused_by_name() {
        let error = Plan::parse("verify.toml", "tests = ['x']").unwrap_err().to_string();
        assert!(error.contains("verify.toml") && error.contains("tests"), "{error}");
        assert!(Plan::parse("v", "test = []").is_err());
        assert!(Plan::parse("v", "test = ['x']\nseconds = 0").is_err());
    }
}
