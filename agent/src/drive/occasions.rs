//! When are hooks run, and what do their answers lead to outside of an action?

use super::{Halt, LogLost, Loop};
use crate::audit::Durability;
use crate::hooks::{Decision, Facts, Fold, Heard, Hook, Occasion, Told};
use crate::session::{Ending, Record, Session};
use crate::workspace::WorkspaceError;
use serde_json::json;
use std::sync::atomic::AtomicBool;

/// How often in a row a hook may send the model on that says it is done.
const SENT_ON_MAX: usize = 3;

impl Loop<'_> {
    /// Runs the hooks of this occasion, one after the other. That one runs is on the disk before, what it said is in the log after. `rewriters` are those
    /// that have rewritten this action already.
    ///
    /// # Errors
    /// When a hook ends the session, somebody cancels it, or the log is lost.
    pub fn fire(&mut self, occasion: &Occasion<'_>, rewriters: &[String]) -> Result<Fold, Halt> {
        let cancel = self.cancel;
        self.fire_until(occasion, rewriters, cancel)
    }

    fn fire_until(&mut self, occasion: &Occasion<'_>, rewriters: &[String], cancel: &AtomicBool) -> Result<Fold, Halt> {
        let hooks = self.hooks;
        let facts = Facts { mode: self.mode, agent: self.agents.facts(), ..hooks.facts.clone() };
        let mut fold = Fold::default();
        for hook in hooks.on(occasion) {
            self.note("job", hook.job(), Durability::Synced)?;
            let ran = self.workspace.run(&hook.command(occasion, &facts), cancel);
            if matches!(ran, Err(WorkspaceError::Cancelled)) {
                return Err(Halt::Ended(Ending::Cancelled));
            }
            let heard = hook.heard(occasion, ran);
            self.note("hook", told(hook, &heard), Durability::Buffered)?;
            if fold.add(hook, heard, !rewriters.contains(&hook.id)) {
                break;
            }
        }
        match fold.stopped.take() {
            Some(Told { by, text }) => {
                // From within a sub-agent too.
                self.agents.stopped = Some(Told { by: by.clone(), text: text.clone() });
                Err(Halt::Ended(Ending::Blocked { by, why: text }))
            }
            None => Ok(fold),
        }
    }

    /// What hooks say to a session that begins: texts for the model.
    pub(super) fn greet(&mut self, source: &str, task: Option<&str>) -> Result<Vec<Told>, Halt> {
        let model = self.model.name().to_owned();
        let mut told = Vec::new();
        let occasions = [
            Some(Occasion::SessionStart { source, model: &model }),
            task.map(|prompt| Occasion::UserPromptSubmit { prompt }),
        ];
        for occasion in occasions.iter().flatten() {
            let fold = self.fire(occasion, &[])?;
            if let Some(said) = fold.blocked() {
                return Err(Halt::Ended(Ending::Blocked { by: said.rule.clone(), why: said.reason.clone() }));
            }
            told.extend(fold.told);
        }
        Ok(told)
    }

    /// Asks the hooks whether the conversation may be shortened; where it may not, the session cannot go on.
    pub(super) fn compact(&mut self) -> Result<Record, Halt> {
        let fold = self.fire(&Occasion::PreCompact { trigger: "auto" }, &[])?;
        match fold.blocked() {
            Some(said) => Err(Halt::Ended(Ending::Blocked { by: said.rule.clone(), why: said.reason.clone() })),
            None => Ok(Record::Compacted),
        }
    }

    /// Asks the hooks whether a session that is done may end; true when it does not end like this.
    pub(super) fn sent_on(&mut self, session: &mut Session, ending: &Ending) -> Result<bool, LogLost> {
        if !matches!(ending, Ending::Verified | Ending::Unverified) {
            return Ok(false);
        }
        let last = session.last_reply().to_owned();
        let stop = Occasion::Stop { stop_hook_active: session.sent_on() > 0, last_assistant_message: &last };
        let record = match self.agents.id() {
            Some(_) => self.child_sent_on(session)?,
            None => self.stop_or_go(session, &stop)?,
        };
        match record {
            Some(record) => self.record(session, &record).map(|()| true),
            None => Ok(false),
        }
    }

    /// What the hooks of this occasion, a stop, lead to; nothing when they agree.
    pub(super) fn stop_or_go(&mut self, session: &Session, stop: &Occasion<'_>) -> Result<Option<Record>, LogLost> {
        Ok(match self.fire(stop, &[]) {
            Ok(fold) => fold.blocked().map(|said| {
                let (by, why) = (said.rule.clone(), said.reason.clone());
                // A hook that failed, or is never content: what it did not agree to is not done.
                if fold.failed || session.sent_on() >= SENT_ON_MAX {
                    Record::Stopped { ending: Ending::Blocked { by, why } }
                } else {
                    Record::SentOn { by, why }
                }
            }),
            Err(halt) => Some(Record::Stopped { ending: halt.ending()? }),
        })
    }

    /// Tells the hooks that the session is over. Nothing is left to be blocked, also not when it was cancelled.
    pub(super) fn part(&mut self, ending: &Ending) -> Result<(), LogLost> {
        if self.agents.id().is_some() {
            return Ok(());
        }
        match self.fire_until(&Occasion::SessionEnd { reason: ending.name() }, &[], &AtomicBool::new(false)) {
            Ok(_) => Ok(()),
            Err(halt) => halt.ending().map(drop),
        }
    }
}

/// For the log.
fn told(hook: &Hook, heard: &Heard) -> serde_json::Value {
    let decision = match heard.answer.decision {
        Decision::Nothing => "nothing",
        Decision::Ask => "ask",
        Decision::Block => "block",
    };
    let short = |text: &str| crate::text::quote(text, crate::hooks::TEXT_BYTES_MAX);
    json!({
        "hook": hook.id, "event": hook.event, "decision": decision, "reason": short(&heard.answer.reason),
        "failure": heard.failure.as_ref().map(|failure| short(&failure.to_string())),
        "rewritten": heard.answer.rewritten, "context": heard.answer.context.as_deref().map(short),
        "stop": heard.answer.stop.as_deref().map(short),
    })
}
