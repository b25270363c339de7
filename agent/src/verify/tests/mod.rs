//! Fakes are caught and honest work passes: with real Python, in small repositories of our own.

mod builds;
mod directory;
mod fakes;
mod honest;
mod ladder;
mod others;
mod scripts;

use super::*;
use crate::code::fake::Indents;
use directory::{Directory, Files, lacks, modules_work, python_works, slow, works};
use std::sync::LazyLock;

/// A repository, a change to it and how its tests run.
struct Repository<'a> {
    base: &'a [(&'a str, &'a str)],
    test: &'a [&'a str],
}

/// One file of a change: its new text, or `None` for a file that is gone.
type Edit<'a> = (&'a str, Option<&'a str>);

impl Repository<'_> {
    fn plan(&self) -> Plan {
        let words: Vec<String> = self.test.iter().map(|word| format!("'{word}'")).collect();
        Plan::parse("verify.toml", &format!("test = [{}]\nseconds = 120", words.join(", "))).unwrap()
    }

    fn view(&self, edits: &[Edit<'_>]) -> Directory {
        let base = self.base.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        let mut view = Directory::with(base.collect::<Files>());
        for (path, text) in edits {
            match text {
                Some(text) => view.write(path, text.as_bytes()).unwrap(),
                None => view.remove(path).unwrap(),
            }
        }
        view
    }

    /// What the tests say before any change.
    fn base_run(&self) -> TestRun {
        let plan = self.plan();
        let ran = self.view(&[]).run(&plan.command(), &AtomicBool::new(false)).unwrap();
        TestRun::read(&plan.argv, &ran)
    }

    /// As a session does it: the tests on the base, the change, the verifier.
    fn verify(&self, edits: &[Edit<'_>]) -> (Report, Vec<Change>) {
        self.verify_from(&self.base_run(), edits)
    }

    fn verify_from(&self, base: &TestRun, edits: &[Edit<'_>]) -> (Report, Vec<Change>) {
        judge(&self.view(edits), Some(&self.plan()), Some(base), None)
    }
}

fn judge(view: &Directory, plan: Option<&Plan>, base: Option<&TestRun>, claim: Option<&str>) -> (Report, Vec<Change>) {
    static POLICY: LazyLock<Policy> = LazyLock::new(|| Policy::shipped().unwrap());
    let cancel = AtomicBool::new(false);
    let trial =
        Trial { workspace: view, code: &Indents, policy: &POLICY, plan, base, untested_claim: claim, cancel: &cancel };
    verify(&trial).unwrap()
}

/// The rung that failed, if one did.
fn failed(report: &Report) -> Option<&str> {
    report.rungs.iter().find(|rung| rung.mark == Mark::Failed).map(|rung| rung.name.as_str())
}
