//! What becomes of warm boxes while nobody needs them?
//!
//! They are paused after seconds and thrown away after minutes. One thread watches, and only while there is a box to watch.

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

/// Most idle warm boxes of one open box: jobs with other limits each need one of their own.
const IDLE_MAX: usize = 3;

/// The place of idle warm boxes.
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    idle: Mutex<Idle>,
    changed: Condvar,
}

struct Idle {
    /// The one that was used last comes last.
    boxes: Vec<(Warm, Instant)>,
    patience: Patience,
    is_watched: bool,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(crate) fn new(patience: Patience) -> Pool {
        let idle = Idle { boxes: Vec::new(), patience, is_watched: false, is_closed: false };
        Pool(Arc::new(Shared { idle: Mutex::new(idle), changed: Condvar::new() }))
    }

    #[cfg(test)]
    fn be(&self, patience: Patience) {
        self.0.lock().patience = patience;
        self.0.changed.notify_one();
    }

    /// The box that was used last among those that suit.
    pub(crate) fn take(&self, suits: impl Fn(&Warm) -> bool) -> Option<Warm> {
        let mut idle = self.0.lock();
        let place = idle.boxes.iter().rposition(|(warm, _)| suits(warm))?;
        Some(idle.boxes.remove(place).0)
    }

    pub(crate) fn put(&self, warm: Warm) {
        let mut idle = self.0.lock();
        idle.boxes.push((warm, Instant::now()));
        // Dropped, and so killed, when nobody waits for the lock any more.
        let _one_too_many = (idle.boxes.len() > IDLE_MAX).then(|| idle.boxes.remove(0));
        if idle.is_watched {
            self.0.changed.notify_one();
        } else {
            let shared = Arc::clone(&self.0);
            // Without a watcher the boxes just stay as they are until their owner closes.
            idle.is_watched = thread::Builder::new().name("idle boxes".into()).spawn(move || watch(&shared)).is_ok();
        }
        drop(idle);
    }

    /// Kills all idle boxes.
    pub(crate) fn clear(&self) {
        self.0.lock().boxes.clear();
    }

    /// Kills the idle boxes and ends the watch.
    pub(crate) fn close(&self) {
        let mut idle = self.0.lock();
        idle.is_closed = true;
        self.0.changed.notify_one();
        idle.boxes.clear();
    }

    /// Asks the idle box that was used last something, where there is one.
    pub(crate) fn idle<T>(&self, ask: impl FnOnce(&mut Warm) -> T) -> Option<T> {
        self.0.lock().boxes.last_mut().map(|(warm, _)| ask(warm))
    }

    /// Does something to every idle box.
    pub(crate) fn each<T>(&self, act: impl FnMut(&mut Warm) -> io::Result<T>) -> io::Result<Vec<T>> {
        self.0.lock().boxes.iter_mut().map(|(warm, _)| warm).map(act).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Pauses and drops what is idle for too long; ends when nothing has been for a while.
fn watch(shared: &Shared) {
    let mut idle = shared.lock();
    // When the last box was there: a job may have it, and put it back.
    let mut last = Instant::now();
    loop {
        let Patience { pause_after, drop_after } = idle.patience;
        idle.boxes.retain(|(_, since)| since.elapsed() < drop_after);
        if let Some((_, since)) = idle.boxes.last() {
            last = *since;
        }
        if idle.is_closed || last.elapsed() >= drop_after {
            idle.is_watched = false;
            idle.boxes.clear();
            return;
        }
        let mut next = drop_after.saturating_sub(last.elapsed());
        for (warm, since) in &mut idle.boxes {
            let age = since.elapsed();
            if age >= pause_after {
                // A box that cannot be paused is as good as one that is: it only sleeps. What is not removed now goes with it.
                let _: io::Result<()> = warm.pause().and_then(|_| warm.tidy());
            }
            let until = if age < pause_after { pause_after } else { drop_after };
            next = next.min(until.saturating_sub(age));
        }
        idle = shared.changed.wait_timeout(idle, next).unwrap_or_else(PoisonError::into_inner).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::limits::Limits;
    use crate::open::{BoxSpec, OpenError};
    use crate::sandbox::{Sandbox, Warmth};
    use std::sync::atomic::AtomicBool;

    fn warm() -> Option<(tempfile::TempDir, Sandbox)> {
        let dir = tempfile::tempdir().expect("directory");
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).expect("repository");
        let sandbox = match Sandbox::open(BoxSpec::new(&repo, dir.path().join("boxes"))) {
            Err(error @ (OpenError::NoRuntime { .. } | OpenError::NoNamespaces { .. })) => {
                eprintln!("SKIPPED: no box can be made on this host: {error}");
                return None;
            }
            opened => opened.expect("opens"),
        };
        if let Warmth::Cold(reason) = sandbox.warmth() {
            eprintln!("SKIPPED: no warm boxes on this host: {reason}");
            return None;
        }
        Some((dir, sandbox))
    }

    #[test]
    fn an_idle_box_is_paused_then_dropped_and_the_next_job_gets_a_new_one() {
        let Some((dir, sandbox)) = warm() else { return };
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

    #[test]
    fn jobs_with_other_limits_keep_boxes_of_their_own_up_to_a_number() {
        let Some((_dir, sandbox)) = warm() else { return };
        let run = |open_files_max| {
            let limits = Some(Limits { open_files_max, ..Limits::DEFAULT });
            let job = Job { limits, ..Job::new(["true"]) };
            assert!(sandbox.run(&job, &AtomicBool::new(false)).expect("runs").ending.succeeded());
            sandbox.warm_pid().expect("kept")
        };
        let first: Vec<u32> = [100, 200, 300].map(run).into();
        assert_eq!([100, 200, 300].map(run), first[..], "each has its own");
        run(400);
        assert_eq!(sandbox.pool.each(|warm| Ok(warm.pid())).expect("pids").len(), IDLE_MAX);
        assert_eq!([200, 300].map(run), first[1..]);
        assert_ne!(run(100), first[0], "the one that was idle longest went");
        assert!(sandbox.pause().expect("pauses") == sandbox.footing().cgroups);
        let paused = sandbox.pool.each(|warm| Ok(warm.is_paused())).expect("states");
        assert_eq!(paused, [sandbox.footing().cgroups; IDLE_MAX]);
    }
}
