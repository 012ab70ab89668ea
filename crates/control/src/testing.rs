//! What tests of control planes need: a device without a program, and what a program would tell.
//!
//! It is no test module, because control planes of other crates are tested with it. A mistake of a test panics.
#![expect(clippy::missing_panics_doc, reason = "each function here panics if the test is wrong")]

use abi::id::ActionId;
use abi::manifest::{Action, DigestType, KeyField, Param, Table};
use abi::{ActionCall, Digest, Manifest, MatchKind, MatchValue};
use dataplane::device::{Action as Does, Device as _, Entity, EntryQuery, Event, Model, Query, TableEntry};

use crate::objects::{Exact, bits};

/// A table with its key widths, its action and the widths of the action's parameters, and its size.
pub type Shape = (&'static str, &'static [u32], &'static str, &'static [u32], u64);

/// A type of digests: its name, and the name and the width of each field.
pub type Told = (&'static str, &'static [(&'static str, u32)]);

/// A device with these tables and digests, and no program.
pub fn model(program: &str, tables: &[Shape], digests: &[Told]) -> Model {
    let digest = |(name, fields): &Told| DigestType {
        name: name.to_string(),
        fields: fields.iter().map(|(name, width)| (name.to_string(), *width)).collect(),
    };
    let table = |(name, keys, action, params, size): &Shape| Table {
        name: name.to_string(),
        keys: keys
            .iter()
            .map(|width| KeyField {
                name: "k".to_string(),
                width: *width,
                kind: MatchKind::Exact,
                signed: false,
            })
            .collect(),
        actions: vec![Action {
            name: action.to_string(),
            params: params
                .iter()
                .map(|width| Param { name: "p".to_string(), width: *width, offset: 0 })
                .collect(),
            default_only: false,
            table_only: false,
        }],
        size: *size,
        default_action: None,
        const_default: false,
        const_entries: false,
        initial_entries: Vec::new(),
        direct_counter: None,
        implementation: None,
        notifies_idle: true,
        ages: false,
        direct_meter: None,
        layout: None,
    };
    Model::new(Manifest {
        program: program.to_string(),
        tables: tables.iter().map(table).collect(),
        digests: digests.iter().map(digest).collect(),
        ..Manifest::default()
    })
}

/// The match values of a table's entries.
pub fn entries(device: &mut Model, table: &str) -> Vec<Vec<u64>> {
    let table = device.manifest().table_id(table).expect("there is such a table");
    let found = device.read(&Query::Entries(EntryQuery::table(table))).expect("it reads");
    let values = |entity: &Entity| match entity {
        Entity::Entry(entry) => entry.key.matches.iter().map(value).collect(),
        _ => Vec::new(),
    };
    found.iter().map(values).collect()
}

fn value(value: &MatchValue) -> u64 {
    match value {
        MatchValue::Exact(value) => value.low_u64(),
        _ => panic!("the keys are exact"),
    }
}

/// A digest of a type, with values for all its fields.
pub fn digest(device: &Model, name: &str, values: &[u64]) -> Event {
    let digest = device.manifest().digest_id(name).expect("there is such a digest");
    let fields = &device.manifest().digests[digest.index()].fields;
    let values = fields.iter().zip(values).map(|((_, width), value)| bits(&(*width, *value))).collect();
    Event::Digest(Digest { digest, values })
}

/// An idle entry of a table.
pub fn idle<T: Into<u128> + Copy>(device: &Model, table: &str, keys: &[(u32, T)]) -> Event {
    let table = device.manifest().table_id(table).expect("there is such a table");
    let key = Exact { table, action: ActionId(0) }.key(keys);
    let action = Does::Call(ActionCall::default());
    Event::Idle(TableEntry { key, action, idle: Some(1) })
}
