//! The end of work that nobody wants any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether work is not wanted any more. All clones are one: who started the work sets it, and who does the work looks at it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the work.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
