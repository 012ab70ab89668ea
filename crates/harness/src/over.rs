//! The end of a test, for the threads that it has started. A scope waits for its threads, so a test that panicked before it told them to end would wait
//! for ever.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a test is over. Threads look at it.
#[derive(Default)]
pub struct Over(AtomicBool);

impl Over {
    /// It is not over.
    pub fn new() -> Over {
        Over::default()
    }

    /// Whether it is over.
    pub fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// It is over when what this returns is dropped: at the end of a block, by `drop`, or by a panic.
    #[must_use]
    pub fn at_end(&self) -> End<'_> {
        End(self)
    }
}

/// Ends the threads that look at an [`Over`].
pub struct End<'a>(&'a Over);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_thread_that_looks_when_the_test_has_panicked() {
        let over = Over::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let _end = over.at_end();
                scope.spawn(|| {
                    while !over.is() {
                        std::thread::yield_now();
                    }
                });
                panic!("as an assertion does");
            });
        }));
        assert!(panicked.is_err() && over.is());
    }
}
