//! A device for several controllers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device that several threads control. They take turns: a batch or a read of one never meets a part of another's batch.
pub struct Shared<D: ?Sized>(Arc<Mutex<D>>);

impl<D> Shared<D> {
    /// Shares a device.
    pub fn new(device: D) -> Shared<D> {
        Shared(Arc::new(Mutex::new(device)))
    }
}

impl<D: ?Sized> Shared<D> {
    /// Runs `act` while no other controller reads or writes. A read whose result decides what is written belongs in here, together with the
    /// write; otherwise another controller's write in between is lost.
    pub fn with<T>(&self, act: impl FnOnce(&mut D) -> T) -> T {
        act(&mut self.lock())
    }

    /// A device that was being written when its controller panicked holds a prefix of the batch; the next write checks against that.
    fn lock(&self) -> MutexGuard<'_, D> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: ?Sized> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}
