//! May the refresh go on, and who is told how far it is?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::refresh::RefreshError;
use crate::report::{Progress, Stage};

/// Least time between two reports of progress.
const PROGRESS_MILLIS: u128 = 100;

/// Tells how far we are, seldom enough to cost nothing, and asks whether to go on.
pub(crate) struct Ticker<'a> {
    on_progress: &'a mut dyn FnMut(Progress),
    last: Instant,
    cancel: &'a AtomicBool,
}

impl<'a> Ticker<'a> {
    pub(crate) fn new(on_progress: &'a mut dyn FnMut(Progress), cancel: &'a AtomicBool) -> Ticker<'a> {
        Ticker { on_progress, last: Instant::now(), cancel }
    }

    /// Call between any two pieces of work that can be abandoned.
    pub(crate) fn tick(&mut self, stage: Stage, done: usize, total: usize) -> Result<(), RefreshError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(RefreshError::Cancelled);
        }
        if (done == total && total > 0) || self.last.elapsed().as_millis() >= PROGRESS_MILLIS {
            self.say(stage, done, total);
        }
        Ok(())
    }

    /// Tells it now, and does not ask.
    pub(crate) fn say(&mut self, stage: Stage, done: usize, total: usize) {
        self.last = Instant::now();
        (self.on_progress)(Progress { stage, done, total });
    }
}

/// Counts the operations on the store, so that tests can stop before any one of them.
pub(crate) struct Steps {
    #[cfg(test)]
    left: std::cell::Cell<Option<u32>>,
}

impl Steps {
    /// Never stops.
    pub(crate) fn all() -> Steps {
        Steps {
            #[cfg(test)]
            left: std::cell::Cell::new(None),
        }
    }

    /// Stops before the operation with this number, counting from 0.
    #[cfg(test)]
    pub(crate) fn stop_before(number: u32) -> Steps {
        Steps { left: std::cell::Cell::new(Some(number)) }
    }

    #[cfg_attr(not(test), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn next(&self, what: &'static str) -> Result<(), RefreshError> {
        #[cfg(test)]
        if let Some(left) = self.left.get() {
            if left == 0 {
                return Err(RefreshError::Stopped(what));
            }
            self.left.set(Some(left - 1));
        }
        Ok(())
    }
}
