//! Measures the rate of small packets: the cost of a path for each packet, when no offload hides it.
//!
//! A thread sends prepared UDP frames through a packet socket on the sender's link, as fast as it can, bypassing the sender's IP stack. On
//! veth the same processor then carries each packet through the router to the far link, so the rate is the cost of the whole path. The
//! packets go to a sink address: the far link counts and drops them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use io::generator::Generator;

use crate::lab::Namespace;
use crate::path::ActivePath;
use crate::traffic::Datagram;
use crate::{Error, Result, interrupt};

/// Size of an IPv4 frame in bytes, the smallest possible; IPv6 frames have 20 more.
const SIZE: usize = 64;
/// Number of flows, which differ in their source port. Many flows keep a path from profiting from a cache of one flow.
const FLOWS: u16 = 64;
/// The destination port: discard (RFC 863). No process listens on it.
pub const PORT: u16 = 9;
/// How long the sender runs before counting starts.
const WARM_UP: Duration = Duration::from_millis(200);

/// Measures how many packets a second cross the path in one direction.
pub fn measure(active: &ActivePath, to_client: bool, seconds: u32) -> Result<f64> {
    let lab = &active.lab;
    let (from, gateway, to) = if to_client {
        (Link(&lab.server, "s0"), Link(&lab.router, "r1"), Link(&lab.client, "c0"))
    } else {
        (Link(&lab.client, "c0"), Link(&lab.router, "r0"), Link(&lab.server, "s0"))
    };
    let (source, target) =
        if to_client { active.path.sink_at_client() } else { active.path.sink_at_server() };
    let macs = [gateway.mac()?, from.mac()?];
    let size = if source.is_ipv4() { SIZE } else { SIZE + 20 };
    let frame = |flow| Datagram { macs, source, target, ports: [40_000 + flow, PORT] }.packet(size);
    let frames: Vec<Vec<u8>> = (0..FLOWS).map(frame).collect();
    let mut generator = from.generator(frames)?;

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && !interrupt::requested() {
                generator.burst()?;
            }
            Ok(())
        });
        let rate = count(&to, Duration::from_secs(seconds.into()));
        stop.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap_or_else(|_| Err(std::io::Error::other("the sender panicked")));
        sent.map_err(|source| Error::System { what: "send packets".to_owned(), source })?;
        interrupt::check()?;
        rate
    })
}

/// The number of packets a second that reach a link.
fn count(to: &Link, time: Duration) -> Result<f64> {
    thread::sleep(WARM_UP);
    let (start, before) = (Instant::now(), to.received()?);
    thread::sleep(time);
    let (end, after) = (Instant::now(), to.received()?);
    Ok(after.saturating_sub(before) as f64 / (end - start).as_secs_f64())
}

/// A link of a namespace.
struct Link<'a>(&'a Namespace, &'static str);

impl Link<'_> {
    fn mac(&self) -> Result<[u8; 6]> {
        self.0.mac(self.1)
    }

    fn generator(&self, frames: Vec<Vec<u8>>) -> Result<Generator> {
        let opened = self.0.enter(|| Generator::open(self.1, frames))?;
        opened.map_err(|source| Error::System { what: "open a packet socket".to_owned(), source })
    }

    /// The number of packets that the link has received so far.
    fn received(&self) -> Result<u64> {
        self.0.received(self.1).map(|count| count.packets)
    }
}
