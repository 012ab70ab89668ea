//! The numbers of a program's objects: the indexes of the lists in its [`Manifest`](crate::Manifest). Whoever controls a running program
//! uses numbers; the functions here, of [`Manifest`] and of [`Table`], are the one place where names become numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::manifest::Table;
use crate::{ActionCall, Manifest};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                $name(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// An index of [`Manifest::tables`].
    TableId
    /// An index of [`Table::actions`]: each table numbers its actions. A member of an action profile uses the numbers of the first table
    /// that refers to the profile ([`Manifest::profile_table`]).
    ActionId
    /// An index of [`Manifest::counters`].
    CounterId
    /// An index of [`Manifest::registers`].
    RegisterId
    /// An index of [`Manifest::meters`], which lists indexed and direct meters.
    MeterId
    /// An index of [`Manifest::profiles`].
    ProfileId
    /// An index of [`Manifest::value_sets`].
    ValueSetId
    /// An index of [`Manifest::digests`].
    DigestId
    /// An index of [`Manifest::messages`].
    MessageId
    /// An index of [`Manifest::drops`].
    DropId
}

fn position<T, I: From<usize>>(all: &[T], wanted: impl Fn(&T) -> bool) -> Option<I> {
    all.iter().position(wanted).map(I::from)
}

impl Manifest {
    /// The number of the table with this full name.
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        position(&self.tables, |t| t.name == name)
    }

    /// The number of the indexed counter with this full name.
    pub fn counter_id(&self, name: &str) -> Option<CounterId> {
        position(&self.counters, |c| c.name == name)
    }

    /// The number of the register with this full name.
    pub fn register_id(&self, name: &str) -> Option<RegisterId> {
        position(&self.registers, |r| r.name == name)
    }

    /// The number of the meter with this full name.
    pub fn meter_id(&self, name: &str) -> Option<MeterId> {
        position(&self.meters, |m| m.name == name)
    }

    /// The number of the action profile with this full name.
    pub fn profile_id(&self, name: &str) -> Option<ProfileId> {
        position(&self.profiles, |p| p.name == name)
    }

    /// The number of the value set with this full name.
    pub fn value_set_id(&self, name: &str) -> Option<ValueSetId> {
        position(&self.value_sets, |s| s.name == name)
    }

    /// The number of the type of digests with this name. If several types have it, this is the first.
    pub fn digest_id(&self, name: &str) -> Option<DigestId> {
        position(&self.digests, |d| d.name == name)
    }

    /// The number of the drop reason with this name.
    pub fn drop_id(&self, name: &str) -> Option<DropId> {
        position(&self.drops, |d| d.name == name)
    }

    /// The tables with their numbers.
    pub fn numbered_tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(at, table)| (TableId::from(at), table))
    }

    /// The action profile of a table, if it has one.
    pub fn profile_of(&self, table: TableId) -> Option<ProfileId> {
        self.profile_id(self.tables.get(table.index())?.implementation.as_ref()?)
    }

    /// The direct meter of a table, if it has one.
    pub fn direct_meter_of(&self, table: TableId) -> Option<MeterId> {
        self.meter_id(self.tables.get(table.index())?.direct_meter.as_ref()?)
    }

    /// The table that has this direct meter.
    pub fn metered_table(&self, meter: MeterId) -> Option<TableId> {
        let name = &self.meters.get(meter.index())?.name;
        position(&self.tables, |t| t.direct_meter.as_ref() == Some(name))
    }

    /// The first table whose entries refer to this profile. Its action numbers are those of the profile's members.
    pub fn profile_table(&self, profile: ProfileId) -> Option<TableId> {
        let name = &self.profiles.get(profile.index())?.name;
        position(&self.tables, |t| t.implementation.as_ref() == Some(name))
    }

    /// The actions of a profile's members as a table that refers to them numbers its actions.
    pub fn member_calls(
        &self,
        profile: ProfileId,
        table: TableId,
        calls: Vec<ActionCall>,
    ) -> Vec<ActionCall> {
        match self.profile_table(profile) {
            Some(first) if first != table => {
                let (first, table) = (&self.tables[first.index()], &self.tables[table.index()]);
                calls.iter().filter_map(|call| first.call_for(table, call)).collect()
            }
            _ => calls,
        }
    }
}

impl Table {
    /// The number of the action with this full control-plane name.
    pub fn action_id(&self, name: &str) -> Option<ActionId> {
        position(&self.actions, |a| a.name == name)
    }
}
