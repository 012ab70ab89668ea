//! Small maps from a number to words, for what programs look up often and controllers change rarely: multicast groups, mirroring
//! sessions, value sets. A change publishes a whole new map.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Release;

use super::retired::{Reclaimer, Retired};

/// A sorted map from ids to words, in the layout of [`abi::native::directory`].
#[derive(Default)]
pub struct Directory {
    /// The words of each id, preceded by their number.
    rows: BTreeMap<u32, Vec<u64>>,
    /// The published map. It points into `rows`.
    list: Vec<u64>,
}

impl Directory {
    /// The words of an id, if it has some.
    pub fn get(&self, id: u32) -> Option<&[u64]> {
        self.rows.get(&id).map(|row| &row[1..])
    }

    /// All ids with their words.
    pub fn rows(&self) -> impl Iterator<Item = (u32, &[u64])> {
        self.rows.iter().map(|(id, row)| (*id, &row[1..]))
    }

    /// Sets or removes (`None`) the words of an id, and publishes the new map at `root`.
    pub fn set(
        &mut self,
        id: u32,
        words: Option<Vec<u64>>,
        root: &AtomicPtr<u64>,
        reclaimer: &mut Reclaimer,
    ) {
        let row = words.map(|words| [words.len() as u64].into_iter().chain(words).collect());
        let old = match row {
            Some(row) => self.rows.insert(id, row),
            None => self.rows.remove(&id),
        };
        let mut list = vec![self.rows.len() as u64];
        list.extend(self.rows.iter().flat_map(|(id, row)| [u64::from(*id), row.as_ptr() as u64]));
        root.store(list.as_ptr().cast_mut(), Release);
        reclaimer.retire(Retired::Words(std::mem::replace(&mut self.list, list)));
        if let Some(old) = old {
            reclaimer.retire(Retired::Words(old));
        }
    }
}
