//! Entries that lead to members of an action profile: each has a slot, and the slot points to the data of the actions that it may
//! run now. A group that changes changes the slots of its entries, not the entries.

use std::collections::HashMap;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Release;

use super::table::Identity;
use super::{Quiet, Retired};

/// What one entry may run.
pub struct Slot {
    /// What the entry's data points to: it stays where it is.
    pointer: Box<AtomicPtr<u64>>,
    /// Number of choices, then a pointer to the data of each.
    list: Vec<u64>,
    data: Vec<Vec<u8>>,
}

/// The slots of a table.
#[derive(Default)]
pub struct Slots(HashMap<Identity, Slot>);

impl Slots {
    /// The address for the entry's data.
    pub fn add(&mut self, entry: Identity, data: Vec<Vec<u8>>) -> u64 {
        let list = list(&data);
        let slot = Slot { pointer: Box::new(AtomicPtr::new(list.as_ptr().cast_mut())), list, data };
        let address = std::ptr::from_ref(&*slot.pointer) as u64;
        self.0.insert(entry, slot);
        address
    }

    /// Other choices for an entry.
    pub fn set(&mut self, entry: &Identity, data: Vec<Vec<u8>>, quiet: &mut Quiet) {
        let Some(slot) = self.0.get_mut(entry) else { return };
        let list = list(&data);
        slot.pointer.store(list.as_ptr().cast_mut(), Release);
        quiet.retire(Retired::Words(std::mem::replace(&mut slot.list, list)));
        let old = std::mem::replace(&mut slot.data, data);
        old.into_iter().for_each(|data| quiet.retire(Retired::Bytes(data)));
    }

    /// The entry is gone.
    pub fn remove(&mut self, entry: &Identity, quiet: &mut Quiet) {
        if let Some(slot) = self.0.remove(entry) {
            quiet.retire(Retired::Slot(slot));
        }
    }

    /// All entries are gone.
    pub fn clear(&mut self, quiet: &mut Quiet) {
        self.0.drain().for_each(|(_, slot)| quiet.retire(Retired::Slot(slot)));
    }
}

fn list(data: &[Vec<u8>]) -> Vec<u64> {
    [data.len() as u64].into_iter().chain(data.iter().map(|d| d.as_ptr() as u64)).collect()
}
