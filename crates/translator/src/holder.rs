//! Holds packets that the program in the kernel cannot translate yet, and gives them back to it: fragments that came before the first one of their packet
//! (RFC 6146 section 3.4), and SYNs from IPv4 that nobody has asked for (RFC 5382 REQ-4).
//!
//! The program sends them to a TAP interface of this process as they arrived. Packets come back through the device, from an Ethernet address by which the
//! program knows them. A fragment comes back after some milliseconds, and again until its first one has passed or its time is over; a SYN
//! after six seconds, when the program answers it with an ICMP error unless the host has opened the connection meanwhile.
//!
//! What is held is bounded, in all and of each source: an IPv4 address, or a /64 of IPv6. Without this process, such packets are dropped; others do not need it.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use io::controller::ControllerPort;
use io::packet::PacketSocket;

use crate::log::Log;

/// The port of the program for packets that are held, as apps/nat64/sessions.p4 has it.
pub const PORT: u32 = 3;
/// The Ethernet source of packets that come back.
const FROM: [u8; 6] = [0x02, 0x53, 0x54, 0x48, 0x4f, 0x4c];
/// How many packets are held at most, of fragments and of SYNs.
const ROOM: usize = 1024;
/// How many of them may be of one source.
const SHARE: usize = ROOM / 8;
/// How many fragments are known that may come back.
const KNOWN: usize = 4 * ROOM;
/// How long a SYN is held (RFC 5382 REQ-4).
const SYN: Duration = Duration::from_secs(6);
/// When a fragment comes back for the first time, and the longest interval after that.
const SOON: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_millis(200);
/// The longest wait for packets.
const TURN: Duration = Duration::from_millis(200);
/// The interval of warnings.
const QUIET: Duration = Duration::from_secs(60);

/// A thread that holds packets of a device.
#[derive(Debug)]
pub struct Holder {
    ended: Arc<AtomicBool>,
    index: u32,
    thread: Option<JoinHandle<()>>,
}

impl Holder {
    /// Begins. Fragments are held for `longest` in all.
    pub fn start(device: &str, longest: Duration, log: &Log) -> anyhow::Result<Self> {
        let port = ControllerPort::create()?;
        let (index, back) = (port.index(), PacketSocket::open(device)?);
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, log) = (ended.clone(), log.clone());
        let thread = thread::spawn(move || {
            let mut store = Store::new(longest);
            let mut said: Option<Instant> = None;
            while !stop.load(Relaxed) {
                let turn = turn(&port, &back, &mut store);
                let full = std::mem::take(&mut store.full);
                let problem = match turn {
                    Err(error) => Some(error.to_string()),
                    Ok(()) if full > 0 => Some(format!("{full} packets found no room")),
                    Ok(()) => None,
                };
                if let Some(problem) = problem.filter(|_| said.is_none_or(|at| at.elapsed() > QUIET)) {
                    log.warning(&format!("fragments and SYNs are not held: {problem}"));
                    said = Some(Instant::now());
                }
            }
        });
        Ok(Self { ended, index, thread: Some(thread) })
    }

    /// The index of the interface to which the program sends packets.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn turn(port: &ControllerPort, back: &PacketSocket, store: &mut Store) -> io::Result<()> {
    port.wait(store.next(Instant::now()).min(TURN))?;
    let now = Instant::now();
    for frame in port.receive()? {
        store.take(frame, now);
    }
    for frame in store.due(now) {
        // The device may be gone for a moment.
        let _ = back.send(&frame);
    }
    Ok(())
}

/// What is held.
struct Store {
    longest: Duration,
    held: Vec<Held>,
    /// When each fragment came first, by the hash of what follows its Ethernet addresses.
    since: HashMap<u64, Instant>,
    hash: RandomState,
    /// The number of packets that found no room.
    full: u64,
}

struct Held {
    frame: Vec<u8>,
    kind: Kind,
    at: Instant,
}

impl Store {
    fn new(longest: Duration) -> Self {
        Self { longest, held: Vec::new(), since: HashMap::new(), hash: RandomState::new(), full: 0 }
    }

    /// How long it takes until a packet is due.
    fn next(&self, now: Instant) -> Duration {
        let next = self.held.iter().map(|held| held.at.saturating_duration_since(now)).min();
        next.unwrap_or(TURN)
    }

    /// Holds a packet of the program.
    fn take(&mut self, mut frame: Vec<u8>, now: Instant) {
        let Some(kind) = Kind::of(&frame) else { return };
        let came_back = frame.get(6..12) == Some(&FROM[..]);
        let mut known = None;
        let wait = match kind.fragment {
            // The program answers one that comes back.
            false if came_back => return,
            false => SYN,
            true => {
                let key = self.hash.hash_one(&frame[12..]);
                let since = match (came_back, self.since.get(&key)) {
                    (true, None) => return,
                    (true, Some(since)) => *since,
                    (false, _) => now,
                };
                let age = now.duration_since(since);
                if age > self.longest {
                    self.since.remove(&key);
                    return;
                }
                known = Some((key, since));
                // Twice as long as it has been here, so it comes back about a dozen times.
                age.clamp(SOON, LATER)
            }
        };
        let same = self.held.iter().filter(|held| held.kind.fragment == kind.fragment).count();
        let own = self.held.iter().filter(|held| held.kind == kind).count();
        if same >= ROOM || own >= SHARE || (known.is_some() && self.since.len() >= KNOWN) {
            self.full += 1;
            return;
        }
        self.since.extend(known);
        frame[6..12].copy_from_slice(&FROM);
        self.held.push(Held { frame, kind, at: now + wait });
    }

    /// The packets that go back now.
    fn due(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let longest = self.longest;
        self.since.retain(|_, since| now.duration_since(*since) <= longest + LATER);
        let (due, held) = std::mem::take(&mut self.held).into_iter().partition(|held| held.at <= now);
        self.held = held;
        due.into_iter().map(|held: Held| held.frame).collect()
    }
}

/// What a packet is, and whose.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// Whether it is a fragment that is not the first one. Otherwise it is a SYN.
    fragment: bool,
    /// The IPv4 address that sends it, or the /64.
    source: u64,
}

impl Kind {
    /// That of a frame; `None` if it is nothing that is held.
    fn of(frame: &[u8]) -> Option<Kind> {
        let number = |at: std::ops::Range<usize>| {
            Some(frame.get(at)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        match frame.get(12..14)? {
            [0x08, 0x00] => Some(Kind { fragment: number(20..22)? & 0x1fff != 0, source: number(26..30)? }),
            [0x86, 0xdd] => Some(Kind { fragment: true, source: number(22..30)? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fragment of a source.
    fn fragment_of(source: u8, number: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[29] = source;
        frame[50..52].copy_from_slice(&number.to_be_bytes());
        frame
    }

    fn fragment(number: u16) -> Vec<u8> {
        fragment_of(0, number)
    }

    fn syn(source: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[29] = source;
        frame
    }

    #[test]
    fn a_fragment_comes_back_until_its_time_is_over() {
        let (mut store, mut now) = (Store::new(Duration::from_secs(2)), Instant::now());
        let begun = now;
        store.take(fragment(1), now);
        let mut times = 0;
        loop {
            now += store.next(now);
            let due = store.due(now);
            let Some(frame) = due.into_iter().next() else { break };
            assert_eq!(frame[6..12], FROM);
            times += 1;
            store.take(frame, now);
            if store.held.is_empty() {
                break;
            }
        }
        assert!((8..30).contains(&times), "{times}");
        assert!(now.duration_since(begun) > Duration::from_secs(2));
        assert!(store.since.is_empty() || store.due(now + LATER * 20).is_empty());
    }

    #[test]
    fn a_source_has_a_share_of_what_is_held() {
        let (mut store, now) = (Store::new(Duration::from_secs(2)), Instant::now());
        for number in 0..2 * ROOM as u16 {
            store.take(fragment_of(1, number), now);
            store.take(syn(1), now);
        }
        assert_eq!((store.held.len(), store.since.len()), (2 * SHARE, SHARE));
        store.take(fragment_of(2, 0), now);
        store.take(syn(2), now);
        assert_eq!(store.held.len(), 2 * SHARE + 2, "another source has room");
    }

    #[test]
    fn a_syn_is_held_for_six_seconds_and_what_is_held_is_bounded() {
        let (mut store, now) = (Store::new(Duration::from_secs(2)), Instant::now());
        for number in 0..ROOM + 10 {
            store.take(syn(number as u8), now);
        }
        assert_eq!((store.held.len(), store.full), (ROOM, 10));
        // Fragments have room of their own.
        store.take(fragment(1), now);
        assert_eq!(store.full, 10);
        assert_eq!(store.due(now + Duration::from_millis(5900)).len(), 1);
        let due = store.due(now + SYN);
        assert_eq!(due.len(), ROOM);
        store.take(due[0].clone(), now + SYN);
        assert!(store.held.is_empty(), "the program answers it now");
        // Also when each of them has been seen for the first time.
        for number in 0..10_000 {
            store.take(fragment_of(number as u8, number), now);
        }
        assert!(store.held.len() <= ROOM && store.since.len() <= ROOM, "{}", store.since.len());
        store.due(now + Duration::from_secs(10));
        store.take(vec![0; 5], now);
        store.take(vec![0; 14], now);
        assert!(store.held.is_empty());
    }
}
