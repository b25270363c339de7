//! What comes next? The session: a state machine without I/O that folds what happened and says what to do.
//!
//! Every change of state is a [`Record`]; the log is the list of them, so replaying a log rebuilds the session.
//! The history only grows, except that a failed attempt is rolled back to the point before it, because a failure
//! left in the context is repeated. Both keep the prompt a prefix of what the model has already computed.

use crate::action::{self, Call};
use crate::ask::Question;
use crate::model::{Message, Request, Role, Sampling, Usage};
use crate::profile::Profile;
use crate::subagent::AgentType;
use crate::tests_run::TestRun;
use crate::verify::Report;
use approach::{Approach, Draw, Suspects};

mod approach;
mod child;
mod compact;
mod ending;
mod parked;
mod record;
mod words;

pub use approach::statements;
pub use ending::Ending;
use parked::Parked;
pub use record::{Files, Record, Restore, Step};

/// Rejections by a second model after which the model may try again.
const REJECTIONS_TOLD_MAX: usize = 1;

#[derive(Debug, Clone)]
enum Next {
    Ask,
    Act(Call),
    Test,
    Restore,
    Verify,
    End(Ending),
}

/// An edit that did not help.
#[derive(Debug, Clone)]
struct Attempt {
    change: String,
    run: TestRun,
}

/// The state of one session.
pub struct Session {
    profile: Profile,
    messages: Vec<Message>,
    next: Next,
    tests: Option<TestRun>,
    files: Files,
    kept: Files,
    /// Length of the history before the reply that began the attempt.
    checkpoint: usize,
    attempts: Vec<Attempt>,
    /// An edit that waits for its tests: what the model is told of it, and the statements of the file as it is now.
    trial: Option<(String, Vec<String>)>,
    failed_least: Option<usize>,
    explored: usize,
    /// Edits in a row that led to nothing: refused, or taken back after their tests.
    tries: usize,
    /// Replies in a row without an action that could be carried out.
    unusable: usize,
    seen: Vec<Call>,
    /// States of the files whose tests are known to fail.
    failed: Vec<Files>,
    recent: Vec<String>,
    suspects: Suspects,
    costs: Vec<Usage>,
    /// How often a hook did not let it end.
    sent_on: usize,
    parked: Option<Parked>,
    consent: Option<Question>,
    /// What the model said when it was done.
    summary: Option<String>,
    /// No test ran since the last change, or none at all.
    untested: bool,
    /// The sub-agent that this is.
    child: Option<AgentType>,
    /// Sub-agents that were started.
    children: usize,
    /// What it is to do, as the person said it.
    task: String,
    /// How often a second model said no.
    rejections: usize,
}

impl Session {
    /// A session that has not been opened yet.
    pub fn new(profile: Profile) -> Self {
        let system = Message::new(Role::System, profile.system.clone());
        Self {
            profile,
            messages: vec![system],
            next: Next::Ask,
            tests: None,
            files: Files::new(),
            kept: Files::new(),
            checkpoint: 0,
            attempts: Vec::new(),
            trial: None,
            failed_least: None,
            explored: 0,
            tries: 0,
            unusable: 0,
            seen: Vec::new(),
            failed: Vec::new(),
            recent: Vec::new(),
            suspects: Suspects::default(),
            costs: Vec::new(),
            sent_on: 0,
            parked: None,
            consent: None,
            summary: None,
            untested: true,
            child: None,
            children: 0,
            task: String::new(),
            rejections: 0,
        }
    }

    /// What comes next; asking twice gives the same answer.
    pub fn step(&self) -> Step {
        match &self.next {
            Next::Ask => {
                let approach = self.approach();
                Step::Ask(Request {
                    messages: self.messages.clone(),
                    sampling: match approach.draw {
                        Draw::Attempt(at) => self.profile.sampling(at),
                        Draw::Greedy => Sampling::GREEDY,
                        Draw::Line(seed) => self.profile.line_sampling(seed),
                    },
                    tokens_max: self.profile.reply_tokens_max,
                    prefix: approach.prefix,
                })
            }
            Next::Act(call) => Step::Act(call.clone()),
            Next::Test => Step::Test,
            Next::Restore => Step::Restore(self.restored()),
            Next::Verify => Step::Verify,
            Next::End(ending) => Step::End(ending.clone()),
        }
    }

    /// Folds one record into the state.
    pub fn apply(&mut self, record: &Record) {
        self.forget(record);
        match record {
            Record::Opened { task, files, memory, tests, called, named } => {
                self.failed_least = tests.as_ref().and_then(|run| run.failed);
                self.tests = tests.clone();
                self.task.clone_from(task);
                self.say(match self.child {
                    Some(kind) => words::delegated(kind, task, files, memory.as_deref()),
                    None => {
                        words::opening(task, files, memory.as_deref(), tests.as_ref()) + &words::begin(called, named)
                    }
                });
                self.next = Next::Ask;
            }
            Record::Replied { text, usage } => self.replied(text, *usage),
            Record::Refused { why, denied: false } => self.refused(why),
            Record::Refused { why, denied: true } => self.denied(why),
            Record::Observed { text, writes, shown, functions, lines } => {
                if writes.is_empty() {
                    self.suspects.saw(functions, lines);
                }
                self.observed(text, writes, shown, lines);
            }
            Record::Tested { run } => self.tested(run),
            Record::Restored => self.retry(),
            Record::Verified { report } => self.verified(report),
            Record::Told { by, text } => self.told(&words::told(by, text)),
            Record::SentOn { by, why } => self.go_on(by, why),
            Record::Compacted => self.compacted(),
            Record::Answered { question, answer } => self.answered(question, *answer),
            // Another conversation.
            Record::Child { .. } => {}
            Record::Returned { costs, .. } => self.returned(costs),
            Record::Resumed => self.resumed(),
            Record::Stopped { ending } => self.stopped(ending),
        }
    }

    /// What every call of the model cost, in order.
    pub fn costs(&self) -> &[Usage] {
        &self.costs
    }

    /// Attempts that failed so far.
    pub fn attempts(&self) -> usize {
        self.attempts.len()
    }

    /// What the tests said before any change.
    pub fn base_tests(&self) -> Option<&TestRun> {
        self.tests.as_ref()
    }

    /// The task.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// What the model said when it was done, if no test ran after its last change.
    pub fn untested_claim(&self) -> Option<&str> {
        self.summary.as_deref().filter(|_| self.untested)
    }

    /// The files that the session has written, as they are now.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The conversation.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Files whose text the model has seen, newest first: only these may be edited.
    pub fn recent(&self) -> &[String] {
        &self.recent
    }

    fn approach(&self) -> Approach {
        if self.child.is_some() {
            return self.unled();
        }
        let tries = self.tries + self.unusable;
        if self.explored < self.profile.explore_actions_max {
            return Approach { prefix: String::new(), draw: Draw::Attempt(tries) };
        }
        self.suspects.approach(tries, &self.recent)
    }

    fn say(&mut self, text: String) {
        self.messages.push(Message::new(Role::User, text));
    }

    fn replied(&mut self, text: &str, usage: Usage) {
        self.costs.push(usage);
        let may_write = matches!(action::parse(text), Ok(call) if call.may_write());
        if may_write && self.tries == 0 {
            self.checkpoint = self.messages.len();
        }
        self.messages.push(Message::new(Role::Assistant, text.trim_end()));
        match action::parse(text) {
            Ok(call) => self.next = Next::Act(call),
            Err(error) => {
                // It wants to edit and did not write the code: then it has looked enough.
                if matches!(&error, action::Unreadable::MissingArgument { key: "code", .. }) {
                    self.explored = self.profile.explore_actions_max;
                }
                self.refused(&error.to_string());
            }
        }
    }

    fn refused(&mut self, why: &str) {
        // Who tried to edit has looked enough; unless it is a file that was never seen.
        if matches!(&self.next, Next::Act(call) if call.edits()) && !self.recent.is_empty() {
            self.explored = self.profile.explore_actions_max;
            self.tries += 1;
            if self.tries >= self.profile.attempts_max {
                self.next = Next::End(Ending::GaveUp { attempts: self.tries });
                return;
            }
            self.take_back(why);
        } else {
            self.denied(why);
        }
    }

    /// What is not allowed, or no action at all, is not an attempt: it does not get better by being repeated.
    fn denied(&mut self, why: &str) {
        self.unusable += 1;
        self.take_back(why);
    }

    /// A reply that led to nothing is taken back; only the complaint stays.
    fn take_back(&mut self, why: &str) {
        if self.unusable > self.profile.unusable_replies_max {
            self.next = Next::End(Ending::Stuck { why: why.to_owned() });
            return;
        }
        if self.messages.last().is_some_and(|last| last.role == Role::Assistant) {
            self.messages.pop();
        }
        self.next = Next::Ask;
        if self.checkpoint > 0 && Suspects::closing_in(self.tries) {
            self.messages.truncate(self.checkpoint);
            return;
        }
        let again = words::refusal(why, self.tests.as_ref());
        match self.messages.last_mut().filter(|last| words::is_refusal(&last.content)) {
            Some(last) => last.content = again,
            None => self.say(again),
        }
    }

    fn observed(&mut self, text: &str, writes: &Files, shown: &[String], lines: &[String]) {
        let Next::Act(call) = self.next.clone() else { return };
        for path in shown {
            self.recent.retain(|seen| seen != path);
            self.recent.insert(0, path.clone());
        }
        match &call {
            Call::Finish { summary } => {
                self.summary = Some(summary.clone());
                self.next = if self.child.is_some() { Next::End(Ending::Unverified) } else { Next::Verify };
                return;
            }
            Call::ReportImpossible { why } => {
                self.next = Next::End(Ending::Impossible { why: why.clone() });
                return;
            }
            Call::RunCommand { command } if command.contains("test") => self.untested = false,
            _ => {}
        }
        let looks = !matches!(call, Call::RunTests | Call::RunCommand { .. } | Call::Task { .. }) && writes.is_empty();
        let enough = self.child.is_none() && self.explored >= self.profile.explore_actions_max;
        if looks && enough && shown.is_empty() {
            self.refused(words::ENOUGH);
            return;
        }
        // The same look at the same files shows the same: left in the context it would be taken for a pattern.
        if looks && self.seen.contains(&call) {
            self.explored = self.profile.explore_actions_max;
            self.refused(if self.child.is_some() { words::REPEATED_BY_CHILD } else { words::REPEATED });
            return;
        }
        self.seen.push(call.clone());
        self.unusable = 0;
        if matches!(call, Call::RunTests) {
            self.next = Next::Test;
            return;
        }
        if writes.is_empty() {
            self.explored += 1;
            let nudge = match self.child {
                Some(_) => words::ANSWER,
                None => words::nudge(self.explored, self.profile.explore_actions_max),
            };
            self.say(format!("{text}{nudge}"));
            self.next = Next::Ask;
            return;
        }
        self.explored = 0;
        self.untested = true;
        self.files.extend(writes.clone());
        // The same change again would fail again.
        if self.failed.contains(&self.files) {
            self.tries += 1;
            self.next = Next::Restore;
            return;
        }
        self.trial = Some((text.to_owned(), lines.to_vec()));
        if self.tests.is_some() {
            self.next = Next::Test;
        } else if self.child.is_some() {
            self.trial = None;
            self.keep(format!("{text}\nCheck your change, then use finish and say what you did."));
        } else {
            self.trial = None;
            self.keep(format!("{text}\nNo tests are known in this repository. Check your change, then use finish."));
        }
    }

    fn tested(&mut self, run: &TestRun) {
        self.untested = false;
        let Some((change, lines)) = self.trial.take() else {
            self.say(words::tests(run, "The tests ran"));
            let done = run.passed && !self.files.is_empty() && self.child.is_none();
            self.next = if done { Next::Verify } else { Next::Ask };
            return;
        };
        let was_red = self.tests.as_ref().is_some_and(|base| !base.passed);
        if run.passed && was_red {
            self.say(format!("{change}\n{}", words::tests(run, "The tests ran")));
            self.next = Next::Verify;
            return;
        }
        let better = match (run.failed, self.failed_least) {
            (Some(now), Some(least)) => now < least,
            // Before, the tests did not even end: now some of them must pass, for a program that ends is not yet right.
            (Some(now), None) => self.tests.as_ref().is_some_and(|base| base.ran.is_none()) && run.ran > Some(now),
            _ => false,
        };
        if better || run.passed {
            self.failed_least = run.failed.or(self.failed_least);
            self.suspects.changed(lines);
            self.keep(format!("{change}\n{}", words::tests(run, "The edit is kept")));
        } else {
            self.attempts.push(Attempt { change, run: run.clone() });
            self.failed.push(self.files.clone());
            self.tries += 1;
            self.next = Next::Restore;
        }
    }

    /// The files are worth keeping: a later failure goes back to here.
    fn keep(&mut self, text: String) {
        self.say(text);
        self.kept = self.files.clone();
        self.attempts.clear();
        self.tries = 0;
        self.next = Next::Ask;
    }

    /// What has to be written to get back to the last state worth keeping; `None` means: as in the base.
    fn restored(&self) -> Restore {
        self.files.keys().map(|path| (path.clone(), self.kept.get(path).cloned())).collect()
    }

    fn retry(&mut self) {
        self.files = self.kept.clone();
        self.explored = self.profile.explore_actions_max.saturating_sub(self.profile.retry_looks_max);
        if self.tries >= self.profile.attempts_max {
            self.next = Next::End(Ending::GaveUp { attempts: self.tries });
            return;
        }
        self.messages.truncate(self.checkpoint);
        self.unusable = 0;
        self.next = Next::Ask;
        // Every other attempt starts from the same words as the first: what failed anchors a small model, and nothing
        // has to be computed for it.
        if self.tries.is_multiple_of(2) || Suspects::closing_in(self.tries) {
            return;
        }
        let from = self.attempts.len().saturating_sub(self.profile.attempts_shown_max);
        let shown: Vec<(&str, &TestRun)> = self.attempts[from..].iter().map(|a| (a.change.as_str(), &a.run)).collect();
        self.say(words::retry(&shown, self.tests.as_ref()));
    }

    fn verified(&mut self, report: &Report) {
        self.costs.extend(report.opinion.as_ref().map(|opinion| opinion.usage));
        self.rejections += usize::from(report.rejected().is_some());
        if let Some(opinion) = report.rejected().filter(|_| self.rejections > REJECTIONS_TOLD_MAX) {
            // A model that is argued with long enough lets anything pass.
            let (by, why) = (opinion.by.clone(), opinion.reasons.join("; "));
            self.next = Next::End(Ending::Rejected { by, why });
        } else if report.passed() {
            self.next = Next::End(if report.proven() { Ending::Verified } else { Ending::Unverified });
        } else {
            self.refused(&report.complaint());
        }
    }
}
