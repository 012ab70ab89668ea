//! `dpdk:DEVICE`: a device of DPDK's environment abstraction layer (EAL): a PCI address (`dpdk:0000:03:00.0`), or a virtual device with its
//! arguments (`dpdk:net_af_packet0,iface=eth0`). It needs the feature `dpdk`, because it links libdpdk.
//!
//! A module with `unsafe`: calls of dpdk.c. One [`Device`] opens a device, and its queues share it. One thread at a time uses a queue, as
//! DPDK requires. Packet memory belongs to DPDK; each packet is freed once or passed on.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

use crate::{Error, Result};

/// Number of packets in a burst. dpdk.c has the same number.
const BURST: usize = 64;
/// Size of the buffer for an error message in bytes.
const WHY: usize = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct Frame {
    mbuf: *mut c_void,
    length: u32,
}

unsafe extern "C" {
    fn strait_dpdk_start(argc: c_int, argv: *mut *mut c_char, why: *mut c_char, size: usize) -> c_int;
    fn strait_dpdk_open(
        device: *const c_char,
        queues: u16,
        driver: *mut c_char,
        driver_size: usize,
        why: *mut c_char,
        size: usize,
    ) -> c_int;
    fn strait_dpdk_close(port: u16);
    fn strait_dpdk_enter() -> c_int;
    fn strait_dpdk_leave();
    fn strait_dpdk_receive(port: u16, queue: u16, frames: *mut Frame, most: u16) -> u16;
    fn strait_dpdk_take(mbuf: *mut c_void, to: *mut u8);
    fn strait_dpdk_give(port: u16, bytes: *const u8, length: u16) -> *mut c_void;
    fn strait_dpdk_longest(port: u16) -> u32;
    fn strait_dpdk_send(port: u16, queue: u16, all: *mut *mut c_void, count: u16) -> u16;
    fn strait_dpdk_missed(port: u16) -> u64;
}

/// Whether DPDK has been started. A process can start it only once.
static STARTED: Mutex<bool> = Mutex::new(false);

/// The environment variable with further arguments for DPDK, such as `-m 1024` or `--no-huge`.
const ARGUMENTS: &str = "STRAIT_EAL";

/// An open device.
struct Device {
    port: u16,
    driver: String,
    longest: usize,
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the device was opened, and its last queue is gone.
        unsafe { strait_dpdk_close(self.port) };
    }
}

/// The registration of a thread with DPDK. It ends with the thread.
struct Known(bool);

impl Drop for Known {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was made known.
            unsafe { strait_dpdk_leave() };
        }
    }
}

thread_local! {
    // SAFETY: it may be called by any thread once DPDK has started, and queues exist only then.
    static KNOWN: Known = Known(unsafe { strait_dpdk_enter() } == 0);
}

/// One worker's queue of a device.
pub struct Dpdk {
    device: Arc<Device>,
    queue: u16,
    /// Received packets that the worker has not taken yet.
    kept: VecDeque<Frame>,
    /// Packets to send with the next flush.
    waiting: Vec<*mut c_void>,
    lengths: Vec<u64>,
    counts: PortCounts,
}

// SAFETY: the pointers are to memory of DPDK's, which any thread may hand back.
unsafe impl Send for Dpdk {}

/// Opens a device with this number of queues.
pub fn open(device: &str, queues: usize) -> Result<Vec<Dpdk>> {
    let fail = |why: String| Error::Dpdk(why);
    start()?;
    let name = CString::new(device).map_err(|e| fail(e.to_string()))?;
    let (mut driver, mut why) = ([0 as c_char; WHY], [0 as c_char; WHY]);
    // SAFETY: a C string, and room for two more, all alive.
    let port = unsafe {
        strait_dpdk_open(name.as_ptr(), queues as u16, driver.as_mut_ptr(), WHY, why.as_mut_ptr(), WHY)
    };
    let port = u16::try_from(port).map_err(|_| fail(said(&why)))?;
    // SAFETY: the port is open.
    let longest = unsafe { strait_dpdk_longest(port) } as usize;
    let device = Arc::new(Device { port, driver: said(&driver), longest });
    let queue = |queue: usize| Dpdk {
        device: device.clone(),
        queue: queue as u16,
        kept: VecDeque::with_capacity(BURST),
        waiting: Vec::with_capacity(BURST),
        lengths: Vec::with_capacity(BURST),
        counts: PortCounts::default(),
    };
    Ok((0..queues).map(queue).collect())
}

/// Starts DPDK, with huge pages if there are any, otherwise with ordinary memory. DPDK uses no devices except those that ports name.
fn start() -> Result<()> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if *started {
        return Ok(());
    }
    let own = std::env::var(ARGUMENTS).unwrap_or_default();
    let memory = if huge_pages() { "--in-memory" } else { "--no-huge -m 512 --no-shconf" };
    // The allow list has an address that no device has. It keeps DPDK from using every device that it can drive.
    let name = std::process::id();
    let line = format!(
        "strait --no-telemetry --file-prefix strait-{name} -a 0000:00:00.0 --log-level=error {memory} {own}"
    );
    let words: Vec<CString> = line.split_whitespace().filter_map(|word| CString::new(word).ok()).collect();
    let mut pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    let mut why = [0 as c_char; WHY];
    // SAFETY: as many C strings as are said, which DPDK reads and reorders during the call, and room for a message.
    let code =
        unsafe { strait_dpdk_start(pointers.len() as c_int, pointers.as_mut_ptr(), why.as_mut_ptr(), WHY) };
    if code != 0 {
        return Err(Error::Dpdk(said(&why)));
    }
    *started = true;
    Ok(())
}

fn huge_pages() -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    free.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
}

fn said(text: &[c_char; WHY]) -> String {
    // SAFETY: C code wrote a string there, or it is all zeros.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

impl Port for Dpdk {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> std::result::Result<(), PortError> {
        KNOWN.with(|_| ());
        if self.kept.is_empty() {
            let mut frames = [Frame { mbuf: std::ptr::null_mut(), length: 0 }; BURST];
            // SAFETY: there is room for so many frames; the queue is this thread's.
            let count = unsafe {
                strait_dpdk_receive(self.device.port, self.queue, frames.as_mut_ptr(), BURST as u16)
            };
            self.kept.extend(&frames[..usize::from(count)]);
        }
        while inbox.room().is_some() {
            let Some(frame) = self.kept.pop_front() else { break };
            self.take(&frame, inbox);
        }
        Ok(())
    }

    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> std::result::Result<(), Unsent> {
        if offload.is_some() {
            self.counts.unfit += 1;
            return Err(Unsent::Segments);
        }
        if packet.len() > self.device.longest {
            self.counts.unfit += 1;
            return Err(Unsent::TooLong);
        }
        // SAFETY: the bytes are alive, and no longer than a buffer.
        let mbuf = unsafe { strait_dpdk_give(self.device.port, packet.as_ptr(), packet.len() as u16) };
        if mbuf.is_null() {
            self.counts.full += 1;
            return Err(Unsent::Full);
        }
        self.waiting.push(mbuf);
        self.lengths.push(packet.len() as u64);
        if self.waiting.len() == BURST {
            self.out();
        }
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), PortError> {
        self.out();
        Ok(())
    }

    fn counts(&mut self) -> PortCounts {
        if self.queue == 0 {
            // SAFETY: the port is open.
            self.counts.missed = unsafe { strait_dpdk_missed(self.device.port) };
        }
        self.counts
    }

    fn how(&self) -> String {
        format!("{}, polled", self.device.driver)
    }

    fn polled(&self) -> bool {
        true
    }
}

impl Dpdk {
    fn take(&mut self, frame: &Frame, inbox: &mut dyn Inbox) {
        let length = frame.length as usize;
        let room = inbox.room().and_then(|room| room.get_mut(..length));
        let fits = room.is_some();
        let to = room.map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
        // SAFETY: the packet is ours and as long as its length says; there is as much room, or the pointer is null.
        unsafe { strait_dpdk_take(frame.mbuf, to) };
        if fits {
            self.counts.received.add(length as u64);
            inbox.take(length, None);
        } else {
            self.counts.missed += 1;
        }
    }

    fn out(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        KNOWN.with(|_| ());
        let count = self.waiting.len() as u16;
        // SAFETY: these are packets of ours, which are DPDK's from now on.
        let sent =
            unsafe { strait_dpdk_send(self.device.port, self.queue, self.waiting.as_mut_ptr(), count) };
        self.lengths[..usize::from(sent)].iter().for_each(|length| self.counts.sent.add(*length));
        self.counts.full += u64::from(count - sent);
        self.waiting.clear();
        self.lengths.clear();
    }
}

impl Drop for Dpdk {
    fn drop(&mut self) {
        self.out();
        // SAFETY: these are packets of ours, and they are not copied.
        self.kept.drain(..).for_each(|frame| unsafe { strait_dpdk_take(frame.mbuf, std::ptr::null_mut()) });
    }
}
