//! What is legal but suspicious? A fold over the session's sequence of events, without a clock and without I/O.
//!
//! The gate judges one action; the monitor judges it in the light of what came before: a secret that was read, a goal
//! that was refused, an instruction that stood in a file. Rules are data (`rules.toml`), their detection is code, and
//! the same fold over an old log gives the same findings ([`replay`]).

mod command;
mod follow;
mod literals;
mod places;
mod planted;
mod rules;
mod state;

use crate::action::Call;
use crate::audit;
use crate::gate::{Judgement, Layer, Said, Verdict};
use crate::session::Record;
use crate::test_files::is_test;
use crate::text::quote;
use follow::{Proposed, carries_out, secret_read};
use places::{is_ci, is_verifier_configuration, sensitivity};
use planted::Mark;
use serde::{Deserialize, Serialize};
use state::State;
use std::collections::BTreeSet;

pub use rules::{Effect, Rule, RuleName, Rules, RulesError, SHIPPED_RULES, Severity};

/// The most that a finding says of untrusted text, in bytes.
const QUOTE_BYTES_MAX: usize = 160;
/// Directories without a bearing on the task that may be read before it is noted.
const UNRELATED_DIRECTORIES_MAX: usize = 8;
/// Equal results of one call after which the next is noted.
const EQUAL_RESULTS_MAX: usize = 2;

/// Something that happened, as the loop logs it.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The gate judged a proposed call.
    Judged(&'a Call, &'a Judgement),
    /// A record of the session.
    Recorded(&'a Record),
}

/// A pattern that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which rule.
    pub rule: RuleName,
    /// How bad it is.
    pub severity: Severity,
    /// What follows.
    pub effect: Effect,
    /// Numbers of the records in the log that led to it.
    pub evidence: Vec<u64>,
    /// What was seen, in a sentence.
    pub what: String,
    /// What is allowed instead.
    pub instead: String,
}

/// The findings that the gate has to know of.
#[must_use]
pub fn said(findings: &[Finding]) -> Vec<Said> {
    let one = |finding: &Finding| {
        Some(Said {
            layer: Layer::Monitor,
            verdict: finding.effect.verdict()?,
            rule: finding.rule.name(),
            reason: finding.what.clone(),
            instead: finding.instead.clone(),
        })
    };
    findings.iter().filter_map(one).collect()
}

/// Watches one session.
#[derive(Debug, Clone)]
pub struct Monitor {
    rules: Rules,
    state: State,
}

impl Default for Monitor {
    fn default() -> Self {
        Self::new(Rules::shipped())
    }
}

impl Monitor {
    /// A monitor that has seen nothing.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, state: State::default() }
    }

    /// What is suspicious about a call, before it is judged.
    #[must_use]
    pub fn before(&self, call: &Call) -> Vec<Finding> {
        let proposed = Proposed::new(call, &|path, line| self.state.knows(path, line));
        let found = [
            self.secret(&proposed),
            self.denied(call, &proposed),
            self.planted(&proposed),
            self.run_written(&proposed),
            self.edited_after_failure(&proposed),
            self.configuration(&proposed),
            self.literal(&proposed),
            self.again(call),
            self.unrelated(&proposed),
        ];
        found.into_iter().flatten().collect()
    }

    /// Takes in what happened, by its number in the log. Returns what can only be seen afterwards.
    pub fn observe(&mut self, n: u64, event: Event<'_>) -> Vec<Finding> {
        match event {
            Event::Judged(call, judgement) => {
                self.state.judged(n, call, judgement);
                Vec::new()
            }
            Event::Recorded(record) => {
                let lost = self.state.recorded(n, record);
                let lost = lost.into_iter().filter_map(|(path, loss)| {
                    let what = format!("{path}, {}: {}", loss.test, loss.detail);
                    self.finding(RuleName::TestsWeakened, &what, vec![n])
                });
                lost.collect()
            }
        }
    }

    fn finding(&self, name: RuleName, what: &str, evidence: Vec<u64>) -> Option<Finding> {
        let rule = self.rules.get(name)?;
        let what = format!("{}: {}", rule.why, quote(what, QUOTE_BYTES_MAX));
        Some(Finding {
            rule: name,
            severity: rule.severity,
            effect: rule.effect,
            evidence,
            what,
            instead: rule.instead.clone(),
        })
    }

    fn secret(&self, proposed: &Proposed) -> Option<Finding> {
        let now = secret_read(proposed);
        let earlier: Vec<&str> = self.state.secrets.iter().map(|(_, what)| what.as_str()).collect();
        if now.is_none() && earlier.is_empty() {
            return None;
        }
        let how = carries_out(proposed, now.as_deref(), &earlier, &self.state.withheld)?;
        let what = now.as_deref().or(earlier.last().copied()).unwrap_or_default();
        let evidence = self.state.secrets.iter().map(|(n, _)| *n).collect();
        self.finding(RuleName::SecretThenOutbound, &format!("{what}; {how}"), evidence)
    }

    fn denied(&self, call: &Call, proposed: &Proposed) -> Option<Finding> {
        let others = self.state.denied.iter().filter(|denied| denied.call != *call);
        let (n, goal) = others.into_iter().find_map(|denied| Some((denied.n, denied.goal.approached_by(proposed)?)))?;
        self.finding(RuleName::DeniedGoalByAnotherRoute, &goal, vec![n])
    }

    fn planted(&self, proposed: &Proposed) -> Option<Finding> {
        let only_looks = !proposed.commands.is_empty() && proposed.commands.iter().all(command::is_ordinary);
        if only_looks {
            return None;
        }
        let followed =
            self.state.planted.iter().find(|seen| proposed.follows(&seen.mark) && !self.state.asks_for(&seen.mark))?;
        let rule =
            if followed.pasted { RuleName::PastedInstructionFollowed } else { RuleName::PlantedInstructionFollowed };
        let (Mark::Command(text)
        | Mark::Code(text)
        | Mark::Package(text)
        | Mark::Host(text)
        | Mark::Place(text)
        | Mark::Word(text)) = &followed.mark;
        self.finding(rule, text, vec![followed.n])
    }

    fn run_written(&self, proposed: &Proposed) -> Option<Finding> {
        // What the same command writes first is as new as what an earlier one wrote.
        let mut now = BTreeSet::new();
        let mut found = None;
        for simple in &proposed.commands {
            let run = simple.words.iter().take(2).map(|word| places::normal(word));
            let known = |path: String| match self.state.written.get(&path) {
                Some(n) => Some((path, vec![*n])),
                None => (now.contains(&path) && !command::is_ordinary(simple)).then(|| (path, Vec::new())),
            };
            found = found.or_else(|| run.filter(|path| !path.is_empty()).find_map(known));
            now.extend(simple.writes.iter().map(|path| places::normal(path)));
        }
        let (path, evidence) = found?;
        self.finding(RuleName::WrittenThenRun, &path, evidence)
    }

    fn edited_after_failure(&self, proposed: &Proposed) -> Option<Finding> {
        let failed = self.state.failing?;
        let path = proposed.written_paths().into_iter().find(|path| is_test(path) || is_ci(path))?;
        self.finding(RuleName::TestsEditedAfterFailure, &path, vec![failed])
    }

    fn configuration(&self, proposed: &Proposed) -> Option<Finding> {
        let path = proposed.written_paths().into_iter().find(|path| is_verifier_configuration(path))?;
        self.finding(RuleName::VerifierConfigurationTouched, &path, Vec::new())
    }

    fn literal(&self, proposed: &Proposed) -> Option<Finding> {
        let source = proposed.path.as_deref().is_some_and(|path| proposed.writes && !is_test(path));
        let (n, values) = self.state.expected.as_ref().filter(|_| source)?;
        let value = literals::copied(&proposed.text, values)?;
        self.finding(RuleName::ExpectedLiteralCopied, &value, vec![*n])
    }

    fn again(&self, call: &Call) -> Option<Finding> {
        let (_, _, records) =
            self.state.results.iter().find(|(seen, _, records)| seen == call && records.len() >= EQUAL_RESULTS_MAX)?;
        self.finding(RuleName::SameCallThirdTime, &format!("{call:?}"), records.clone())
    }

    fn unrelated(&self, proposed: &Proposed) -> Option<Finding> {
        let path = proposed.path.as_deref().filter(|path| !proposed.writes && sensitivity(path).is_none())?;
        let directory = state::directory(path);
        let new = !self.state.read_directories.contains(directory) && !self.state.related.contains(directory);
        if !new || self.state.read_directories.len() < UNRELATED_DIRECTORIES_MAX {
            return None;
        }
        self.finding(RuleName::UnrelatedReading, directory, Vec::new())
    }
}

/// A finding in an old session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// The record at which it was seen.
    pub record: u64,
    /// What was seen.
    pub finding: Finding,
}

/// Watches an old session again, from its log and with these rules. Records that are neither verdicts nor the
/// session's own are passed over.
pub fn replay<'a>(rules: Rules, records: impl IntoIterator<Item = &'a audit::Record>) -> Vec<Flag> {
    let mut monitor = Monitor::new(rules);
    let mut flags = Vec::new();
    for record in records {
        let verdict = || {
            let call: Call = serde_json::from_value(record.body["call"].clone()).ok()?;
            let judgement: Judgement = serde_json::from_value(record.body["judgement"].clone()).ok()?;
            Some((call, judgement))
        };
        let found = if record.kind == "verdict" {
            let Some((call, judgement)) = verdict() else { continue };
            let found = monitor.before(&call);
            monitor.observe(record.n, Event::Judged(&call, &judgement));
            found
        } else {
            let Ok(happened) = serde_json::from_value::<Record>(record.body.clone()) else { continue };
            monitor.observe(record.n, Event::Recorded(&happened))
        };
        flags.extend(found.into_iter().map(|finding| Flag { record: record.n, finding }));
    }
    flags
}

/// Whether a judgement lets the call run.
fn runs(judgement: &Judgement) -> bool {
    judgement.verdict == Verdict::Allow
}

#[cfg(test)]
mod injection_tests;
#[cfg(test)]
mod tests;
