//! Text for a reader that may stall, such as a pipe that nobody reads. A queue and a thread of its own take it, so that the process goes on and ends as
//! without that reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The number of texts that wait at most.
const ROOM: usize = 1024;

/// The way to a reader.
#[derive(Debug)]
pub struct Outlet {
    queue: SyncSender<String>,
    counts: Arc<Counts>,
}

/// How many texts wait, and how many found no room since that was said.
#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicU64,
    lost: AtomicU64,
}

impl Outlet {
    /// Starts a thread that gives each text to `write`.
    pub fn start(write: impl Fn(&[u8]) -> std::io::Result<()> + Send + 'static) -> Self {
        let (queue, receiver) = sync_channel(ROOM);
        let counts = Arc::new(Counts::default());
        let of_thread = counts.clone();
        std::thread::spawn(move || work(&receiver, &of_thread, write));
        Self { queue, counts }
    }

    /// Hands a line over. It is lost, and counted, if too many wait.
    pub fn say(&self, line: &str) {
        self.counts.waiting.fetch_add(1, Relaxed);
        if self.queue.try_send(format!("{line}\n")).is_err() {
            self.counts.waiting.fetch_sub(1, Relaxed);
            self.counts.lost.fetch_add(1, Relaxed);
        }
    }

    /// Whether something is not written yet.
    pub fn waits(&self) -> bool {
        self.counts.waiting.load(Relaxed) > 0
    }
}

/// A reader that has gone away stops nothing.
fn work(queue: &Receiver<String>, counts: &Counts, write: impl Fn(&[u8]) -> std::io::Result<()>) {
    for text in queue {
        let _ = write(text.as_bytes());
        let lost = counts.lost.swap(0, Relaxed);
        if lost > 0 {
            let _ = write(format!("{lost} lines were lost here: nobody read them\n").as_bytes());
        }
        counts.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_reader_that_stalls_delays_nobody_and_learns_what_it_has_missed() {
        let (gate, read) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(Vec::new())));
        let closed = gate.lock().expect("nobody panicked");
        let (open, into) = (gate.clone(), read.clone());
        let outlet = Outlet::start(move |text| {
            drop(open.lock().expect("nobody panicked"));
            into.lock().expect("nobody panicked").extend_from_slice(text);
            Ok(())
        });
        // One is being written, and the queue takes as many as it holds.
        (0..2 * ROOM).for_each(|line| outlet.say(&line.to_string()));
        assert!(outlet.waits());
        drop(closed);
        while outlet.waits() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let read = String::from_utf8(read.lock().expect("nobody panicked").clone()).expect("text");
        let lost = 2 * ROOM - read.lines().filter(|line| line.parse::<usize>().is_ok()).count();
        assert!(lost >= ROOM - 1, "{lost}");
        assert!(read.contains(&format!("{lost} lines were lost here")), "{lost}: {read}");
    }
}
