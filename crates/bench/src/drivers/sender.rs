//! A thread that sends generated packets into the wire, at a given rate or as fast as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dataplane::port::{Port, Unsent};
use io::port::Driver;

use super::wire::Wire;
use crate::{Error, Result};

/// Packets that are sent between two readings of the clock.
const BURST: usize = 32;
/// The rate that means "as fast as possible".
pub const FLOOD: u64 = 0;

/// A sending thread. Dropping it ends the thread.
pub struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<std::result::Result<(), String>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The rate in packets a second, or [`FLOOD`].
    rate: AtomicU64,
    sent: AtomicU64,
}

impl Sender {
    /// Starts to send through an AF_XDP socket on the wire's first link. The thread runs on the first processor, which the forwarder does
    /// not use.
    pub fn start(wire: &Wire, packets: Vec<Vec<u8>>) -> Result<Sender> {
        let opened = wire.namespace.enter(|| Driver::AfXdp("gen".to_string(), Some(0)).open(1))?;
        let mut queues = opened.map_err(|error| Error::Driver(error.to_string()))?;
        let port = queues.pop().ok_or_else(|| Error::Driver("no queue".to_owned()))?;
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::spawn(move || {
            let processors = io::port::processors();
            if let Some(first) = processors.last().filter(|_| processors.len() > 1) {
                io::port::pin(*first).map_err(|error| error.to_string())?;
            }
            send(port, &packets, &own)
        });
        Ok(Sender { shared, thread: Some(thread) })
    }

    /// Changes the rate.
    pub fn rate(&self, packets_per_second: u64) {
        self.shared.rate.store(packets_per_second, Ordering::Relaxed);
    }

    /// The number of packets that the link has accepted.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Ends the thread, and returns its error if it failed.
    pub fn end(mut self) -> Result<()> {
        self.join().map_err(Error::Driver)
    }

    fn join(&mut self) -> std::result::Result<(), String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(|thread| thread.join());
        ended.map_or(Ok(()), |ended| ended.unwrap_or_else(|_| Err("the sender panicked".to_owned())))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn send(mut port: Box<dyn Port>, packets: &[Vec<u8>], shared: &Shared) -> std::result::Result<(), String> {
    let (mut due, mut last) = (Instant::now(), u64::MAX);
    for burst in packets.chunks(BURST).cycle() {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let rate = shared.rate.load(Ordering::Relaxed);
        if rate != FLOOD {
            if rate != last {
                due = Instant::now();
            }
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            due += Duration::from_secs_f64(burst.len() as f64 / rate as f64);
        }
        last = rate;
        for packet in burst {
            while port.send(packet, None) == Err(Unsent::Full) {
                port.flush().map_err(|error| error.to_string())?;
                if shared.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        port.flush().map_err(|error| error.to_string())?;
        shared.sent.store(port.counts().sent.packets, Ordering::Relaxed);
    }
    Ok(())
}
