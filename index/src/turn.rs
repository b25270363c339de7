//! Who may hold a large file in memory? One at a time: a few dozen documents wait for the lanes, and a bare one may have
//! 64 MiB.

use std::sync::{Arc, Condvar, Mutex};

/// Gives turns, one after the other. Clones give of the same.
#[derive(Debug, Default, Clone)]
pub(crate) struct Turns(Arc<(Mutex<bool>, Condvar)>);

/// Whoever holds it is the only one. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Turn(Turns);

impl Turns {
    /// Waits until nobody else has it.
    pub(crate) fn take(&self) -> Turn {
        let (taken, given_back) = &*self.0;
        let taken = taken.lock().expect("no panic while locked");
        let mut taken = given_back.wait_while(taken, |taken| *taken).expect("no panic while locked");
        *taken = true;
        drop(taken);
        Turn(self.clone())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (taken, given_back) = &*self.0.0;
        *taken.lock().expect("no panic while locked") = false;
        given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn nobody_has_a_turn_while_another_has_it() {
        let (turns, holders) = (Turns::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _turn = turns.take();
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        holders.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
