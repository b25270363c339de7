//! What do the project's own tests say about the change alone?
//!
//! A fresh view of the base, the sources of the change on top, and nothing else that the agent wrote. Each test of the base
//! must report exactly once that it passed; the base alone must have failed, or the tests prove nothing about the change.

use super::cases::count;
use super::channel::{Runner, Told};
use super::files::{self, Kind, is_litter};
use super::planted::{self, Plants};
use super::{Mark, Rung, Trial, checks};
use crate::plan::Plan;
use crate::test_files::is_collected;
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
    /// What the tests reported, where the runner has a channel.
    pub told: Option<Told>,
    /// All that the command printed.
    pub said: String,
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
    if let Some(runner) = runner
        && let Some((ran, told)) = runner.run(view, seconds, cancel)?
    {
        let mut tests = TestRun::read(&plan.argv, &ran);
        if told.late {
            tests.ended = format!("killed: still running after {seconds} s");
        }
        reported = Some((tests, Some(told), ran));
    }
    let (tests, told, ran) = match reported {
        Some(reported) => reported,
        None => {
            let seconds_max = std::time::Duration::from_secs(seconds);
            let ran = view.run(&Command { argv: asked(&plan.argv), seconds_max, ..plan.command() }, cancel)?;
            (TestRun::read(&plan.argv, &ran), None, ran)
        }
    };
    let altered = view.changes()?.into_iter().filter(|change| change.before.is_some() && !is_litter(&change.path));
    let altered =
        altered.filter(|change| files::kind(&change.path, Some(plan)) != Kind::Source).map(|change| change.path);
    let altered = altered.filter(|path| !before.remove(path)).collect();
    Ok(Run { tests, told, said: String::from_utf8_lossy(&ran.output).into_owned(), altered })
}

/// The command so that it names its tests: `go test` does only when asked; node's runner in its form for machines marks
/// what the tests print, so that it cannot be taken for a report.
fn asked(argv: &[String]) -> Vec<String> {
    let mut argv = argv.to_vec();
    let has = |start: &str| argv.iter().any(|word| word.starts_with(start));
    let program = argv.first().and_then(|word| word.rsplit('/').next());
    let (at, option) = match program {
        Some("go") if argv.get(1).is_some_and(|word| word == "test") && !has("-v") && !has("-json") => (2, "-v"),
        Some("node") if argv.get(1).is_some_and(|word| word == "--test") && !has("--test-reporter") => {
            (2, "--test-reporter=tap")
        }
        _ => return argv,
    };
    argv.insert(at, option.into());
    argv
}

/// Climbs the two rungs of the tests: those that mattered, then all of them. The last rung is the failure, if there is one.
/// `source` is the change that the view holds.
pub fn climb(
    trial: &Trial<'_>,
    plan: &Plan,
    view: &mut dyn Workspace,
    source: &[Change],
) -> Result<Vec<Rung>, WorkspaceError> {
    let runner = Runner::of(&plan.argv, view);
    // Before any code of the change runs.
    let plants = match runner.as_ref().and_then(Runner::plants_itself) {
        Some(why) => Err(why),
        None => planted::choose(view, plan, &asked(&plan.argv), trial.cancel)?,
    };
    let sealed = run(view, plan, runner.as_ref(), plan.seconds_max, trial.cancel)?;
    if !sealed.tests.passed {
        return Ok(vec![Rung::new("tests", Mark::Failed, failure(trial, &sealed))]);
    }
    let to_its_end = runner.as_ref().map(Runner::going_on);
    let (mut rungs, base) = if let Some(told) = &sealed.told {
        let mut fresh = trial.workspace.fresh()?;
        let mut base = base_run(trial, plan, to_its_end.as_ref(), &mut *fresh)?;
        if told.unreported && base.told.as_ref().is_some_and(|was| was.unreported) {
            let mut rungs = by_output(&sealed.tests, trial.base.unwrap_or(&base.tests));
            if let Some(rung) = rungs.last_mut() {
                rung.detail += "; nothing was planted: the runner writes no report";
            }
            return Ok(rungs);
        }
        if let Some(trouble) = untrusted(told) {
            return Ok(vec![Rung::new("tests", Mark::Failed, format!("`{}`: {trouble}", sealed.tests.command))]);
        }
        if let Some((runner, was)) = runner.as_ref().zip(base.told.as_mut()) {
            runner.complete(was, told, &*fresh);
        }
        (by_report(told, &sealed, &base), base.tests)
    } else {
        // A base that ran without naming its tests runs again.
        let named = |base: &&TestRun| asked(&plan.argv) == plan.argv || !count(&base.cases, true).is_empty();
        let base = match trial.base.filter(named) {
            Some(base) => base.clone(),
            None => base_run(trial, plan, None, &mut *trial.workspace.fresh()?)?.tests,
        };
        (by_output(&sealed.tests, &base), base)
    };
    let itself = sealed.told.is_some() && runner.as_ref().is_some_and(|runner| runner.plants_itself().is_some());
    if let Some(rung) = rungs.last_mut().filter(|rung| rung.mark == Mark::Passed && !itself) {
        let said = match plants {
            Ok(plants) => with_plants(trial, (plan, to_its_end.as_ref()), (&sealed, &base), &plants, source)?,
            Err(why) => Ok(format!("nothing was planted: {why}")),
        };
        match said {
            Ok(said) => rung.detail += &format!("; {said}"),
            Err(why) => *rung = Rung::new("tests", Mark::Failed, format!("`{}`: {why}", sealed.tests.command)),
        }
    }
    Ok(rungs)
}

/// Runs the tests with others that must fail; the inner error is why the run without them is not to be believed.
fn with_plants(
    trial: &Trial<'_>,
    (plan, runner): (&Plan, Option<&Runner>),
    (sealed, base): (&Run, &TestRun),
    plants: &Plants,
    source: &[Change],
) -> Result<Result<String, String>, WorkspaceError> {
    let mut view = match open(trial.workspace, source.iter())? {
        Ok(view) => view,
        Err(why) => return Ok(Err(why)),
    };
    let originals = plants.plant(&mut *view)?;
    // With a deadline of its own, as in the run without plants.
    let built = checks::build(&mut *view, plan, trial.cancel)?;
    if built.mark == Mark::Failed {
        return Ok(Err(format!("with planted tests it does not build: {}", built.detail)));
    }
    if let Some(answered) = plants.answers(&mut *view, &originals, (plan, base), trial.cancel)? {
        return Ok(answered);
    }
    let run = if sealed.told.is_some() {
        run(&mut *view, plan, runner, plan.seconds_max, trial.cancel)?
    } else {
        let ran = view.run(&plants.command(plan), trial.cancel)?;
        let said = String::from_utf8_lossy(&ran.output).into_owned();
        Run { tests: TestRun::read(&plan.argv, &ran), told: None, said, altered: BTreeSet::new() }
    };
    Ok(plants.judge(sealed, &run).map(|count| format!("planted tests failed as they must: {count}")))
}

/// The base once more, in a fresh view: which tests there are, and how they end without the change.
fn base_run(
    trial: &Trial<'_>,
    plan: &Plan,
    runner: Option<&Runner>,
    view: &mut dyn Workspace,
) -> Result<Run, WorkspaceError> {
    let looped = trial.base.is_some_and(|base| base.ended.starts_with("killed"));
    let seconds = if looped { plan.seconds_max.min(LOOPING_SECONDS_MAX) } else { plan.seconds_max };
    run(view, plan, runner, seconds, trial.cancel)
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
                if red.is_empty() { base.tests.summary() } else { format!("{} of {count} did not", red.len()) }
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

/// Judges by the exit status and by what the runner printed, which the code under test can print too: a name that reports
/// more often than there were tests of it, or both ends, is such a line.
fn by_output(sealed: &TestRun, base: &TestRun) -> Vec<Rung> {
    let [was, is] = [base, sealed].map(|run| count(&run.cases, true));
    let [failed, fails] = [base, sealed].map(|run| count(&run.cases, false));
    let red: BTreeSet<String> = failed.keys().map(|name| (*name).to_owned()).collect();
    let mut rungs = vec![mattered(&red.iter().collect(), base.passed, |id| is.contains_key(id))];
    if rungs[0].mark == Mark::Failed {
        return rungs;
    }
    let of = |counts: &BTreeMap<&str, usize>, name: &str| counts.get(name).copied().unwrap_or(0);
    let names = |wrong: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        let names = was.keys().chain(failed.keys()).chain(is.keys()).filter(|name| wrong(name));
        names.map(|name| (*name).to_owned()).collect()
    };
    let missing = names(&|name| of(&is, name) < of(&was, name));
    // Examples of the documentation have one name for all that stand at one item; what is new has no count to hold it to.
    let known = |name: &str| of(&was, name) + of(&failed, name);
    let twice = names(&|name| !name.contains(".rs - ") && known(name) > 0 && of(&is, name) > known(name));
    // Of a base that passed with such lines they are what a test prints.
    let torn = |name: &str| of(&is, name) > 0 && of(&fails, name) > 0;
    let usual = |name: &str| base.passed && of(&was, name) > 0 && of(&failed, name) >= of(&fails, name);
    let both = names(&|name| torn(name) && !usual(name));
    let trouble = [
        (missing, "passed before and does not report now"),
        (twice, "did not report exactly once"),
        (both, "reported that it passed and that it failed"),
    ];
    let before = format!("; before the change: {}", base.summary());
    let command = &sealed.command;
    let failure = |what: String| Rung::new("tests", Mark::Failed, format!("`{command}` in a fresh box: {what}"));
    let fewer = base.ran.zip(sealed.ran).filter(|(was, is)| is < was);
    rungs.push(match (sealed.ran, trouble.iter().find(|(names, _)| !names.is_empty()), fewer) {
        (Some(0), _, _) => failure(format!("no test ran{before}")),
        (_, Some((names, what)), _) => failure(format!("{}: {what}", some(names))),
        (_, _, Some((was, is))) => failure(format!("{is} tests ran, before the change {was}")),
        _ => {
            let unnamed = was.is_empty() && failed.is_empty() && is.is_empty();
            let how = if unnamed { "by its exit status alone" } else { "by what it printed" };
            Rung::new(
                "tests",
                Mark::Passed,
                format!("`{command}` in a fresh box: {} ({how}){before}", sealed.summary()),
            )
        }
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
    let collected: Vec<&str> = files.iter().map(String::as_str).filter(|file| is_collected(file)).collect();
    let runner = Runner::of(&plan.argv, &*view);
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
