//! Copies of packets for somebody who watches a switch: what arrived, and what became of it.
//!
//! * [`Tap`] and [`Watcher`]: the two ends between a worker of this process and a watcher. The worker copies packets into buffers that the watcher
//!   gives back, so it neither waits nor allocates. A packet that finds no buffer, or that comes after more packets in this second than were asked
//!   for, is not copied but counted. Nothing of this exists while nobody watches.
//! * [`Interfaces`]: what arrives at interfaces and leaves through them, for programs that the kernel runs.

mod interfaces;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use dataplane::port::Offload;

pub use interfaces::{Interfaces, Passed};

/// The number of buffers of all workers.
const BUFFERS: usize = 512;
/// The size of a buffer in bytes: the longest packet twice, as it arrives and as it leaves. A buffer takes the memory that its packets needed.
const BUFFER: usize = 1 << 17;
/// The number of packets that a buffer can name: one that arrived, and those that became of it.
const PARTS: usize = 64;

/// What a watcher asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The ports where packets arrive that are copied.
    pub ports: Vec<u32>,
    /// The greatest number of packets in a second.
    pub rate: u64,
}

/// A packet that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The port where it left.
    pub port: u32,
    /// The segmentation that remains.
    pub offload: Option<Offload>,
    /// Where its bytes end in the buffer. They begin where those of the packet before it end.
    end: usize,
}

/// A packet that arrived, with what became of it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The time of its burst in microseconds, on the clock that the program has.
    pub time: u64,
    /// The port where it arrived.
    pub port: u32,
    /// The segmentation that remains.
    pub offload: Option<Offload>,
    /// The reason for which it was dropped, as an index of the manifest's.
    pub dropped: Option<u32>,
    /// The number of sent packets that found no room here.
    pub left_out: u64,
    sent: Vec<Sent>,
    bytes: Vec<u8>,
    arrived: usize,
    worker: usize,
}

impl Seen {
    /// The packet as it arrived.
    pub fn arrived(&self) -> &[u8] {
        &self.bytes[..self.arrived]
    }

    /// The packets that were sent because of it, in order.
    pub fn sent(&self) -> impl Iterator<Item = (&Sent, &[u8])> {
        let begins = std::iter::once(self.arrived).chain(self.sent.iter().map(|sent| sent.end));
        begins.zip(&self.sent).map(|(begin, sent)| (sent, &self.bytes[begin..sent.end]))
    }
}

/// What was not copied from one port.
#[derive(Debug, Default)]
struct Counts {
    copied: AtomicU64,
    missed: AtomicU64,
}

/// The end of a worker.
pub struct Tap {
    free: Receiver<Box<Seen>>,
    full: SyncSender<Box<Seen>>,
    counts: Arc<Vec<(u32, Counts)>>,
    /// The copies of the current burst, by the packet's number in it.
    burst: Vec<Option<Box<Seen>>>,
    /// The port of the current burst, as an index of `counts`, and its time.
    current: (usize, u64),
    budget: Budget,
    gone: bool,
}

/// How many packets may be taken. A tenth of a second's packets may come at once.
#[derive(Debug)]
pub struct Budget {
    /// Packets in a second.
    rate: u64,
    /// Millionths of packets.
    allowed: u64,
    /// The time of the last packet in microseconds.
    last: u64,
}

impl Budget {
    /// A budget of this number of packets in a second.
    pub fn new(rate: u64) -> Budget {
        Budget { rate, allowed: 0, last: 0 }
    }

    /// Whether packets may be taken at a time in microseconds. If too many were taken shortly before, none may.
    pub fn has_any(&mut self, time: u64) -> bool {
        let more = time.saturating_sub(self.last).saturating_mul(self.rate);
        let most = self.rate.max(10).saturating_mul(MILLION / 10);
        self.allowed = self.allowed.saturating_add(more).min(most);
        self.last = time;
        self.allowed >= MILLION
    }

    /// Takes a packet. Returns false if there is none left.
    pub fn take(&mut self) -> bool {
        let taken = self.allowed.checked_sub(MILLION);
        self.allowed = taken.unwrap_or(self.allowed);
        taken.is_some()
    }
}

/// The end of the watcher. When it is dropped, the workers stop copying.
pub struct Watcher {
    full: Receiver<Box<Seen>>,
    free: Vec<SyncSender<Box<Seen>>>,
    counts: Arc<Vec<(u32, Counts)>>,
}

/// Makes a tap for each worker.
pub fn taps(workers: usize, wanted: &Wanted) -> (Vec<Tap>, Watcher) {
    let (send, full) = sync_channel(BUFFERS);
    let counts: Vec<_> = wanted.ports.iter().map(|port| (*port, Counts::default())).collect();
    let counts = Arc::new(counts);
    let each = (BUFFERS / workers.max(1)).max(1);
    let mut free = Vec::new();
    let tap = |worker| {
        let (give, take) = sync_channel(each);
        for _ in 0..each {
            let (bytes, sent) = (Vec::with_capacity(BUFFER), Vec::with_capacity(PARTS));
            let buffer = Box::new(Seen { worker, bytes, sent, ..Seen::default() });
            // There is room for all of them.
            let _ = give.try_send(buffer);
        }
        free.push(give);
        Tap {
            free: take,
            full: send.clone(),
            counts: counts.clone(),
            burst: Vec::with_capacity(each),
            current: (0, 0),
            budget: Budget::new(wanted.rate),
            gone: false,
        }
    };
    let taps = (0..workers).map(tap).collect();
    (taps, Watcher { full, free, counts })
}

const MILLION: u64 = 1_000_000;

impl Tap {
    /// A burst of packets has arrived on a port, at a time in microseconds. Returns whether any of them may be copied; if not, they are counted.
    pub fn begin(&mut self, port: u32, time: u64, packets: usize) -> bool {
        let Some(at) = self.counts.iter().position(|(number, _)| *number == port) else { return false };
        self.current = (at, time);
        let any = self.budget.has_any(time);
        if !any {
            self.counts[at].1.missed.fetch_add(packets as u64, Ordering::Relaxed);
        }
        any
    }

    /// The next packet of the burst, before the program has it.
    pub fn arrived(&mut self, bytes: &[u8], offload: Option<&Offload>) {
        let (at, time) = self.current;
        let buffer = self.buffer(bytes.len());
        let (port, counts) = &self.counts[at];
        let count = if buffer.is_some() { &counts.copied } else { &counts.missed };
        count.fetch_add(1, Ordering::Relaxed);
        self.burst.push(buffer.map(|mut seen| {
            seen.bytes.clear();
            seen.sent.clear();
            seen.bytes.extend_from_slice(bytes);
            (seen.time, seen.port, seen.arrived) = (time, *port, bytes.len());
            (seen.offload, seen.dropped, seen.left_out) = (offload.copied(), None, 0);
            seen
        }));
    }

    /// A buffer for a packet of this length, if one is free and the rate allows it.
    fn buffer(&mut self, length: usize) -> Option<Box<Seen>> {
        if length > BUFFER || !self.budget.take() {
            return None;
        }
        let free = self.free.try_recv();
        self.gone |= matches!(free, Err(TryRecvError::Disconnected));
        free.ok()
    }

    /// A packet is sent that became of the packet with the number `of` in the burst.
    pub fn sent(&mut self, of: usize, port: u32, bytes: &[u8], offload: Option<&Offload>) {
        let Some(seen) = self.burst.get_mut(of).and_then(Option::as_mut) else { return };
        if seen.bytes.len() + bytes.len() > BUFFER || seen.sent.len() >= PARTS {
            seen.left_out += 1;
            return;
        }
        seen.bytes.extend_from_slice(bytes);
        seen.sent.push(Sent { port, offload: offload.copied(), end: seen.bytes.len() });
    }

    /// The packet with the number `of` in the burst is dropped, for a reason of the manifest.
    pub fn dropped(&mut self, of: usize, reason: u32) {
        if let Some(seen) = self.burst.get_mut(of).and_then(Option::as_mut) {
            seen.dropped = Some(reason);
        }
    }

    /// The number of the packet that arrived last.
    pub fn last(&self) -> usize {
        self.burst.len().saturating_sub(1)
    }

    /// Whether a packet of the burst is copied.
    pub fn is_copying(&self) -> bool {
        self.burst.iter().any(Option::is_some)
    }

    /// Gives the copies of the burst to the watcher. Returns false if nobody watches any more.
    pub fn finish(&mut self) -> bool {
        for seen in self.burst.drain(..).flatten() {
            // There is room for every buffer.
            self.gone |= self.full.try_send(seen).is_err();
        }
        !self.gone
    }
}

impl Watcher {
    /// The next packet, if there is one in time. `None` for ever if the workers have ended.
    pub fn next(&self, wait: Duration) -> Result<Option<Box<Seen>>, Ended> {
        match self.full.recv_timeout(wait) {
            Ok(seen) => Ok(Some(seen)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    /// Gives a buffer back.
    pub fn give_back(&self, seen: Box<Seen>) {
        let worker = seen.worker;
        // There is room for every buffer; a worker that has ended needs none.
        let _ = self.free[worker].try_send(seen);
    }

    /// For each port: the packets that were copied, and those that were not.
    pub fn counts(&self) -> Vec<(u32, u64, u64)> {
        let count = |(port, counts): &(u32, Counts)| {
            (*port, counts.copied.load(Ordering::Relaxed), counts.missed.load(Ordering::Relaxed))
        };
        self.counts.iter().map(count).collect()
    }
}

/// The workers have ended: no more packets come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn tap(rate: u64) -> (Tap, Watcher) {
        let (mut taps, watcher) = taps(1, &Wanted { ports: vec![3, 4], rate });
        (taps.remove(0), watcher)
    }

    #[test]
    fn what_becomes_of_a_packet_is_seen_with_it() {
        let (mut tap, watcher) = tap(1000);
        assert!(tap.begin(3, 5_000_000, 2));
        tap.arrived(b"first", None);
        tap.arrived(b"second", None);
        tap.sent(1, 7, b"SECOND", None);
        tap.sent(1, 8, b"copy", None);
        tap.dropped(0, 2);
        assert!(tap.finish());
        let first = watcher.next(NOW).expect("it watches").expect("a packet");
        assert_eq!((first.port, first.time, first.arrived()), (3, 5_000_000, &b"first"[..]));
        assert_eq!((first.dropped, first.sent().count()), (Some(2), 0));
        let second = watcher.next(NOW).expect("it watches").expect("a packet");
        assert_eq!((second.arrived(), second.dropped), (&b"second"[..], None));
        let sent: Vec<_> = second.sent().map(|(sent, bytes)| (sent.port, bytes.to_vec())).collect();
        assert_eq!(sent, [(7, b"SECOND".to_vec()), (8, b"copy".to_vec())]);
        assert_eq!(watcher.counts(), [(3, 2, 0), (4, 0, 0)]);
    }

    #[test]
    fn a_watcher_that_is_slow_loses_packets_and_knows_how_many() {
        let (mut tap, watcher) = tap(u64::MAX / MILLION);
        assert!(tap.begin(4, 1_000_000, BUFFERS + 10));
        (0..BUFFERS + 10).for_each(|_| tap.arrived(b"x", None));
        assert!(tap.finish());
        assert_eq!(watcher.counts()[1], (4, BUFFERS as u64, 10));
        let seen = watcher.next(NOW).expect("it watches").expect("a packet");
        watcher.give_back(seen);
        assert!(tap.begin(4, 1_000_001, 2));
        (0..2).for_each(|_| tap.arrived(b"y", None));
        assert_eq!(watcher.counts()[1], (4, BUFFERS as u64 + 1, 11), "one buffer is free again");
    }

    #[test]
    fn no_more_packets_are_copied_than_were_asked_for() {
        let (mut tap, watcher) = tap(100);
        for time in 0..2000 {
            if tap.begin(3, 10_000_000 + time * 1000, 1) {
                tap.arrived(b"x", None);
            }
            assert!(tap.finish());
            watcher.next(NOW).expect("it watches").into_iter().for_each(|seen| watcher.give_back(seen));
        }
        let (_, copied, missed) = watcher.counts()[0];
        assert_eq!(copied + missed, 2000);
        assert!((200..=210).contains(&copied), "two seconds of 100, and a tenth: {copied}");
    }

    #[test]
    fn other_ports_are_not_copied() {
        let (mut tap, watcher) = tap(1000);
        assert!(!tap.begin(9, 1_000_000, 1));
        assert!(tap.finish());
        assert!(watcher.next(NOW).expect("it watches").is_none());
    }

    #[test]
    fn nobody_watches_any_more() {
        let (mut tap, watcher) = tap(1000);
        drop(watcher);
        assert!(tap.begin(3, 1_000_000, 1));
        tap.arrived(b"x", None);
        assert!(!tap.finish());
    }
}
