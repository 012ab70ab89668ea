//! Who is connected, what each connection does at the moment, and which one ends when there is no room for another.
//!
//! A connection that is the primary of a role, or whose request is being answered, is never ended for another one. The others end in this order: those
//! that have asked nothing, idle ones, those whose message or answer does not move, backups, and at last those that ask most.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::limits;
use crate::rights::Rights;

/// An answer that a client has taken nothing of for this time does not move.
const MOVES: Duration = Duration::from_secs(1);

/// Those that share a number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A user of this machine, over a Unix socket.
    User(u32),
    /// A user of this machine, over the loopback interface.
    Local(u32),
    /// Everybody on this machine, over TCP, where the kernel does not tell the user.
    Loopback,
    /// An IPv4 address, or a /64 network of IPv6.
    Address(IpAddr),
}

impl Peer {
    /// The peer with an address.
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            address if address.is_loopback() => Peer::Loopback,
            IpAddr::V6(address) => Peer::Address(IpAddr::V6((address.to_bits() >> 64 << 64).into())),
            address => Peer::Address(address),
        }
    }

    /// Whether a connection of the peer speaks for all of them.
    fn is_one(self) -> bool {
        matches!(self, Peer::User(_))
    }
}

/// What a connection does.
#[derive(Debug)]
struct Doing {
    /// Requests of which the server waits for the rest, or whose answer the client has not taken yet.
    open: usize,
    /// Of these, the complete ones that wait for their turn.
    waiting: usize,
    /// Those that are being answered.
    running: usize,
    /// Answers of which the client has not taken the end.
    sending: usize,
    /// Streams of controllers.
    channels: usize,
    /// Of these, the primaries'.
    primaries: usize,
    /// The requests that were answered.
    done: u64,
    /// When something was last received or taken.
    moved: Instant,
}

/// A connection, as requests see it.
#[derive(Debug)]
pub struct Caller {
    /// Whose connection it is.
    pub peer: Peer,
    born: Instant,
    doing: Mutex<Doing>,
    ended: AtomicBool,
    /// The task that reads from the socket.
    reader: Mutex<Option<Waker>>,
    /// A stranger's connection has one request in turn at a time.
    pub turn: Arc<Semaphore>,
    /// The places for answers of reads.
    pub reads: Arc<Semaphore>,
    /// The bytes of unfinished messages within [`limits::FREE`].
    pub free: AtomicUsize,
    callers: Arc<Callers>,
    rights: OnceLock<Rights>,
}

/// How well a connection can be spared: the larger, the better.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Eq, Ord)]
enum Spare {
    /// It asks this much at a time, and has asked this much.
    Asks(usize, u64),
    /// It has nothing but streams of backups, for this time. The newest one ends first, because those who flood are new.
    Backup(std::cmp::Reverse<Duration>),
    /// Its message or its answer has not moved for this time.
    Stuck(Duration),
    /// It has done nothing for this time.
    Idle(Duration),
    /// It has asked nothing yet.
    Silent(Duration),
}

impl Caller {
    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How well the connection can be spared. `None`: not at all.
    fn spare(&self, now: Instant) -> Option<Spare> {
        let doing = self.doing();
        let still = now.saturating_duration_since(doing.moved);
        if doing.primaries > 0 || doing.running > 0 || (doing.sending > 0 && still < MOVES) {
            return None;
        }
        let age = now.saturating_duration_since(self.born);
        Some(match *doing {
            Doing { waiting: 1.., open, done, .. } => Spare::Asks(open, done),
            Doing { channels: 1.., .. } => Spare::Backup(std::cmp::Reverse(age)),
            Doing { open: 1.., .. } => Spare::Stuck(still),
            Doing { done: 1.., .. } => Spare::Idle(still),
            _ => Spare::Silent(age),
        })
    }

    /// Whether the connection is the primary of a role, or its user has another connection that is.
    pub fn is_primary(&self) -> bool {
        let own = self.doing().primaries > 0;
        own || self.peer.is_one() && self.callers.has_primary(self.peer)
    }

    /// A stream of the connection has become that of a primary, or is it no longer.
    pub fn set_primary(&self, primary: bool) {
        let mut doing = self.doing();
        match primary {
            true => doing.primaries += 1,
            false => doing.primaries = doing.primaries.saturating_sub(1),
        }
    }

    /// Something was received, or taken.
    pub fn moved(&self) {
        self.doing().moved = Instant::now();
    }

    /// The streams of controllers that the connection has.
    pub fn channels(&self) -> usize {
        self.doing().channels
    }

    /// What the client may do.
    pub fn rights(&self) -> Rights {
        self.rights.get().cloned().unwrap_or_default()
    }

    /// Says what the client may do, before its first request.
    pub fn set_rights(&self, rights: Rights) {
        let _ = self.rights.set(rights);
    }

    /// The connections of the server, of which this is one.
    pub fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the connection.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(reader) = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reader.wake();
        }
    }

    /// Ready when the connection is to end.
    pub fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_ended() {
            return Poll::Ready(());
        }
        if !reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            *reader = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

/// A step of a request. It counts while the value lives.
pub struct Step {
    caller: Arc<Caller>,
    kind: StepKind,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepKind {
    /// It has begun and has not ended.
    Open,
    /// It is the stream of a controller.
    Channel,
    /// It is complete, and waits for its turn.
    Waiting,
    /// It is being answered.
    Running,
    /// The client takes the answer.
    Sending,
}

impl Doing {
    fn of(&mut self, kind: StepKind) -> &mut usize {
        match kind {
            StepKind::Open => &mut self.open,
            StepKind::Channel => &mut self.channels,
            StepKind::Waiting => &mut self.waiting,
            StepKind::Running => &mut self.running,
            StepKind::Sending => &mut self.sending,
        }
    }
}

impl Step {
    /// A request of a connection begins a step.
    pub fn of(caller: &Arc<Caller>, kind: StepKind) -> Step {
        let mut doing = caller.doing();
        *doing.of(kind) += 1;
        doing.moved = Instant::now();
        drop(doing);
        Step { caller: caller.clone(), kind }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let mut doing = self.caller.doing();
        let count = doing.of(self.kind);
        *count = count.saturating_sub(1);
        doing.moved = Instant::now();
        doing.done += u64::from(self.kind == StepKind::Running);
    }
}

/// A place among the connections, which is given back when the value is dropped.
pub struct Place {
    /// The connection that has the place.
    pub caller: Arc<Caller>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.caller.callers.list().retain(|other| !Arc::ptr_eq(other, &self.caller));
    }
}

/// All connections of a server.
#[derive(Debug)]
pub struct Callers {
    list: Mutex<Vec<Arc<Caller>>>,
    /// The turns of strangers' requests.
    pub turns: Arc<Semaphore>,
    /// The turn of strangers' reads.
    pub reading: Arc<Semaphore>,
    /// The turns of the messages of strangers' streams.
    pub streaming: Arc<Semaphore>,
    /// The bytes of strangers' messages.
    pub strangers: AtomicUsize,
    /// The bytes of primaries' messages.
    pub primaries: AtomicUsize,
}

impl Default for Callers {
    fn default() -> Callers {
        Callers {
            list: Mutex::default(),
            turns: Arc::new(Semaphore::new(limits::TURNS)),
            reading: Arc::new(Semaphore::new(1)),
            streaming: Arc::new(Semaphore::new(limits::STREAM_TURNS)),
            strangers: AtomicUsize::new(0),
            primaries: AtomicUsize::new(0),
        }
    }
}

/// Whether a connection has a place.
pub enum Entry {
    /// It has, and no other one ends for it.
    Free(Place),
    /// It has, because one of another peer ends.
    Instead(Place),
    /// It has none: all the others are in use, or too new.
    Full,
}

impl Callers {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Caller>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_primary(&self, peer: Peer) -> bool {
        self.list().iter().any(|caller| caller.peer == peer && caller.doing().primaries > 0)
    }

    /// A peer has connected. Where there is no room, the connection ends that can be spared best: one of the same peer if it has its share, and
    /// otherwise one of the peer that has most. A peer with its share has as many new connections a second as [`limits::ACCEPTED`] says, so that each
    /// of them has a moment for its first request, and none while [`limits::ENDING`] of its old ones have not given their memory back.
    pub fn enter(self: &Arc<Callers>, peer: Peer) -> Entry {
        self.enter_at(peer, Instant::now())
    }

    fn enter_at(self: &Arc<Callers>, peer: Peer, now: Instant) -> Entry {
        let mut list = self.list();
        let live = || list.iter().filter(|caller| !caller.is_ended());
        let of = |peer: Peer| live().filter(|caller| caller.peer == peer).count();
        let is_primary = |peer: Peer| list.iter().any(|c| c.peer == peer && c.doing().primaries > 0);
        let room =
            if is_primary(peer) { limits::CONNECTIONS } else { limits::CONNECTIONS - limits::RESERVED };
        // Connections of many peers that end for each other keep memory, too, until they have ended.
        if list.len() >= 2 * limits::CONNECTIONS {
            return Entry::Full;
        }
        let from = if of(peer) >= limits::OF_PEER {
            let own = || list.iter().filter(|caller| caller.peer == peer);
            let moment = Duration::from_secs(1) / limits::ACCEPTED;
            let is_new = |caller: &Arc<Caller>| now.saturating_duration_since(caller.born) < moment;
            if own().any(is_new) || own().filter(|caller| caller.is_ended()).count() >= limits::ENDING {
                return Entry::Full;
            }
            Some(peer)
        } else if live().count() >= room {
            live().map(|caller| caller.peer).max_by_key(|peer| (of(*peer), *peer != Peer::Loopback))
        } else {
            None
        };
        let ended = from.map(|from| Callers::spare(&list, now, |caller| caller.peer == from));
        if ended == Some(false) {
            return Entry::Full;
        }
        let caller = Arc::new(Caller {
            peer,
            born: now,
            doing: Mutex::new(Doing {
                open: 0,
                waiting: 0,
                running: 0,
                sending: 0,
                channels: 0,
                primaries: 0,
                done: 0,
                moved: now,
            }),
            ended: AtomicBool::new(false),
            reader: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
            reads: Arc::new(Semaphore::new(limits::READS)),
            free: AtomicUsize::new(0),
            callers: self.clone(),
            rights: OnceLock::new(),
        });
        list.push(caller.clone());
        let place = Place { caller };
        if from.is_some_and(|from| from != peer) { Entry::Instead(place) } else { Entry::Free(place) }
    }

    /// Ends the connection that can be spared best, because the process has no room for another file.
    pub fn end_one(&self) -> bool {
        Callers::spare(&self.list(), Instant::now(), |_| true)
    }

    /// Ends the connection that can be spared best. It is in the list until it has given its memory back.
    fn spare(list: &[Arc<Caller>], now: Instant, among: impl Fn(&Caller) -> bool) -> bool {
        let those = list.iter().filter(|caller| !caller.is_ended() && among(caller));
        let spared =
            those.filter_map(|caller| Some((caller.spare(now)?, caller))).max_by_key(|(spare, _)| *spare);
        spared.map(|(_, caller)| caller.end()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer connects, a second after anybody before it.
    fn enter(callers: &Arc<Callers>, peer: Peer) -> Option<Place> {
        let born = callers.list().iter().map(|caller| caller.born).max();
        match callers.enter_at(peer, born.map_or_else(Instant::now, |born| born + Duration::from_secs(1))) {
            Entry::Free(place) | Entry::Instead(place) => Some(place),
            Entry::Full => None,
        }
    }

    fn ended(place: &Place) -> bool {
        place.caller.is_ended()
    }

    #[test]
    fn addresses_of_one_site_are_one_peer() {
        let peer = |text: &str| Peer::of(text.parse().expect("an address"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("127.0.0.1"), peer("::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
    }

    #[test]
    fn a_full_share_ends_those_that_are_spared_best() {
        let callers = Arc::new(Callers::default());
        let primary = enter(&callers, Peer::Loopback).expect("room");
        primary.caller.set_primary(true);
        let busy = enter(&callers, Peer::Loopback).expect("room");
        let _running = Step::of(&busy.caller, StepKind::Running);
        let backup = enter(&callers, Peer::Loopback).expect("room");
        let _channel = Step::of(&backup.caller, StepKind::Channel);
        let idle = enter(&callers, Peer::Loopback).expect("room");
        drop(Step::of(&idle.caller, StepKind::Running));
        let mut silent: Vec<Place> =
            (4..limits::OF_PEER).map(|_| enter(&callers, Peer::Loopback).expect("room")).collect();
        // Silent ones end first, the oldest before others.
        for _ in 0..silent.len() {
            silent.push(enter(&callers, Peer::Loopback).expect("room"));
            assert!(ended(&silent[0]) && !ended(&idle));
            silent.remove(0);
        }
        let mut running = Vec::new();
        for place in &silent {
            running.push(Step::of(&place.caller, StepKind::Running));
        }
        let next = enter(&callers, Peer::Loopback).expect("room");
        assert!(ended(&idle) && !ended(&backup));
        running.push(Step::of(&next.caller, StepKind::Running));
        let next = enter(&callers, Peer::Loopback).expect("room");
        assert!(ended(&backup));
        running.push(Step::of(&next.caller, StepKind::Running));
        // What is left is a primary's, or is being answered.
        assert!(enter(&callers, Peer::Loopback).is_none());
        assert!(!ended(&primary) && !ended(&busy));
        assert!(enter(&callers, Peer::User(7)).is_some(), "others have their own share");
    }

    #[test]
    fn a_full_share_takes_new_ones_one_after_the_other() {
        let callers = Arc::new(Callers::default());
        let (peer, now) = (Peer::Local(1), Instant::now());
        let mut places = Vec::new();
        for at in [0, 0, 900, 1100].map(Duration::from_micros) {
            // A new one is refused while the share is full and the last one has had no moment; who has room is not.
            let taken = match callers.enter_at(peer, now + at) {
                Entry::Free(place) => Some(place),
                Entry::Instead(_) => panic!("nobody else ends for it"),
                Entry::Full => None,
            };
            assert_eq!(taken.is_some(), places.is_empty() || at > Duration::from_millis(1), "{at:?}");
            places.extend(taken);
            while places.len() < limits::OF_PEER {
                let Entry::Free(place) = callers.enter_at(peer, now) else { panic!("there is room") };
                places.push(place);
            }
        }
        assert!(
            matches!(callers.enter_at(Peer::Local(2), now), Entry::Free(_)),
            "others have their own share"
        );
    }

    #[test]
    fn a_full_share_takes_no_more_while_its_old_ones_keep_their_memory() {
        let callers = Arc::new(Callers::default());
        let enter = || enter(&callers, Peer::Local(1));
        let mut places: Vec<Place> = (0..limits::OF_PEER + limits::ENDING).filter_map(|_| enter()).collect();
        assert_eq!(places.len(), limits::OF_PEER + limits::ENDING);
        assert!(enter().is_none());
        places.retain(|place| !ended(place));
        assert!(enter().is_some());
    }

    #[test]
    fn those_who_ask_most_end_before_those_who_ask_once() {
        let callers = Arc::new(Callers::default());
        let places: Vec<Place> =
            (0..limits::OF_PEER).map(|_| enter(&callers, Peer::User(1)).expect("room")).collect();
        let mut steps = Vec::new();
        for (at, place) in places.iter().enumerate() {
            for _ in 0..=usize::from(at == 5) {
                steps.push(Step::of(&place.caller, StepKind::Open));
            }
            steps.push(Step::of(&place.caller, StepKind::Waiting));
        }
        assert!(enter(&callers, Peer::User(1)).is_some());
        assert_eq!(places.iter().position(ended), Some(5));
    }

    #[test]
    fn the_peer_of_a_primary_has_a_reserve() {
        let callers = Arc::new(Callers::default());
        let primary = enter(&callers, Peer::User(0)).expect("room");
        primary.caller.set_primary(true);
        // Each of these is busy, so none can be spared.
        let others = limits::CONNECTIONS - limits::RESERVED - 1;
        let places: Vec<Place> =
            (0..others).map(|n| enter(&callers, Peer::User(n as u32 / 50 + 1)).expect("room")).collect();
        let _steps: Vec<Step> =
            places.iter().map(|place| Step::of(&place.caller, StepKind::Running)).collect();
        assert!(enter(&callers, Peer::User(99)).is_none());
        assert!(enter(&callers, Peer::User(0)).is_some());
    }
}
