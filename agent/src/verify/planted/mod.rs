//! Does a run of the tests with the change still say so when a test fails?
//!
//! Tests that must fail, under names that nobody can know, are put into the test files of the base, and the tests run once
//! more in a view of its own. They stand in the process of the tests that they are put beside, after them. What is closed
//! by that: a process that ends before its tests, whatever it printed; exit codes that are replaced; runners that run
//! nothing. What is not closed: code that reads its own test files or its own program to learn the names, and prints what
//! the runner would print. The lints of [`super::review`] stop the plain ways to do so.
//!
//! Where tests report on a channel ([`super::channel`]), the planted ones have to be reported there as failed, in every place
//! that ran; some of them assert what is false, so that asserts that were replaced are seen. Python's child plants its own.
//! Of cargo and go the plants are the channel: see [`cargo`] and [`go`].

mod cargo;
mod go;
mod java;
mod programs;
mod script;

use super::cases::count;
use super::channel::{self, Told};
use super::sealed::Run;
use crate::plan::Plan;
use crate::tests_run::TestRun;
use crate::workspace::{Command, Ended, Workspace, WorkspaceError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Files in which a test is planted; more show nothing more.
const FILES_MAX: usize = 300;
/// A longer file is left as it is, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// A test that must fail.
#[derive(Debug)]
struct Test {
    /// The file that it is added to.
    path: String,
    name: String,
    text: String,
    /// The byte before which it is added; `None`: at the end.
    at: Option<usize>,
    /// What in it fails, in a word.
    what: &'static str,
    /// How the ids begin of the tests that a channel reports from there.
    place: String,
    /// It runs if most of these do; `None`: it runs for certain.
    beside: Option<BTreeSet<String>>,
    /// How the runner begins the line with which it closes what holds the test.
    closing: Option<String>,
}

/// What is planted, and how the tests are run then.
#[derive(Debug)]
pub struct Plants {
    tests: Vec<Test>,
    argv: Vec<String>,
    /// The runner runs every test file, whether it names its tests or not.
    all_run: bool,
    /// How the plants themselves report, where tests are compiled to programs.
    compiled: Option<Compiled>,
}

/// Programs of tests that are built with plants in them and then started one by one.
#[derive(Debug)]
enum Compiled {
    Cargo(cargo::Programs),
    Go(go::Packages),
}

/// What stood where something was planted; `None`: nothing did.
pub type Originals = BTreeMap<String, Option<Vec<u8>>>;

/// Why nothing can be planted, in words.
pub type Nothing = &'static str;

/// Chooses where to plant. The view holds the change and is built; no code of the change has run in it.
pub fn choose(
    view: &mut dyn Workspace,
    plan: &Plan,
    asked: &[String],
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let mut words = plan.argv.iter().skip_while(|word| *word == "env" || word.contains('='));
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let tests = plan.argv.get(1).is_some_and(|word| word == "test");
    let chosen = match program {
        "cargo" if tests => cargo::choose(view, plan, cancel)?,
        "go" if tests => go::choose(view, plan, asked, cancel)?,
        program if script::RUNNERS.contains(&program) => script::choose(view, asked)?,
        "mvn" | "mvnw" | "gradle" | "gradlew" | "sh" if channel::Runner::is_java(&plan.argv) => {
            java::choose(view, asked)?
        }
        _ => Err("the command is no test runner that is known"),
    };
    let nothing = |plants: &Plants| match &plants.compiled {
        Some(Compiled::Cargo(programs)) => !programs.any(),
        Some(Compiled::Go(packages)) => !packages.any(),
        None => plants.tests.is_empty(),
    };
    Ok(chosen.and_then(|plants| if nothing(&plants) { Err("no place for it was found") } else { Ok(plants) }))
}

impl Plants {
    /// Plants in this view.
    pub fn plant(&self, view: &mut dyn Workspace) -> Result<Originals, WorkspaceError> {
        let mut originals = Originals::new();
        for test in &self.tests {
            let mut text = view.read(&test.path)?;
            originals.entry(test.path.clone()).or_insert_with(|| Some(text.clone()));
            let at = test.at.unwrap_or(text.len()).min(text.len());
            text.splice(at..at, test.text.bytes());
            view.write(&test.path, &text)?;
        }
        if let Some(Compiled::Go(packages)) = &self.compiled {
            for (path, text) in packages.files() {
                originals.insert(path.clone(), view.read(path).ok());
                view.write(path, text.as_bytes())?;
            }
        }
        Ok(originals)
    }

    /// Builds the programs of tests of a view with plants, takes the plants out of its files, starts the programs and believes
    /// what they answer; `None`: the plants do not answer, see [`Plants::judge`]. The inner error is what is wrong.
    pub fn answers(
        &self,
        view: &mut dyn Workspace,
        originals: &Originals,
        (plan, base): (&Plan, &TestRun),
        cancel: &AtomicBool,
    ) -> Result<Option<Result<String, String>>, WorkspaceError> {
        let Some(compiled) = &self.compiled else { return Ok(None) };
        let mut runs = programs::Runs::new(view, originals, plan, cancel);
        Ok(Some(match compiled {
            Compiled::Cargo(programs) => cargo::answers(programs, &mut runs, base)?,
            Compiled::Go(packages) => packages.answers(&mut runs, base)?,
        }))
    }

    /// The command that runs them with the others.
    pub fn command(&self, plan: &Plan) -> Command {
        Command { argv: self.argv.clone(), ..plan.command() }
    }

    /// What is wrong with the run with plants, measured on the one without; how many failed as they must where nothing is.
    pub fn judge(&self, sealed: &Run, planted: &Run) -> Result<usize, String> {
        let run = &planted.tests;
        if let Some(was) = &sealed.told {
            let Some(is) = &planted.told else { return Err("with planted tests the runner reported nothing".into()) };
            return self.judge_report(was, is);
        }
        if run.passed {
            return Err("a planted test that must fail did not: exit status 0".into());
        }
        if !run.ended.starts_with("exit ") {
            return Err(format!("with planted tests that must fail it was {}", run.ended));
        }
        let [was, is] = [sealed, planted].map(|run| count(&run.tests.cases, true));
        let ran = |name: &String| was.keys().any(|case| case == name || case.ends_with(&format!(" > {name}")));
        // Another file, which does not run, may have a test of the same name: one alone says nothing.
        let most = |beside: &BTreeSet<String>| beside.iter().filter(|name| ran(name)).count() * 2 > beside.len();
        let certain = |test: &&Test| test.beside.as_ref().is_none_or(most);
        let seen = |test: &&Test| planted.said.contains(&test.name) && !is.keys().any(|case| case.contains(&test.name));
        let failed = self.tests.iter().filter(seen).count();
        let silent: BTreeSet<&str> =
            self.tests.iter().filter(certain).filter(|test| !seen(test)).map(|test| test.path.as_str()).collect();
        if let Some(path) = silent.first() {
            return Err(format!("a test planted in {path} that must fail was not reported as failed"));
        }
        if failed == 0 && self.all_run {
            return Err("no planted test that must fail was reported as failed".into());
        }
        let mut closings: BTreeMap<&str, usize> = BTreeMap::new();
        for closing in self.tests.iter().filter(certain).filter_map(|test| test.closing.as_deref()) {
            *closings.entry(closing).or_default() += 1;
        }
        let closed = |closing: &str| planted.said.lines().filter(|line| line.starts_with(closing)).count();
        if closings.iter().any(|(closing, wanted)| closed(closing) < *wanted) {
            return Err("a process ended before it had reported its planted test".into());
        }
        match was.iter().find(|(name, count)| is.get(*name).is_none_or(|now| now < *count)) {
            Some((name, _)) => Err(format!(
                "{} reported that it passed, and does not beside a planted test that must fail",
                crate::text::quote(name, 200)
            )),
            None => Ok(failed),
        }
    }
}

impl Plants {
    /// The same by what each test reported.
    fn judge_report(&self, was: &Told, is: &Told) -> Result<usize, String> {
        let ran = |test: &&Test| was.outcomes.keys().any(|id| id.starts_with(&test.place));
        let seen = |test: &&Test| {
            let mut ends = is.outcomes.iter().filter(|(id, _)| id.contains(&test.name)).flat_map(|(_, ends)| ends);
            ends.clone().next().is_some() && ends.all(|end| end == "fail" || end == "error")
        };
        let certain = || self.tests.iter().filter(ran);
        if let Some(test) = certain().find(|test| !seen(test)) {
            return Err(format!(
                "a test planted in {} that must fail was not reported as failed: {}",
                test.path, test.what
            ));
        }
        let held = is.passed();
        match was.passed().iter().find(|(id, count)| held.get(*id) != Some(count)) {
            Some((id, _)) => Err(format!(
                "{} reported that it passed, and does not beside a planted test that must fail",
                crate::text::quote(id, 200)
            )),
            None => Ok(certain().count()),
        }
    }
}

/// The end of a name.
fn random() -> Result<String, WorkspaceError> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|error| WorkspaceError::Failed(format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The file of the view that has this absolute path in the box.
fn inside<'a>(files: &'a [String], absolute: &str) -> Option<&'a String> {
    let names = |file: &&String| absolute.strip_suffix(file.as_str()).is_some_and(|root| root.ends_with('/'));
    files.iter().filter(names).max_by_key(|file| file.len())
}

fn text(view: &dyn Workspace, path: &str) -> Option<String> {
    let bytes = view.read(path).ok().filter(|bytes| bytes.len() <= FILE_BYTES_MAX)?;
    String::from_utf8(bytes).ok()
}

fn listing(
    view: &mut dyn Workspace,
    argv: Vec<String>,
    plan: &Plan,
    cancel: &AtomicBool,
) -> Result<Option<String>, WorkspaceError> {
    let ran = view.run(&Command::new(argv, Duration::from_secs(plan.seconds_max)), cancel)?;
    Ok((ran.ended == Ended::Exited(0)).then(|| String::from_utf8_lossy(&ran.output).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_box_is_found_in_the_view() {
        let files = ["src/lib.rs", "a/src/lib.rs", "lib.rs"].map(str::to_owned);
        assert_eq!(inside(&files, "/workspace/a/src/lib.rs"), Some(&files[1]));
        assert_eq!(inside(&files, "/workspace/src/lib.rs"), Some(&files[0]));
        assert_eq!(inside(&files, "/workspace/other.rs"), None);
    }
}
