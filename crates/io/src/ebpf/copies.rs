//! Multicast groups and mirroring sessions: where copies of packets go.
//!
//! A list of copies is immutable. A change of a group writes a new list, makes the group name it with one word, and removes the old list after a
//! grace period. A packet thus goes to all members of the old group or to all of the new one.

use abi::manifest::CopyMaps;
use dataplane::Mirror;
use dataplane::device::{DeviceError, Entity};

use super::KernelProgram;
use crate::Result;
use crate::bpf;

impl KernelProgram {
    /// Sets the copies of a multicast group, each with its replication id and its port; `None` removes the group.
    pub(super) fn set_group(&mut self, group: u32, copies: Option<&[(u32, u32)]>) -> Result<()> {
        let (maps, key) = (self.copy_maps()?, group.to_ne_bytes());
        let old = word(self.map(&maps.groups)?.lookup(&key)?);
        let named = match copies {
            Some(copies) => self.write_copies(&maps, copies)?,
            None => 0,
        };
        if let Err(error) = self.map(&maps.groups)?.set(&key, &named.to_ne_bytes()) {
            self.remove_copies(&maps, named)?;
            return Err(error);
        }
        if old != 0 {
            bpf::grace_period()?;
            self.remove_copies(&maps, old)?;
        }
        Ok(())
    }

    /// The copies of a multicast group, if it exists.
    pub(super) fn group(&mut self, group: u32) -> Result<Option<Entity>> {
        let maps = self.copy_maps()?;
        let named = word(self.map(&maps.groups)?.lookup(&group.to_ne_bytes())?);
        let (list, count) = halves(named);
        let map = self.map(&maps.copies)?;
        let copy = |place| {
            let (port, replica) = halves(word(map.lookup(&pair(list, place).to_ne_bytes())?));
            Ok((replica, port))
        };
        let copies = (0..count).map(copy).collect::<Result<Vec<_>>>()?;
        Ok((named != 0).then_some(Entity::Multicast { group, copies }))
    }

    /// Sets where the clones of a mirroring session go; `None` removes the session.
    pub(super) fn set_session(&mut self, session: u32, to: Option<Mirror>) -> Result<()> {
        let maps = self.copy_maps()?;
        let value = match to {
            None => 0,
            Some(Mirror::Port(port)) => pair(port, 1),
            Some(Mirror::Group(group)) => pair(group, 2),
        };
        self.map(&maps.sessions)?.set(&session.to_ne_bytes(), &value.to_ne_bytes())
    }

    /// Where the clones of a mirroring session go, if it exists.
    pub(super) fn session(&mut self, session: u32) -> Result<Option<Entity>> {
        let maps = self.copy_maps()?;
        let to = match halves(word(self.map(&maps.sessions)?.lookup(&session.to_ne_bytes())?)) {
            (_, 0) => None,
            (port, 1) => Some(Mirror::Port(port)),
            (group, _) => Some(Mirror::Group(group)),
        };
        Ok(to.map(|to| Entity::Session { session, to }))
    }

    /// All multicast groups, or all mirroring sessions, that `one` finds.
    pub(super) fn each_copied(
        &mut self,
        one: fn(&mut Self, u32) -> Result<Option<Entity>>,
    ) -> Result<Vec<Entity>> {
        let numbers = self.copy_maps().map_or(0, |maps| maps.numbers);
        let mut all = Vec::new();
        for number in 0..numbers {
            all.extend(one(self, number)?);
        }
        Ok(all)
    }

    /// Why the program cannot have the group or session with this number.
    pub(super) fn has_copies(&self, number: u32) -> std::result::Result<(), DeviceError> {
        let maps = self.manifest.kernel.as_ref().and_then(|maps| maps.copies.as_ref());
        let why = match maps {
            None => {
                "groups and sessions in the kernel for a program whose packets have no copies".to_string()
            }
            Some(maps) if number >= maps.numbers => {
                format!(
                    "number {number} in the kernel, where groups and sessions have numbers below {}",
                    maps.numbers
                )
            }
            Some(_) => return Ok(()),
        };
        Err(DeviceError::Unimplemented(why))
    }

    fn copy_maps(&self) -> Result<CopyMaps> {
        self.has_copies(0)?;
        let maps = self.maps_of()?.copies.clone();
        maps.ok_or_else(|| DeviceError::Internal("the manifest names no maps of copies".to_string()).into())
    }

    /// Writes a new list of copies. Returns the word that names it.
    fn write_copies(&mut self, maps: &CopyMaps, copies: &[(u32, u32)]) -> Result<u64> {
        self.last_list += 1;
        let list = self.last_list;
        for (place, (replica, port)) in copies.iter().enumerate() {
            let (key, value) = (pair(list, place as u32), pair(*port, *replica));
            if let Err(error) = self.map(&maps.copies)?.set(&key.to_ne_bytes(), &value.to_ne_bytes()) {
                self.remove_copies(maps, pair(list, place as u32))?;
                return Err(error);
            }
        }
        Ok(pair(list, copies.len() as u32))
    }

    /// Removes a list of copies. No packet may read it any more.
    fn remove_copies(&mut self, maps: &CopyMaps, named: u64) -> Result<()> {
        let (list, count) = halves(named);
        let map = self.map(&maps.copies)?;
        (0..count).try_for_each(|place| map.delete(&pair(list, place).to_ne_bytes()).map(|_| ()))
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn word(value: Option<Vec<u8>>) -> u64 {
    value.and_then(|v| v.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))).unwrap_or(0)
}
