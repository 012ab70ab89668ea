//! A map whose changes can be undone until they are settled: what a control plane knows of a device, while the device has not yet taken its batch.

use std::collections::HashMap;
use std::hash::Hash;

/// The map, and the former values of what has changed since it was settled.
#[derive(Clone, Debug)]
pub struct Journal<K, V> {
    map: HashMap<K, V>,
    changed: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Journal<K, V> {
    fn default() -> Self {
        Journal { map: HashMap::new(), changed: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Journal<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Whether there is a key.
    pub fn contains(&self, key: &K) -> bool {
        self.map.contains_key(key)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// All keys and values, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.map.iter()
    }

    /// Sets or removes the value of a key. Returns the former one.
    pub fn set(&mut self, key: K, value: Option<V>) -> Option<V> {
        let before = match value {
            Some(value) => self.map.insert(key.clone(), value),
            None => self.map.remove(&key),
        };
        self.changed.push((key, before.clone()));
        before
    }

    /// Keeps what has changed.
    pub fn settle(&mut self) {
        self.changed.clear();
    }

    /// Undoes what has changed since the map was settled, in reverse order. Returns each step: the key, and the value that it has again.
    pub fn undo(&mut self) -> Vec<(K, Option<V>)> {
        let undone: Vec<_> = std::mem::take(&mut self.changed).into_iter().rev().collect();
        for (key, before) in undone.iter().cloned() {
            match before {
                Some(value) => self.map.insert(key, value),
                None => self.map.remove(&key),
            };
        }
        undone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_settled_can_be_undone() {
        let mut journal = Journal::default();
        journal.set("a", Some(1));
        journal.set("b", Some(2));
        journal.settle();
        journal.set("a", None);
        journal.set("b", Some(3));
        journal.set("a", Some(4));
        journal.set("c", Some(5));
        journal.undo();
        assert_eq!((journal.get(&"a"), journal.get(&"b"), journal.len()), (Some(&1), Some(&2), 2));
        journal.undo();
        assert_eq!(journal.len(), 2, "what is undone is not undone again");
    }
}
