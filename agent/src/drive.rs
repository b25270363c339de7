//! Who does it? The loop: asks the session what comes next, does it, and tells it what happened.
//!
//! Nothing runs before its verdict is in the log, and the log is on the disk before anything runs.

use crate::action::Call;
use crate::audit::{Durability, Log};
use crate::budget::{Budget, Spent};
use crate::code::Code;
use crate::gate::{self, Context, Judgement, Policy};
use crate::model::{Flow, Model, ModelError, Request};
use crate::monitor::{self, Finding, Monitor};
use crate::plan::Plan;
use crate::session::{Ending, Record, Restore, Session, Step};
use crate::tests_run::TestRun;
use crate::tools::{self, Outcome, Tools};
use crate::verify::{Report, verify};
use crate::workspace::{Change, Workspace, WorkspaceError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const NAMED_MAX: usize = 4;

/// What a person may watch.
#[derive(Debug)]
pub enum Event<'a> {
    /// The reply so far.
    Speaking(&'a str),
    /// An action was judged.
    Judged(&'a Call, &'a Judgement),
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
    /// Remembers.
    pub log: &'a mut Log,
    /// Watches the sequence of what is done.
    pub monitor: Monitor,
    /// How much may be spent.
    pub budget: Budget,
    /// How the work is proven.
    pub plan: Option<Plan>,
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

impl Loop<'_> {
    /// Runs the session to its end.
    ///
    /// # Errors
    /// Only when the log cannot be written: without a record nothing may run.
    pub fn run(&mut self, session: &mut Session) -> Result<Finished, LogLost> {
        let start = Instant::now();
        let mut spent = Spent::default();
        let mut proof: (Option<Report>, Vec<Change>) = (None, Vec::new());
        loop {
            let step = session.step();
            if let Step::End(ending) = step {
                let (report, changes) = proof;
                return Ok(Finished { ending, report, changes });
            }
            spent.seconds = start.elapsed().as_secs();
            let record = if self.cancel.load(Ordering::Relaxed) {
                Ok(Record::Stopped { ending: Ending::Cancelled })
            } else if let Some(exhausted) = self.budget.check(&spent) {
                Ok(Record::Stopped { ending: Ending::BudgetExhausted { which: exhausted.to_string() } })
            } else {
                match step {
                    Step::Ask(request) => Ok(self.ask(&request)),
                    Step::Act(call) => self.act(session, call)?,
                    Step::Test => self.test(),
                    Step::Restore(files) => self.restore(&files),
                    Step::Verify => self.prove(session, &mut proof),
                    Step::End(_) => unreachable!("handled above"),
                }
            };
            let record = record.unwrap_or_else(|error| Record::Stopped { ending: ended_by(error) });
            spend(&mut spent, &record);
            self.record(session, &record)?;
        }
    }

    /// Looks at the repository before the first word: its files, its notes, its tests on the base.
    pub fn open(&mut self, session: &mut Session, task: &str) -> Result<(), LogLost> {
        let record = self.opening(task).unwrap_or_else(|error| Record::Stopped { ending: ended_by(error) });
        self.record(session, &record)
    }

    /// Logs one record and folds it into the session.
    pub fn record(&mut self, session: &mut Session, record: &Record) -> Result<(), LogLost> {
        let body = serde_json::to_value(record).map_err(|error| LogLost(error.to_string()))?;
        let kind = body["record"].as_str().unwrap_or("record").to_owned();
        let n = self.log.append(&kind, body, None, Durability::Buffered).map_err(|error| LogLost(error.to_string()))?;
        session.apply(record);
        (self.on_event)(Event::Recorded(record));
        let seen = self.monitor.observe(n, monitor::Event::Recorded(record));
        flag(self.log, &seen)
    }

    fn opening(&mut self, task: &str) -> Result<Record, WorkspaceError> {
        let files = self.workspace.walk()?;
        let memory = self.workspace.read("AGENTS.md").ok();
        let memory = memory.map(|bytes| crate::text::shown(&bytes, 4_000).text);
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
        let files = files.into_iter().take(1_000).collect();
        let task = crate::text::redact_secrets(task).0;
        Ok(Record::Opened { task, files, memory, tests, called, named })
    }

    /// The functions of the repository that a failure calls: a trace is read before anything is searched.
    fn called(&self, output: &str) -> Vec<String> {
        let own = |name: &&str| self.code.defined(name).iter().any(|(path, _)| !self.is_test(path));
        tools::called(output).into_iter().filter(own).take(NAMED_MAX).map(str::to_owned).collect()
    }

    fn is_test(&self, path: &str) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.protects(path))
    }

    fn ask(&mut self, request: &Request) -> Record {
        let on_event = &mut self.on_event;
        let mut on_text = |text: &str| {
            on_event(Event::Speaking(text));
            if crate::action::is_whole(text) { Flow::Enough } else { Flow::More }
        };
        match self.model.complete(request, &mut on_text, self.cancel) {
            Ok(reply) => Record::Replied { text: reply.text, usage: reply.usage },
            Err(ModelError::Cancelled) => Record::Stopped { ending: Ending::Cancelled },
            Err(error) => Record::Stopped { ending: Ending::Failed { why: error.to_string() } },
        }
    }

    fn act(&mut self, session: &Session, call: Call) -> Result<Result<Record, WorkspaceError>, LogLost> {
        let mut tools =
            Tools { workspace: self.workspace, code: self.code, recent: session.recent(), policy: self.policy };
        let call = match tools.resolve(call) {
            Ok(call) => call,
            Err(why) => return Ok(Ok(Record::Refused { why })),
        };
        let seen = self.monitor.before(&call);
        let said = monitor::said(&seen);
        flag(self.log, &seen)?;
        let cleared = gate::clear(self.policy, tools::action(&call), &Context { said: &said, ..Context::default() });
        let judgement = cleared.as_ref().map_or_else(|refused| &refused.judgement, |cleared| cleared.judgement());
        let verdict = serde_json::json!({ "call": call, "judgement": judgement });
        // On the disk before the effect, always.
        let n = self
            .log
            .append("verdict", verdict, None, Durability::Synced)
            .map_err(|error| LogLost(error.to_string()))?;
        self.monitor.observe(n, monitor::Event::Judged(&call, judgement));
        (self.on_event)(Event::Judged(&call, judgement));
        let cleared = match cleared {
            Ok(cleared) => cleared,
            Err(refused) => return Ok(Ok(Record::Refused { why: refused.judgement.message() })),
        };
        Ok(tools.execute(&cleared, &call, self.cancel).map(|outcome| match outcome {
            Outcome::Done { text, writes, shown, functions } => Record::Observed { text, writes, shown, functions },
            Outcome::Refused(why) => Record::Refused { why },
        }))
    }

    fn test(&mut self) -> Result<Record, WorkspaceError> {
        let Some(plan) = &self.plan else {
            return Ok(Record::Refused { why: "no test command is known for this repository".into() });
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
    ) -> Result<Record, WorkspaceError> {
        let base = session.base_tests();
        let (report, changes) = verify(self.workspace, self.code, self.policy, self.plan.as_ref(), base, self.cancel)?;
        *proof = (Some(report.clone()), changes);
        Ok(Record::Verified { report })
    }
}

/// Logs what the monitor saw.
fn flag(log: &mut Log, seen: &[Finding]) -> Result<(), LogLost> {
    for finding in seen {
        let body = serde_json::to_value(finding).map_err(|error| LogLost(error.to_string()))?;
        log.append("flag", body, None, Durability::Buffered).map_err(|error| LogLost(error.to_string()))?;
    }
    Ok(())
}

fn ended_by(error: WorkspaceError) -> Ending {
    match error {
        WorkspaceError::Cancelled => Ending::Cancelled,
        error => Ending::Failed { why: error.to_string() },
    }
}

fn spend(spent: &mut Spent, record: &Record) {
    match record {
        Record::Replied { usage, .. } => {
            spent.model_tokens += (usage.computed_tokens() + usage.generated_tokens) as u64
        }
        Record::Observed { text, .. } => {
            spent.calls += 1;
            spent.output_bytes += text.len() as u64;
        }
        Record::Tested { .. } | Record::Verified { .. } => spent.commands += 1,
        _ => {}
    }
}

#[cfg(test)]
mod tests;
