//! Sends reports of bindings and sessions where a file says. Each place has a bounded queue and a thread of its own: a slow disk, a pipe that nobody
//! reads or a collector delays nobody else, neither other places nor the expiry of entries. What a place has no room for is counted; the place
//! learns the count like an event as soon as it takes something again, and the operator is told.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ipnet::Ipv6Net;
use jiff::Timestamp;
use nat64::report::{Ipfix, RECORDS, Report, lost_json, syslog};
use nat64::{LogTarget, embedded};

use crate::log::Log;

/// The number of reports that a queue holds.
const ROOM: usize = 1 << 16;
/// The number of reports that are written together.
const TOGETHER: usize = 1024;
/// How long reports may wait for others.
const WAIT: Duration = Duration::from_millis(100);
/// At the end a place that takes nothing for this long is given up, and every place after the second time.
const STALLED: Duration = Duration::from_millis(300);
const AT_END: Duration = Duration::from_secs(1);
/// The interval at which losses are told.
const QUIET: Duration = Duration::from_secs(10);

/// The ways to all places.
#[derive(Debug)]
pub struct Logger {
    feeds: Vec<Feed>,
    /// Those that get nothing any more, and still write what they had.
    ending: Vec<Feed>,
    log: Log,
}

/// The way to one place.
#[derive(Debug)]
struct Feed {
    target: LogTarget,
    prefix: Option<Ipv6Net>,
    queue: Option<SyncSender<(Timestamp, Report)>>,
    counts: Arc<Counts>,
    thread: JoinHandle<()>,
    /// How many of its reports the operator knows to be lost, and since when.
    told: u64,
    told_at: Option<Instant>,
}

/// What a feed and its thread share.
#[derive(Debug, Default)]
struct Counts {
    /// The number of reports that found no room since the place has learnt it, and in all.
    lost: AtomicU64,
    lost_in_all: AtomicU64,
    /// The number of reports that are not written yet.
    waiting: AtomicU64,
}

impl Logger {
    /// One that has no places yet.
    pub fn new(log: Log) -> Self {
        Self { feeds: Vec::new(), ending: Vec::new(), log }
    }

    /// Writes to these places from now on. `prefix` is the translation prefix. Nothing is waited for: a place that is there no more writes what it
    /// has, and one that stays keeps its queue.
    pub fn follow(&mut self, targets: &[LogTarget], prefix: Option<Ipv6Net>) {
        let before = std::mem::take(&mut self.feeds);
        let stays = |feed: &Feed| targets.contains(&feed.target) && feed.prefix == prefix;
        let (stay, go): (Vec<_>, Vec<_>) = before.into_iter().partition(stays);
        self.ending.retain(|feed| !feed.thread.is_finished());
        self.ending.extend(go.into_iter().map(Feed::close));
        self.feeds = stay;
        for target in targets {
            if !self.feeds.iter().any(|feed| feed.target == *target) {
                self.feeds.push(Feed::start(target, prefix, &self.log));
            }
        }
    }

    /// Reports something that happens now.
    pub fn report(&self, report: Report) {
        let now = Timestamp::now();
        self.feeds.iter().for_each(|feed| feed.send(now, report));
    }

    /// Counts reports that were lost before they came here.
    pub fn lost(&self, count: u64) {
        self.feeds.iter().for_each(|feed| feed.lost(count));
    }

    /// Tells the operator of losses that he does not know yet.
    pub fn tell(&mut self) {
        for feed in &mut self.feeds {
            let lost = feed.counts.lost_in_all.load(Relaxed);
            if lost > feed.told && feed.told_at.is_none_or(|at| at.elapsed() > QUIET) {
                let (new, target) = (lost - feed.told, &feed.target);
                self.log.warning(&format!(
                    "{new} reports of bindings and sessions are lost: {} is too slow for them",
                    name(target)
                ));
                (feed.told, feed.told_at) = (lost, Some(Instant::now()));
            }
        }
    }

    /// Begins to end: nothing is reported any more.
    pub fn close(&mut self) {
        self.ending.extend(std::mem::take(&mut self.feeds).into_iter().map(Feed::close));
    }

    /// Waits until everything is written. A place that takes nothing is given up.
    pub fn finish(mut self) {
        self.close();
        let begun = Instant::now();
        let mut moved: Vec<_> = self.ending.iter().map(|feed| (feed.waiting(), begun)).collect();
        let given_up = |since: Instant| since.elapsed() > STALLED || begun.elapsed() > AT_END;
        loop {
            let mut waits = false;
            for (feed, (waiting, since)) in self.ending.iter().zip(&mut moved) {
                if feed.waiting() != *waiting {
                    (*waiting, *since) = (feed.waiting(), Instant::now());
                }
                waits |= !feed.thread.is_finished() && !given_up(*since);
            }
            if !waits {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        for feed in self.ending.iter().filter(|feed| !feed.thread.is_finished()) {
            self.log.warning(&format!(
                "{} reports of bindings and sessions are lost at the end: {} does not take them",
                feed.waiting(),
                name(&feed.target)
            ));
        }
    }
}

/// A place for messages.
fn name(target: &LogTarget) -> String {
    match target {
        LogTarget::Stdout => "the standard output".to_string(),
        LogTarget::File(path) => path.display().to_string(),
        LogTarget::Syslog(to) => format!("syslog at {to}"),
        LogTarget::Ipfix(to) => format!("the collector at {to}"),
    }
}

impl Feed {
    fn start(target: &LogTarget, prefix: Option<Ipv6Net>, log: &Log) -> Self {
        let (sender, receiver) = sync_channel(ROOM);
        let counts = Arc::new(Counts::default());
        let (place, shared, log) = (target.clone(), counts.clone(), log.clone());
        let thread = std::thread::spawn(move || {
            Writer { sink: Sink::open(&place, &log), prefix, log }.work(&receiver, &shared);
        });
        let target = target.clone();
        Self { target, prefix, queue: Some(sender), counts, thread, told: 0, told_at: None }
    }

    fn send(&self, time: Timestamp, report: Report) {
        // Counted first: the thread may have written it before this function returns.
        self.counts.waiting.fetch_add(1, Relaxed);
        let sent = self.queue.as_ref().map(|queue| queue.try_send((time, report)));
        if !matches!(sent, Some(Ok(()))) {
            self.counts.waiting.fetch_sub(1, Relaxed);
            self.lost(1);
        }
    }

    fn lost(&self, count: u64) {
        self.counts.lost.fetch_add(count, Relaxed);
        self.counts.lost_in_all.fetch_add(count, Relaxed);
    }

    fn waiting(&self) -> u64 {
        self.counts.waiting.load(Relaxed)
    }

    /// The thread ends when it has written what it has.
    fn close(self) -> Self {
        Self { queue: None, ..self }
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
    fn open(target: &LogTarget, log: &Log) -> Self {
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
    sink: Sink,
    prefix: Option<Ipv6Net>,
    log: Log,
}

impl Writer {
    fn work(mut self, queue: &Receiver<(Timestamp, Report)>, counts: &Counts) {
        let mut reports = Vec::new();
        loop {
            let first = queue.recv_timeout(WAIT);
            let ended = matches!(first, Err(RecvTimeoutError::Disconnected));
            reports.extend(first.ok());
            reports.extend(queue.try_iter().take(TOGETHER - 1));
            self.write(&reports, counts.lost.swap(0, Relaxed));
            counts.waiting.fetch_sub(reports.len() as u64, Relaxed);
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
        }
        let text = || lines.iter().map(|(_, line)| format!("{line}\n")).collect::<String>();
        match &mut self.sink {
            Sink::Stdout => self.log.report(&text()),
            Sink::File { path, said } => {
                // It says who talked to whom.
                let file = OpenOptions::new().create(true).append(true).mode(0o640).open(&*path);
                match file.and_then(|mut file| file.write_all(text().as_bytes())) {
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
