//! Writes and reads the value sets of parsers.
//!
//! The array of a set has room for two versions ([`abi::manifest::ValueSet::map`]). The host writes the one that no packet reads, publishes
//! its number as one word, and waits for a grace period. So packets see whole sets.

use abi::MatchValue;
use abi::id::ValueSetId;
use abi::manifest::ValueSet;

use super::KernelProgram;
use crate::{Error, Result, bpf};

/// The element with the number of the version in use.
const IN_USE: u32 = 0;

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
}

impl KernelProgram {
    /// Replaces the members of a set.
    pub(super) fn set_members(&mut self, id: ValueSetId, members: &[Vec<MatchValue>]) -> Result<()> {
        let (set, name) = self.value_set(id)?;
        let parts = members.iter().flat_map(|member| set.keys.iter().zip(member));
        let packed = parts.flat_map(|(key, part)| key.member_words(part));
        let value: Vec<u8> =
            std::iter::once(members.len() as u64).chain(packed).flat_map(u64::to_ne_bytes).collect();
        let next = if self.version_in_use(&name)? == 1 { 2u32 } else { 1 };
        let map = self.map(&name)?;
        map.set(&next.to_ne_bytes(), &value)?;
        map.set(&IN_USE.to_ne_bytes(), &u64::from(next).to_ne_bytes())?;
        bpf::grace_period()
    }

    /// The members of a set.
    pub(super) fn members(&mut self, id: ValueSetId) -> Result<Vec<Vec<MatchValue>>> {
        let (set, name) = self.value_set(id)?;
        let version = self.version_in_use(&name)?;
        if version == 0 {
            return Ok(Vec::new());
        }
        let value = self.map(&name)?.lookup(&version.to_ne_bytes())?.unwrap_or_default();
        let mut words = words(&value);
        let count = words.next().unwrap_or(0);
        let mut part = |key: &abi::manifest::KeyField| {
            key.member_part(std::array::from_fn(|_| words.next().unwrap_or(0)))
        };
        Ok((0..count).map(|_| set.keys.iter().map(&mut part).collect()).collect())
    }

    fn version_in_use(&mut self, name: &str) -> Result<u32> {
        let value = self.map(name)?.lookup(&IN_USE.to_ne_bytes())?.unwrap_or_default();
        Ok(words(&value).next().unwrap_or(0) as u32)
    }

    fn value_set(&self, id: ValueSetId) -> Result<(ValueSet, String)> {
        let set = self.manifest.value_sets[id.index()].clone();
        let map = set.map.clone().ok_or_else(|| Error::NotFound(format!("map of `{}`", set.name)))?;
        Ok((set, map))
    }
}
