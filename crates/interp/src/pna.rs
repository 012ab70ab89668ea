//! What the Portable NIC Architecture adds (PNA sections 6 and 9): tables to which packets add entries, and entries that expire.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use abi::id::ActionId;
use abi::{ActionCall, Bits, Entry, MatchValue};
use dataplane::{Handle, Table};
use ir::TableId;

use crate::machine::Run;

/// The state that PNA keeps between packets.
#[derive(Default)]
pub(crate) struct Pna {
    /// The ports to the host. All other ports are ports to the network.
    pub host_ports: BTreeSet<u32>,
    /// The expire time of each profile in microseconds. Entries of other profiles never expire.
    pub times: BTreeMap<u32, u64>,
    /// The entries that packets added, for each table.
    ages: HashMap<usize, HashMap<Handle, Age>>,
    /// The numbers in direct registers, by table and entry. Others are 0.
    registers: HashMap<(usize, Handle), Bits>,
    /// The time of the last sweep.
    swept: u64,
    flows: u32,
}

/// The expire profile of an entry, and the time at which its timer was started last.
struct Age {
    profile: u32,
    since: u64,
}

impl Pna {
    /// Removes the entries that have expired.
    pub fn sweep(&mut self, now: u64, tables: &mut [Table]) {
        if now == self.swept {
            return;
        }
        self.swept = now;
        for (table, ages) in &mut self.ages {
            ages.retain(|entry, age| {
                let over =
                    self.times.get(&age.profile).is_some_and(|time| age.since.saturating_add(*time) <= now);
                if over {
                    // The control plane may have removed the entry and added another one. The handle identifies the old one only.
                    tables[*table].delete_row(*entry);
                    self.registers.remove(&(*table, *entry));
                }
                !over
            });
        }
    }
}

impl Pna {
    /// Sets the direct register of an entry back, which was removed or whose action was changed.
    pub fn forget_register(&mut self, table: abi::id::TableId, entry: Handle) {
        self.registers.remove(&(table.index(), entry));
    }
}

/// The table that is being applied: the key, and the entry that was hit.
pub(crate) struct Applying {
    pub table: TableId,
    pub key: Vec<Bits>,
    pub hit: Option<Handle>,
}

impl Run<'_, '_> {
    /// Runs `add_entry`: adds an entry for the key that missed. Returns whether the entry exists now.
    pub(crate) fn add_entry(&mut self, id: TableId, action: u32, args: Vec<Bits>, profile: u32) -> bool {
        let missed = |a: &&Applying| a.table == id && a.hit.is_none();
        let Some(applying) = self.applying.as_ref().filter(missed) else { return false };
        let definition = &self.program.tables[id.index()];
        let entry = Entry {
            matches: applying.key.iter().cloned().map(MatchValue::Exact).collect(),
            priority: 0,
            action: ActionCall { action: ActionId(action), args },
        };
        let table = &mut self.state.tables[id.index()];
        if table.definition().check_entry(&entry).is_err() {
            return false;
        }
        let Ok(handle) = table.insert(&entry) else { return false };
        if definition.ages {
            let age = Age { profile, since: self.clock };
            self.state.pna.ages.entry(id.index()).or_default().insert(handle, age);
        }
        true
    }

    /// Restarts the expire timer of the entry that was hit (`restart_expire_timer`). A profile also replaces the entry's profile
    /// (`set_entry_expire_time`).
    pub(crate) fn restart_timer(&mut self, profile: Option<u32>) {
        let Some(Applying { table, hit: Some(hit), .. }) = &self.applying else { return };
        let ages = self.state.pna.ages.get_mut(&table.index());
        if let Some(age) = ages.and_then(|a| a.get_mut(hit)) {
            age.since = self.clock;
            age.profile = profile.unwrap_or(age.profile);
        }
    }

    /// The number in the direct register of the entry that was hit, if one was and it is not 0.
    pub(crate) fn direct_register(&self) -> Option<&Bits> {
        let Some(Applying { table, hit: Some(hit), .. }) = &self.applying else { return None };
        self.state.pna.registers.get(&(table.index(), *hit))
    }

    /// Writes the direct register of the entry that was hit, if one was.
    pub(crate) fn set_direct_register(&mut self, value: Bits) {
        let Some(Applying { table, hit: Some(hit), .. }) = &self.applying else { return };
        self.state.pna.registers.insert((table.index(), *hit), value);
    }

    /// Runs `allocate_flow_id`: returns a new flow id.
    pub(crate) fn flow_id(&mut self) -> u32 {
        self.state.pna.flows = self.state.pna.flows.wrapping_add(1);
        self.state.pna.flows
    }
}
