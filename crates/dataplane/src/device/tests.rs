//! The rules of updates and queries on the model, and batches that are refused in the middle.

use abi::id::{ActionId, CounterId, ProfileId, RegisterId, TableId};
use abi::manifest::{Action as Declared, ActionProfile, Counter, KeyField, Param, Register, Table};
use abi::{ActionCall, Bits, Manifest, MatchKind, MatchValue};

use super::*;

const EXACT: TableId = TableId(0);
const CONST: TableId = TableId(1);
const PROFILED: TableId = TableId(2);
const PROFILE: ProfileId = ProfileId(0);
const SELECTOR: ProfileId = ProfileId(1);

fn manifest() -> Manifest {
    let table = |name: &str, kind: MatchKind, profile: Option<&str>| Table {
        name: name.to_string(),
        keys: vec![KeyField { name: "k".to_string(), width: 8, kind, signed: false }],
        actions: vec![Declared {
            name: "set".to_string(),
            params: vec![Param { name: "p".to_string(), width: 9, offset: 0 }],
            default_only: false,
            table_only: false,
        }],
        size: 3,
        default_action: Some(call(0)),
        const_default: name == "const",
        const_entries: name == "const",
        initial_entries: Vec::new(),
        direct_counter: (name == "exact").then(|| "counter".to_string()),
        implementation: profile.map(str::to_string),
        notifies_idle: name == "exact",
        ages: false,
        direct_meter: None,
        layout: None,
    };
    let profile = |name: &str, selector| ActionProfile { name: name.to_string(), size: 2, selector };
    Manifest {
        tables: vec![
            table("exact", MatchKind::Exact, None),
            table("const", MatchKind::Ternary, None),
            table("profiled", MatchKind::Lpm, Some("selector")),
        ],
        counters: vec![Counter { name: "c".to_string(), size: 4, first: None }],
        registers: vec![Register { name: "r".to_string(), size: 2, width: 5, initial: None, map: None }],
        profiles: vec![profile("profile", false), profile("selector", true)],
        ..Manifest::default()
    }
}

fn call(port: u128) -> ActionCall {
    ActionCall { action: ActionId(0), args: vec![Bits::new(9, port)] }
}

fn key(n: u128) -> EntryKey {
    EntryKey { table: EXACT, matches: vec![MatchValue::Exact(Bits::new(8, n))], priority: 0 }
}

fn entry(n: u128, port: u128) -> Entity {
    Entity::Entry(TableEntry { key: key(n), action: Action::Call(call(port)), idle: None })
}

fn refers(n: u128, action: Action) -> Entity {
    let matches = vec![MatchValue::Lpm(Bits::new(8, n), 8)];
    Entity::Entry(TableEntry { key: EntryKey { table: PROFILED, matches, priority: 0 }, action, idle: None })
}

fn member(id: u32) -> Entity {
    Entity::Member { profile: SELECTOR, id, action: call(id.into()) }
}

fn group(members: &[u32]) -> Entity {
    Entity::Group { profile: SELECTOR, id: 1, members: members.to_vec() }
}

/// The code of the error with which a device refuses the last of these updates; `ok` if it does not.
fn code(device: &mut dyn Device, updates: &[Update]) -> String {
    match device.write(updates) {
        Ok(()) => "ok".to_string(),
        Err(WriteError { index, error }) => {
            assert_eq!(index, updates.len() - 1, "{error}");
            let text = error.to_string();
            text[text.rfind('(').map_or(0, |at| at + 1)..text.len() - 1].to_string()
        }
    }
}

#[test]
fn updates_follow_the_rules_of_p4runtime() {
    use Update::*;
    let mut model = Model::new(manifest());
    let mut is =
        |updates: &[Update], wanted: &str| assert_eq!(code(&mut model, updates), wanted, "{updates:?}");
    is(&[Insert(entry(1, 1))], "ok");
    is(&[Insert(entry(1, 2))], "ALREADY_EXISTS");
    is(&[Modify(entry(2, 1))], "NOT_FOUND");
    is(&[Delete(Key::Entry(key(2)))], "NOT_FOUND");
    is(&[Unset(Key::Entry(key(2)))], "ok");
    is(&[Set(entry(1, 3)), Set(entry(2, 3)), Insert(entry(3, 3))], "ok");
    is(&[Set(entry(4, 1))], "RESOURCE_EXHAUSTED");
    is(&[Delete(Key::Entry(key(3))), Insert(entry(4, 1)), Insert(entry(5, 1))], "RESOURCE_EXHAUSTED");
    is(&[Delete(Key::Entry(key(3))), Insert(entry(4, 1)), Insert(entry(4, 2))], "ALREADY_EXISTS");
    is(&[Delete(Key::Entry(key(3))), Modify(entry(3, 1))], "NOT_FOUND");
    // What the manifest alone forbids.
    is(&[Insert(Entity::Default { table: EXACT, action: call(1) })], "INVALID_ARGUMENT");
    is(&[Delete(Key::Default(EXACT))], "INVALID_ARGUMENT");
    is(&[Modify(Entity::Default { table: CONST, action: call(1) })], "PERMISSION_DENIED");
    is(&[Modify(Entity::Default { table: TableId(9), action: call(1) })], "INVALID_ARGUMENT");
    let mask = MatchValue::Ternary(Bits::new(8, 1), Bits::new(8, 1));
    let constant = EntryKey { table: CONST, matches: vec![mask.clone()], priority: 1 };
    is(&[Insert(Entity::entry(CONST, constant.with(call(1))))], "PERMISSION_DENIED");
    let wrong = EntryKey { matches: vec![mask], ..key(1) };
    is(&[Insert(Entity::entry(EXACT, wrong.with(call(1))))], "INVALID_ARGUMENT");
    let with_priority = EntryKey { priority: 1, ..key(1) };
    is(&[Insert(Entity::entry(EXACT, with_priority.with(call(1))))], "INVALID_ARGUMENT");
    let wide = ActionCall { action: ActionId(0), args: vec![Bits::new(10, 1)] };
    is(&[Modify(Entity::entry(EXACT, key(1).with(wide)))], "INVALID_ARGUMENT");
    let register =
        |width, index| Entity::Register { register: RegisterId(0), index, value: Bits::new(width, 1) };
    is(&[Modify(register(5, 1))], "ok");
    is(&[Modify(register(5, 2))], "INVALID_ARGUMENT");
    is(&[Modify(register(6, 1))], "INVALID_ARGUMENT");
    let direct = |n| Entity::DirectCounter { entry: key(n), count: Count { packets: 1, bytes: 2 } };
    is(&[Modify(direct(1))], "ok");
    is(&[Modify(direct(7))], "NOT_FOUND");
}

#[test]
fn references_must_lead_somewhere() {
    use Update::*;
    let mut model = Model::new(manifest());
    let mut is =
        |updates: &[Update], wanted: &str| assert_eq!(code(&mut model, updates), wanted, "{updates:?}");
    is(&[Insert(refers(1, Action::Member(1)))], "NOT_FOUND");
    is(&[Insert(member(1)), Insert(group(&[1, 2]))], "NOT_FOUND");
    is(&[Insert(member(1)), Insert(group(&[1])), Insert(refers(1, Action::Group(1)))], "ok");
    is(&[Insert(member(2)), Insert(member(3))], "RESOURCE_EXHAUSTED");
    is(&[Delete(Key::Member(SELECTOR, 1))], "FAILED_PRECONDITION");
    is(&[Delete(Key::Group(SELECTOR, 1))], "FAILED_PRECONDITION");
    is(&[Modify(refers(1, Action::Member(1))), Delete(Key::Group(SELECTOR, 1))], "ok");
    is(&[Delete(Key::Member(SELECTOR, 1))], "FAILED_PRECONDITION");
    let Key::Entry(entry) = refers(1, Action::Member(1)).key() else { panic!() };
    is(&[Delete(Key::Entry(entry)), Delete(Key::Member(SELECTOR, 1))], "ok");
    is(&[Insert(Entity::Group { profile: PROFILE, id: 1, members: vec![] })], "INVALID_ARGUMENT");
}

/// Everything that a query can find.
fn all(model: &mut Model) -> Vec<Entity> {
    let entries = EntryQuery::default;
    let queries = [
        Query::Entries(entries()),
        Query::DirectCounters(entries()),
        Query::Defaults(None),
        Query::Members(None),
        Query::Groups(None),
        Query::Counters(None),
        Query::Registers(None),
        Query::Multicast,
        Query::Sessions,
    ];
    let mut all: Vec<Entity> = queries.iter().flat_map(|q| model.read(q).expect("it reads")).collect();
    all.sort_by_key(|entity| format!("{entity:?}"));
    all
}

/// A target that refuses any one operation of a batch is left as it was, with the counter of an entry that was deleted and came back.
#[test]
fn a_batch_that_fails_in_the_middle_leaves_nothing() {
    use Update::*;
    let mut model = Model::new(manifest());
    let count = Count { packets: 7, bytes: 700 };
    let begin = [
        Insert(entry(1, 1)),
        Insert(entry(2, 1)),
        Modify(Entity::DirectCounter { entry: key(1), count }),
        Insert(member(1)),
        Insert(group(&[1])),
        Insert(Entity::Session { session: 5, to: Mirror::Port(1) }),
    ];
    model.write(&begin).expect("it is right");
    let batch = [
        Delete(Key::Entry(key(1))),
        Modify(entry(2, 2)),
        Insert(entry(3, 3)),
        Set(entry(1, 4)),
        Modify(Entity::Default { table: EXACT, action: call(9) }),
        Insert(member(2)),
        Modify(group(&[2, 1])),
        Insert(refers(9, Action::Group(1))),
        Insert(Entity::Multicast { group: 1, copies: vec![(0, 1)] }),
        Delete(Key::Session(5)),
        Modify(Entity::Counter { counter: CounterId(0), index: 3, count }),
        Unset(Key::Register(RegisterId(0), 0)),
    ];
    let before = all(&mut model);
    for refused in 0..batch.len() {
        model.refuses_after = Some(refused);
        let error = model.write(&batch).expect_err("an operation is refused");
        assert_eq!(error.index, refused);
        assert_eq!(all(&mut model), before, "after the refusal of update {refused}");
    }
    model.refuses_after = None;
    model.write(&batch).expect("nothing is refused");
    assert_ne!(all(&mut model), before);
}

#[test]
fn queries_select_by_what_they_name() {
    let mut model = Model::new(manifest());
    let updates = [1, 2].map(|n| Update::Insert(entry(n, n)));
    model.write(&updates).expect("it is right");
    model
        .write(&[Update::Insert(member(1)), Update::Insert(refers(1, Action::Member(1)))])
        .expect("it is right");
    let mut count = |query: Query| model.read(&query).map(|found| found.len());
    let of = |table, value| EntryQuery { table, matches: vec![value], priority: None };
    let two = || Some(MatchValue::Exact(Bits::new(8, 2)));
    assert_eq!(count(Query::Entries(EntryQuery::default())), Ok(3));
    assert_eq!(count(Query::Entries(EntryQuery::table(EXACT))), Ok(2));
    assert_eq!(count(Query::Entries(of(Some(EXACT), two()))), Ok(1));
    assert_eq!(count(Query::Entries(of(Some(EXACT), None))), Ok(2));
    assert_eq!(count(Query::Entries(of(None, two()))), Ok(1));
    assert_eq!(count(Query::DirectCounters(EntryQuery::default())), Ok(2));
    assert_eq!(count(Query::Counters(None)), Ok(4));
    assert_eq!(count(Query::Defaults(None)), Ok(3));
    assert_eq!(count(Query::Members(Some(SELECTOR))), Ok(1));
    let wrong = [
        Query::Entries(EntryQuery::table(TableId(9))),
        Query::Counters(Some(CounterId(9))),
        Query::DirectCounters(EntryQuery::table(CONST)),
        Query::One(Key::Counter(CounterId(0), 4)),
    ];
    for query in wrong {
        assert!(matches!(count(query.clone()), Err(DeviceError::InvalidArgument(_))), "{query:?}");
    }
}

#[test]
fn a_copy_holds_what_decides_about_packets() {
    let mut model = Model::new(manifest());
    let register = |value| Entity::Register { register: RegisterId(0), index: 1, value: Bits::new(5, value) };
    let count = Count { packets: 7, bytes: 9 };
    let held = [
        register(3),
        Entity::Multicast { group: 4, copies: vec![(1, 2)] },
        Entity::Default { table: EXACT, action: call(5) },
        member(1),
        group(&[1]),
        entry(1, 2),
        refers(3, Action::Group(1)),
    ];
    let updates: Vec<Update> = held.iter().cloned().map(Update::Set).collect();
    model.write(&updates).expect("it is right");
    let counter = Entity::Counter { counter: CounterId(0), index: 0, count };
    model.write(&[Update::Set(counter)]).expect("it is right");
    let state = copy::state(&mut model, held.len()).expect("it can be read").expect("it is not too much");
    assert_eq!(state, held, "without counts, and without what the program declares");
    assert_eq!(copy::state(&mut model, held.len() - 1).expect("it can be read"), None);
    let mut other = Model::new(manifest());
    copy::restore(&mut other, &state).expect("the program is the same");
    assert_eq!(copy::state(&mut other, held.len()).expect("it can be read"), Some(state));
}

#[test]
fn entries_are_listed_in_one_order_however_they_came() {
    let manifest = Manifest {
        tables: manifest().tables.into_iter().map(|table| Table { size: 200, ..table }).collect(),
        ..manifest()
    };
    let listed = |numbers: &mut dyn Iterator<Item = u128>| {
        let mut model = Model::new(manifest.clone());
        numbers.for_each(|n| model.write(&[Update::Insert(entry(n, n))]).expect("there is room"));
        let read = model.read(&Query::Entries(EntryQuery::table(EXACT))).expect("it can be read");
        read.into_iter().map(|entity| entity.key()).collect::<Vec<_>>()
    };
    let in_order: Vec<Key> = (0..100).map(|n| Key::Entry(key(n))).collect();
    assert_eq!(listed(&mut (0..100)), in_order);
    assert_eq!(listed(&mut (0..100).rev()), in_order);
}
