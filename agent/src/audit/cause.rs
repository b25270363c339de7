//! Which record is the cause of the next one?
//!
//! The loop does one thing after another, so what comes next follows from what came last: the verdict from the turn,
//! the job from its verdict, the files from the job, the tests from the files, and so on to the hunk that was applied.
//! Only a turn of the model does not follow from the end of the turn before: it follows from the task. A sub-agent has a
//! task of its own, which follows from the verdict that let it start.

/// Kinds that a whole turn hangs from.
const TASKS: [&str; 2] = ["opened", "resumed"];
/// The kind that ends a sub-agent's task.
const RETURNED: &str = "returned";

/// What has been recorded so far, as far as causes go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cause {
    task: Option<u64>,
    /// The session's task, while a sub-agent works on its own.
    above: Option<u64>,
    last: Option<u64>,
}

impl Cause {
    /// The parent of a record of this kind, if it were added now.
    pub(super) fn of(self, kind: &str) -> Option<u64> {
        match kind {
            "header" => None,
            "replied" => self.task.or(self.last),
            _ => self.last,
        }
    }

    /// Takes note of a record.
    pub(super) fn follow(&mut self, kind: &str, n: u64) {
        if TASKS.contains(&kind) {
            self.above = self.task;
            self.task = Some(n);
        }
        if kind == RETURNED {
            self.task = self.above.take().or(self.task);
        }
        self.last = Some(n);
    }
}
