//! The direct meter of a table to which packets add entries. An entry keeps its meter when it is changed, new entries get a fresh one, and no two
//! entries ever share one, whoever adds and removes them. The interpreter is the oracle.

mod every;
mod on_tc;

use abi::id::{ActionId, MeterId, TableId};
use abi::{ActionCall, Bits, MatchValue};
use dataplane::Rate;
use dataplane::device::{Action, Entity, EntryKey, EntryQuery, Key, Query, TableEntry, Update};
use every::Passes;
use harness::rng::Rng;

const PROGRAM: &str = include_str!("../../../tests/cases/learn_metered.p4");
const FLOWS: TableId = TableId(0);

fn packet(key: u8) -> Vec<u8> {
    let mut packet = vec![0; 64];
    packet[17] = key;
    packet[18] = key;
    packet
}

/// The entry's data and the colour with which a packet leaves.
fn pass(of: &mut dyn Passes, key: u8) -> String {
    let packet = of.pass(&packet(key));
    format!("{key}: {:x?}", &packet[18..20])
}

fn key(n: u8) -> EntryKey {
    EntryKey { table: FLOWS, matches: vec![MatchValue::Exact(Bits::new(32, n.into()))], priority: 0 }
}

fn entry(n: u8, what: u8) -> Entity {
    let action = Action::Call(ActionCall { action: ActionId(0), args: vec![Bits::new(8, what.into())] });
    Entity::Entry(TableEntry { key: key(n), action, idle: None })
}

/// Rates of a packet in some hours, which the kernel holds exactly.
fn rates(bursts: [u64; 2]) -> Vec<Rate> {
    bursts.map(|burst| Rate { per_microsecond: 1.0 / f64::from(1 << 30), burst }).to_vec()
}

/// Random packets and updates.
fn observe(of: &mut dyn Passes) -> Vec<String> {
    let (mut rng, mut shown) = (Rng::new(5), Vec::new());
    let all = Entity::AllMeters { meter: MeterId(0), rates: rates([2, 4]) };
    of.device().write(&[Update::Modify(all)]).expect("it is right");
    for round in 0..2500 {
        let (n, what) = (1 + rng.below(6) as u8, rng.below(100) as u8);
        let update = match rng.index(16) {
            0 => Update::Modify(entry(n, what)),
            1 => Update::Delete(Key::Entry(key(n))),
            2 => Update::Insert(entry(n, what)),
            3 => Update::Modify(Entity::DirectMeter { entry: key(n), rates: rates([1, 2 + u64::from(n)]) }),
            4 if round % 50 == 0 => {
                let rates = rates([1 + u64::from(what % 3), 5]);
                Update::Modify(Entity::AllMeters { meter: MeterId(0), rates })
            }
            _ => {
                shown.push(pass(of, n));
                continue;
            }
        };
        let wrong = Update::Delete(Key::Entry(key(99)));
        // Sometimes the whole batch is refused. (A batch that only the kernel refuses, because a table is full, is undone, which fills buckets.)
        match rng.index(4) {
            0 => shown.push(format!("{:?}", of.device().write(&[update, wrong]).is_ok())),
            _ => shown.push(format!("{:?}", of.device().write(&[update]).is_ok())),
        }
        let found = of.device().read(&Query::DirectMeters(EntryQuery::default())).expect("it reads");
        let mut found: Vec<String> = found.iter().map(|entity| format!("{entity:?}")).collect();
        found.sort();
        shown.extend(found);
        shown.push(format!("{:?}", of.device().get(&Key::AllMeters(MeterId(0)))));
    }
    shown
}

#[test]
fn meters_of_learnt_entries_are_the_same_on_every_device() {
    every::all_equal("meters", PROGRAM, observe);
}
