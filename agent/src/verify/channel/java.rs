//! How do tests in Java report? By the XML that Maven's surefire and Gradle write, in the process that starts the tests'.
//!
//! Both run tests in a process of their own and write the reports from the process that starts it. A report counts when it
//! was not there before the run and reads as one; a class that reports twice has not reported once. What is closed beyond
//! that: `System.exit` and `halt` (the build fails), output that looks like a report, a test that is gone or skipped,
//! `org.junit` replaced by classes of the project (see [`super::super::planted`]).
//!
//! What is not closed: here is no supervisor, so exit status and reports are files and numbers of the box; a process of
//! tests tells the build how they ended in the build's own words, and code that speaks them can lie about the tests that it
//! knows; code that outlives the build can write a report after it. The exit status of the build has to agree with all of
//! that, and planted tests, which nobody knows, have to be reported as failed.

use super::{Told, xml};
use crate::test_files::is_collected;
use crate::verify::tests_diff;
use crate::workspace::{Command, Ended, Ran, Workspace, WorkspaceError};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Reports of one run; more are not read, and then no report counts.
const REPORTS_MAX: usize = 5_000;
/// The longest report, in bytes.
const REPORT_BYTES_MAX: usize = 16 << 20;
/// Directories in which reports lie.
const REPORT_DIRS: &[&str] = &["surefire-reports", "failsafe-reports", "test-results"];
/// What has to be asked of the build for it to run tests.
const GOALS: &[&str] = &["test", "verify", "check", "build", "package", "install"];

/// A test command of Maven or Gradle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tests {
    argv: Vec<String>,
    maven: bool,
}

impl Tests {
    /// Understands `[env A=B] [sh] mvn|mvnw|gradle|gradlew … test`.
    pub fn of(argv: &[String]) -> Option<Self> {
        let names = argv.iter().skip_while(|word| ["env", "sh", "bash"].contains(&word.as_str()) || word.contains('='));
        let mut names = names.map(|word| word.rsplit('/').next().unwrap_or(word));
        let program = names.next()?;
        let maven = matches!(program, "mvn" | "mvnw");
        let known = maven || matches!(program, "gradle" | "gradlew");
        let asked = names.any(|word| GOALS.contains(&word.rsplit(':').next().unwrap_or(word)));
        (known && asked).then(|| Self { argv: argv.to_vec(), maven })
    }

    /// The same, to its end: a module whose tests fail keeps none from running.
    pub fn going_on(&self) -> Self {
        let word = if self.maven { "-Dmaven.test.failure.ignore=true" } else { "--continue" };
        let argv = self.argv.iter().cloned().chain([word.to_owned()]).collect();
        Self { argv, ..self.clone() }
    }

    /// Runs the build, and reads the reports that it wrote.
    pub fn run(
        &self,
        view: &mut dyn Workspace,
        seconds: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<(Ran, Told)>, WorkspaceError> {
        for old in reports(view)? {
            view.remove(&old)?;
        }
        let ran = view.run(&Command::new(self.argv.clone(), Duration::from_secs(seconds)), cancel)?;
        if ran.ended == Ended::Exited(127) {
            return Ok(None);
        }
        let paths = reports(view)?;
        let ended = matches!(ran.ended, Ended::Exited(_));
        let mut told = Told { ended, late: !ended, unreported: paths.is_empty(), ..Told::default() };
        for path in &paths {
            let read =
                view.read(path).ok().filter(|bytes| bytes.len() <= REPORT_BYTES_MAX && paths.len() <= REPORTS_MAX);
            let text = read.and_then(|bytes| String::from_utf8(bytes).ok());
            match text.as_deref().map(xml::cases) {
                Some(Ok(cases)) => {
                    cases.into_iter().for_each(|(id, end)| told.outcomes.entry(id).or_default().push(end.to_owned()));
                }
                _ => drop(told.broken.insert(path.clone())),
            }
        }
        told.expect_what_ran();
        Ok(Some((ran, told)))
    }
}

/// The reports that lie in this view.
fn reports(view: &dyn Workspace) -> Result<Vec<String>, WorkspaceError> {
    let is_report = |path: &String| {
        let mut parts = path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        name.starts_with("TEST-") && name.ends_with(".xml") && parts.any(|part| REPORT_DIRS.contains(&part))
    };
    let all: BTreeSet<String> = view.walk()?.into_iter().chain(view.touched()?).filter(is_report).collect();
    Ok(all.into_iter().filter(|path| view.read(path).is_ok()).collect())
}

/// Expects the tests of classes of which a base that does not compile says nothing, by reading them.
pub fn complete(was: &mut Told, told: &Told, view: &dyn Workspace) {
    let Ok(files) = view.walk() else { return };
    for file in files.iter().filter(|file| file.ends_with(".java") && is_collected(file)) {
        let Some(text) = view.read(file).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { continue };
        let class = class(file, &text);
        let of = |id: &str| id.strip_prefix(&class).is_some_and(|rest| rest.starts_with([' ', '$']));
        if was.outcomes.keys().any(|id| of(id)) || !told.outcomes.keys().any(|id| of(id)) {
            continue;
        }
        for name in tests_diff::names(file, &text) {
            let is = |id: &str| id.split_once(" > ").is_some_and(|(_, case)| case.starts_with(name.as_str()));
            let same: Vec<&String> = told.outcomes.keys().filter(|id| of(id) && is(id)).collect();
            for id in &same {
                was.expected.insert((*id).clone(), told.outcomes[*id].len());
            }
            if same.is_empty() {
                was.expected.insert(format!("{class} > {name}"), 1);
            }
        }
    }
}

/// The full name of the class that a file of Java is about.
pub fn class(path: &str, text: &str) -> String {
    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".java");
    let package = text.lines().find_map(|line| line.trim().strip_prefix("package ")?.split(';').next());
    package.map_or(stem.to_owned(), |package| format!("{}.{stem}", package.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_runs_tests_is_understood() {
        let of = |command: &str| Tests::of(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for command in ["mvn -o -q test", "sh gradlew --offline test", "env A=b ./mvnw verify", "gradle :a:check"] {
            assert!(of(command).is_some(), "{command}");
        }
        for command in ["mvn compile", "gradle", "make test", "sh run.sh test", "mvn -o clean"] {
            assert!(of(command).is_none(), "{command}");
        }
        assert!(of("mvn test").unwrap().going_on().argv.join(" ").ends_with("failure.ignore=true"));
    }
}
