//! The objects of a program that a control plane handles, found by their names once: digests, and tables with exact keys.

use abi::id::{ActionId, DigestId, TableId};
use abi::{ActionCall, Bits, Digest, Manifest, MatchValue};
use dataplane::device::{Action, Entity, EntryKey, Key, TableEntry, Update};

/// A type of digests, and the places of some of its fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields<const N: usize> {
    digest: DigestId,
    at: [usize; N],
}

impl<const N: usize> Fields<N> {
    /// Finds a type of digests and its fields by their names.
    pub fn find(manifest: &Manifest, name: &str, fields: [&str; N]) -> Result<Fields<N>, String> {
        let id = manifest.digest_id(name).ok_or_else(|| format!("the program has no digest `{name}`"))?;
        let known = &manifest.digests[id.index()].fields;
        let mut at = [0; N];
        for (at, field) in at.iter_mut().zip(fields) {
            let found = known.iter().position(|(name, _)| name == field);
            *at = found.ok_or_else(|| format!("digest `{name}` has no field `{field}`"))?;
        }
        Ok(Fields { digest: id, at })
    }

    /// The values of the fields; `None` for a digest of another type.
    pub fn values(&self, digest: &Digest) -> Option<[u64; N]> {
        let own = Some(digest).filter(|digest| digest.digest == self.digest)?;
        let value = |at: &usize| Some(own.values.get(*at)?.low_u64());
        self.at.iter().map(value).collect::<Option<Vec<u64>>>()?.try_into().ok()
    }
}

/// A table with exact keys, and the action of its entries.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// The table, all of whose keys are exact.
    pub table: TableId,
    /// The action of its entries.
    pub action: ActionId,
}

impl Exact {
    /// Finds a table and one of its actions by their full names.
    pub fn find(manifest: &Manifest, table: &str, action: &str) -> Result<Exact, String> {
        let id = manifest.table_id(table).ok_or_else(|| format!("the program has no table `{table}`"))?;
        let action = manifest.tables[id.index()].action_id(action);
        let action = action.ok_or_else(|| format!("table `{table}` has no such action"))?;
        Ok(Exact { table: id, action })
    }

    /// The key of an entry. Each match value is given as width and value.
    pub fn key<T: Into<u128> + Copy>(&self, keys: &[(u32, T)]) -> EntryKey {
        let matches = keys.iter().map(|key| MatchValue::Exact(bits(key))).collect();
        EntryKey { table: self.table, matches, priority: 0 }
    }

    /// An entry. `idle` is its idle timeout in microseconds.
    pub fn entry<T: Into<u128> + Copy>(
        &self,
        keys: &[(u32, T)],
        args: &[(u32, T)],
        idle: Option<u64>,
    ) -> TableEntry {
        let action = ActionCall { action: self.action, args: args.iter().map(bits).collect() };
        TableEntry { key: self.key(keys), action: Action::Call(action), idle }
    }

    /// Sets an entry. `idle` is its idle timeout in microseconds.
    pub fn set(&self, keys: &[(u32, u64)], args: &[(u32, u64)], idle: Option<u64>) -> Update {
        Update::Set(Entity::Entry(self.entry(keys, args, idle)))
    }

    /// Removes an entry if it exists.
    pub fn unset(&self, keys: &[(u32, u64)]) -> Update {
        Update::Unset(Key::Entry(self.key(keys)))
    }

    /// The match values of an entry of this table; `None` for an entry of another table.
    pub fn values<T: TryFrom<u128>, const N: usize>(&self, key: &EntryKey) -> Option<[T; N]> {
        let value = |value: &MatchValue| match value {
            MatchValue::Exact(value) => number(value),
            _ => None,
        };
        let own = Some(key).filter(|key| key.table == self.table)?;
        own.matches.iter().map(value).collect::<Option<Vec<T>>>()?.try_into().ok()
    }
}

/// The arguments of an entry's action; `None` if there are not as many, or if one is too large.
pub fn args<T: TryFrom<u128>, const N: usize>(entry: &TableEntry) -> Option<[T; N]> {
    let Action::Call(call) = &entry.action else { return None };
    call.args.iter().map(number).collect::<Option<Vec<T>>>()?.try_into().ok()
}

fn number<T: TryFrom<u128>>(bits: &Bits) -> Option<T> {
    bits.to_u128()?.try_into().ok()
}

pub(crate) fn bits<T: Into<u128> + Copy>((width, value): &(u32, T)) -> Bits {
    Bits::new(*width, (*value).into())
}
