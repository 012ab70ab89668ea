//! Compares lookups with a linear search, and checks the errors of writes.

use abi::manifest::{Action, KeyField, Param, Table as Definition};
use abi::{ActionCall, Bits, Entry, MatchKind, MatchValue};

use super::*;

fn definition(keys: &[(MatchKind, u32)], size: u64) -> Definition {
    let keys = keys.iter().enumerate();
    Definition {
        name: "c.t".into(),
        keys: keys
            .map(|(i, (kind, width))| KeyField {
                name: format!("k{i}"),
                width: *width,
                kind: *kind,
                signed: false,
            })
            .collect(),
        actions: vec![Action {
            name: "c.a".into(),
            params: vec![Param { name: "x".into(), width: 32, offset: 0 }],
            default_only: false,
            table_only: false,
        }],
        size,
        default_action: Some(call(0)),
        const_default: false,
        const_entries: false,
        initial_entries: vec![],
        direct_counter: None,
        implementation: None,
        notifies_idle: false,
        ages: false,
        direct_meter: None,
        layout: None,
    }
}

fn call(x: u128) -> ActionCall {
    ActionCall { action: abi::id::ActionId(0), args: vec![Bits::new(32, x)] }
}

fn entry(matches: Vec<MatchValue>, priority: i32) -> Entry {
    Entry { matches, priority, action: call(1) }
}

fn lpm(value: u128, len: u32) -> MatchValue {
    MatchValue::Lpm(Bits::new(32, value), len)
}

/// A small random number generator, so that the test is the same everywhere.
struct Rng(u64);

impl Rng {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }

    fn bits(&mut self, width: u32) -> Bits {
        // Few distinct values, so that keys often match entries.
        Bits::new(width, self.below(4) as u128)
            .concat(&Bits::zero(width))
            .resize(width)
            .or(&Bits::new(width, self.below(4) as u128))
    }

    fn value(&mut self, kind: MatchKind, width: u32) -> MatchValue {
        match kind {
            MatchKind::Exact | MatchKind::Selector => MatchValue::Exact(self.bits(width)),
            MatchKind::Lpm => MatchValue::Lpm(self.bits(width), self.below(width as u64 + 1) as u32),
            MatchKind::Ternary => MatchValue::Ternary(self.bits(width), self.bits(width)),
            MatchKind::Range => MatchValue::Range(Bits::new(width, self.below(2) as u128), self.bits(width)),
            MatchKind::Optional => MatchValue::Optional((self.below(2) == 0).then(|| self.bits(width))),
        }
    }
}

#[test]
fn every_kind_agrees_with_a_linear_search() {
    use MatchKind::*;
    let shapes: &[&[(MatchKind, u32)]] = &[
        &[(Exact, 8)],
        &[(Exact, 200), (Exact, 1)],
        &[(Lpm, 32)],
        &[(Exact, 2), (Lpm, 160)],
        &[(Lpm, 8), (Lpm, 8)],
        &[(Ternary, 8), (Exact, 2)],
        &[(Range, 4), (Optional, 130), (Ternary, 3), (Lpm, 8)],
    ];
    let mut rng = Rng(7);
    for shape in shapes {
        let mut table = Table::new(&definition(shape, 1000)).unwrap();
        for round in 0..600 {
            let matches = shape.iter().map(|(k, w)| rng.value(*k, *w)).collect();
            let priority = rng.below(5) as i32;
            if rng.below(4) == 0 {
                let _ = table.delete(&entry(matches, priority));
            } else {
                let _ = table.insert(&entry(matches, priority));
            }
            let key: Vec<Bits> = shape.iter().map(|(_, w)| rng.bits(*w)).collect();
            let wins = |row: &&Row| row.entry.matches.iter().zip(&key).all(|(m, k)| m.matches(k));
            let expect =
                table.rows().into_iter().filter(wins).max_by_key(|r| (r.rank, std::cmp::Reverse(r.handle)));
            let got = table.lookup(&key);
            assert_eq!(got.map(|r| r.handle), expect.map(|r| r.handle), "{shape:?} round {round}");
        }
        assert!(table.len() > 2);
    }
}

#[test]
fn the_longest_prefix_wins_and_default_catches_the_rest() {
    let mut table = Table::new(&definition(&[(MatchKind::Lpm, 32)], 8)).unwrap();
    let wide = table.insert(&entry(vec![lpm(0x0a00_0000, 8)], 0)).unwrap();
    let narrow = table.insert(&entry(vec![lpm(0x0a01_0203, 16)], 0)).unwrap();
    let hit = |t: &Table, key| t.lookup(&[Bits::new(32, key)]).map(|r| r.handle);
    assert_eq!(hit(&table, 0x0a01_ffff), Some(narrow));
    assert_eq!(hit(&table, 0x0a02_0000), Some(wide));
    assert_eq!(hit(&table, 0x0b00_0000), None);
    let loser = table.row(wide).unwrap();
    assert_eq!(table.mismatch(loser, &[Bits::new(32, 0x0a01_0000)]), Mismatch::Outranked);
    assert_eq!(table.mismatch(loser, &[Bits::new(32, 0)]), Mismatch::Field(0));
}

#[test]
fn a_failed_write_says_what_is_wrong() {
    let mut table = Table::new(&definition(&[(MatchKind::Lpm, 32)], 2)).unwrap();
    let one = entry(vec![lpm(0x0a00_0001, 8)], 0);
    table.insert(&one).unwrap();
    // The prefix is the same. Host bits and priority do not count in this table, so it is the same entry.
    let same = entry(vec![lpm(0x0aff_0000, 8)], 9);
    assert_eq!(table.insert(&same), Err(TableError::Exists("c.t".into())));
    assert!(matches!(table.delete(&entry(vec![lpm(0, 3)], 0)), Err(TableError::NotFound(_))));
    table.insert(&entry(vec![lpm(0, 0)], 0)).unwrap();
    let full = table.insert(&entry(vec![lpm(0, 1)], 0));
    assert_eq!(full, Err(TableError::Full { table: "c.t".into(), size: 2 }));
    table.delete(&same).unwrap();
    assert_eq!(table.len(), 1);
}

#[test]
fn counters_follow_hits_and_modify_keeps_them() {
    let mut table = Table::new(&definition(&[(MatchKind::Exact, 8)], 8)).unwrap();
    let one = entry(vec![MatchValue::Exact(Bits::new(8, 5))], 0);
    table.insert(&one).unwrap();
    table.lookup_and_count(&[Bits::new(8, 5)], 60, 0);
    table.lookup_and_count(&[Bits::new(8, 6)], 70, 0);
    table.modify(&Entry { action: call(9), ..one.clone() }).unwrap();
    let row = table.find(&one).unwrap();
    assert_eq!((row.count, row.entry.action.clone()), (Count { packets: 1, bytes: 60 }, call(9)));
    assert_eq!(table.default().count, Count { packets: 1, bytes: 70 });
    table.reset();
    assert!(table.is_empty());
}
