//! Ids and aliases of objects, as p4c chooses them.
//!
//! An id is a byte for the kind, and 24 bits of the name's hash (Jenkins's one-at-a-time). If that id is taken, the object gets the next free
//! one. `@id` sets another id. An alias is the shortest suffix of the name, in whole parts, that no other object has.

use std::collections::{BTreeMap, HashMap, HashSet};

use ir::api::{self, Api};

use super::{Problem, annotations};

/// The kinds of objects. The number of a kind is the first byte of the ids (P4Ids.Prefix).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Action = 0x01,
    Table = 0x02,
    ValueSet = 0x03,
    ControllerHeader = 0x04,
    Profile = 0x11,
    Counter = 0x12,
    DirectCounter = 0x13,
    Meter = 0x14,
    DirectMeter = 0x15,
    Register = 0x16,
    Digest = 0x17,
}

/// The ids and aliases of all objects of a program.
pub struct Symbols {
    ids: HashMap<(Kind, String), u32>,
    /// The number of names that end in each suffix.
    ends: HashMap<String, u32>,
    /// The ids of each action's parameters.
    params: HashMap<String, Vec<u32>>,
}

impl Symbols {
    /// Assigns ids and aliases to all objects of a program.
    pub fn of(program: &Api) -> Result<Symbols, Problem> {
        let mut all: Vec<(Kind, &api::Object)> = Vec::new();
        let direct = |c: &api::Counter, one: Kind, cells: Kind| if c.table.is_some() { one } else { cells };
        all.extend(program.actions.iter().map(|a| (Kind::Action, &a.object)));
        all.extend(program.tables.iter().map(|t| (Kind::Table, &t.object)));
        all.extend(program.value_sets.iter().map(|v| (Kind::ValueSet, &v.object)));
        all.extend(program.controller_headers.iter().map(|h| (Kind::ControllerHeader, &h.object)));
        all.extend(program.profiles.iter().map(|p| (Kind::Profile, &p.object)));
        let counters = program.counters.iter();
        all.extend(counters.map(|c| (direct(c, Kind::DirectCounter, Kind::Counter), &c.object)));
        let meters = program.meters.iter();
        all.extend(meters.map(|m| (direct(m, Kind::DirectMeter, Kind::Meter), &m.object)));
        all.extend(program.registers.iter().map(|r| (Kind::Register, &r.object)));
        all.extend(program.digests.iter().map(|d| (Kind::Digest, &d.object)));
        let mut symbols = Symbols { ids: HashMap::new(), ends: HashMap::new(), params: HashMap::new() };
        symbols.count_ends(&all);
        symbols.assign(&all)?;
        for action in &program.actions {
            let ids = fields(action.params.iter().map(|p| &p.object))?;
            symbols.params.insert(action.object.name.clone(), ids);
        }
        Ok(symbols)
    }

    fn assign(&mut self, all: &[(Kind, &api::Object)]) -> Result<(), Problem> {
        let mut taken: HashSet<u32> = HashSet::new();
        let mut open: BTreeMap<(Kind, &str), ()> = BTreeMap::new();
        for (kind, object) in all {
            let prefix = (*kind as u32) << 24;
            let key = (*kind, object.name.clone());
            if self.ids.contains_key(&key) {
                continue;
            }
            let Some(id) = annotations::id(object) else {
                open.insert((*kind, &object.name), ());
                continue;
            };
            if id >> 24 != 0 && id & 0xff00_0000 != prefix {
                let what =
                    format!("@id({id:#x}) of `{}` does not begin with {:#04x}", object.name, *kind as u32);
                return Err(Problem { what });
            }
            if !taken.insert(id | prefix) {
                return Err(Problem {
                    what: format!("@id({id:#x}) of `{}` is another's already", object.name),
                });
            }
            self.ids.insert(key, id | prefix);
        }
        for ((kind, name), ()) in open {
            let mut hash = one_at_a_time(name.as_bytes());
            let made = |hash: u32| (kind as u32) << 24 | hash & 0x00ff_ffff;
            while !taken.insert(made(hash)) {
                hash = hash.wrapping_add(1);
            }
            self.ids.insert((kind, name.to_string()), made(hash));
        }
        Ok(())
    }

    fn count_ends(&mut self, all: &[(Kind, &api::Object)]) {
        let names: HashSet<&str> = all.iter().map(|(_, o)| o.name.as_str()).collect();
        for name in names {
            for end in ends(name) {
                *self.ends.entry(end.to_string()).or_default() += 1;
            }
        }
    }

    /// The id of an object, or 0 if there is no such object.
    pub fn id(&self, kind: Kind, name: &str) -> u32 {
        self.ids.get(&(kind, name.to_string())).copied().unwrap_or(0)
    }

    /// The ids of an action's parameters.
    pub fn params(&self, action: &str) -> Vec<u32> {
        self.params.get(action).cloned().unwrap_or_default()
    }

    /// The alias of a name.
    pub fn alias(&self, name: &str) -> String {
        let own = ends(name).find(|end| self.ends.get(*end).is_some_and(|n| *n < 2));
        own.unwrap_or(name).to_string()
    }
}

/// The suffixes of a name in whole parts, the shortest first.
fn ends(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.rmatch_indices('.').map(|(at, _)| at + 1).chain([0]);
    starts.map(move |at| &name[at..])
}

/// The ids of keys, parameters or fields: those from `@id`, and for the others their position from 1 on.
pub fn fields<'a>(all: impl Iterator<Item = &'a api::Object>) -> Result<Vec<u32>, Problem> {
    let said: Vec<Option<u32>> = all.map(annotations::id).collect();
    let mut taken = HashSet::new();
    for id in said.iter().flatten() {
        if *id == 0 || !taken.insert(*id) {
            return Err(Problem { what: format!("@id({id}) cannot be given, or is given twice") });
        }
    }
    let mut next = 1;
    let mut ids = Vec::new();
    for id in said {
        match id {
            // An item with `@id` counts for the positions of the others, too.
            Some(id) => {
                next += 1;
                ids.push(id);
            }
            None => {
                while !taken.insert(next) {
                    next += 1;
                }
                ids.push(next);
            }
        }
    }
    Ok(ids)
}

/// Jenkins's one-at-a-time hash (Dr. Dobb's Journal, September 1997).
fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in bytes {
        hash = hash.wrapping_add(u32::from(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}
