//! What programs look up by a number that few writers change: multicast groups, mirroring sessions, value sets.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Release;

use super::{Quiet, Retired};

/// Ids and the words that they stand for.
#[derive(Default)]
pub struct Directory {
    /// Each with its number of words first.
    rows: BTreeMap<u32, Vec<u64>>,
    /// The list that the program sees.
    list: Vec<u64>,
}

impl Directory {
    /// Sets what an id stands for, or that it stands for nothing.
    pub fn set(&mut self, id: u32, words: Option<Vec<u64>>, visible: &AtomicPtr<u64>, quiet: &mut Quiet) {
        let row = words.map(|words| [words.len() as u64].into_iter().chain(words).collect());
        let old = match row {
            Some(row) => self.rows.insert(id, row),
            None => self.rows.remove(&id),
        };
        let mut list = vec![self.rows.len() as u64];
        list.extend(self.rows.iter().flat_map(|(id, row)| [u64::from(*id), row.as_ptr() as u64]));
        visible.store(list.as_ptr().cast_mut(), Release);
        quiet.retire(Retired::Words(std::mem::replace(&mut self.list, list)));
        if let Some(old) = old {
            quiet.retire(Retired::Words(old));
        }
    }
}
