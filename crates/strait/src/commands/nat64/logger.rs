//! Sends reports of bindings and sessions where a file says. A thread of its own does it, behind a bounded queue: a slow disk or collector delays
//! nobody. What there is no room for is counted, and the count is reported like an event.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use control::nat64::report::{Ipfix, RECORDS, Report, lost_json, syslog};
use control::nat64::{LogTarget, embedded};
use ipnet::Ipv6Net;
use jiff::Timestamp;

use super::log::Log;

/// The number of reports that the queue holds.
const ROOM: usize = 1 << 16;
/// The number of reports that are written together.
const TOGETHER: usize = 1024;
/// How long reports may wait for others.
const WAIT: Duration = Duration::from_millis(100);

/// The way to the thread that writes.
#[derive(Debug)]
pub struct Logger {
    queue: Option<SyncSender<(Timestamp, Report)>>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Logger {
    /// Begins to write to some places. `prefix` is the translation prefix.
    pub fn start(targets: &[LogTarget], prefix: Option<Ipv6Net>, log: Log) -> Self {
        let (sender, receiver) = sync_channel(ROOM);
        let lost = Arc::new(AtomicU64::new(0));
        let (targets, counted) = (targets.to_vec(), lost.clone());
        let thread = std::thread::spawn(move || {
            let sinks = targets.iter().map(|target| Sink::open(target, log)).collect();
            Writer { sinks, prefix, log }.work(&receiver, &counted);
        });
        Self { queue: Some(sender), lost, thread: Some(thread) }
    }

    /// Reports something that happens now.
    pub fn report(&self, report: Report) {
        let sent = self.queue.as_ref().map(|queue| queue.try_send((Timestamp::now(), report)));
        if !matches!(sent, Some(Ok(()))) {
            self.lost(1);
        }
    }

    /// Counts reports that were lost before they came here.
    pub fn lost(&self, count: u64) {
        self.lost.fetch_add(count, Relaxed);
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A place where reports go.
enum Sink {
    Stdout,
    /// It is opened for each write, so that another one may take its place (logrotate).
    File {
        path: PathBuf,
        said: bool,
    },
    Syslog {
        socket: Option<UdpSocket>,
        host: String,
    },
    Ipfix {
        socket: Option<UdpSocket>,
        state: Ipfix,
    },
}

impl Sink {
    fn open(target: &LogTarget, log: Log) -> Self {
        let connect = |to: &SocketAddr| {
            let local: SocketAddr = if to.is_ipv4() {
                (Ipv4Addr::UNSPECIFIED, 0).into()
            } else {
                (Ipv6Addr::UNSPECIFIED, 0).into()
            };
            let socket = UdpSocket::bind(local).and_then(|socket| socket.connect(to).map(|()| socket));
            socket.map_err(|error| log.warning(&format!("no reports go to {to}: {error}"))).ok()
        };
        match target {
            LogTarget::Stdout => Sink::Stdout,
            LogTarget::File(path) => Sink::File { path: path.clone(), said: false },
            LogTarget::Syslog(to) => {
                let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                Sink::Syslog { socket: connect(to), host: name.trim().to_string() }
            }
            LogTarget::Ipfix(to) => Sink::Ipfix { socket: connect(to), state: Ipfix::default() },
        }
    }
}

/// The thread's work.
struct Writer {
    sinks: Vec<Sink>,
    prefix: Option<Ipv6Net>,
    log: Log,
}

impl Writer {
    fn work(mut self, queue: &Receiver<(Timestamp, Report)>, lost: &AtomicU64) {
        let mut reports = Vec::new();
        loop {
            let first = queue.recv_timeout(WAIT);
            let ended = matches!(first, Err(mpsc::RecvTimeoutError::Disconnected));
            reports.extend(first.ok());
            reports.extend(queue.try_iter().take(TOGETHER - 1));
            self.write(&reports, lost.swap(0, Relaxed));
            reports.clear();
            if ended {
                return;
            }
        }
    }

    fn write(&mut self, reports: &[(Timestamp, Report)], lost: u64) {
        if reports.is_empty() && lost == 0 {
            return;
        }
        let mut lines: Vec<(Timestamp, String)> =
            reports.iter().map(|(time, report)| (*time, report.json(*time))).collect();
        if lost > 0 {
            let now = Timestamp::now();
            lines.push((now, lost_json(now, lost)));
            self.log
                .warning(&format!("{lost} reports of bindings and sessions are lost: the log is too slow"));
        }
        let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        for sink in &mut self.sinks {
            match sink {
                // A reader that has gone away stops no translator.
                Sink::Stdout => drop(std::io::stdout().lock().write_all(text.as_bytes())),
                Sink::File { path, said } => {
                    let file = OpenOptions::new().create(true).append(true).open(&*path);
                    match file.and_then(|mut file| file.write_all(text.as_bytes())) {
                        Ok(()) => *said = false,
                        Err(error) if !*said => {
                            *said = true;
                            self.log.warning(&format!("no reports go to {}: {error}", path.display()));
                        }
                        Err(_) => {}
                    }
                }
                // What a network does not take is lost, as with every syslog by UDP.
                Sink::Syslog { socket: Some(socket), host } => {
                    for (time, line) in &lines {
                        let _ = socket.send(syslog(*time, host, std::process::id(), line).as_bytes());
                    }
                }
                Sink::Ipfix { socket: Some(socket), state } => {
                    let embed = |address| self.prefix.map_or(Ipv6Addr::UNSPECIFIED, |p| embedded(p, address));
                    for some in reports.chunks(RECORDS) {
                        let _ = socket.send(&state.message(Timestamp::now(), some, embed));
                    }
                }
                Sink::Syslog { socket: None, .. } | Sink::Ipfix { socket: None, .. } => {}
            }
        }
    }
}
