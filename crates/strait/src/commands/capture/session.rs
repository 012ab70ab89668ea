//! One look at the packets of a run, from the first one to the last.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use dataplane::device::{Query, copy};
use dataplane::port::Offload;
use io::watch::{Ended, Seen, Wanted, Watcher};

use super::account::{Account, Reason};
use super::filter::Filter;
use super::kernel;
use super::link::Request;
use super::replay::{Replay, Told};
use super::report::Report;
use super::serve::{Asker, Run};
use crate::commands::run::machine::Packets;
use crate::frontend::Texts;

/// The longest wait for a packet, and thus the longest time until it is noticed that the command wants no more.
pub const TURN: Duration = Duration::from_millis(50);
/// How often it is checked that the same program runs.
const SAME: Duration = Duration::from_secs(1);

/// What is said if a replay ends in another way than the packet.
pub const DIFFERS: &str = "the path is that of a replay, which ends differently: registers, meters, random numbers or entries were others when the packet passed";

/// What is said when every packet that arrives from now on can be seen.
pub const WATCHING: &str = "watching; Ctrl-C ends it";

/// The parts that every session has.
pub struct Session {
    pub ask: Asker,
    pub clock: Clock,
    pub report: Report,
    filter: Option<Filter>,
    pub replay: Option<Replay>,
    /// The drop reasons of the running program, by number.
    pub reasons: Vec<Reason>,
    texts: Arc<Texts>,
    stop: Arc<AtomicBool>,
    until: Option<Instant>,
    checked: Instant,
    /// The number of accounts that are still wanted.
    left: u64,
    number: u64,
}

/// Serves a request until the command, the number of packets or the time ends it.
pub fn run(stream: &UnixStream, run: &Run, request: &Request) -> anyhow::Result<()> {
    let texts = run.ask.of_machine(|machine| machine.texts())?.context("no program runs yet")?;
    let (program, map) = texts.program()?;
    let (program, map) = (Arc::new(program), Arc::new(map));
    let ports = ports(run, request)?;
    let state = run.ask.of_device(|device| device.read(&Query::ValueSets(None)))?;
    let state = state.unwrap_or_default();
    let manifest = run.ask.of_device(|device| device.manifest().clone())?;
    let sets: Vec<_> = state.into_iter().filter(|set| !copy::is_declared(&manifest, set)).collect();
    let filter = request.filter.as_ref().map(|text| Filter::new(&texts, &program, text, &sets));
    let filter = filter.transpose()?;
    let wanted = Wanted { ports, rate: request.rate };
    let for_watch = wanted.clone();
    let packets = run.ask.of_machine(move |machine| machine.watch(&for_watch))??;
    let replayed = request.paths || matches!(packets, Packets::Interfaces(_));
    let forms = (request.paths, request.json);
    let replay = || Replay::new(run.ask.clone(), (program.clone(), map.clone()), run.target, forms);
    let mut session = Session {
        ask: run.ask.clone(),
        clock: Clock::new(&run.ask)?,
        report: Report::new(stream.try_clone()?, request, &run.ports)?,
        filter,
        replay: replayed.then(replay).transpose()?,
        reasons: Reason::all(&manifest),
        texts,
        stop: ended(stream)?,
        until: request.time.map(|time| Instant::now() + time),
        checked: Instant::now(),
        left: request.count.unwrap_or(u64::MAX),
        number: 0,
    };
    let counts = match packets {
        Packets::Copies(watcher) => {
            copies(&mut session, &watcher)?;
            watcher.counts()
        }
        Packets::Interfaces(interfaces) => kernel::watch(&mut session, &interfaces, &wanted)?,
    };
    let number = session.number;
    let (looked, lost) = counts.iter().fold((0, 0), |(a, b), (_, looked, lost)| (a + looked, b + lost));
    let fast = if lost > 0 { format!(", {lost} came too fast to be looked at") } else { String::new() };
    session.report.note(&format!("{number} packets of {looked}{fast}"))?;
    session.report.finish(session.clock.wall(), &counts)
}

/// The numbers of the ports where packets are wanted.
fn ports(run: &Run, request: &Request) -> anyhow::Result<Vec<u32>> {
    let all: Vec<u32> = run.ports.iter().map(|(number, _)| *number).collect();
    if let Some(other) = request.ports.iter().find(|port| !all.contains(port)) {
        let known: Vec<String> = all.iter().map(ToString::to_string).collect();
        bail!("the switch has no port {other}; its ports are {}", known.join(", "));
    }
    Ok(if request.ports.is_empty() { all } else { request.ports.clone() })
}

/// A flag that is set when the command wants no more.
fn ended(stream: &UnixStream) -> anyhow::Result<Arc<AtomicBool>> {
    let (flag, mut stream) = (Arc::new(AtomicBool::new(false)), stream.try_clone()?);
    let set = flag.clone();
    std::thread::Builder::new().name("watcher's end".to_string()).spawn(move || {
        // The command sends nothing after its request.
        while stream.read(&mut [0; 16]).is_ok_and(|read| read > 0) {}
        set.store(true, Ordering::Release);
    })?;
    Ok(flag)
}

impl Session {
    /// Whether no more packets are wanted.
    pub fn is_over(&mut self) -> anyhow::Result<bool> {
        if self.checked.elapsed() > SAME {
            self.checked = Instant::now();
            let now = self.ask.of_machine(|machine| machine.texts())?;
            if !now.is_some_and(|texts| Arc::ptr_eq(&texts, &self.texts)) {
                self.report.note("another program runs now: this one's packets have ended")?;
                return Ok(true);
            }
        }
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        Ok(late || self.left == 0 || self.stop.load(Ordering::Acquire))
    }

    /// Whether a packet is wanted. If so, it counts.
    pub fn wants(&mut self, port: u32, time: u64, packet: &[u8]) -> bool {
        if self.left == 0 {
            return false;
        }
        let wanted = self.filter.as_mut().is_none_or(|filter| filter.accepts(port, time, packet));
        self.left -= u64::from(wanted);
        wanted
    }

    /// Reports a packet.
    pub fn add(&mut self, mut account: Account) -> anyhow::Result<()> {
        self.number += 1;
        account.number = self.number;
        self.report.add(&account)
    }
}

/// Joins the clock of the program and that of the world.
pub struct Clock {
    micros: u64,
    wall: Duration,
    began: Instant,
}

impl Clock {
    fn new(ask: &Asker) -> anyhow::Result<Clock> {
        let micros = ask.of_machine(|machine| machine.now())?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(Clock { micros, wall, began: Instant::now() })
    }

    /// The time now, since 1970 (UTC).
    pub fn wall(&self) -> Duration {
        self.wall + self.began.elapsed()
    }

    /// A time of the program, since 1970 (UTC).
    fn of_program(&self, micros: u64) -> Duration {
        (self.wall + Duration::from_micros(micros)).saturating_sub(Duration::from_micros(self.micros))
    }

    /// A time since 1970 on the clock of the program, in microseconds.
    pub fn to_program(&self, wall: Duration) -> u64 {
        (wall + Duration::from_micros(self.micros)).saturating_sub(self.wall).as_micros() as u64
    }
}

/// The packet that a program would see if it took no unsegmented packets: the first segment.
pub fn first_segment(packet: &[u8], offload: Option<&Offload>) -> Vec<u8> {
    let first = offload.and_then(|offload| io::port::first_segment(packet, offload));
    first.unwrap_or_else(|| packet.to_vec())
}

/// Reports packets that workers copy together with what becomes of them.
fn copies(session: &mut Session, watcher: &Watcher) -> anyhow::Result<()> {
    session.report.note(WATCHING)?;
    while !session.is_over()? {
        match watcher.next(TURN) {
            Ok(Some(seen)) => {
                look(session, &seen)?;
                watcher.give_back(seen);
            }
            Ok(None) => {}
            Err(Ended) => {
                session.report.note("no more packets come")?;
                break;
            }
        }
    }
    // What has been copied until now is looked at as well. The buffers are not given back, so that this ends.
    while let Ok(Some(seen)) = watcher.next(Duration::ZERO) {
        look(session, &seen)?;
    }
    Ok(())
}

/// Reports a packet if it is wanted.
fn look(session: &mut Session, seen: &Seen) -> anyhow::Result<()> {
    let first = first_segment(seen.arrived(), seen.offload.as_ref());
    if session.wants(seen.port, seen.time, &first) {
        let account = account(session, seen, &first)?;
        session.add(account)?;
    }
    Ok(())
}

/// What is known of a packet that a worker has copied: everything, but for its path.
fn account(session: &mut Session, seen: &Seen, first: &[u8]) -> anyhow::Result<Account> {
    let dropped = seen.dropped.and_then(|reason| session.reasons.get(reason as usize).cloned());
    let mut account = Account {
        time: session.clock.of_program(seen.time),
        port: seen.port,
        arrived: seen.arrived().to_vec(),
        sent: seen.sent().map(|(sent, bytes)| (sent.port, bytes.to_vec())).collect(),
        dropped: dropped.into_iter().collect(),
        ..Account::default()
    };
    if seen.left_out > 0 {
        account.doubt = Some(format!("{} more copies are not in the capture", seen.left_out));
    }
    let Some(replay) = &mut session.replay else { return Ok(account) };
    let is_whole = seen.offload.is_none() && seen.left_out == 0;
    let mut agrees = |told: &Told| {
        let drops = told.dropped.first() == account.dropped.first().map(|reason| &reason.name);
        match is_whole {
            true => drops && told.sent == account.sent,
            // Segments leave unsegmented.
            false => drops && told.sent.iter().all(|(port, _)| account.sent.iter().any(|(p, _)| p == port)),
        }
    };
    let (told, agreed) = replay.explain(seen.port, seen.time, first, &mut agrees)?;
    (account.path, account.events) = (Some(told.path), told.events);
    if !agreed {
        account.doubt = Some(DIFFERS.to_string());
    }
    Ok(account)
}
