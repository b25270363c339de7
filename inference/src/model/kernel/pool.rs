//! Who does the tasks of one multiplication, and what does it cost to ask them?
//!
//! A [`Pool`] is a few threads that help the calling one. The caller opens a job, everybody takes task numbers from
//! one counter, and the caller closes the job when the counter has run out. It waits only for helpers that came in,
//! never for one that has not woken: on a host where another process has the second core, a job takes as long as one
//! core needs and no longer.
//!
//! Between jobs a helper spins for [`SPIN`], because during a forward pass the next job is microseconds away, then
//! it parks and uses nothing.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a helper watches for the next job before it parks. Waking a parked thread costs about as much.
const SPIN: Duration = Duration::from_micros(30);

/// Looks at the clock once in this many looks at the door.
const LOOKS_PER_CLOCK: usize = 16;

/// A job is open for helpers to enter. The other bits of the door count those inside, in steps of [`ONE_INSIDE`].
const OPEN: usize = 1;
const ONE_INSIDE: usize = 2;

/// Threads that help the caller with numbered tasks.
pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// Held while a job is under way. Who cannot have it does the tasks alone.
    turn: Mutex<()>,
}

impl Pool {
    /// A pool in which `threads` threads work at once, the caller of [`run`](Pool::run) included. Where the system
    /// refuses a thread the pool is smaller, down to the caller alone.
    pub fn new(threads: usize) -> Pool {
        let wanted = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            next: Line(AtomicUsize::new(0)),
            door: Line(AtomicUsize::new(0)),
            tasks: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: (0..wanted).map(|_| AtomicBool::new(false)).collect(),
        });
        let spawn = |i| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("kernel-{i}"));
            thread.spawn(move || shared.help(i)).ok()
        };
        let helpers = (0..wanted).map_while(spawn).collect();
        Pool { shared, helpers, turn: Mutex::new(()) }
    }

    /// How many threads work at once, the caller included.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `work` once for each number below `tasks`, in no particular order, and returns when all are done.
    ///
    /// Called from inside a task, or while another thread's job is under way, it does all tasks on the calling
    /// thread: never a deadlock, only less help.
    ///
    /// # Panics
    ///
    /// When a task panics, once nobody is inside the job any more.
    pub fn run(&self, tasks: usize, work: impl Fn(usize) + Sync) {
        let turn = match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if tasks <= 1 || self.helpers.is_empty() || turn.is_none() {
            (0..tasks).for_each(work);
            return;
        }
        let work: &(dyn Fn(usize) + Sync) = &work;
        let open = self.open(tasks, work);
        self.shared.take_tasks(work);
        drop(open);
        if self.shared.panicked.swap(false, Ordering::Relaxed) {
            panic!("a task panicked on another thread");
        }
    }

    /// Calls `work(i, chunk)` for the `i`-th chunk of `size` items (the last may be shorter), in parallel.
    pub fn each_chunk<T: Send>(&self, items: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) + Sync) {
        let count = items.len();
        let start = Start(items.as_mut_ptr());
        self.run(count.div_ceil(size), |i| {
            let begin = i * size;
            let length = size.min(count - begin);
            // SAFETY: `begin + length <= count`, so the chunk lies within `items`. Each `i` is handed out once, and
            // chunks of different `i` do not overlap, so this is the only reference to it. `items` is borrowed
            // mutably until `run` returns, and `run` returns after the last task.
            let chunk = unsafe { std::slice::from_raw_parts_mut(start.get().add(begin), length) };
            work(i, chunk);
        });
    }

    /// Lets helpers in. Dropping what it returns shuts the door and waits until everybody is out.
    fn open<'a>(&'a self, tasks: usize, work: &'a (dyn Fn(usize) + Sync + 'a)) -> Open<'a> {
        // SAFETY: only the lifetime changes. Helpers read the job only while they are inside, and `Open::drop`, which
        // runs before `'a` ends even when a task panics, returns only when nobody is inside or can enter.
        let job = unsafe { std::mem::transmute::<&'a (dyn Fn(usize) + Sync + 'a), Job>(work) };
        // SAFETY: the door is shut and nobody is inside (the `Open` before this one saw to it, and `turn` is held),
        // so nobody else looks at the job.
        unsafe { *self.shared.job.get() = Some(job) };
        self.shared.tasks.store(tasks, Ordering::Relaxed);
        self.shared.next.0.store(0, Ordering::Relaxed);
        self.shared.door.0.store(OPEN, Ordering::SeqCst);
        for (asleep, helper) in self.shared.asleep.iter().zip(&self.helpers) {
            if asleep.load(Ordering::SeqCst) {
                helper.thread().unpark();
            }
        }
        Open { shared: &self.shared }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper that panicked outside a task has nothing to report to anybody.
            let _ = helper.join();
        }
    }
}

type Job = &'static (dyn Fn(usize) + Sync);

struct Shared {
    /// Written while nobody is inside and the door is shut, read by those inside.
    job: UnsafeCell<Option<Job>>,
    next: Line<AtomicUsize>,
    door: Line<AtomicUsize>,
    tasks: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    asleep: Vec<AtomicBool>,
}

// SAFETY: `job` is the only field that is not `Sync` by itself. It is written under the rule above, and what it
// refers to is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Shared {}

/// Alone on its cache line (and on the one that the prefetcher fetches with it).
#[repr(align(128))]
struct Line<T>(T);

impl Shared {
    fn help(&self, i: usize) {
        let mut since = Instant::now();
        let mut looks = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if self.enter() {
                self.work_inside();
                since = Instant::now();
            } else if looks % LOOKS_PER_CLOCK == 0 && since.elapsed() > SPIN {
                self.sleep(i);
                since = Instant::now();
            }
            looks += 1;
            std::hint::spin_loop();
        }
    }

    /// Goes inside if there is something to do there.
    fn enter(&self) -> bool {
        let door = self.door.0.load(Ordering::Relaxed);
        if door & OPEN == 0 || self.next.0.load(Ordering::Relaxed) >= self.tasks.load(Ordering::Relaxed) {
            return false;
        }
        // Acquire: what was written before the door opened (the job, the counters) is seen by those inside.
        self.door.0.compare_exchange_weak(door, door + ONE_INSIDE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn work_inside(&self) {
        // SAFETY: this thread is inside, so the job is set and does not change until it has left.
        let job = unsafe { *self.job.get() };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if let Some(job) = job {
                self.take_tasks(job);
            }
        }));
        if outcome.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        // Release: what the tasks wrote is seen by the caller when it finds nobody inside.
        self.door.0.fetch_sub(ONE_INSIDE, Ordering::Release);
    }

    fn take_tasks(&self, work: &(dyn Fn(usize) + Sync)) {
        let tasks = self.tasks.load(Ordering::Relaxed);
        loop {
            let i = self.next.0.fetch_add(1, Ordering::Relaxed);
            if i >= tasks {
                return;
            }
            work(i);
        }
    }

    fn sleep(&self, i: usize) {
        // SeqCst on both sides: either this thread sees the door open, or the opener sees it asleep.
        self.asleep[i].store(true, Ordering::SeqCst);
        while self.door.0.load(Ordering::SeqCst) & OPEN == 0 && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.asleep[i].store(false, Ordering::SeqCst);
    }
}

/// A job under way.
struct Open<'a> {
    shared: &'a Shared,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.door.0.fetch_and(!OPEN, Ordering::Relaxed);
        let mut looks = 0;
        while self.shared.door.0.load(Ordering::Acquire) != 0 {
            looks += 1;
            // After a while the one inside is probably waiting for a core: it may have this one.
            if looks < 1000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// A pointer that tasks on several threads may have. Who uses it says why that is sound.
struct Start<T>(*mut T);

impl<T> Start<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: a pointer by itself does nothing; each use has its own reason.
unsafe impl<T: Send> Sync for Start<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 3, 100, 1000] {
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, |i| {
                    done[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1), "{threads} threads, {tasks} tasks");
            }
        }
    }

    #[test]
    fn many_short_jobs_with_pauses_long_and_short_all_end() {
        let pool = Pool::new(3);
        let sum = AtomicUsize::new(0);
        for job in 0..2000 {
            pool.run(job % 7, |i| {
                sum.fetch_add(i + 1, Ordering::Relaxed);
            });
            if job % 100 == 0 {
                std::thread::sleep(SPIN * 3);
            }
        }
        let expected: usize = (0..2000).map(|job| (1..=job % 7).sum::<usize>()).sum();
        assert_eq!(sum.into_inner(), expected);
    }

    #[test]
    fn a_job_inside_a_task_is_done_by_the_thread_that_asks() {
        let pool = Pool::new(2);
        let count = AtomicUsize::new(0);
        pool.run(4, |_| {
            pool.run(5, |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.into_inner(), 20);
    }

    #[test]
    fn jobs_of_two_threads_at_once_are_both_done() {
        let pool = Pool::new(2);
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(10, |_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 4000);
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(2);
        for culprit in [0, 63] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, |i| assert_ne!(i, culprit, "on purpose"));
            }));
            assert!(outcome.is_err());
            let count = AtomicUsize::new(0);
            pool.run(64, |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.into_inner(), 64);
        }
    }

    #[test]
    fn chunks_cover_a_slice_once() {
        let pool = Pool::new(3);
        let mut items = vec![0; 103];
        pool.each_chunk(&mut items, 10, |chunk, items| items.iter_mut().for_each(|item| *item += chunk + 1));
        assert!(items.iter().enumerate().all(|(i, &item)| item == i / 10 + 1));
    }
}
