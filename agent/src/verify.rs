//! Is it really done? Nobody believes the model: the change is put on a fresh copy of the base, with the tests as
//! they were, and the tests are run there.

use crate::code::Code;
use crate::gate::{Access, Policy, Verdict};
use crate::plan::Plan;
use crate::tests_run::TestRun;
use crate::workspace::{Change, Workspace, WorkspaceError};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// One rung of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// `change`, `parses`, `tests`.
    pub name: String,
    /// Did it hold?
    pub passed: bool,
    /// What was seen, in a sentence.
    pub detail: String,
}

/// What the verifier found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// In the order they were climbed; the first failure is the last.
    pub rungs: Vec<Rung>,
    /// Changed files that were put back because they decide what the tests mean.
    pub dropped: Vec<String>,
    /// The change that was verified, as a unified diff.
    pub diff: String,
}

impl Report {
    /// Did every rung hold?
    pub fn passed(&self) -> bool {
        !self.rungs.is_empty() && self.rungs.iter().all(|rung| rung.passed)
    }

    /// Did tests prove it?
    pub fn proven(&self) -> bool {
        self.passed() && self.rungs.iter().any(|rung| rung.name == "tests")
    }

    /// For the model: what did not hold.
    pub fn complaint(&self) -> String {
        let mut text = String::from("the work is not done.");
        for rung in self.rungs.iter().filter(|rung| !rung.passed) {
            text += &format!(" {}: {}", rung.name, rung.detail);
        }
        if !self.dropped.is_empty() {
            text += &format!(" Your changes to {} do not count: tests may not be changed.", self.dropped.join(", "));
        }
        text
    }

    fn rung(&mut self, name: &str, passed: bool, detail: String) -> bool {
        self.rungs.push(Rung { name: name.into(), passed, detail });
        passed
    }
}

/// Climbs the ladder. Returns the changes that may be applied beside the report.
pub fn verify(
    workspace: &dyn Workspace,
    code: &dyn Code,
    policy: &Policy,
    plan: Option<&Plan>,
    base: Option<&TestRun>,
    cancel: &AtomicBool,
) -> Result<(Report, Vec<Change>), WorkspaceError> {
    let (dropped, changes): (Vec<Change>, Vec<Change>) = own_changes(workspace)?.into_iter().partition(|change| {
        let writable = policy.path_verdict(Access::Write, &change.path) == Verdict::Allow;
        !writable || plan.is_some_and(|plan| plan.protects(&change.path))
    });
    let mut report = Report {
        dropped: dropped.into_iter().map(|change| change.path).collect(),
        diff: changes.iter().map(diff).collect(),
        ..Report::default()
    };
    let names: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    let what = if names.is_empty() { "no file was changed".into() } else { format!("changed {}", names.join(", ")) };
    if !report.rung("change", !names.is_empty(), what) {
        return Ok((report, changes));
    }
    let broken = changes
        .iter()
        .find_map(|change| Some((&change.path, code.parses(&change.path, change.after.as_deref()?)?.err()?)));
    let what = broken
        .map_or("every changed file parses".into(), |(path, line)| format!("{path} has a syntax error at line {line}"));
    if !report.rung("parses", broken.is_none(), what) {
        return Ok((report, changes));
    }
    if let Some(plan) = plan {
        let run = sealed_run(workspace, plan, &changes, cancel)?;
        let before = base.map_or(String::new(), |base| format!("; before the change: {}", base.summary()));
        let none = run.passed && run.ran == Some(0);
        let mut what = format!("`{}` in a fresh box: {}{before}", run.command, run.summary());
        if !run.passed {
            what += &format!("\n{}", run.output.trim());
        }
        report.rung("tests", run.passed && !none, what);
    }
    Ok((report, changes))
}

/// What the agent changed, without what running Python leaves behind.
pub fn own_changes(workspace: &dyn Workspace) -> Result<Vec<Change>, WorkspaceError> {
    let litter = |path: &str| {
        path.split('/').any(|part| part == "__pycache__" || part == ".pytest_cache") || path.ends_with(".pyc")
    };
    let mut changes = workspace.changes()?;
    changes.retain(|change| !litter(&change.path));
    Ok(changes)
}

fn sealed_run(
    workspace: &dyn Workspace,
    plan: &Plan,
    changes: &[Change],
    cancel: &AtomicBool,
) -> Result<TestRun, WorkspaceError> {
    let mut fresh = workspace.fresh()?;
    for change in changes {
        match &change.after {
            Some(bytes) => fresh.write(&change.path, bytes)?,
            None => fresh.remove(&change.path)?,
        }
    }
    let ran = fresh.run(&plan.command(), cancel)?;
    Ok(TestRun::read(&plan.argv, &ran))
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
    let diff = similar::TextDiff::configure().newline_terminated(true).diff_slices(&before, &after);
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
