//! Sends generated packets out of a port at a rate.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use dataplane::port::{Port, Unsent};
use io::port::Driver;
use io::signals::{self, Signal};
use serde::Serialize;

use crate::cli::TrafficArgs;

/// The largest number of packets between two reads of the clock. At low rates, it is the number of packets in a millisecond.
const BURST: usize = 64;

/// The packets that were sent.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    packets: u64,
    bytes: u64,
    /// The number of packets that were too long for the port.
    unfit: u64,
    seconds: f64,
    packets_per_second: f64,
    /// The rate on the wire in bits per second, including preamble, frame check sequence and interframe gap.
    wire_gbit: f64,
}

/// The number of bytes of a frame on the wire that a port does not see (IEEE 802.3: preamble 8, check sequence 4, gap 12).
const AROUND: u64 = 24;

/// Sends the packets once, or repeatedly until the time is over or a signal arrives.
pub fn send(args: &TrafficArgs, driver: &Driver, packets: &[Vec<u8>]) -> anyhow::Result<Sent> {
    ensure!(!packets.is_empty(), "there is nothing to send");
    let signals = signals::listen(&[Signal::Interrupt, Signal::Terminate])?;
    let mut port = driver.open(1)?.pop().ok_or_else(|| anyhow!("the port has no queue"))?;
    let limit = args.seconds.map(Duration::from_secs_f64);
    let (begun, mut tried) = (Instant::now(), 0u64);
    let burst = args.rate.map_or(BURST, |rate| (rate / 1000.0) as usize).clamp(1, BURST);
    let mut bursts = packets.chunks(burst).cycle();
    let rounds = if limit.is_some() { usize::MAX } else { packets.len().div_ceil(burst) };
    for round in 0..rounds {
        let Some(burst) = bursts.next() else { break };
        out(port.as_mut(), burst)?;
        tried += burst.len() as u64;
        let elapsed = begun.elapsed();
        // Signals are checked only now and then, because a check is a system call.
        let told = round % 64 == 0 && signals.wait(Duration::ZERO).is_some();
        if told || limit.is_some_and(|limit| elapsed >= limit) {
            break;
        }
        if let Some(rate) = args.rate {
            let due = Duration::from_secs_f64(tried as f64 / rate);
            if due > elapsed && signals.wait(due - elapsed).is_some() {
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let counts = port.counts();
    let (packets, bytes) = (counts.sent.packets, counts.sent.bytes);
    Ok(Sent {
        packets,
        bytes,
        unfit: counts.unfit,
        seconds,
        packets_per_second: packets as f64 / seconds,
        wire_gbit: (bytes + packets * AROUND) as f64 * 8.0 / seconds / 1e9,
    })
}

/// Sends a burst. If the queue is full, it waits.
fn out(port: &mut dyn Port, burst: &[Vec<u8>]) -> anyhow::Result<()> {
    for packet in burst {
        while port.send(packet, None) == Err(Unsent::Full) {
            port.flush()?;
        }
    }
    Ok(port.flush()?)
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sent {} packets, {} bytes in {:.2} s: {:.3} M/s, {:.3} Gbit/s on a wire",
            self.packets,
            self.bytes,
            self.seconds,
            self.packets_per_second / 1e6,
            self.wire_gbit
        )?;
        if self.unfit > 0 {
            write!(f, "; {} did not fit the port", self.unfit)?;
        }
        Ok(())
    }
}
