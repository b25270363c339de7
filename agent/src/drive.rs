//! Who does it? The loop: asks the session what comes next, does it, and tells it what happened.
//!
//! Nothing runs before its verdict is in the log, and the log is on the disk before anything runs.

use crate::action::Call;
use crate::ask::Asking;
use crate::audit::{self, AppendError, Durability, Log};
use crate::budget::Budget;
use crate::code::Code;
use crate::gate::{Grants, Judgement, Mode, Policy};
use crate::hooks::{Hooks, Told};
use crate::model::{Flow, Model, ModelError, Request};
use crate::monitor::{self, Monitor};
use crate::plan::Plan;
use crate::session::{Ending, Record, Restore, Session, Step};
use crate::subagent::Agents;
use crate::tests_run::TestRun;
use crate::tools;
use crate::verify::{Authorship, REVIEW_SECONDS_MAX, Report, Review, Trial, second_review, verify};
use crate::workspace::{Change, Workspace, WorkspaceError};
use accounts::Accounts;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod accounts;
mod delegate;
mod judge;
mod occasions;

const NAMED_MAX: usize = 4;
/// Of the project's notes, in bytes.
const MEMORY_BYTES_MAX: usize = 4_000;
/// Paths of the repository that a session begins with.
const FILES_MAX: usize = 1_000;

/// What a person may watch.
#[derive(Debug)]
pub enum Event<'a> {
    /// The reply so far; nothing while the model reads.
    Speaking(&'a str),
    /// An action was judged.
    Judged {
        /// The sub-agent that proposed it, if it was one.
        agent_id: Option<&'a str>,
        /// The action.
        call: &'a Call,
        /// What was said.
        judgement: &'a Judgement,
    },
    /// Something happened and is in the log.
    Recorded(&'a Record),
}

/// Everything the loop works with.
pub struct Loop<'a> {
    /// Says what to do.
    pub model: &'a mut dyn Model,
    /// Where it is done.
    pub workspace: &'a mut dyn Workspace,
    /// Finds code.
    pub code: &'a dyn Code,
    /// Judges.
    pub policy: &'a Policy,
    /// How much is asked of a person.
    pub mode: Mode,
    /// Who is asked.
    pub asking: Asking<'a>,
    /// What a person has allowed: it begins empty, whatever an earlier session was allowed, and ends with the loop.
    pub grants: Grants,
    /// Whether there are sub-agents.
    pub agents: Agents,
    /// Have a say.
    pub hooks: &'a Hooks,
    /// Remembers.
    pub log: &'a mut Log,
    /// Watches the sequence of what is done.
    pub monitor: Monitor,
    /// How much may be spent.
    pub budget: Budget,
    /// How the work is proven.
    pub plan: Option<Plan>,
    /// Who is asked last.
    pub review: Review<'a>,
    /// Set by Ctrl-C.
    pub cancel: &'a AtomicBool,
    /// Watches.
    pub on_event: &'a mut dyn FnMut(Event<'_>),
}

/// How it went.
#[derive(Debug)]
pub struct Finished {
    /// The ending by its name.
    pub ending: Ending,
    /// What the verifier saw last, if it was asked.
    pub report: Option<Report>,
    /// The changes that it verified.
    pub changes: Vec<Change>,
}

/// Why the loop had to stop without an ending of its own: the log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit log cannot be written, so nothing more may run: {0}")]
pub struct LogLost(pub String);

impl From<AppendError> for LogLost {
    fn from(error: AppendError) -> Self {
        Self(error.to_string())
    }
}

/// Why a step has no record of its own.
#[derive(Debug)]
pub enum Halt {
    /// The session ends.
    Ended(Ending),
    /// Nothing more may run.
    Log(LogLost),
}

impl Halt {
    /// The ending, unless the log is lost.
    pub(crate) fn ending(self) -> Result<Ending, LogLost> {
        match self {
            Self::Ended(ending) => Ok(ending),
            Self::Log(lost) => Err(lost),
        }
    }
}

impl From<WorkspaceError> for Halt {
    fn from(error: WorkspaceError) -> Self {
        Self::Ended(match error {
            WorkspaceError::Cancelled => Ending::Cancelled,
            error => Ending::Failed { why: error.to_string() },
        })
    }
}

impl From<LogLost> for Halt {
    fn from(lost: LogLost) -> Self {
        Self::Log(lost)
    }
}

impl From<AppendError> for Halt {
    fn from(error: AppendError) -> Self {
        Self::Log(error.into())
    }
}

impl Loop<'_> {
    /// Runs the session to its end.
    ///
    /// # Errors
    /// Only when the log cannot be written: without a record nothing may run.
    pub fn run(&mut self, session: &mut Session) -> Result<Finished, LogLost> {
        self.go(session, &mut Accounts::default())
    }

    fn go(&mut self, session: &mut Session, accounts: &mut Accounts) -> Result<Finished, LogLost> {
        let start = Instant::now();
        let mut proof: (Option<Report>, Vec<Change>) = (None, Vec::new());
        loop {
            let step = session.step();
            if let Step::End(ending) = step {
                if self.sent_on(session, &ending)? {
                    continue;
                }
                self.part(&ending)?;
                let (report, changes) = proof;
                return Ok(Finished { ending, report, changes });
            }
            accounts.spent.seconds = start.elapsed().as_secs();
            let writes = accounts::may_write(&step);
            let done = if self.cancel.load(Ordering::Relaxed) {
                Err(Halt::Ended(Ending::Cancelled))
            } else if let Some(exhausted) = self.budget.check(&accounts.spent) {
                Err(Halt::Ended(Ending::BudgetExhausted { which: exhausted.to_string() }))
            } else {
                self.announce(&step)?;
                match step {
                    Step::Ask(request) => {
                        let deadline = start + Duration::from_secs(self.budget.seconds_max);
                        self.ask(session, &request, deadline)
                    }
                    Step::Act(call) => self.act(session, call, accounts),
                    Step::Test => self.test(),
                    Step::Restore(files) => self.restore(&files).map_err(Halt::from),
                    Step::Verify => self.prove(session, &mut proof, accounts.spent.seconds),
                    Step::End(_) => unreachable!("handled above"),
                }
            };
            let record = settled(done)?;
            accounts.spend(&record);
            if writes {
                self.wrote(&mut accounts.held)?;
            }
            self.record(session, &record)?;
        }
    }

    /// Looks at the repository before the first word: its files, its notes, its tests on the base.
    pub fn open(&mut self, session: &mut Session, task: &str) -> Result<(), LogLost> {
        self.announce(&Step::Test)?;
        let opened = self.greet("startup", Some(task)).and_then(|told| Ok((self.opening(task)?, told)));
        let (record, told) = match opened {
            Ok(opened) => opened,
            Err(halt) => (Record::Stopped { ending: halt.ending()? }, Vec::new()),
        };
        self.record(session, &record)?;
        self.tell(session, told)
    }

    /// Goes on from the records of an earlier session: its conversation and its files, none of its permissions.
    pub fn resume(&mut self, session: &mut Session, earlier: &[Record]) -> Result<(), LogLost> {
        for record in earlier {
            self.record(session, record)?;
        }
        let files = session.files().iter().map(|(path, text)| (path.clone(), Some(text.clone()))).collect();
        let greeted = self.restore(&files).map_err(Halt::from).and_then(|_| self.greet("resume", None));
        let record = match greeted {
            Ok(told) => {
                self.tell(session, told)?;
                Record::Resumed
            }
            Err(halt) => Record::Stopped { ending: halt.ending()? },
        };
        self.record(session, &record)
    }

    fn tell(&mut self, session: &mut Session, told: Vec<Told>) -> Result<(), LogLost> {
        told.into_iter().try_for_each(|Told { by, text }| self.record(session, &Record::Told { by, text }))
    }

    /// Logs one record and folds it into the session.
    pub fn record(&mut self, session: &mut Session, record: &Record) -> Result<(), LogLost> {
        let mut body = serde_json::to_value(record).map_err(|error| LogLost(error.to_string()))?;
        if matches!(record, Record::Replied { .. }) {
            // What it was asked is what was said so far.
            body["prompt_sha256"] = audit::sha256_of(&session.messages()).into();
        }
        let kind = body["record"].as_str().unwrap_or("record").to_owned();
        let theirs =
            self.agents.id().map(|id| Record::Child { agent_id: id.into(), happened: Box::new(record.clone()) });
        if theirs.is_some() {
            // Whoever reads the log must not take a child's records for its parent's.
            body = serde_json::json!({ "record": "child", "happened": body });
        }
        let n = self.note(&kind, body, Durability::Buffered)?;
        session.apply(record);
        let record = theirs.as_ref().unwrap_or(record);
        (self.on_event)(Event::Recorded(record));
        let seen = self.monitor.observe(n, monitor::Event::Recorded(record));
        self.flag(&seen)
    }

    fn opening(&mut self, task: &str) -> Result<Record, WorkspaceError> {
        let files = self.workspace.walk()?;
        let memory = self.memory();
        let tests = match &self.plan {
            None => None,
            Some(plan) => Some(TestRun::read(&plan.argv, &self.workspace.run(&plan.command(), self.cancel)?)),
        };
        let called = tests.as_ref().filter(|run| !run.passed).map(|run| self.called(&run.output)).unwrap_or_default();
        let word = |file: &String| {
            task.split(|c: char| c.is_whitespace() || "`'\",;:()".contains(c))
                .any(|word| word.trim_end_matches('.') == file)
        };
        let named = files.iter().filter(|file| !self.is_test(file) && word(file)).take(NAMED_MAX).cloned().collect();
        let files = files.into_iter().take(FILES_MAX).collect();
        let task = crate::text::redact_secrets(task).0;
        Ok(Record::Opened { task, files, memory, tests, called, named })
    }

    /// The project's notes, where it has some.
    fn memory(&self) -> Option<String> {
        let memory = self.workspace.read("AGENTS.md").ok();
        memory.map(|bytes| crate::text::shown(&bytes, MEMORY_BYTES_MAX).text)
    }

    /// The functions of the repository that a failure calls: a trace is read before anything is searched.
    fn called(&self, output: &str) -> Vec<String> {
        let own = |name: &&str| self.code.defined(name).iter().any(|(path, _)| !self.is_test(path));
        tools::called(output).into_iter().filter(own).take(NAMED_MAX).map(str::to_owned).collect()
    }

    fn is_test(&self, path: &str) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.protects(path))
    }

    /// Lets the model speak until its action is whole or the session's time is up. A conversation that it cannot read
    /// whole is shortened first.
    fn ask(&mut self, session: &Session, request: &Request, deadline: Instant) -> Result<Record, Halt> {
        let on_event = &mut self.on_event;
        let mut on_text = |text: &str| {
            on_event(Event::Speaking(text));
            let enough = crate::action::is_whole(text) || Instant::now() >= deadline;
            if enough { Flow::Enough } else { Flow::More }
        };
        on_text("");
        match self.model.complete(request, &mut on_text, self.cancel) {
            Ok(reply) => Ok(Record::Replied { text: reply.text, usage: reply.usage }),
            Err(ModelError::ContextFull { .. }) if session.can_compact() => self.compact(),
            Err(ModelError::Cancelled) => Err(Halt::Ended(Ending::Cancelled)),
            Err(error) => Err(Halt::Ended(Ending::Failed { why: error.to_string() })),
        }
    }

    fn test(&mut self) -> Result<Record, Halt> {
        let Some(plan) = &self.plan else {
            let why = "no test command is known for this repository".into();
            return Ok(Record::Refused { why, denied: false });
        };
        let ran = self.workspace.run(&plan.command(), self.cancel)?;
        Ok(Record::Tested { run: TestRun::read(&plan.argv, &ran) })
    }

    /// Puts files back in the box.
    pub fn restore(&mut self, files: &Restore) -> Result<Record, WorkspaceError> {
        for (path, text) in files {
            match text {
                Some(text) => self.workspace.write(path, text.as_bytes())?,
                None => self.workspace.revert(path)?,
            }
        }
        Ok(Record::Restored)
    }

    fn prove(
        &mut self,
        session: &Session,
        proof: &mut (Option<Report>, Vec<Change>),
        seconds: u64,
    ) -> Result<Record, Halt> {
        let (mut report, changes) = verify(&Trial {
            workspace: self.workspace,
            code: self.code,
            policy: self.policy,
            plan: self.plan.as_ref(),
            base: session.base_tests(),
            untested_claim: session.untested_claim(),
            cancel: self.cancel,
        })?;
        if report.passed() {
            let reviewer: Option<(&mut dyn Model, Authorship)> = match &mut self.review {
                Review::Nobody => None,
                Review::Author => Some((&mut *self.model, Authorship::Own)),
                Review::By(model) if model.name() == self.model.name() => Some((&mut **model, Authorship::SameName)),
                Review::By(model) => Some((&mut **model, Authorship::Other)),
            };
            if let Some(reviewer) = reviewer {
                let left = self.budget.seconds_max.saturating_sub(seconds).min(REVIEW_SECONDS_MAX);
                second_review(&mut report, session.task(), reviewer, Duration::from_secs(left), self.cancel)?;
            }
        }
        *proof = (Some(report.clone()), changes);
        Ok(Record::Verified { report })
    }
}

/// A step that has no record of its own ends the session.
fn settled(done: Result<Record, Halt>) -> Result<Record, LogLost> {
    done.or_else(|halt| Ok(Record::Stopped { ending: halt.ending()? }))
}

#[cfg(test)]
mod tests;
