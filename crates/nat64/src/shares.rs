//! The shares of subscribers in sessions and bindings (RFC 6888 REQ-3 and REQ-4), and the share of sessions that packets from IPv4 make.
//!
//! The program counts up, as apps/nat64/sessions.p4 tells: in cells of registers, of which some subscribers have one in common, and where shares are
//! large only a sample. Whoever removes sessions counts them once a second ([`Counts`]) and corrects the cells ([`Counter`]).

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv6Addr;

use abi::id::RegisterId;
use abi::{Bits, Manifest};
use dataplane::Device;
use dataplane::device::{DeviceError, Entity, Key, Query, Update};

use super::config::{Pool, Stateful};
use super::flows::Flows;
use super::sessions::table;

/// The sessions and the bindings that the program has room for, if the file does not say how many.
const SESSIONS: u32 = 131_072;
const BINDINGS: u32 = 65_536;
/// A subscriber has one part in so many of the sessions, and of the bindings.
const SUBSCRIBER: u32 = 8;
/// What comes from IPv4 makes one part in so many of the sessions.
const OUTSIDE: u32 = 4;
/// It leaves one part in so many free.
const FREE: u32 = 8;
/// A share is never less, and one of bindings is never less because a pool is small.
const LEAST: u32 = 16;
const LEAST_OF_POOL: u32 = 1024;
/// The largest number that the program compares with.
const MOST: u32 = (1 << 24) - 1;
/// The longest prefix of a subscriber, because hosts choose their addresses in a /64 themselves.
const LONGEST: u8 = 64;
/// Shares that are at least so large are counted by a sample.
const SAMPLED: u32 = 4096;
/// The number of cells, and how many of them are looked at in each count whoever they are of.
const CELLS: u64 = 4096;
const PART: u64 = 256;
/// Each count of this number corrects cells that packets have changed meanwhile.
const FORCED: u64 = 16;
/// The value of `opened` of a session that a packet from IPv4 has made.
pub const FROM_IPV4: u8 = 2;

/// Who may have how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The length of a subscriber's prefix.
    pub length: u8,
    /// The sessions that a subscriber may have.
    pub sessions: u32,
    /// The bindings that a subscriber may have.
    pub bindings: u32,
    /// The sessions that packets from IPv4 may have made.
    pub outside: u32,
    /// The sessions beyond which they make no more.
    most: u32,
    /// The key of the hash of a subscriber: an odd number.
    factor: u64,
}

impl Shares {
    /// Those of a configuration.
    pub fn of(stateful: &Stateful) -> Shares {
        let (sessions, bindings) = stateful.max_sessions.map_or((SESSIONS, BINDINGS), |most| (most, most));
        let shared = stateful.pools.iter().filter(|pool| pool.block.is_none());
        let ports = |pool: &Pool| pool.count() * u64::from(pool.ports_of_address()) / u64::from(SUBSCRIBER);
        let of_pool = shared.map(ports).min().unwrap_or(u64::MAX).max(LEAST_OF_POOL.into());
        let of_table = (bindings / SUBSCRIBER).max(LEAST);
        let length = stateful.pools.iter().map(|pool| pool.subscriber).min().unwrap_or(LONGEST);
        let [low, high] = stateful.secret.unwrap_or_default();
        Shares {
            length: length.min(LONGEST),
            sessions: stateful.subscriber_sessions.unwrap_or((sessions / SUBSCRIBER).max(LEAST)),
            bindings: stateful.subscriber_bindings.unwrap_or(of_pool.min(of_table.into()) as u32),
            outside: stateful.outside_sessions.unwrap_or((sessions / OUTSIDE).clamp(LEAST, MOST)),
            most: sessions - sessions / FREE,
            factor: (low ^ high.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// The arguments of the program's action `share`.
    pub(super) fn args(&self) -> [(u32, u128); 6] {
        let sampled = self.sessions.min(self.bindings).min(self.outside) >= SAMPLED;
        [
            (64, self.mask().into()),
            (64, self.factor.into()),
            (24, self.sessions.into()),
            (24, self.bindings.into()),
            (24, self.outside.into()),
            (1, sampled.into()),
        ]
    }

    fn mask(&self) -> u64 {
        u64::MAX.checked_shl(64 - u32::from(self.length)).unwrap_or(0)
    }

    /// The subscriber of a host: the first 64 bits of its prefix.
    pub fn subscriber(&self, host: Ipv6Addr) -> u64 {
        (u128::from(host) >> 64) as u64 & self.mask()
    }

    /// The cell of a subscriber, and what of the cell's value says that it is its own.
    fn cell(&self, subscriber: u64) -> (u64, u64) {
        let hash = subscriber.wrapping_mul(self.factor);
        (hash >> 52, hash >> 36 & 0xffff)
    }

    /// The number of sessions that packets from IPv4 count as made: they make more while it is less than their share. It leaves them no more than what is
    /// free beside the last part of the table, which is for hosts.
    fn made(&self, counts: &Counts) -> u64 {
        let room = u64::from(self.most).saturating_sub(counts.all);
        let may = u64::from(self.outside).saturating_sub(counts.outside).min(room);
        u64::from(self.outside) - may
    }

    /// The shares as `check` prints them, in one line.
    pub fn described(&self) -> String {
        format!(
            "a subscriber is a /{} and may have {} sessions and {} bindings; packets from IPv4 may make {} sessions",
            self.length, self.sessions, self.bindings, self.outside
        )
    }
}

/// The value of a cell: whose it is (16 bits), how often that was refused, and how many it has (24 bits each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    whose: u64,
    refused: u64,
    has: u64,
}

impl Cell {
    fn of(value: u64) -> Cell {
        Cell { whose: value >> 48, refused: value >> 24 & 0xff_ffff, has: value & 0xff_ffff }
    }

    fn value(self) -> u64 {
        self.whose << 48 | self.refused << 24 | self.has.min(0xff_ffff)
    }
}

/// What there is, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The sessions that the hosts of each subscriber have made.
    pub sessions: HashMap<u64, u64>,
    /// The bindings of each subscriber.
    pub bindings: HashMap<u64, u64>,
    /// The sessions that packets from IPv4 have made.
    pub outside: u64,
    /// The sessions that there are, whoever made them.
    pub all: u64,
}

/// Reads hosts out of the action data of a table.
#[derive(Clone, Copy, Debug)]
pub struct HostIn {
    host: usize,
    opened: Option<usize>,
}

impl HostIn {
    /// That of an action.
    fn of(manifest: &Manifest, at: abi::id::TableId, action: &str) -> Option<HostIn> {
        let name = table(action);
        let action = manifest.tables[at.index()].actions.iter().find(|action| action.name == name)?;
        let offset = |name: &str| action.params.iter().find(|p| p.name == name).map(|p| p.offset as usize);
        Some(HostIn { host: offset("host")?, opened: offset("opened") })
    }

    fn host(&self, data: &[u8]) -> Ipv6Addr {
        let bytes = data.get(self.host..self.host + 16).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u128::from_ne_bytes).into()
    }
}

/// What counts, and corrects what the program has counted.
#[derive(Clone, Debug)]
pub struct Counter {
    shares: Shares,
    /// Where hosts are in the action data of sessions, and of bindings.
    session: HostIn,
    binding: HostIn,
    /// The static bindings of each subscriber, which it has beside its share.
    fixed: HashMap<u64, u64>,
    cells: [RegisterId; 2],
    outside: RegisterId,
    /// The cells that are somebody's, and what they had before the present count.
    known: [BTreeSet<u64>; 2],
    before: [HashMap<u64, u64>; 2],
    made_before: u64,
    turn: u64,
}

impl Counter {
    /// That of a program; `None` if it has no shares.
    pub fn new(stateful: &Stateful, manifest: &Manifest, flows: &Flows) -> Option<Counter> {
        let register = |name: &str| manifest.register_id(&table(name));
        let shares = Shares::of(stateful);
        let mut fixed: HashMap<u64, u64> = HashMap::new();
        for binding in &stateful.bindings {
            *fixed.entry(shares.subscriber(binding.ipv6.0)).or_default() += 1;
        }
        Some(Counter {
            shares,
            session: HostIn::of(manifest, flows.sessions, "session")?,
            binding: HostIn::of(manifest, flows.bib4, "taken")?,
            fixed,
            cells: [register("session_share.cells")?, register("binding_share.cells")?],
            outside: register("outside_sessions")?,
            known: Default::default(),
            before: Default::default(),
            made_before: 0,
            turn: 0,
        })
    }

    /// Counts a session, by its action data.
    pub fn session(&self, data: &[u8], counts: &mut Counts) {
        counts.all += 1;
        if self.session.opened.and_then(|at| data.get(at)) == Some(&FROM_IPV4) {
            counts.outside += 1;
        } else {
            *counts.sessions.entry(self.shares.subscriber(self.session.host(data))).or_default() += 1;
        }
    }

    /// Counts a binding, by its action data in the table of ports.
    pub fn binding(&self, data: &[u8], counts: &mut Counts) {
        *counts.bindings.entry(self.shares.subscriber(self.binding.host(data))).or_default() += 1;
    }

    /// Begins to count: what packets count from now on is not corrected by what is found.
    pub fn begin(&mut self, device: &mut impl Device) -> Result<(), DeviceError> {
        let from = self.turn * PART % CELLS;
        for (which, register) in self.cells.into_iter().enumerate() {
            let all: BTreeSet<u64> = self.known[which].iter().copied().chain(from..from + PART).collect();
            self.before[which].clear();
            for index in all {
                self.before[which].insert(index, Cell::of(read(register, index, device)?).has);
            }
        }
        self.made_before = read(self.outside, 0, device)?;
        Ok(())
    }

    /// Corrects what the program has counted.
    pub fn correct(&mut self, mut counts: Counts, device: &mut impl Device) -> Result<(), DeviceError> {
        for (subscriber, fixed) in &self.fixed {
            if let Some(has) = counts.bindings.get_mut(subscriber) {
                *has = has.saturating_sub(*fixed);
            }
        }
        // Some time, a cell is corrected though packets change it all the time.
        self.turn += 1;
        let force = self.turn.is_multiple_of(FORCED);
        let mut updates = Vec::new();
        for (which, found) in [&counts.sessions, &counts.bindings].into_iter().enumerate() {
            self.correct_cells(which, found, force, device, &mut updates)?;
        }
        let made = self.shares.made(&counts);
        if force || read(self.outside, 0, device)? == self.made_before {
            updates.push(set(self.outside, 0, Bits::new(32, made.into())));
        }
        device.write(&updates).map_err(|refused| refused.error)
    }

    /// The updates of the cells of one register. A cell is of who has most of those that share it.
    fn correct_cells(
        &mut self,
        which: usize,
        found: &HashMap<u64, u64>,
        force: bool,
        device: &mut impl Device,
        updates: &mut Vec<Update>,
    ) -> Result<(), DeviceError> {
        let mut first: HashMap<u64, (u64, u64)> = HashMap::new();
        for (subscriber, has) in found.iter().filter(|(_, has)| **has > 0) {
            let (index, whose) = self.shares.cell(*subscriber);
            let most = first.entry(index).or_default();
            *most = (*most).max((*has, whose));
        }
        for (index, before) in &self.before[which] {
            let old = Cell::of(read(self.cells[which], *index, device)?);
            let new = match first.get(index) {
                Some((has, whose)) if *whose == old.whose => Cell { has: *has, ..old },
                Some((has, whose)) => Cell { whose: *whose, refused: 0, has: *has },
                None => Cell { has: 0, ..old },
            };
            if new.value() != old.value() && (force || old.has == *before) {
                updates.push(set(self.cells[which], *index, Bits::new(64, new.value().into())));
            }
        }
        self.known[which] = first.into_keys().collect();
        Ok(())
    }
}

/// How often a subscriber was refused a session, and a binding, as far as its cells are its own.
pub fn refused(
    stateful: &Stateful,
    subscriber: u64,
    device: &mut impl Device,
) -> Result<[u64; 2], DeviceError> {
    let (index, whose) = Shares::of(stateful).cell(subscriber);
    let mut refused = [0; 2];
    for (number, name) in ["session_share.cells", "binding_share.cells"].into_iter().enumerate() {
        let Some(register) = device.manifest().register_id(&table(name)) else { continue };
        let cell = Cell::of(read(register, index, device)?);
        if cell.whose == whose {
            refused[number] = cell.refused;
        }
    }
    Ok(refused)
}

fn read(register: RegisterId, index: u64, device: &mut impl Device) -> Result<u64, DeviceError> {
    let found = device.read(&Query::One(Key::Register(register, index)))?;
    Ok(match found.first() {
        Some(Entity::Register { value, .. }) => value.to_u64().unwrap_or(0),
        _ => 0,
    })
}

fn set(register: RegisterId, index: u64, value: Bits) -> Update {
    Update::Modify(Entity::Register { register, index, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn of(keys: &str) -> Shares {
        let text = format!("[nat64]\nmode = \"stateful\"\nprefix = \"64:ff9b::/96\"\n{keys}\n");
        Shares::of(&parse(&text).expect("a good file").stateful.expect("mode stateful"))
    }

    fn numbers(shares: Shares) -> (u8, u32, u32, u32) {
        (shares.length, shares.sessions, shares.bindings, shares.outside)
    }

    #[test]
    fn shares_protect_without_a_key() {
        let pool = "pool = [\"203.0.113.0/28\"]\n";
        assert_eq!(numbers(of(pool)), (64, 16_384, 8192, 32_768));
        assert_eq!(numbers(of(&format!("{pool}max-sessions = 1024"))), (64, 128, 128, 256));
        let given = "subscriber-sessions = 100\nsubscriber-bindings = 50\noutside-sessions = 20";
        assert_eq!(numbers(of(&format!("{pool}{given}"))), (64, 100, 50, 20));
        // One address has fewer ports than a large table has room.
        assert_eq!(of("pool = [\"203.0.113.1\"]\nmax-sessions = 1000000").bindings, 8064);
        assert_eq!(of("pool = [\"203.0.113.1\"]\nports = \"40000-40031\"").bindings, 1024);
    }

    #[test]
    fn packets_from_ipv4_never_take_the_last_room() {
        let shares = of("pool = [\"203.0.113.1\"]\nmax-sessions = 1024");
        // Each row has all sessions, those that packets from IPv4 have made, and how many more they may make: a quarter of all, and none of the last eighth.
        for (all, outside, more) in [
            (0, 0, 256),
            (100, 100, 156),
            (256, 256, 0),
            (800, 0, 96),
            (895, 10, 1),
            (896, 0, 0),
            (1024, 300, 0),
        ] {
            let counts = Counts { all, outside, ..Counts::default() };
            assert_eq!(u64::from(shares.outside) - shares.made(&counts), more, "{all} {outside}");
        }
    }

    #[test]
    fn a_subscriber_is_what_the_pools_say_and_no_less_than_a_64() {
        let pool = |length: u8| {
            format!(
                "[[pool]]\naddresses = [\"203.0.113.1\"]\nhosts = \"2001:db8::/32\"\nsubscriber = {length}"
            )
        };
        assert_eq!(of(&pool(56)).length, 56);
        assert_eq!(of(&pool(128)).length, 64);
        let shares = of(&pool(56));
        let of = |host: &str| shares.subscriber(host.parse().expect("an address"));
        assert_eq!(of("2001:db8:0:100::1"), of("2001:db8:0:1ff:ffff::"));
        assert_ne!(of("2001:db8:0:100::1"), of("2001:db8:0:200::1"));
    }

    #[test]
    fn cells_keep_what_they_say() {
        for cell in [
            Cell { whose: 0xffff, refused: 0xff_ffff, has: 0xff_ffff },
            Cell { whose: 7, refused: 0, has: 1 },
        ] {
            assert_eq!(Cell::of(cell.value()), cell);
        }
    }
}
