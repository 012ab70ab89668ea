//! What becomes of packets that the kernel moves. Packet sockets show what arrives and what leaves, but not what belongs together, nor why a packet is
//! dropped. So each packet is replayed, and the replay counts only if what it says was seen: the same packets left, or the counter of the same drop
//! reason rose.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context;
use dataplane::Count;
use io::watch::{Budget, Interfaces, Passed, Wanted};

use super::account::{Account, Reason};
use super::replay::Told;
use super::serve::Asker;
use super::session::{DIFFERS, Session, TURN, WATCHING, first_segment};

/// How long after its arrival a packet, and what becomes of it, is waited for.
const WAIT: Duration = Duration::from_millis(200);
/// The most packets that wait at the same time, the most that have left meanwhile, and the most bytes of either.
const WAITING: usize = 1024;
const LEFT: usize = 8192;
const BYTES: usize = 32 << 20;

/// A packet that has arrived, and that is judged when it is due.
struct Waiting {
    packet: Passed,
    first: Vec<u8>,
    time: u64,
    due: Instant,
}

/// What has been seen of the program.
struct Scene {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    left: VecDeque<Passed>,
    left_bytes: usize,
    /// The ports of which it is seen what leaves.
    ports: Vec<u32>,
    /// For each drop reason: the count at the beginning, and the drops that packets here have explained.
    before: Vec<Count>,
    explained: Vec<u64>,
    reasons: Vec<Reason>,
}

/// Reports the packets that pass the interfaces of ports. Returns for each port how many were looked at, and how many came too fast.
pub fn watch(
    session: &mut Session,
    ports: &[(u32, String)],
    wanted: &Wanted,
) -> anyhow::Result<Vec<(u32, u64, u64)>> {
    let before = drops(&session.ask)?;
    let mut interfaces = Interfaces::open(ports)?;
    let mut scene = Scene {
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        left: VecDeque::new(),
        left_bytes: 0,
        ports: ports.iter().map(|(number, _)| *number).collect(),
        explained: vec![0; session.reasons.len()],
        reasons: session.reasons.clone(),
        before,
    };
    let mut looks = Looks {
        budget: Budget::new(wanted.rate),
        counts: wanted.ports.iter().map(|port| (*port, 0, 0)).collect(),
    };
    session.report.note(WATCHING)?;
    while !session.is_over()? {
        let packets = interfaces.next(TURN);
        scene.see(session, &mut looks, packets);
        scene.judge(session, Instant::now())?;
    }
    // What has arrived until now is judged as well.
    let packets = interfaces.next(Duration::ZERO);
    scene.see(session, &mut looks, packets);
    let end = Instant::now() + WAIT;
    while !scene.waiting.is_empty() && Instant::now() < end {
        let left = interfaces.next(TURN).into_iter().filter(|packet| packet.left);
        left.for_each(|packet| scene.leaves(packet));
        scene.judge(session, Instant::now())?;
    }
    scene.judge(session, end + WAIT)?;
    let mut counts = looks.counts;
    for (number, _, full) in interfaces.counts() {
        counts.iter_mut().filter(|(port, ..)| *port == number).for_each(|(_, _, missed)| *missed += full);
    }
    Ok(counts)
}

/// How many packets are looked at.
struct Looks {
    budget: Budget,
    /// For each port: those that were looked at, and those that were not.
    counts: Vec<(u32, u64, u64)>,
}

impl Looks {
    /// Whether a packet that arrived is looked at, if there is room for it. One of a port that is not wanted is not.
    fn take(&mut self, port: u32, time: u64, has_room: bool) -> bool {
        let found = self.counts.iter_mut().find(|(number, ..)| *number == port);
        let Some((_, looked, missed)) = found else { return false };
        let taken = self.budget.has_any(time) && has_room && self.budget.take();
        *if taken { looked } else { missed } += 1;
        taken
    }
}

/// The counts of the drop reasons.
fn drops(ask: &Asker) -> anyhow::Result<Vec<Count>> {
    ask.of_device(|device| device.drops())?.context("cannot read the drop reasons")
}

impl Scene {
    fn see(&mut self, session: &mut Session, looks: &mut Looks, packets: Vec<Passed>) {
        for packet in packets {
            let time = session.clock.to_program(packet.time);
            if packet.left {
                self.leaves(packet);
            } else if looks.take(packet.port, time, self.has_room()) {
                self.arrives(session, packet);
            }
        }
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < WAITING && self.waiting_bytes < BYTES
    }

    fn leaves(&mut self, packet: Passed) {
        if self.waiting.is_empty() {
            return;
        }
        self.left_bytes += packet.bytes.len();
        self.left.push_back(packet);
        while self.left.len() > LEFT || self.left_bytes > BYTES {
            self.take_left(0);
        }
    }

    /// Takes one of the packets that have left.
    fn take_left(&mut self, at: usize) -> Option<Passed> {
        let packet = self.left.remove(at)?;
        self.left_bytes -= packet.bytes.len();
        Some(packet)
    }

    fn arrives(&mut self, session: &mut Session, packet: Passed) {
        let first = first_segment(&packet.bytes, packet.offload.as_ref());
        let time = session.clock.to_program(packet.time);
        if session.wants(packet.port, time, &first) {
            self.waiting_bytes += packet.bytes.len() + first.len();
            self.waiting.push_back(Waiting { packet, first, time, due: Instant::now() + WAIT });
        }
    }

    /// Reports the packets that are due.
    fn judge(&mut self, session: &mut Session, now: Instant) -> anyhow::Result<()> {
        while self.waiting.front().is_some_and(|waiting| waiting.due <= now) {
            let Some(waiting) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= waiting.packet.bytes.len() + waiting.first.len();
            let account = self.account(session, waiting)?;
            session.add(account)?;
        }
        if self.waiting.is_empty() {
            self.left.clear();
            self.left_bytes = 0;
        }
        Ok(())
    }

    fn account(&mut self, session: &mut Session, it: Waiting) -> anyhow::Result<Account> {
        let replay = session.replay.as_mut().context("nothing is replayed")?;
        let is_whole = it.packet.offload.is_none();
        let mut found = Vec::new();
        let mut agrees = |told: &Told| {
            let counts = if told.dropped.is_empty() { None } else { drops(&session.ask).ok() };
            let counts = counts.unwrap_or_default();
            let left = self.found(told, is_whole);
            let agrees = left.is_some() && told.dropped.iter().all(|reason| self.rose(reason, &counts));
            found = left.unwrap_or_default();
            agrees
        };
        let (told, agreed) = replay.explain(it.packet.port, it.time, &it.first, &mut agrees)?;
        let mut account = Account {
            time: it.packet.time,
            port: it.packet.port,
            arrived: it.packet.bytes,
            path: replay.has_paths().then_some(told.path),
            events: told.events,
            ..Account::default()
        };
        if !agreed {
            account.doubt = Some(format!("it is not known what became of it; {DIFFERS}"));
            return Ok(account);
        }
        let numbers: Vec<usize> = told.dropped.iter().filter_map(|name| self.number(name)).collect();
        numbers.iter().for_each(|number| self.explained[*number] += 1);
        account.dropped = numbers.iter().map(|number| self.reasons[*number].clone()).collect();
        found.sort_unstable();
        let taken = found.iter().rev().filter_map(|at| self.take_left(*at));
        account.sent = taken.map(|packet| (packet.port, packet.bytes)).collect();
        account.sent.reverse();
        Ok(account)
    }

    /// Where in the list of packets that have left those are that a replay says; `None` if one is missing. Of a packet that was unsegmented, only
    /// the ports are compared.
    fn found(&self, told: &Told, is_whole: bool) -> Option<Vec<usize>> {
        let mut found: Vec<usize> = Vec::new();
        for (port, bytes) in told.sent.iter().filter(|(port, _)| self.ports.contains(port)) {
            let same = |packet: &Passed| match is_whole {
                true => packet.bytes == *bytes,
                false => packet.offload.is_some(),
            };
            let is = |(at, packet): (usize, &Passed)| {
                (packet.port == *port && same(packet) && !found.contains(&at)).then_some(at)
            };
            let at = self.left.iter().enumerate().find_map(is)?;
            found.push(at);
        }
        Some(found)
    }

    /// Whether the counter of a drop reason has risen by more than what other packets here explain.
    fn rose(&self, reason: &str, counts: &[Count]) -> bool {
        let of = |counts: &[Count], number: usize| counts.get(number).map_or(0, |count| count.packets);
        let rose = |number| of(counts, number) > of(&self.before, number) + self.explained[number];
        self.number(reason).is_some_and(rose)
    }

    fn number(&self, reason: &str) -> Option<usize> {
        self.reasons.iter().position(|known| known.name == reason)
    }
}
