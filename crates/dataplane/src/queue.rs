//! The queue in front of a port's egress: packets wait there because the port has a rate, and are dropped because its depth has a limit.
//!
//! The model is that of BMv2's simple_switch. Packets leave in the order in which they came. Of two packets that wait one behind the other, the second
//! one leaves when the port has sent the first one at its rate. Targets put their packets into one [`Queue`] for each port, and tell it the time.

use std::collections::VecDeque;
use std::str::FromStr;

use crate::Count;

/// The depth of a queue for which none is given: BMv2's.
pub const DEPTH: usize = 64;

const NANOS: u128 = 1_000_000_000;

/// How fast a port sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets a second, of any length.
    Packets(u64),
    /// Bits a second. A packet counts with the bytes that it has when it enters the queue, from its Ethernet header on.
    Bits(u64),
}

/// The units of rates, each with its size: tc's, in powers of ten.
const UNITS: [(&str, f64); 5] = [("pps", 1.0), ("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];

impl FromStr for Rate {
    type Err = String;

    /// Parses `100pps` or `0.5mbit`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("`{text}` is no rate: write 100pps, or 500kbit (bit, kbit, mbit, gbit)");
        let (unit, size) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
        let number: f64 = text[..text.len() - unit.len()].parse().map_err(|_| wrong())?;
        let rate = number * size;
        // Faster than this, a packet takes no time that the queue could measure.
        if !(1.0..=1e12).contains(&rate) {
            return Err(format!("`{text}`: a rate is between 1 and a million million a second"));
        }
        let rate = rate.round() as u64;
        Ok(if unit == "pps" { Rate::Packets(rate) } else { Rate::Bits(rate) })
    }
}

impl Rate {
    /// How long the port is busy with a packet, in nanoseconds.
    fn busy(self, bytes: u64) -> u64 {
        let (units, rate) = match self {
            Rate::Packets(rate) => (1, rate),
            Rate::Bits(rate) => (u128::from(bytes) * 8, rate),
        };
        // It takes some time in any case, so that a packet that is recirculated does not meet an idle port for ever.
        u64::try_from(units * NANOS / u128::from(rate.max(1))).unwrap_or(u64::MAX).max(1)
    }
}

/// What is set for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How fast the port sends.
    pub rate: Rate,
    /// The number of packets that may wait.
    pub depth: usize,
}

/// What a packet that leaves a queue knows about its wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// When it entered the queue, in microseconds.
    pub entered: u64,
    /// The packets that waited when it entered.
    pub before: u64,
    /// How long it waited, in microseconds.
    pub waited: u64,
    /// The packets that wait when it leaves.
    pub behind: u64,
}

/// What a queue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// The packets that found the queue full.
    pub dropped: Count,
    /// The greatest number of packets that have waited.
    pub deepest: u64,
}

/// The queue of a port, with packets of a target's own kind.
#[derive(Debug)]
pub struct Queue<T> {
    shape: Shape,
    waiting: VecDeque<Waiting<T>>,
    /// When the port has sent what it was given, in nanoseconds.
    free: u64,
    counts: QueueCounts,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    entered: u64,
    before: u64,
    /// When the packet leaves, in nanoseconds.
    leaves: u64,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(shape: Shape) -> Queue<T> {
        Queue { shape, waiting: VecDeque::new(), free: 0, counts: QueueCounts::default() }
    }

    /// Puts a packet into the queue. `now` is the time in microseconds. A queue that is full returns the packet, and counts it.
    ///
    /// # Errors
    /// The packet, if as many packets wait as may.
    pub fn push(&mut self, now: u64, bytes: u64, item: T) -> Result<(), T> {
        let before = self.depth(now);
        if before >= self.shape.depth as u64 {
            self.counts.dropped.add(bytes);
            return Err(item);
        }
        let leaves = self.free.max(now.saturating_mul(1000));
        self.free = leaves.saturating_add(self.shape.rate.busy(bytes));
        self.waiting.push_back(Waiting { item, entered: now, before, leaves });
        self.counts.deepest = self.counts.deepest.max(self.depth(now));
        Ok(())
    }

    /// Takes the next packet whose time has come.
    pub fn pop(&mut self, now: u64) -> Option<(T, Wait)> {
        if self.waiting.front()?.leaves > now.saturating_mul(1000) {
            return None;
        }
        self.take(now)
    }

    /// Takes the next packet, whether its time has come or not.
    pub fn take(&mut self, now: u64) -> Option<(T, Wait)> {
        let Waiting { item, entered, before, .. } = self.waiting.pop_front()?;
        let waited = now.saturating_sub(entered);
        Some((item, Wait { entered, before, waited, behind: self.depth(now) }))
    }

    /// When the next packet leaves, in microseconds.
    pub fn next(&self) -> Option<u64> {
        Some(self.waiting.front()?.leaves.div_ceil(1000))
    }

    /// The number of packets that have to wait longer. Packets whose time has come are gone, although nobody may have taken them yet.
    pub fn depth(&self, now: u64) -> u64 {
        let gone = self.waiting.partition_point(|waiting| waiting.leaves <= now.saturating_mul(1000));
        (self.waiting.len() - gone) as u64
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Whether no packet is in the queue.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What the queue has counted.
    pub fn counts(&self) -> QueueCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays arrivals, as (time in microseconds, bytes), and takes each packet at its time. Returns the waits, and the number of drops.
    fn play(rate: &str, depth: usize, arrivals: &[(u64, u64)]) -> (Vec<(u64, u64, u64, u64)>, u64) {
        let mut queue = Queue::new(Shape { rate: rate.parse().expect("a rate"), depth });
        let mut waits = Vec::new();
        let mut take = |queue: &mut Queue<()>, until: u64| {
            while let Some(at) = queue.next().filter(|at| *at <= until) {
                let (_, wait) = queue.pop(at).expect("its time has come");
                waits.push((wait.entered, wait.before, wait.waited, wait.behind));
            }
        };
        for (now, bytes) in arrivals {
            take(&mut queue, *now);
            let _ = queue.push(*now, *bytes, ());
        }
        take(&mut queue, u64::MAX / 2000);
        assert!(queue.is_empty());
        (waits, queue.counts().dropped.packets)
    }

    #[test]
    fn packets_that_come_faster_than_they_leave_find_others_before_them() {
        // Two packets a millisecond into a port that sends one.
        let arrivals: Vec<(u64, u64)> = (0..6).map(|i| (i * 500, 100)).collect();
        let (waits, dropped) = play("1000pps", 64, &arrivals);
        assert_eq!(
            waits,
            [
                (0, 0, 0, 0),
                (500, 0, 500, 0),
                (1000, 0, 1000, 1),
                (1500, 1, 1500, 2),
                (2000, 1, 2000, 1),
                (2500, 2, 2500, 0),
            ]
        );
        assert_eq!(dropped, 0);
    }

    #[test]
    fn a_full_queue_drops() {
        let (waits, dropped) = play("1000pps", 2, &[(0, 100); 5]);
        assert_eq!(waits, [(0, 0, 0, 0), (0, 0, 1000, 1), (0, 1, 2000, 0)]);
        assert_eq!(dropped, 2);
    }

    #[test]
    fn a_rate_in_bits_depends_on_the_length() {
        // 1000 bits take a millisecond, and 2000 bits two.
        let (waits, _) = play("1mbit", 64, &[(0, 125), (0, 250), (0, 125), (9000, 125)]);
        assert_eq!(waits, [(0, 0, 0, 0), (0, 0, 1000, 1), (0, 1, 3000, 0), (9000, 0, 0, 0)]);
    }

    #[test]
    fn rates_have_units() {
        for (text, rate) in [
            ("100pps", Rate::Packets(100)),
            ("0.5mbit", Rate::Bits(500_000)),
            ("9bit", Rate::Bits(9)),
            ("2gbit", Rate::Bits(2_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(rate));
        }
        for wrong in ["", "5", "mbit", "-1mbit", "0pps", "inf pps", "nanbit", "1e30gbit", "5mb"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
