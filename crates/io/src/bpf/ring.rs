//! The host's end of a BPF ring buffer: it takes the records that a program has submitted.
//!
//! The kernel's memory has two positions, which only grow: that of the producers, and that of the consumer, each in a page of its own. The
//! records follow. The kernel maps them twice in a row, so that each record is in one piece. A record begins with its length and flags, a
//! `u32`, then comes another `u32`; it is padded to 8 bytes.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::Map;
use crate::Result;
use crate::error::Context;
use crate::port::memory::{Mapping, ReadOnly, page};

/// The producer has reserved the record, and not yet submitted it.
const BUSY: u32 = 1 << 31;
/// The producer has discarded the record.
const DISCARDED: u32 = 1 << 30;
/// Size of the head of a record in bytes.
const HEAD: u64 = 8;

/// The consumer of a ring buffer. There is one at a time, because a program has one controller at a time.
#[derive(Debug)]
pub struct Ring {
    consumer: Mapping,
    records: ReadOnly,
    /// Size of the ring in bytes.
    size: u64,
    page: usize,
}

impl Ring {
    /// Maps the ring buffer of a program.
    pub fn new(map: &Map) -> Result<Ring> {
        let (size, page) = (u64::from(map.max_entries()), page());
        let fd = map.fd().as_fd();
        let consumer = Mapping::new(Some(fd), 0, page);
        let records = ReadOnly::new(fd, page as u64, page + 2 * size as usize);
        let to = || format!("map the ring {}", map.name());
        Ok(Ring { consumer: consumer.context(to)?, records: records.context(to)?, size, page })
    }

    /// Takes the records that were complete when it was called, in order.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let position = self.consumer.long(0);
        let (mut at, end) = (position.load(Acquire), self.records.long(0));
        while at < end {
            let offset = self.page + (at & (self.size - 1)) as usize;
            let head = self.records.word(offset);
            if head & BUSY != 0 {
                break;
            }
            let length = u64::from(head & !DISCARDED);
            if head & DISCARDED == 0 {
                let mut record = vec![0; length as usize];
                self.records.copy_out(offset + HEAD as usize, &mut record);
                all.push(record);
            }
            at += (length + HEAD).next_multiple_of(8);
            // The kernel may use the memory of the record from now on.
            position.store(at, Release);
        }
        all
    }
}
