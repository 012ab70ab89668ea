//! Entries in an array ([`Structure::Array`]): an element for every key, with the action data twice.
//!
//! A write replaces a whole element, and packets read it meanwhile. So it is done in two steps. The first one changes only the copy that does
//! not count. The second one changes only the word that says which copy counts; a packet that has begun to read the other one then sees
//! another word, and reads again.
//!
//! [`Structure::Array`]: abi::manifest::Structure::Array

use std::sync::atomic::{Ordering, fence};

use crate::bpf::Map;
use crate::{Error, Result};

/// The number of the copy that counts.
const COPY: u64 = 1;
/// Whether there is an entry.
const PRESENT: u64 = 2;
/// What a write adds to the word.
const WRITE: u64 = 4;

/// The action data of the entry with this key, if there is one.
pub(super) fn read(map: &Map, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let (word, element) = element(map, key)?;
    Ok(entry(word, &element))
}

/// The action data in an element, if it is an entry.
fn entry(word: u64, element: &[u8]) -> Option<Vec<u8>> {
    let [first, second] = copies(element);
    let data = if word & COPY == 0 { first } else { second };
    (word & PRESENT != 0).then(|| element[data].to_vec())
}

/// Writes or removes the entry with this key. Returns whether there was one.
pub(super) fn write(map: &Map, key: &[u8], data: Option<&[u8]>) -> Result<bool> {
    let (word, mut element) = element(map, key)?;
    let mut next = (word & !(PRESENT | COPY)) + WRITE;
    if let Some(data) = data {
        next |= PRESENT | (!word & COPY);
        let [first, second] = copies(&element);
        let free = if next & COPY == 0 { first } else { second };
        element[free].copy_from_slice(data);
        map.set(key, &element)?;
        fence(Ordering::SeqCst);
    }
    element[..8].copy_from_slice(&next.to_ne_bytes());
    map.set(key, &element)?;
    Ok(word & PRESENT != 0)
}

/// The keys and action data of all entries.
pub(super) fn entries(map: &Map) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut entries = Vec::new();
    for (index, element) in (0u32..).zip(map.array()?) {
        if let Some(data) = word(&element).and_then(|word| entry(word, &element)) {
            entries.push((index.to_ne_bytes().to_vec(), data));
        }
    }
    Ok(entries)
}

/// An element, and its word.
fn element(map: &Map, key: &[u8]) -> Result<(u64, Vec<u8>)> {
    let element = map.lookup(key)?.unwrap_or_default();
    match word(&element) {
        Some(word) => Ok((word, element)),
        None => Err(Error::NotFound("element of an array of entries".into())),
    }
}

/// The word of an element.
fn word(element: &[u8]) -> Option<u64> {
    element.first_chunk().map(|word| u64::from_ne_bytes(*word))
}

/// Where the copies of the action data are in an element.
fn copies(element: &[u8]) -> [std::ops::Range<usize>; 2] {
    let size = (element.len() - 8) / 2;
    [8..8 + size, 8 + size..8 + 2 * size]
}
