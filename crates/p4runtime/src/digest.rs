//! Lists of digests (P4Runtime specification, section 9.8). Equal digests are sent once until they are acknowledged.
//!
//! Times are in nanoseconds of a clock that never goes back.

use std::collections::{BTreeMap, HashMap};

use abi::Bits;
use proto::p4::v1::digest_entry::Config;

/// The digests that wait in one buffer at most, whatever the settings say.
const LARGEST: usize = 4096;
/// The digests that are remembered until they are acknowledged. Beyond that, equal ones may be sent again.
const UNACKNOWLEDGED: usize = 1 << 16;

/// The digests of a device that are not yet sent, or not yet acknowledged.
#[derive(Debug, Default)]
pub struct Digests {
    lists: BTreeMap<u32, Buffer>,
}

#[derive(Debug, Default)]
struct Buffer {
    waiting: Vec<Vec<Bits>>,
    since: u64,
    last_list: u64,
    /// The digests that are sent and not acknowledged, with their lists.
    sent: HashMap<Vec<Bits>, u64>,
    /// When the lists were sent, the oldest first.
    lists: BTreeMap<u64, (u64, Vec<Vec<Bits>>)>,
}

/// A list that is to be sent.
#[derive(Debug, PartialEq)]
pub struct List {
    /// The id of the digest.
    pub digest: u32,
    /// The number of the list, with which it is acknowledged.
    pub list: u64,
    /// The values of each digest.
    pub values: Vec<Vec<Bits>>,
}

impl Digests {
    /// A packet has sent a digest. Returns the list that is full with it.
    pub fn add(&mut self, digest: u32, config: &Config, values: Vec<Bits>, now: u64) -> Option<List> {
        let buffer = self.lists.entry(digest).or_default();
        if config.ack_timeout_ns > 0 {
            buffer.expire(config, now);
            if buffer.sent.contains_key(&values) {
                return None;
            }
        }
        if buffer.waiting.contains(&values) {
            return None;
        }
        if buffer.waiting.is_empty() {
            buffer.since = now;
        }
        buffer.waiting.push(values);
        let most = usize::try_from(config.max_list_size).ok().filter(|most| *most > 0).unwrap_or(LARGEST);
        let full = buffer.waiting.len() >= most.min(LARGEST) || config.max_timeout_ns == 0;
        full.then(|| buffer.take(digest, config, now))
    }

    /// The lists whose time has come.
    pub fn due(&mut self, configs: &BTreeMap<u32, Config>, now: u64) -> Vec<List> {
        self.lists.retain(|digest, _| configs.contains_key(digest));
        let due = |(digest, buffer): (&u32, &mut Buffer)| {
            let config = configs.get(digest)?;
            let waited = now.saturating_sub(buffer.since) >= config.max_timeout_ns as u64;
            (!buffer.waiting.is_empty() && waited).then(|| buffer.take(*digest, config, now))
        };
        self.lists.iter_mut().filter_map(due).collect()
    }

    /// A list is acknowledged.
    pub fn acknowledge(&mut self, digest: u32, list: u64) {
        let Some(buffer) = self.lists.get_mut(&digest) else { return };
        buffer.forget(list);
    }
}

impl Buffer {
    fn take(&mut self, digest: u32, config: &Config, now: u64) -> List {
        self.last_list += 1;
        let values = std::mem::take(&mut self.waiting);
        if config.ack_timeout_ns > 0 && self.sent.len() < UNACKNOWLEDGED {
            self.sent.extend(values.iter().map(|values| (values.clone(), self.last_list)));
            self.lists.insert(self.last_list, (now, values.clone()));
        }
        List { digest, list: self.last_list, values }
    }

    /// Forgets the lists that were sent too long ago.
    fn expire(&mut self, config: &Config, now: u64) {
        while let Some((list, (sent, _))) = self.lists.first_key_value() {
            if now.saturating_sub(*sent) < config.ack_timeout_ns as u64 {
                break;
            }
            let list = *list;
            self.forget(list);
        }
    }

    fn forget(&mut self, list: u64) {
        for values in self.lists.remove(&list).map(|(_, values)| values).into_iter().flatten() {
            self.sent.remove(&values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: u128) -> Vec<Bits> {
        vec![Bits::new(8, n)]
    }

    #[test]
    fn equal_digests_are_sent_once_until_they_are_acknowledged() {
        let config = Config { max_timeout_ns: 100, max_list_size: 2, ack_timeout_ns: 1000 };
        let configs = BTreeMap::from([(7, config)]);
        let mut digests = Digests::default();
        assert_eq!(digests.add(7, &config, values(1), 0), None);
        assert_eq!(digests.add(7, &config, values(1), 0), None);
        let list = digests.add(7, &config, values(2), 10).expect("two make a list");
        assert_eq!((list.list, list.values.len()), (1, 2));
        // Not acknowledged, so not again.
        assert_eq!(digests.add(7, &config, values(1), 20), None);
        assert!(digests.due(&configs, 500).is_empty());
        digests.acknowledge(7, 1);
        assert_eq!(digests.add(7, &config, values(1), 600), None);
        assert!(digests.due(&configs, 650).is_empty());
        assert_eq!(digests.due(&configs, 700), [List { digest: 7, list: 2, values: vec![values(1)] }]);
        // After its time a digest is sent again without an acknowledgement.
        assert_eq!(digests.add(7, &config, values(1), 1699), None);
        assert!(digests.due(&configs, 2500).is_empty());
        assert_eq!(digests.add(7, &config, values(1), 1700), None);
        assert_eq!(digests.due(&configs, 1800).len(), 1);
    }
}
