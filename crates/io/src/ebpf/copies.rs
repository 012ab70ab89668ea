//! Multicast groups and mirroring sessions: where copies of packets go.
//!
//! A list of copies is immutable. A change of a group writes a new list, makes the group name it with one word, and removes the old list after a
//! grace period. A packet thus goes to all members of the old group or to all of the new one.

use abi::manifest::CopyMaps;

use super::KernelProgram;
use crate::bpf;
use crate::{Error, Result};

/// Where the clones of a mirroring session go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// To one port, by its number.
    Port(u32),
    /// To every member of a multicast group, by the group's number.
    Group(u32),
}

impl KernelProgram {
    /// Sets the copies of a multicast group. Each copy is (replication id, port).
    pub fn set_group(&mut self, group: u32, copies: &[(u32, u32)]) -> Result<()> {
        let maps = self.copy_maps("multicast groups")?;
        let key = number(&maps, group, "multicast group")?;
        let old = word(self.map(&maps.groups)?.lookup(&key)?);
        self.last_list += 1;
        let list = self.last_list;
        let map = self.map(&maps.copies)?;
        for (place, (replica, port)) in copies.iter().enumerate() {
            map.set(&list_key(list, place as u32), &pair(*port, *replica))?;
        }
        let named = if copies.is_empty() { [0; 8] } else { pair(list, copies.len() as u32) };
        self.map(&maps.groups)?.set(&key, &named)?;
        if old != 0 {
            bpf::grace_period()?;
            let (list, copies) = (old as u32, (old >> 32) as u32);
            let map = self.map(&maps.copies)?;
            (0..copies).try_for_each(|place| map.delete(&list_key(list, place)).map(|_| ()))?;
        }
        Ok(())
    }

    /// Sets where the clones of a mirroring session go; `None` removes the session.
    pub fn set_session(&mut self, session: u32, to: Option<Session>) -> Result<()> {
        let maps = self.copy_maps("mirroring sessions")?;
        let key = number(&maps, session, "mirroring session")?;
        let value = match to {
            None => [0; 8],
            Some(Session::Port(port)) => pair(port, 1),
            Some(Session::Group(group)) => pair(group, 2),
        };
        self.map(&maps.sessions)?.set(&key, &value)
    }

    fn copy_maps(&self, what: &str) -> Result<CopyMaps> {
        let maps = self.maps_of()?.copies.clone();
        maps.ok_or_else(|| Error::NotFound(format!("use for {what}: no packet of this program has copies")))
    }
}

/// The key of a group or session.
fn number(maps: &CopyMaps, number: u32, what: &str) -> Result<[u8; 4]> {
    match number < maps.numbers {
        true => Ok(number.to_ne_bytes()),
        false => Err(Error::NotFound(format!("{what} {number}: the numbers are less than {}", maps.numbers))),
    }
}

/// The key of a copy in a list.
fn list_key(list: u32, place: u32) -> [u8; 8] {
    pair(list, place)
}

/// A `u64` with these halves.
fn pair(low: u32, high: u32) -> [u8; 8] {
    (u64::from(high) << 32 | u64::from(low)).to_ne_bytes()
}

fn word(value: Option<Vec<u8>>) -> u64 {
    value.and_then(|v| v.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))).unwrap_or(0)
}
