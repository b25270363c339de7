//! What do the project's own tests say about the change alone?
//!
//! A fresh view of the base, the sources of the change on top, and nothing else that the agent wrote. Each test of the base
//! must report exactly once that it passed; the base alone must have failed, or the tests prove nothing about the change.

use super::files::{self, Kind, is_litter};
use super::python::{Runner, Told};
use super::{Mark, Rung, Trial};
use crate::plan::Plan;
use crate::tests_run::TestRun;
use crate::workspace::{Change, Command, Ended, Workspace, WorkspaceError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// A base that ran into its deadline once gets only so long a second time, in seconds.
const LOOPING_SECONDS_MAX: u64 = 5;
/// Names that are listed; of the others the count is enough.
const NAMES_SHOWN_MAX: usize = 4;

/// One run of the tests in a view of its own.
#[derive(Debug)]
pub struct Run {
    /// As the command would have printed it.
    pub tests: TestRun,
    /// What the tests reported, where the runner is one of Python's.
    pub told: Option<Told>,
    /// Files of the base that decide about tests and that the run itself changed.
    altered: BTreeSet<String>,
}

/// A fresh view with these changes; the inner error is a change that does not fit the base.
pub fn open<'a>(
    workspace: &dyn Workspace,
    changes: impl Iterator<Item = &'a Change>,
) -> Result<Result<Box<dyn Workspace>, String>, WorkspaceError> {
    let mut fresh = workspace.fresh()?;
    for change in changes {
        let there = match fresh.read(&change.path) {
            Ok(bytes) => Some(bytes),
            Err(WorkspaceError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        if there != change.before {
            return Ok(Err(format!("{} is no longer what it was when the change was made", change.path)));
        }
        match &change.after {
            Some(bytes) => fresh.write(&change.path, bytes)?,
            None => fresh.remove(&change.path)?,
        }
    }
    Ok(Ok(fresh))
}

/// Puts back what a build or a linter did to tests and their configuration.
pub fn tidy(view: &mut dyn Workspace, plan: Option<&Plan>) -> Result<(), WorkspaceError> {
    for change in view.changes()? {
        let built =
            change.before.is_none() && change.path.split('/').any(|part| part == "target" || part == "node_modules");
        if files::kind(&change.path, plan) != Kind::Source && !built {
            view.revert(&change.path)?;
        }
    }
    Ok(())
}

/// Runs the tests of the plan, or those of `runner` in their place.
pub fn run(
    view: &mut dyn Workspace,
    plan: &Plan,
    runner: Option<&Runner>,
    seconds: u64,
    cancel: &AtomicBool,
) -> Result<Run, WorkspaceError> {
    let mut before: BTreeSet<String> = view.changes()?.into_iter().map(|change| change.path).collect();
    let mut reported = None;
    if let Some(runner) = runner {
        let (ran, told) = runner.run(view, seconds, cancel)?;
        if !told.unavailable {
            let mut tests = TestRun::read(&plan.argv, &ran);
            if told.late {
                tests.ended = format!("killed: still running after {seconds} s");
            }
            reported = Some((tests, Some(told)));
        }
    }
    let (tests, told) = match reported {
        Some(reported) => reported,
        None => {
            let ran = view.run(&Command { argv: verbose(&plan.argv), ..plan.command() }, cancel)?;
            (TestRun::read(&plan.argv, &ran), None)
        }
    };
    let altered = view.changes()?.into_iter().filter(|change| change.before.is_some() && !is_litter(&change.path));
    let altered =
        altered.filter(|change| files::kind(&change.path, Some(plan)) != Kind::Source).map(|change| change.path);
    let altered = altered.filter(|path| !before.remove(path)).collect();
    Ok(Run { tests, told, altered })
}

/// `go test` names the tests that pass only when asked.
fn verbose(argv: &[String]) -> Vec<String> {
    let mut argv = argv.to_vec();
    if argv.len() >= 2
        && argv[0] == "go"
        && argv[1] == "test"
        && !argv.iter().any(|word| word == "-v" || word == "-json")
    {
        argv.insert(2, "-v".into());
    }
    argv
}

/// Climbs the two rungs of the tests: those that mattered, then all of them. The last rung is the failure, if there is one.
pub fn climb(trial: &Trial<'_>, plan: &Plan, view: &mut dyn Workspace) -> Result<Vec<Rung>, WorkspaceError> {
    let runner = Runner::of(&plan.argv);
    let sealed = run(view, plan, runner.as_ref(), plan.seconds_max, trial.cancel)?;
    if !sealed.tests.passed {
        return Ok(vec![Rung::new("tests", Mark::Failed, failure(trial, &sealed))]);
    }
    if let Some(told) = &sealed.told {
        if let Some(trouble) = untrusted(told) {
            return Ok(vec![Rung::new("tests", Mark::Failed, format!("`{}`: {trouble}", sealed.tests.command))]);
        }
        let base = base_run(trial, plan, runner.as_ref())?;
        return Ok(by_report(told, &sealed, &base));
    }
    match trial.base {
        Some(base) => Ok(by_output(&sealed.tests, base)),
        None => Ok(by_output(&sealed.tests, &base_run(trial, plan, None)?.tests)),
    }
}

/// The base once more, in a view of its own: which tests there are, and how they end without the change.
fn base_run(trial: &Trial<'_>, plan: &Plan, runner: Option<&Runner>) -> Result<Run, WorkspaceError> {
    let looped = trial.base.is_some_and(|base| base.ended.starts_with("killed"));
    let seconds = if looped { plan.seconds_max.min(LOOPING_SECONDS_MAX) } else { plan.seconds_max };
    run(&mut *trial.workspace.fresh()?, plan, runner, seconds, trial.cancel)
}

fn failure(trial: &Trial<'_>, sealed: &Run) -> String {
    let run = &sealed.tests;
    let before = trial.base.map_or(String::new(), |base| format!("; before the change: {}", base.summary()));
    let unsaid = sealed.told.as_ref().filter(|told| !told.ended && !told.late);
    let unsaid = unsaid.map_or("", |_| "\nThe process ended before its tests had reported.");
    format!("`{}` in a fresh box: {}{before}{unsaid}\n{}", run.command, run.summary(), run.output.trim())
}

/// Why a report that says "passed" is not to be believed.
fn untrusted(told: &Told) -> Option<String> {
    if told.forged > 0 {
        return Some(format!("{} lines of the report were written by the code under test", told.forged));
    }
    if !told.silent.is_empty() {
        return Some(format!("a planted test that must fail did not: {}", some(&told.silent)));
    }
    if !told.ended {
        return Some("exit status 0, but the process ended before its tests had reported".into());
    }
    if told.expected.is_empty() {
        return Some("no test ran".into());
    }
    (!told.broken.is_empty()).then(|| format!("could not be loaded: {}", some(&told.broken)))
}

/// Judges by what each test reported.
fn by_report(told: &Told, sealed: &Run, base: &Run) -> Vec<Rung> {
    let nothing = Told::default();
    let was = base.told.as_ref().unwrap_or(&nothing);
    // A base that hangs while it is imported names no tests; then the tests of the base, run with the change, are counted.
    let expected = if was.expected.is_empty() { &told.expected } else { &was.expected };
    let held = |id: &str, told: &Told| told.outcomes.get(id).is_some_and(|ends| ends.iter().all(|end| end == "pass"));
    let skipped =
        |id: &str, told: &Told| !told.outcomes.contains_key(id) && told.left.iter().any(|left| id.starts_with(left));
    let left_out = |id: &str| {
        let ends = |told: &Told| {
            told.outcomes.get(id).filter(|ends| ends.iter().all(|end| end == "skip" || end == "xfail")).cloned()
        };
        (skipped(id, was) && skipped(id, told)) || (ends(was).is_some() && ends(was) == ends(told))
    };
    let as_often =
        |id: &str, count: usize| left_out(id) || told.outcomes.get(id).is_some_and(|ends| ends.len() == count);
    let red: BTreeSet<&String> = expected.keys().filter(|id| !held(id, was) && !left_out(id)).collect();
    let mut rungs = vec![mattered(&red, base.tests.passed, |id| held(id, told))];
    if rungs[0].mark == Mark::Failed {
        return rungs;
    }
    let replaced: BTreeSet<String> = told.replaced.difference(&was.replaced).cloned().collect();
    let altered: BTreeSet<String> = sealed.altered.difference(&base.altered).cloned().collect();
    let missing: BTreeSet<String> =
        expected.iter().filter(|(id, count)| !as_often(id, **count)).map(|(id, _)| id.clone()).collect();
    let bad: BTreeSet<String> = expected.keys().filter(|id| !held(id, told) && !left_out(id)).cloned().collect();
    let trouble = [
        (&missing, "did not report exactly once"),
        (&bad, "did not pass"),
        (&replaced, "was replaced while the tests ran"),
        (&altered, "was changed by the run itself"),
    ];
    let count: usize = expected.values().sum();
    let command = &sealed.tests.command;
    rungs.push(match trouble.iter().find(|(names, _)| !names.is_empty()) {
        Some((names, what)) => {
            Rung::new("tests", Mark::Failed, format!("`{command}` in a fresh box: {}: {what}", some(names)))
        }
        None => Rung::new(
            "tests",
            Mark::Passed,
            format!(
                "`{command}` in a fresh box: {count} passed, each reported once; before the change: {}",
                base.tests.summary()
            ),
        ),
    });
    rungs
}

fn mattered(red: &BTreeSet<&String>, base_passed: bool, held: impl Fn(&str) -> bool) -> Rung {
    let still: BTreeSet<String> = red.iter().filter(|id| !held(id)).map(|id| (*id).clone()).collect();
    if !still.is_empty() {
        return Rung::new(
            "mattered",
            Mark::Failed,
            format!("failed before the change and does not pass now: {}", some(&still)),
        );
    }
    if red.is_empty() && base_passed {
        let what = "no test failed before the change, so none can prove it; all that is shown is that nothing broke";
        return Rung::new("mattered", Mark::Skipped, what.into());
    }
    let what = match red.len() {
        0 => "the run failed before the change and passes now".into(),
        count => format!("{count} failed before the change and pass now"),
    };
    Rung::new("mattered", Mark::Passed, what)
}

/// Judges by the exit status and by what the runner printed, which the code under test can print too.
fn by_output(sealed: &TestRun, base: &TestRun) -> Vec<Rung> {
    let count = |run: &TestRun| {
        let mut passed: BTreeMap<String, usize> = BTreeMap::new();
        for case in run.cases.iter().filter(|case| case.passed == Some(true)) {
            *passed.entry(case.name.clone()).or_default() += 1;
        }
        passed
    };
    let (was, is) = (count(base), count(sealed));
    let failed: BTreeSet<&String> =
        base.cases.iter().filter(|case| case.passed == Some(false)).map(|case| &case.name).collect();
    let mut rungs = vec![mattered(&failed, base.passed, |id| is.contains_key(id))];
    if rungs[0].mark == Mark::Failed {
        return rungs;
    }
    let missing: BTreeSet<String> = was
        .iter()
        .filter(|(name, count)| is.get(*name).is_none_or(|now| now < count))
        .map(|(name, _)| name.clone())
        .collect();
    let before = format!("; before the change: {}", base.summary());
    let command = &sealed.command;
    rungs.push(if sealed.ran == Some(0) {
        Rung::new("tests", Mark::Failed, format!("`{command}` in a fresh box: no test ran{before}"))
    } else if !missing.is_empty() {
        Rung::new(
            "tests",
            Mark::Failed,
            format!("`{command}` in a fresh box: passed before and do not report now: {}", some(&missing)),
        )
    } else {
        let how = if was.is_empty() && failed.is_empty() { "by its exit status alone" } else { "by what it printed" };
        Rung::new("tests", Mark::Passed, format!("`{command}` in a fresh box: {} ({how}){before}", sealed.summary()))
    });
    rungs
}

/// The first of some names, and how many more there are.
fn some(names: &BTreeSet<String>) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN_MAX).map(|name| crate::text::quote(name, 200)).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// The agent's own tests, on top of its change: how many passed, how many did not.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Extra {
    /// The files.
    pub files: Vec<String>,
    /// What ran, in words.
    pub summary: String,
    /// Did all of it pass?
    pub passed: bool,
}

/// Runs them in a view of their own.
pub fn extra(trial: &Trial<'_>, plan: &Plan, sorted: &files::Sorted) -> Result<Extra, WorkspaceError> {
    let files: Vec<String> = sorted.tests.iter().map(|change| change.path.clone()).collect();
    let mut view = match open(trial.workspace, sorted.source.iter().chain(&sorted.tests))? {
        Ok(view) => view,
        Err(summary) => return Ok(Extra { files, summary, passed: false }),
    };
    let collected: Vec<&str> = files.iter().map(String::as_str).filter(|file| files::is_test(file)).collect();
    let runner = Runner::of(&plan.argv);
    let runner = runner.map(|runner| if collected.is_empty() { runner } else { runner.only(&collected) });
    let run = run(&mut *view, plan, runner.as_ref(), plan.seconds_max, trial.cancel)?;
    let trouble = run.told.as_ref().and_then(untrusted);
    let passed = run.tests.passed && trouble.is_none() && run.tests.ran != Some(0);
    Ok(Extra { files, summary: trouble.unwrap_or_else(|| run.tests.summary()), passed })
}

/// How a command ended, in words.
pub fn ended(ended: &Ended) -> String {
    match ended {
        Ended::Exited(code) => format!("exit {code}"),
        Ended::Stopped(why) => why.clone(),
    }
}
