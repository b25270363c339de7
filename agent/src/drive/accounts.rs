//! What does the log say besides the records that the session folds? Jobs before they start, and what they really wrote.

use super::{LogLost, Loop};
use crate::audit::{Durability, Held};
use crate::budget::Spent;
use crate::monitor::Finding;
use crate::session::{Record, Step};

/// What a loop has spent, and what the box held when it last looked.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    pub spent: Spent,
    pub held: Held,
}

impl Accounts {
    /// Counts what one record cost.
    pub fn spend(&mut self, record: &Record) {
        match record {
            Record::Replied { usage, .. } => {
                self.spent.model_tokens += (usage.computed_tokens() + usage.generated_tokens) as u64
            }
            Record::Observed { text, .. } => {
                self.spent.calls += 1;
                self.spent.output_bytes += text.len() as u64;
            }
            Record::Tested { .. } => self.spent.commands += 1,
            Record::Verified { report } => {
                self.spent.commands += 1;
                let usage = report.opinion.as_ref().map(|opinion| opinion.usage).unwrap_or_default();
                self.spent.model_tokens += (usage.computed_tokens() + usage.generated_tokens) as u64;
            }
            _ => {}
        }
    }
}

impl Loop<'_> {
    /// Appends one record; returns its number. Those of a sub-agent name it.
    pub(super) fn note(
        &mut self,
        kind: &str,
        mut body: serde_json::Value,
        durability: Durability,
    ) -> Result<u64, LogLost> {
        if let (Some(id), Some(body)) = (self.agents.id(), body.as_object_mut()) {
            body.insert("agent_id".into(), id.into());
        }
        Ok(self.log.append(kind, body, None, durability)?)
    }

    /// A job that the harness runs by itself has no verdict: it is in the log, on the disk, before it starts.
    pub(super) fn announce(&mut self, step: &Step) -> Result<(), LogLost> {
        let Some(plan) = self.plan.as_ref().filter(|_| matches!(step, Step::Test | Step::Verify)) else {
            return Ok(());
        };
        let job = serde_json::json!({ "argv": plan.argv, "fresh_box": matches!(step, Step::Verify) });
        self.note("job", job, Durability::Synced).map(drop)
    }

    /// Logs what the box holds that it did not hold before.
    pub(super) fn wrote(&mut self, held: &mut Held) -> Result<(), LogLost> {
        let wrote = match self.workspace.changes() {
            Ok(changes) => held.wrote(&changes),
            Err(error) => Some(serde_json::json!({ "unknown": error.to_string() })),
        };
        wrote.map_or(Ok(()), |body| self.note("wrote", body, Durability::Buffered).map(drop))
    }

    /// Logs what the monitor saw.
    pub(super) fn flag(&mut self, seen: &[Finding]) -> Result<(), LogLost> {
        for finding in seen {
            let body = serde_json::to_value(finding).map_err(|error| LogLost(error.to_string()))?;
            self.note("flag", body, Durability::Buffered)?;
        }
        Ok(())
    }
}

/// Can this step change what the box holds?
pub(super) fn may_write(step: &Step) -> bool {
    match step {
        Step::Act(call) => call.may_write(),
        Step::Test | Step::Restore(_) => true,
        Step::Ask(_) | Step::Verify | Step::End(_) => false,
    }
}
