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
    reading_since: Option<Instant>,
    files: usize,
    lines: usize,
}

impl<'a> Ticker<'a> {
    pub(crate) fn new(on_progress: &'a mut dyn FnMut(Progress), cancel: &'a AtomicBool) -> Ticker<'a> {
        Ticker { on_progress, last: Instant::now(), cancel, reading_since: None, files: 0, lines: 0 }
    }

    /// One more file was read.
    pub(crate) fn count(&mut self, lines: usize) {
        self.files += 1;
        self.lines += lines;
    }

    /// Call between any two pieces of work that can be abandoned.
    pub(crate) fn tick(&mut self, stage: Stage, done: usize, total: usize) -> Result<(), RefreshError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(RefreshError::Cancelled);
        }
        if stage == Stage::Chunk && self.reading_since.is_none() {
            self.reading_since = Some(Instant::now());
        }
        if (done == total && total > 0) || self.last.elapsed().as_millis() >= PROGRESS_MILLIS {
            self.say(stage, done, total);
        }
        Ok(())
    }

    /// Tells it now, and does not ask.
    pub(crate) fn say(&mut self, stage: Stage, done: usize, total: usize) {
        self.last = Instant::now();
        let seconds = self.reading_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let lines_per_second = if seconds > 0.0 { (self.lines as f64 / seconds) as usize } else { 0 };
        let (files, lines) = (self.files, self.lines);
        (self.on_progress)(Progress { stage, done, total, files, lines, lines_per_second });
    }
}

/// Counts the operations on the store, so that tests can stop before any one of them.
pub(crate) struct Steps {
    #[cfg(test)]
    left: std::sync::Mutex<Option<u32>>,
}

impl Steps {
    /// Never stops.
    pub(crate) fn all() -> Steps {
        Steps {
            #[cfg(test)]
            left: std::sync::Mutex::new(None),
        }
    }

    /// Stops before the operation with this number, counting from 0, and before all after it.
    #[cfg(test)]
    pub(crate) fn stop_before(number: u32) -> Steps {
        Steps { left: std::sync::Mutex::new(Some(number)) }
    }

    #[cfg_attr(not(test), allow(unused_variables, clippy::unused_self))]
    pub(crate) fn next(&self, what: &'static str) -> Result<(), RefreshError> {
        #[cfg(test)]
        if let Some(left) = &mut *self.left.lock().expect("no panic while locked") {
            if *left == 0 {
                return Err(RefreshError::Stopped(what));
            }
            *left -= 1;
        }
        Ok(())
    }
}
