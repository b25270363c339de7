//! How is output taken from a job that may write without end?

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The bytes that all streams of a job may have together.
pub(crate) struct Budget {
    left: AtomicUsize,
    exceeded: AtomicBool,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { left: AtomicUsize::new(bytes), exceeded: AtomicBool::new(false) })
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// How many of `bytes` may be kept.
    fn take(&self, bytes: usize) -> usize {
        let before =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(bytes)));
        let kept = before.unwrap_or(0).min(bytes);
        if kept < bytes {
            self.exceeded.store(true, Ordering::Relaxed);
        }
        kept
    }
}

/// What was kept of a stream, and whether some of it was thrown away.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) bytes: Vec<u8>,
    pub(crate) truncated: bool,
}

impl Taken {
    /// Keeps of `bytes` what the budget allows.
    pub(crate) fn add(&mut self, bytes: &[u8], budget: &Budget) {
        let kept = budget.take(bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.truncated |= kept < bytes.len();
    }
}

/// A thread that empties one pipe.
pub(crate) struct Pump {
    taken: Arc<Mutex<Taken>>,
    ended: Receiver<()>,
}

impl Pump {
    /// Reads until the last writer is gone; what does not fit the budget is read and dropped, so that nobody blocks.
    pub(crate) fn start(mut from: impl Read + Send + 'static, budget: Arc<Budget>) -> Pump {
        let taken = Arc::new(Mutex::new(Taken::default()));
        let (end, ended) = channel();
        let shared = Arc::clone(&taken);
        thread::spawn(move || {
            let mut buffer = vec![0_u8; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..count], &budget);
            }
            let _ = end.send(());
        });
        Pump { taken, ended }
    }

    /// What was read, and whether some of it was dropped. Waits for the end of the stream, but not for ever.
    pub(crate) fn finish(self) -> (Vec<u8>, bool) {
        let _ = self.ended.recv_timeout(Duration::from_secs(2));
        let taken = std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner));
        (taken.bytes, taken.truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_budget_is_dropped_and_told() {
        let budget = Budget::new(5);
        let (bytes, truncated) = Pump::start(&b"seven bytes and more"[..], Arc::clone(&budget)).finish();
        assert_eq!((bytes.as_slice(), truncated, budget.is_exceeded()), (&b"seven"[..], true, true));
    }
}
