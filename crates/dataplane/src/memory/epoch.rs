//! Safe memory reclamation: epochs and grace periods, as in RCU.
//!
//! Workers read tables without locks, so the writer must not free what a worker may still read. Each worker has an *epoch*: a
//! counter that is odd while the worker runs a burst and even between bursts. A writer changes a structure in three steps:
//!
//! 1. It publishes the replacement with one release store.
//! 2. It *retires* the old memory: the [`Reclaimer`] keeps the memory together with the current epoch of every worker.
//! 3. It frees the memory after the *grace period*, that is, when each worker that was inside a burst has left that burst.
//!    A worker that starts a burst later can only find the replacement.
//!
//! Workers never wait for the writer.
//!
//! The module knows neither workers nor what is retired, so that it can be read alone, and checked in all orders of its steps (`scripts/models loom`).

use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The epoch of a worker. It has a cache line of its own, because the worker writes it in every burst.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Epoch(AtomicU64);

impl Epoch {
    /// Begins a burst, which lasts as long as the value.
    pub fn enter(&self) -> Burst<'_> {
        let idle = self.0.load(Ordering::Relaxed);
        self.0.store(idle + 1, Ordering::SeqCst);
        // Of this and the fence of `keep`, one comes first: either the burst finds the replacement, or the reclaimer sees the burst.
        fence(Ordering::SeqCst);
        Burst { epoch: self, then: idle + 2 }
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A burst. Its end makes the epoch even, also if the burst panics: otherwise retired memory would never be freed.
pub(crate) struct Burst<'a> {
    epoch: &'a Epoch,
    then: u64,
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.epoch.0.store(self.then, Ordering::SeqCst);
    }
}

/// Keeps what is retired until its grace period has ended.
pub(crate) struct Reclaimer<T> {
    epochs: Vec<Arc<Epoch>>,
    /// What is retired, oldest first, with the epoch of each worker at the time it was retired.
    retired: VecDeque<(Vec<u64>, T)>,
}

impl<T> Default for Reclaimer<T> {
    fn default() -> Self {
        Reclaimer { epochs: Vec::new(), retired: VecDeque::new() }
    }
}

impl<T> Reclaimer<T> {
    /// From now on, what is retired waits for the bursts of this epoch, too.
    pub fn watch(&mut self, epoch: Arc<Epoch>) {
        self.epochs.push(epoch);
    }

    /// Whether somebody may read what is retired.
    pub fn has_readers(&self) -> bool {
        !self.epochs.is_empty()
    }

    /// Keeps `what` for a grace period. The caller has already published its replacement.
    pub fn keep(&mut self, what: T) {
        fence(Ordering::SeqCst);
        let now = self.epochs.iter().map(|epoch| epoch.now()).collect();
        self.retired.push_back((now, what));
    }

    /// Takes out everything whose grace period has ended. A worker that was made after a retirement is not waited for: it has
    /// never seen the retired memory.
    pub fn reclaim(&mut self) -> Vec<T> {
        let mut free = Vec::new();
        while let Some((then, _)) = self.retired.front() {
            let left_burst =
                |(then, epoch): (&u64, &Arc<Epoch>)| then.is_multiple_of(2) || epoch.now() != *then;
            if !then.iter().zip(&self.epochs).all(left_burst) {
                break;
            }
            free.extend(self.retired.pop_front().map(|(_, what)| what));
        }
        free
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_retired_in_a_burst_is_kept_until_its_end() {
        let (epoch, mut reclaimer) = (Arc::new(Epoch::default()), Reclaimer::default());
        reclaimer.watch(epoch.clone());
        reclaimer.keep("before");
        let burst = epoch.enter();
        reclaimer.keep("during");
        assert_eq!(reclaimer.reclaim(), ["before"]);
        drop(burst);
        let _next = epoch.enter();
        assert_eq!(reclaimer.reclaim(), ["during"], "a later burst is not waited for");
    }
}

/// A worker and a writer in all orders of their steps.
#[cfg(all(test, loom))]
mod model {
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread;

    use super::*;

    /// Two places of memory, which of them is published, and whether each is freed.
    #[derive(Default)]
    struct Memory {
        published: AtomicUsize,
        freed: [AtomicBool; 2],
    }

    #[test]
    fn nothing_is_freed_that_a_burst_may_read() {
        loom::model(|| {
            let memory = Arc::new(Memory::default());
            let epoch = Arc::new(Epoch::default());
            let mut reclaimer = Reclaimer::default();
            reclaimer.watch(epoch.clone());
            let worker = thread::spawn({
                let memory = memory.clone();
                move || {
                    for _ in 0..2 {
                        let _burst = epoch.enter();
                        let at = memory.published.load(Ordering::Acquire);
                        assert!(!memory.freed[at].load(Ordering::Relaxed), "what a burst reads is freed");
                    }
                }
            });
            memory.published.store(1, Ordering::Release);
            reclaimer.keep(0);
            for _ in 0..2 {
                for at in reclaimer.reclaim() {
                    memory.freed[at].store(true, Ordering::Relaxed);
                }
                thread::yield_now();
            }
            worker.join().expect("the worker ends");
        });
    }
}
