//! Captures of links: what arrives at both ends, in one file. So a frame is seen whoever sends it, also by ways that hide it from taps at the sender.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use io::netns::Namespace;
use io::packet::PacketSocket;
use io::pcap::{self, Frame};

/// How long a thread waits for a frame before it looks whether it must end.
const TURN: Duration = Duration::from_millis(100);

/// A capture that goes on until it is dropped. The file is whole at any time.
pub struct Capture {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Capture {
    /// Captures what arrives at these interfaces of namespaces.
    pub fn start(file: &Path, ends: [(&Namespace, String); 2]) -> anyhow::Result<Capture> {
        let made = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        let writer = Arc::new(Mutex::new(pcap::writer(made)?));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (namespace, interface) in ends {
            let socket = namespace.run(|| PacketSocket::open(&interface))??;
            let (stop, writer) = (stop.clone(), writer.clone());
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    // The interface goes with its namespace.
                    let Ok(received) = socket.receive(TURN) else { break };
                    let Some(data) = received else { continue };
                    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                    if pcap::append(&mut writer, &Frame { time, data }).is_err() {
                        break;
                    }
                }
            }));
        }
        Ok(Capture { stop, threads })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // A frame may be on its way to the file.
        std::thread::sleep(TURN);
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
