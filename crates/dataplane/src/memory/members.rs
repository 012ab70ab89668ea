//! Entries that refer to members of an action profile. The action data of such an entry is the address of a pointer; the pointer
//! points to the list of the actions that the entry may run now. When a member or a group changes, only the pointers change: the
//! rows of the entries stay as they are.

use std::collections::HashMap;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Release;

use super::retired::{Reclaimer, Retired};
use super::view::Identity;

/// The actions that one entry may run.
struct Members {
    /// The published list. The entry's row holds the address of this pointer, so the pointer has a fixed place on the heap.
    pointer: Box<AtomicPtr<u64>>,
    /// Number of members, then the address of each member's action data.
    list: Vec<u64>,
    /// The action data of each member.
    data: Vec<Vec<u8>>,
}

/// The members of all entries of a table.
#[derive(Default)]
pub struct MemberMap(HashMap<Identity, Members>);

impl MemberMap {
    /// Adds an entry with its members. Returns the address that the entry's row must hold.
    pub fn add(&mut self, entry: Identity, data: Vec<Vec<u8>>) -> u64 {
        let list = list(&data);
        let members = Members { pointer: Box::new(AtomicPtr::new(list.as_ptr().cast_mut())), list, data };
        let address = std::ptr::from_ref(&*members.pointer) as u64;
        self.0.insert(entry, members);
        address
    }

    /// Replaces the members of an entry. Does nothing if there is no such entry.
    pub fn set(&mut self, entry: &Identity, data: Vec<Vec<u8>>, reclaimer: &mut Reclaimer) {
        let Some(members) = self.0.get_mut(entry) else { return };
        let list = list(&data);
        members.pointer.store(list.as_ptr().cast_mut(), Release);
        reclaimer.retire(Retired::Words(std::mem::replace(&mut members.list, list)));
        let old = std::mem::replace(&mut members.data, data);
        old.into_iter().for_each(|data| reclaimer.retire(Retired::Bytes(data)));
    }

    /// Removes an entry that workers no longer find.
    pub fn remove(&mut self, entry: &Identity, reclaimer: &mut Reclaimer) {
        if let Some(members) = self.0.remove(entry) {
            members.retire(reclaimer);
        }
    }
}

impl Members {
    fn retire(self, reclaimer: &mut Reclaimer) {
        reclaimer.retire(Retired::Pointer(self.pointer));
        reclaimer.retire(Retired::Words(self.list));
        self.data.into_iter().for_each(|data| reclaimer.retire(Retired::Bytes(data)));
    }
}

fn list(data: &[Vec<u8>]) -> Vec<u64> {
    [data.len() as u64].into_iter().chain(data.iter().map(|d| d.as_ptr() as u64)).collect()
}
