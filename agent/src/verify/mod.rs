//! Is it really done? Nobody believes the model: the change is put on a fresh copy of the base, with the tests as
//! they were, and the tests are run there.
//!
//! The ladder, cheapest first: there is a change and it fits the base; the files parse; formatter and linter; build; the
//! tests that failed before; the whole suite; the lints over the diff. Tests that the agent wrote run separately and prove
//! nothing. Where a person wants it, a second model is asked last ([`second_review`]).

mod cases;
mod channel;
mod checks;
mod claims;
mod files;
mod planted;
mod restore;
mod review;
mod sealed;
mod second;
pub mod tests_diff;
mod tests_read;

use crate::code::Code;
use crate::gate::{Access, Policy, Verdict};
use crate::plan::Plan;
use crate::tests_run::TestRun;
use crate::workspace::{Change, Workspace, WorkspaceError};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use cases::{Case, read as cases};
pub use claims::that_tests_ran;
pub use review::{Finding, Severity};
pub use sealed::Extra;
pub use second::{Authorship, Opinion, REVIEW_SECONDS_MAX, Review, SECOND_REVIEW, second_review};

/// Beyond this a diff is larger than it need be, and still right.
const DIFF_SECONDS_MAX: Duration = Duration::from_secs(2);
/// Files of tests that are read for what a change could have copied from them.
const TEST_FILES_MAX: usize = 500;

/// How a rung ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It held.
    Passed,
    /// It did not; nothing above it was tried.
    Failed,
    /// It had nothing to say, and the detail says why.
    Skipped,
    /// It was asked and nothing is known: whoever had to say it did not, or not so that it is understood. Nothing is
    /// proven then.
    Unknown,
}

/// One rung of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// `change`, `parses`, `lint`, `build`, `mattered`, `tests`, `own tests`, `review`, `second review`.
    pub name: String,
    /// How it ended.
    pub mark: Mark,
    /// What was seen, in a sentence.
    pub detail: String,
}

impl Rung {
    fn new(name: &str, mark: Mark, detail: String) -> Self {
        Self { name: name.into(), mark, detail }
    }
}

/// What the verifier found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// In the order they were climbed; the first failure is the last.
    pub rungs: Vec<Rung>,
    /// Changed files that were put back because they decide what the tests mean.
    pub dropped: Vec<String>,
    /// What the lints saw.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The agent's own tests.
    #[serde(default)]
    pub extra: Option<Extra>,
    /// What a second model said, where one was asked.
    #[serde(default)]
    pub opinion: Option<Opinion>,
    /// The change that was verified, as a unified diff.
    pub diff: String,
}

impl Report {
    /// Did no rung fail?
    pub fn passed(&self) -> bool {
        !self.rungs.is_empty() && self.rungs.iter().all(|rung| rung.mark != Mark::Failed)
    }

    /// Did tests prove it: some that failed before, and then all of them?
    pub fn proven(&self) -> bool {
        let held = |name: &str| self.rungs.iter().any(|rung| rung.name == name && rung.mark == Mark::Passed);
        let told = self.rungs.iter().all(|rung| rung.mark != Mark::Unknown);
        self.passed() && told && held("mattered") && held("tests")
    }

    /// Did a second model reject what everything else let pass?
    pub fn rejected(&self) -> Option<&Opinion> {
        self.opinion.as_ref().filter(|opinion| opinion.approves == Some(false))
    }

    /// For the model: what did not hold.
    pub fn complaint(&self) -> String {
        let mut text = String::from("the work is not done.");
        for rung in self.rungs.iter().filter(|rung| rung.mark == Mark::Failed) {
            text += &format!(" {}: {}", rung.name, rung.detail);
        }
        if !self.dropped.is_empty() {
            text += &format!(" Your changes to {} do not count: tests may not be changed.", self.dropped.join(", "));
        }
        text
    }

    /// Adds a rung; false when it failed.
    fn rung(&mut self, rung: Rung) -> bool {
        let goes_on = rung.mark != Mark::Failed;
        self.rungs.push(rung);
        goes_on
    }

    fn hold(&mut self, name: &str, passed: bool, detail: String) -> bool {
        self.rung(Rung::new(name, if passed { Mark::Passed } else { Mark::Failed }, detail))
    }
}

/// What is to be judged, and by what.
pub struct Trial<'a> {
    /// Where the agent worked.
    pub workspace: &'a dyn Workspace,
    /// Knows whether files parse.
    pub code: &'a dyn Code,
    /// Knows which paths may be changed.
    pub policy: &'a Policy,
    /// How the tests are run; `None` when nobody knows.
    pub plan: Option<&'a Plan>,
    /// What the tests said before any change.
    pub base: Option<&'a TestRun>,
    /// What the model says it did, when no test ran after its last change.
    pub untested_claim: Option<&'a str>,
    /// Set by Ctrl-C.
    pub cancel: &'a AtomicBool,
}

/// Climbs the ladder. Returns the changes that may be applied beside the report.
pub fn verify(trial: &Trial<'_>) -> Result<(Report, Vec<Change>), WorkspaceError> {
    let writable = |path: &str| trial.policy.path_verdict(Access::Write, path) == Verdict::Allow;
    let mut sorted = files::sort(own_changes(trial.workspace)?, trial.plan, writable);
    let mut report = Report { dropped: std::mem::take(&mut sorted.dropped), ..Report::default() };
    report.findings.extend(trial.untested_claim.and_then(false_claim));
    climb(trial, &mut sorted, &mut report)?;
    let changes: Vec<Change> = sorted.source.into_iter().chain(sorted.tests).collect();
    report.diff = changes.iter().map(diff).collect();
    Ok((report, changes))
}

fn climb(trial: &Trial<'_>, sorted: &mut files::Sorted, report: &mut Report) -> Result<(), WorkspaceError> {
    let all = || sorted.source.iter().chain(&sorted.tests);
    let names: Vec<&str> = all().map(|change| change.path.as_str()).collect();
    if names.is_empty() {
        report.hold("change", false, "no file was changed".into());
        return Ok(());
    }
    let mut view = match sealed::open(trial.workspace, sorted.source.iter())? {
        Ok(view) => view,
        Err(why) => {
            report.hold("change", false, format!("it does not fit the base: {why}"));
            return Ok(());
        }
    };
    report.hold("change", true, format!("changed {}", names.join(", ")));
    let broken = all()
        .find_map(|change| Some((&change.path, trial.code.parses(&change.path, change.after.as_deref()?)?.err()?)));
    let what = broken
        .map_or("every changed file parses".into(), |(path, line)| format!("{path} has a syntax error at line {line}"));
    if !report.hold("parses", broken.is_none(), what) {
        return Ok(());
    }
    let present: Vec<&str> =
        sorted.source.iter().filter(|change| change.after.is_some()).map(|change| change.path.as_str()).collect();
    let linted = checks::lint(&mut *view, || trial.workspace.fresh(), (trial.plan, &present), trial.cancel)?;
    if !report.rung(linted) {
        return Ok(());
    }
    // Before anything of the change runs: what the tests of the base say.
    let tests = review::Tests::read(&base_tests(&*view)?);
    if let Some(plan) = trial.plan {
        if !report.rung(checks::build(&mut *view, plan, trial.cancel)?) {
            return Ok(());
        }
        sealed::tidy(&mut *view, Some(plan))?;
        for rung in sealed::climb(trial, plan, &mut *view, &sorted.source)? {
            if !report.rung(rung) {
                return Ok(());
            }
        }
        if !sorted.tests.is_empty() && !own_tests(trial, plan, sorted, report)? {
            return Ok(());
        }
    }
    let changes: Vec<Change> = sorted.source.iter().chain(&sorted.tests).cloned().collect();
    let found = review::review(&changes, &tests);
    let stops: Vec<String> =
        found.iter().filter(|finding| finding.severity == Severity::Stop).map(Finding::to_string).collect();
    let notes = found.len() - stops.len();
    report.findings.extend(found);
    let what = if stops.is_empty() { format!("{notes} notes") } else { stops.join("; ") };
    report.hold("review", stops.is_empty(), what);
    Ok(())
}

/// Runs the agent's own tests. They prove nothing, but those that fail are not carried over.
fn own_tests(
    trial: &Trial<'_>,
    plan: &Plan,
    sorted: &mut files::Sorted,
    report: &mut Report,
) -> Result<bool, WorkspaceError> {
    let extra = sealed::extra(trial, plan, sorted)?;
    let what = format!("{}: {}", extra.files.join(", "), extra.summary);
    let nothing_else = sorted.source.is_empty();
    let rung = match (extra.passed, nothing_else) {
        (true, _) => Rung::new("own tests", Mark::Passed, what),
        (false, true) => Rung::new("own tests", Mark::Failed, what),
        (false, false) => Rung::new("own tests", Mark::Skipped, format!("{what}; they are put back")),
    };
    if !extra.passed {
        report.dropped.extend(sorted.tests.drain(..).map(|change| change.path));
    }
    report.extra = Some(extra);
    Ok(report.rung(rung))
}

/// The test files of a view that holds no test of the agent's.
fn base_tests(view: &dyn Workspace) -> Result<Vec<(String, Vec<u8>)>, WorkspaceError> {
    let paths = view.walk()?.into_iter().filter(|path| crate::test_files::is_collected(path)).take(TEST_FILES_MAX);
    Ok(paths.filter_map(|path| view.read(&path).ok().map(|bytes| (path, bytes))).collect())
}

fn false_claim(said: &str) -> Option<Finding> {
    let sentence = claims::that_tests_ran(said)?;
    let why =
        format!("the model says \"{}\", and no test ran after its last change", crate::text::quote(sentence, 200));
    Some(Finding {
        lint: "claims_untested".into(),
        path: "(final text)".into(),
        line: 0,
        severity: Severity::Note,
        why,
    })
}

/// What the agent changed, without what running Python leaves behind.
pub fn own_changes(workspace: &dyn Workspace) -> Result<Vec<Change>, WorkspaceError> {
    let mut changes = workspace.changes()?;
    changes.retain(|change| !files::is_litter(&change.path));
    Ok(changes)
}

/// A unified diff of one file, with the header that `patch` and `git apply` read.
pub fn diff(change: &Change) -> String {
    let text = |side: &Option<Vec<u8>>| side.as_ref().map(|bytes| String::from_utf8(bytes.clone()));
    let (before, after) = (text(&change.before), text(&change.after));
    let name = |side: &str, there: bool| if there { format!("{side}/{}", change.path) } else { "/dev/null".into() };
    let (old, new) = (name("a", before.is_some()), name("b", after.is_some()));
    let (Ok(before), Ok(after)) = (before.unwrap_or(Ok(String::new())), after.unwrap_or(Ok(String::new()))) else {
        return format!("Binary files {old} and {new} differ\n");
    };
    // Lines as `patch` sees them: `similar` alone also ends a line at a lone carriage return, in a text and at its end.
    let [before, after] = [&before, &after].map(|text| text.split_inclusive('\n').collect::<Vec<&str>>());
    let diff =
        similar::TextDiff::configure().timeout(DIFF_SECONDS_MAX).newline_terminated(true).diff_slices(&before, &after);
    let mut text = String::new();
    for hunk in diff.unified_diff().iter_hunks() {
        if text.is_empty() {
            text = format!("--- {old}\n+++ {new}\n");
        }
        text += &format!("{}\n", hunk.header().to_string().trim_end());
        for line in hunk.iter_changes() {
            text += &format!("{}{}", line.tag(), line.value());
            if !line.value().ends_with('\n') {
                text += "\n\\ No newline at end of file\n";
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
