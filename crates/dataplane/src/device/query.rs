//! Selects entities. What a query omits matches everything, as in P4Runtime's wildcard reads.

use std::cmp::Ordering;

use abi::id::{CounterId, DropId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use abi::{Bits, Manifest, MatchValue};

use super::check::check_key;
use super::{DeviceError, Entity, EntryKey, Key, Kind, Store, TableEntry};

/// Which entities to read. `None` matches every number.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// The entity with this key.
    One(Key),
    /// The entries of one table or of all, with wildcards in their keys.
    Entries(EntryQuery),
    /// The counters of table entries.
    DirectCounters(EntryQuery),
    /// The meters of table entries.
    DirectMeters(EntryQuery),
    /// The default actions of tables.
    Defaults(Option<TableId>),
    /// The members of action profiles.
    Members(Option<ProfileId>),
    /// The groups of action selectors.
    Groups(Option<ProfileId>),
    /// All cells of counters.
    Counters(Option<CounterId>),
    /// All cells of indexed meters.
    Meters(Option<MeterId>),
    /// All cells of registers.
    Registers(Option<RegisterId>),
    /// The members of one value set of the parser, or of all.
    ValueSets(Option<ValueSetId>),
    /// All multicast groups with their copies.
    Multicast,
    /// All mirroring sessions with their destinations.
    Sessions,
    /// Ports to the host (PNA).
    HostPorts,
    /// The counts of drop reasons.
    Drops(Option<DropId>),
}

/// Which table entries to read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryQuery {
    /// The table; `None` for all tables.
    pub table: Option<TableId>,
    /// The values of the first key fields. `None` matches every value, and so do fields beyond the end.
    pub matches: Vec<Option<MatchValue>>,
    /// The priority; `None` for all priorities.
    pub priority: Option<i32>,
}

impl EntryQuery {
    /// All entries of a table.
    pub fn table(table: TableId) -> EntryQuery {
        EntryQuery { table: Some(table), ..EntryQuery::default() }
    }

    fn selects(&self, key: &EntryKey) -> bool {
        let same = |(wanted, value): (&Option<MatchValue>, &MatchValue)| {
            wanted.as_ref().is_none_or(|w| w.canonical() == *value)
        };
        self.priority.is_none_or(|p| p == key.priority) && self.matches.iter().zip(&key.matches).all(same)
    }
}

type Found = Result<Vec<Entity>, DeviceError>;

/// Reads the entities that a query selects.
pub fn read(store: &mut dyn Store, query: &Query) -> Found {
    let keys = match query {
        Query::Entries(query) => return Ok(entries(store, query)?.into_iter().map(Entity::Entry).collect()),
        Query::DirectCounters(query) => {
            of_entries(store, query, |t| t.direct_counter.is_some(), Key::DirectCounter)?
        }
        Query::DirectMeters(query) => {
            of_entries(store, query, |t| t.direct_meter.is_some(), Key::DirectMeter)?
        }
        Query::Members(profile) => return of_profiles(store, *profile, Kind::Members),
        Query::Groups(profile) => return of_profiles(store, *profile, Kind::Groups),
        Query::Multicast => return store.list(Kind::Multicast),
        Query::Sessions => return store.list(Kind::Sessions),
        Query::HostPorts => return store.list(Kind::HostPorts),
        fixed @ (Query::One(_)
        | Query::Defaults(_)
        | Query::Counters(_)
        | Query::Meters(_)
        | Query::Registers(_)
        | Query::ValueSets(_)
        | Query::Drops(_)) => fixed_keys(store.manifest(), fixed),
    };
    let mut all = Vec::with_capacity(keys.len());
    for key in keys {
        check_key(store.manifest(), &key)?;
        store.supports(&key)?;
        if let Key::Drop(reason) = key {
            all.push(Entity::Drop { reason, count: store.dropped(reason)? });
        } else if let Key::Entry(entry) = &key
            && store.manifest().tables[entry.table.index()].is_code()
        {
            all.extend(code_entries(store.manifest(), entry.table).filter(|e| e.key() == key));
        } else {
            all.extend(store.get(&key)?);
        }
    }
    Ok(all)
}

/// The keys that a query selects, if the manifest alone determines them.
fn fixed_keys(manifest: &Manifest, query: &Query) -> Vec<Key> {
    match query {
        Query::One(key) => vec![key.canonical()],
        Query::Defaults(table) => each(*table, manifest.tables.len(), Key::Default),
        Query::ValueSets(set) => each(*set, manifest.value_sets.len(), Key::ValueSet),
        Query::Drops(reason) => each(*reason, manifest.drops.len(), Key::Drop),
        Query::Counters(counter) => {
            let size = |c: CounterId| manifest.counters.get(c.index()).map(|c| c.size);
            cells(*counter, manifest.counters.len(), size, Key::Counter)
        }
        Query::Meters(meter) => {
            let size = |m: MeterId| manifest.meters.get(m.index()).and_then(|m| m.size);
            cells(*meter, manifest.meters.len(), size, Key::Meter)
        }
        Query::Registers(register) => {
            let size = |r: RegisterId| manifest.registers.get(r.index()).map(|r| r.size);
            cells(*register, manifest.registers.len(), size, Key::Register)
        }
        Query::Entries(_)
        | Query::DirectCounters(_)
        | Query::DirectMeters(_)
        | Query::Members(_)
        | Query::Groups(_)
        | Query::Multicast
        | Query::Sessions
        | Query::HostPorts => Vec::new(),
    }
}

/// The keys of one object, or of all `count` of them.
fn each<I: From<usize>>(one: Option<I>, count: usize, key: impl Fn(I) -> Key) -> Vec<Key> {
    numbers(one, count).into_iter().map(key).collect()
}

/// The keys of all cells of one array, or of all `count` arrays. The only cell of an array that does not exist is refused later.
fn cells<I: From<usize> + Copy>(
    one: Option<I>,
    count: usize,
    size: impl Fn(I) -> Option<u64>,
    key: impl Fn(I, u64) -> Key,
) -> Vec<Key> {
    let unknown = u64::from(one.is_some());
    let of =
        |array: I| (0..size(array).unwrap_or(unknown)).map(|index| key(array, index)).collect::<Vec<_>>();
    numbers(one, count).into_iter().flat_map(of).collect()
}

/// One number, or all of them.
fn numbers<I: From<usize>>(one: Option<I>, count: usize) -> Vec<I> {
    one.map_or_else(|| (0..count).map(I::from).collect(), |one| vec![one])
}

fn of_profiles(store: &mut dyn Store, one: Option<ProfileId>, kind: impl Fn(ProfileId) -> Kind) -> Found {
    let mut all = Vec::new();
    for profile in numbers(one, store.manifest().profiles.len()) {
        let key = Key::Member(profile, 0);
        check_key(store.manifest(), &key)?;
        store.supports(&key)?;
        all.extend(store.list(kind(profile))?);
    }
    Ok(all)
}

fn entries(store: &mut dyn Store, query: &EntryQuery) -> Result<Vec<TableEntry>, DeviceError> {
    let mut all = Vec::new();
    for table in numbers(query.table, store.manifest().tables.len()) {
        check_key(store.manifest(), &Key::Default(table))?;
        let listed = match store.manifest().tables[table.index()].is_code() {
            true => code_entries(store.manifest(), table).collect(),
            false => store.list(Kind::Entries(table))?,
        };
        let found = listed.into_iter().filter_map(|entity| {
            let Entity::Entry(entry) = entity else { return None };
            query.selects(&entry.key).then_some(entry)
        });
        let first = all.len();
        all.extend(found);
        if !store.manifest().tables[table.index()].is_code() {
            all[first..].sort_by(|a, b| order(&a.key, &b.key));
        }
    }
    Ok(all)
}

/// The order in which the entries of a table are listed, whatever holds them and however they came there: those that win first, then by their
/// keys.
fn order(one: &EntryKey, other: &EntryKey) -> Ordering {
    let by_keys = || {
        let fields = one.matches.iter().zip(&other.matches);
        fields.map(|(one, other)| order_of_field(one, other)).find(|order| order.is_ne())
    };
    other.priority.cmp(&one.priority).then_with(|| by_keys().unwrap_or(Ordering::Equal))
}

fn order_of_field(one: &MatchValue, other: &MatchValue) -> Ordering {
    let bits = |one: &Bits, other: &Bits| one.cmp_unsigned(other);
    match (one, other) {
        (MatchValue::Exact(a), MatchValue::Exact(b)) => bits(a, b),
        (MatchValue::Lpm(a, longer), MatchValue::Lpm(b, length)) => bits(a, b).then(longer.cmp(length)),
        (MatchValue::Ternary(a, c), MatchValue::Ternary(b, d))
        | (MatchValue::Range(a, c), MatchValue::Range(b, d)) => bits(a, b).then_with(|| bits(c, d)),
        (MatchValue::Optional(Some(a)), MatchValue::Optional(Some(b))) => bits(a, b),
        (MatchValue::Optional(a), MatchValue::Optional(b)) => a.is_some().cmp(&b.is_some()),
        // Two entries of a table have the same kinds of fields.
        _ => Ordering::Equal,
    }
}

/// The entries of a table that were compiled into the program. No store has them.
fn code_entries(manifest: &Manifest, id: TableId) -> impl Iterator<Item = Entity> {
    let entries = manifest.tables[id.index()].initial_entries.iter();
    entries.map(move |entry| Entity::entry(id, entry.clone()).canonical())
}

/// The keys of what belongs to the selected entries of the tables that have it.
fn of_entries(
    store: &mut dyn Store,
    query: &EntryQuery,
    has: impl Fn(&abi::manifest::Table) -> bool,
    key: impl Fn(EntryKey) -> Key,
) -> Result<Vec<Key>, DeviceError> {
    let manifest = store.manifest();
    let one = query.table.map(|table| manifest.tables.get(table.index()).is_some_and(&has));
    if one == Some(false) {
        return Err(DeviceError::InvalidArgument("the table's entries have none".to_string()));
    }
    let tables: Vec<TableId> = match query.table {
        Some(table) => vec![table],
        None => manifest.numbered_tables().filter(|(_, t)| has(t)).map(|(id, _)| id).collect(),
    };
    let mut all = Vec::new();
    for table in tables {
        let query = EntryQuery { table: Some(table), ..query.clone() };
        all.extend(entries(store, &query)?.into_iter().map(|entry| key(entry.key)));
    }
    Ok(all)
}
