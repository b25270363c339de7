//! What does the log say besides the records that the session folds? Jobs before they start, and what they really wrote.

use super::{LogLost, Loop};
use crate::action::Call;
use crate::audit::{Durability, Held};
use crate::monitor::Finding;
use crate::session::Step;

impl Loop<'_> {
    /// Appends one record; returns its number.
    pub(super) fn note(&mut self, kind: &str, body: serde_json::Value, durability: Durability) -> Result<u64, LogLost> {
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
        Step::Act(call) => call.edits() || matches!(call, Call::RunCommand { .. }),
        Step::Test | Step::Restore(_) => true,
        Step::Ask(_) | Step::Verify | Step::End(_) => false,
    }
}
