//! What becomes of a warm box while nobody needs it?
//!
//! It is paused after seconds and thrown away after minutes. One thread watches, and only while there is a box to watch.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::warm::Warm;

/// How long a box may be idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) pause_after: Duration,
    pub(crate) drop_after: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { pause_after: Duration::from_secs(2), drop_after: Duration::from_secs(180) }
    }
}

/// The place of one idle warm box.
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    slot: Mutex<Slot>,
    changed: Condvar,
}

struct Slot {
    warm: Option<Warm>,
    patience: Patience,
    since: Instant,
    is_watched: bool,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(crate) fn new(patience: Patience) -> Pool {
        let slot = Slot { warm: None, patience, since: Instant::now(), is_watched: false, is_closed: false };
        Pool(Arc::new(Shared { slot: Mutex::new(slot), changed: Condvar::new() }))
    }

    #[cfg(test)]
    fn be(&self, patience: Patience) {
        self.0.lock().patience = patience;
        self.0.changed.notify_one();
    }

    pub(crate) fn take(&self) -> Option<Warm> {
        self.0.lock().warm.take()
    }

    pub(crate) fn put(&self, warm: Warm) {
        let mut slot = self.0.lock();
        (slot.warm, slot.since) = (Some(warm), Instant::now());
        if slot.is_watched {
            self.0.changed.notify_one();
            return;
        }
        let shared = Arc::clone(&self.0);
        // Without a watcher the box just stays as it is until its owner closes.
        slot.is_watched = thread::Builder::new().name("idle box".into()).spawn(move || watch(&shared)).is_ok();
    }

    /// Kills the idle box and ends the watch.
    pub(crate) fn close(&self) {
        let mut slot = self.0.lock();
        slot.is_closed = true;
        self.0.changed.notify_one();
        drop(slot.warm.take());
    }

    /// Asks the idle box something, where there is one.
    pub(crate) fn idle<T>(&self, ask: impl FnOnce(&mut Warm) -> T) -> Option<T> {
        self.0.lock().warm.as_mut().map(ask)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Pauses and drops what is idle for too long; ends when nothing has been for a while.
fn watch(shared: &Shared) {
    let mut slot = shared.lock();
    loop {
        let Patience { pause_after, drop_after } = slot.patience;
        let idle = slot.since.elapsed();
        if slot.is_closed || idle >= drop_after {
            slot.is_watched = false;
            drop(slot.warm.take());
            return;
        }
        if idle >= pause_after {
            // A box that cannot be paused is as good as one that is: it only sleeps. What is not removed now goes with the box.
            let _: Option<io::Result<()>> = slot.warm.as_mut().map(|warm| warm.pause().and_then(|_| warm.tidy()));
        }
        let next = if idle < pause_after { pause_after } else { drop_after };
        let waited = shared.changed.wait_timeout(slot, next.saturating_sub(idle));
        slot = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::sandbox::{BoxSpec, OpenError, Sandbox, Warmth};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn an_idle_box_is_paused_then_dropped_and_the_next_job_gets_a_new_one() {
        let dir = tempfile::tempdir().expect("directory");
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).expect("repository");
        let sandbox = match Sandbox::open(BoxSpec::new(&repo, dir.path().join("boxes"))) {
            Err(error @ (OpenError::NoRuntime { .. } | OpenError::NoNamespaces { .. })) => {
                return eprintln!("SKIPPED: no box can be made on this host: {error}");
            }
            opened => opened.expect("opens"),
        };
        if let Warmth::Cold(reason) = sandbox.warmth() {
            return eprintln!("SKIPPED: no warm boxes on this host: {reason}");
        }
        let milliseconds = Duration::from_millis;
        sandbox.pool.be(Patience { pause_after: milliseconds(200), drop_after: milliseconds(1_000) });
        let run = || sandbox.run(&Job::new(["true"]), &AtomicBool::new(false)).expect("runs").ending.succeeded();
        assert!(run());
        let paused = || sandbox.pool.idle(|warm| warm.is_paused());
        assert_eq!(paused(), Some(false));
        thread::sleep(milliseconds(500));
        assert_eq!(paused(), Some(sandbox.footing().cgroups));
        let spent = dir.path().join("boxes").join(sandbox.id()).join("spent");
        assert!(!spent.exists());
        assert!(run());
        thread::sleep(milliseconds(1_500));
        assert_eq!(paused(), None);
        assert!(run());
    }
}
