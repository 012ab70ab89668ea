//! Small types that every structure of a table needs, and descriptors of arrays. They live here so that the structures need not refer to each other.

use std::sync::atomic::{AtomicPtr, AtomicU64};

use abi::MatchValue;
use abi::native::Cells;

use super::retired::Reclaimer;

/// What a writer needs to change a table that workers read: the table's published root, and the reclaimer that takes what the
/// change replaces.
pub struct View<'v> {
    pub table: &'v abi::native::Table,
    pub reclaimer: &'v mut Reclaimer,
}

/// The identity of an entry: its match values, and its priority where the table uses priorities (0 elsewhere).
pub type Identity = (Vec<MatchValue>, i32);

/// The descriptor of an array of words that is divided into cells of `each` words.
pub fn cells(words: &[AtomicU64], each: u64) -> Cells {
    Cells { cells: AtomicPtr::new(words.as_ptr().cast_mut().cast()), size: words.len() as u64 / each }
}
