//! What comes next? The session: a state machine without I/O that folds what happened and says what to do.
//!
//! Every change of state is a [`Record`]; the log is the list of them, so replaying a log rebuilds the session.
//! The history only grows, except that a failed attempt is rolled back to the point before it, because a failure
//! left in the context is repeated. Both keep the prompt a prefix of what the model has already computed.

use crate::action::{self, Call};
use crate::model::{Message, Request, Role, Usage};
use crate::profile::Profile;
use crate::tests_run::TestRun;
use crate::verify::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod words;

/// Tries for which the model itself says where the bug is.
const FREE_TRIES: usize = 4;

/// Files as the session left them: path to text.
pub type Files = BTreeMap<String, String>;

/// Files to put back: path to text, `None` for the text of the base.
pub type Restore = BTreeMap<String, Option<String>>;

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Ending {
    /// The verifier ran the project's own tests on the change in a fresh box, and they passed.
    Verified,
    /// The model says it is done, and there is nothing to prove it with.
    Unverified,
    /// The model says that it cannot be done: an honest end, and nothing is applied.
    Impossible {
        /// Its reason.
        why: String,
    },
    /// Every attempt failed.
    GaveUp {
        /// How many there were.
        attempts: usize,
    },
    /// Replies without a usable action.
    Stuck {
        /// The last complaint.
        why: String,
    },
    /// A limit of the budget.
    BudgetExhausted {
        /// Which one.
        which: String,
    },
    /// Ctrl-C.
    Cancelled,
    /// The model, the server or the box failed.
    Failed {
        /// What failed, and what to do.
        why: String,
    },
}

impl Ending {
    /// The name in the log, the event stream and the closing line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unverified => "unverified",
            Self::Impossible { .. } => "impossible",
            Self::GaveUp { .. } => "gave_up",
            Self::Stuck { .. } => "stuck",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The task and what is known before the first word.
    Opened {
        /// What the person asked for.
        task: String,
        /// Paths of the repository, sorted, bounded.
        files: Vec<String>,
        /// AGENTS.md, where there is one.
        memory: Option<String>,
        /// The tests on the base.
        tests: Option<TestRun>,
        /// Functions of the repository that the failure calls.
        called: Vec<String>,
        /// Files of the repository that the task names.
        named: Vec<String>,
    },
    /// The model spoke.
    Replied {
        /// What it said.
        text: String,
        /// What it cost.
        usage: Usage,
    },
    /// The gate refused, or the reply held no action.
    Refused {
        /// For the model.
        why: String,
    },
    /// An action ran.
    Observed {
        /// What the model is told.
        text: String,
        /// Files that it wrote.
        writes: Files,
        /// Files whose text it showed.
        shown: Vec<String>,
        /// Functions whose text it showed: one of them may be wrong.
        functions: Vec<String>,
    },
    /// The tests ran.
    Tested {
        /// What they said.
        run: TestRun,
    },
    /// The files went back to the last state worth keeping.
    Restored,
    /// The verifier spoke.
    Verified {
        /// Rung by rung.
        report: Report,
    },
    /// A person resumed the session: it goes on with a new budget.
    Resumed,
    /// The session ended from outside: budget, Ctrl-C, a failure.
    Stopped {
        /// Why.
        ending: Ending,
    },
}

/// What to do next.
#[derive(Debug, Clone)]
pub enum Step {
    /// Ask the model.
    Ask(Request),
    /// Judge this action and, if it is cleared, do it.
    Act(Call),
    /// Run the tests on the files as they are.
    Test,
    /// Put these files back in the box.
    Restore(Restore),
    /// Let the verifier decide.
    Verify,
    /// Nothing: the session is over.
    End(Ending),
}

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
    /// The reply of an edit that waits for its tests.
    trial: Option<String>,
    failed_least: Option<usize>,
    explored: usize,
    unusable: usize,
    seen: Vec<Call>,
    recent: Vec<String>,
    suspects: Vec<String>,
    costs: Vec<Usage>,
    /// What the model said when it was done.
    summary: Option<String>,
    /// No test ran since the last change, or none at all.
    untested: bool,
}

impl Session {
    /// A session that has not been opened yet.
    pub fn new(profile: Profile) -> Self {
        let system = Message::new(Role::System, profile.system);
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
            unusable: 0,
            seen: Vec::new(),
            recent: Vec::new(),
            suspects: Vec::new(),
            costs: Vec::new(),
            summary: None,
            untested: true,
        }
    }

    /// What comes next; asking twice gives the same answer.
    pub fn step(&self) -> Step {
        match &self.next {
            Next::Ask => Step::Ask(Request {
                messages: self.messages.clone(),
                sampling: self.profile.sampling(self.attempts.len() + self.unusable),
                tokens_max: self.profile.reply_tokens_max,
                prefix: self.prefix(),
            }),
            Next::Act(call) => Step::Act(call.clone()),
            Next::Test => Step::Test,
            Next::Restore => Step::Restore(self.restored()),
            Next::Verify => Step::Verify,
            Next::End(ending) => Step::End(ending.clone()),
        }
    }

    /// Folds one record into the state.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Opened { task, files, memory, tests, called, named } => {
                self.failed_least = tests.as_ref().and_then(|run| run.failed);
                self.tests = tests.clone();
                self.say(words::opening(task, files, memory.as_deref(), tests.as_ref()) + &words::begin(called, named));
                self.next = Next::Ask;
            }
            Record::Replied { text, usage } => self.replied(text, *usage),
            Record::Refused { why } => self.refused(why),
            Record::Observed { text, writes, shown, functions } => {
                self.suspect(functions);
                self.observed(text, writes, shown);
            }
            Record::Tested { run } => self.tested(run),
            Record::Restored => self.retry(),
            Record::Verified { report } => self.verified(report),
            Record::Resumed => {
                self.unusable = 0;
                if matches!(self.next, Next::End(_)) {
                    self.next = Next::Ask;
                }
            }
            Record::Stopped { ending } => self.next = Next::End(ending.clone()),
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

    /// A small model that has looked at enough goes on looking, because its own last turns are its strongest example.
    /// So the next reply is begun for it, with a diagnosis; what it finds and what it writes stay its own.
    fn prefix(&self) -> String {
        if self.explored < self.profile.explore_actions_max {
            return String::new();
        }
        if self.recent.is_empty() {
            return words::READ_PREFIX.into();
        }
        // In turn: the code at once, as a small model does it best, and a diagnosis first. After some tries each
        // function that was seen is suspected in turn.
        let tries = self.attempts.len() + self.unusable;
        if tries.is_multiple_of(2) {
            return words::code_first(&self.recent);
        }
        match tries.checked_sub(FREE_TRIES).and_then(|turn| self.suspects.get(turn / 2 % self.suspects.len().max(1))) {
            Some(name) => format!("{} in `{name}`", words::DIAGNOSIS_PREFIX),
            None => words::DIAGNOSIS_PREFIX.into(),
        }
    }

    fn suspect(&mut self, functions: &[String]) {
        for name in functions {
            if !self.suspects.contains(name) {
                self.suspects.push(name.clone());
            }
        }
    }

    fn say(&mut self, text: String) {
        self.messages.push(Message::new(Role::User, text));
    }

    fn replied(&mut self, text: &str, usage: Usage) {
        self.costs.push(usage);
        let edits = matches!(action::parse(text), Ok(Call::EditFile { .. } | Call::WriteFile { .. }));
        if edits && self.trial.is_none() && self.attempts.is_empty() {
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

    /// A reply that led to nothing is taken back; only the complaint stays.
    fn refused(&mut self, why: &str) {
        self.unusable += 1;
        // Who tried to edit has looked enough; unless it is a file that was never seen.
        if matches!(self.next, Next::Act(Call::EditFile { .. })) && !self.recent.is_empty() {
            self.explored = self.profile.explore_actions_max;
        }
        if self.unusable > self.profile.unusable_replies_max {
            self.next = Next::End(Ending::Stuck { why: why.to_owned() });
            return;
        }
        if self.messages.last().is_some_and(|last| last.role == Role::Assistant) {
            self.messages.pop();
        }
        let again = words::refusal(why, self.tests.as_ref());
        match self.messages.last_mut().filter(|last| words::is_refusal(&last.content)) {
            Some(last) => last.content = again,
            None => self.say(again),
        }
        self.next = Next::Ask;
    }

    fn observed(&mut self, text: &str, writes: &Files, shown: &[String]) {
        let Next::Act(call) = self.next.clone() else { return };
        for path in shown {
            self.recent.retain(|seen| seen != path);
            self.recent.insert(0, path.clone());
        }
        match &call {
            Call::Finish { summary } => {
                self.summary = Some(summary.clone());
                self.next = Next::Verify;
                return;
            }
            Call::ReportImpossible { why } => {
                self.next = Next::End(Ending::Impossible { why: why.clone() });
                return;
            }
            Call::RunCommand { command } if command.contains("test") => self.untested = false,
            _ => {}
        }
        let looks = !matches!(call, Call::RunTests | Call::RunCommand { .. }) && writes.is_empty();
        if looks && shown.is_empty() && self.explored >= self.profile.explore_actions_max {
            self.refused(words::ENOUGH);
            return;
        }
        // The same look at the same files shows the same: left in the context it would be taken for a pattern.
        if looks && self.seen.contains(&call) {
            self.explored = self.profile.explore_actions_max;
            self.refused(words::REPEATED);
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
            let nudge = words::nudge(self.explored, self.profile.explore_actions_max);
            self.say(format!("{text}{nudge}"));
            self.next = Next::Ask;
            return;
        }
        self.explored = 0;
        self.untested = true;
        self.files.extend(writes.clone());
        self.trial = Some(text.to_owned());
        if self.tests.is_some() {
            self.next = Next::Test;
        } else {
            self.keep(format!("{text}\nNo tests are known in this repository. Check your change, then use finish."));
        }
    }

    fn tested(&mut self, run: &TestRun) {
        self.untested = false;
        let Some(change) = self.trial.take() else {
            self.say(words::tests(run, "The tests ran"));
            self.next = if run.passed && !self.files.is_empty() { Next::Verify } else { Next::Ask };
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
            // Before, the tests did not even end.
            (Some(_), None) => run.ran.is_some() && self.tests.as_ref().is_some_and(|base| base.ran.is_none()),
            _ => false,
        };
        if better || run.passed {
            self.failed_least = run.failed.or(self.failed_least);
            self.keep(format!("{change}\n{}", words::tests(run, "The edit is kept")));
        } else {
            self.attempts.push(Attempt { change, run: run.clone() });
            self.next = Next::Restore;
        }
    }

    /// The files are worth keeping: a later failure goes back to here.
    fn keep(&mut self, text: String) {
        self.say(text);
        self.kept = self.files.clone();
        self.attempts.clear();
        self.next = Next::Ask;
    }

    /// What has to be written to get back to the last state worth keeping; `None` means: as in the base.
    fn restored(&self) -> Restore {
        self.files.keys().map(|path| (path.clone(), self.kept.get(path).cloned())).collect()
    }

    fn retry(&mut self) {
        self.files = self.kept.clone();
        self.explored = self.profile.explore_actions_max.saturating_sub(self.profile.retry_looks_max);
        if self.attempts.len() >= self.profile.attempts_max {
            self.next = Next::End(Ending::GaveUp { attempts: self.attempts.len() });
            return;
        }
        self.messages.truncate(self.checkpoint);
        self.unusable = 0;
        self.next = Next::Ask;
        // Every other attempt starts from the same words as the first: what failed anchors a small model, and nothing
        // has to be computed for it.
        if self.attempts.len().is_multiple_of(2) {
            return;
        }
        let from = self.attempts.len().saturating_sub(self.profile.attempts_shown_max);
        let shown: Vec<(&str, &TestRun)> = self.attempts[from..].iter().map(|a| (a.change.as_str(), &a.run)).collect();
        self.say(words::retry(&shown, self.tests.as_ref()));
    }

    fn verified(&mut self, report: &Report) {
        if report.passed() {
            self.next = Next::End(if report.proven() { Ending::Verified } else { Ending::Unverified });
        } else {
            self.refused(&report.complaint());
        }
    }
}
