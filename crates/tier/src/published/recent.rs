//! [`Recent`]: what was used of late, within a bound.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Values in two generations. A value that is used moves to the younger one; when that has half of the bound, the older
/// one is dropped.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_size: usize,
    bound: usize,
}

impl<K: Hash + Eq + Copy, V: Clone> Recent<K, V> {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            young_size: 0,
            bound,
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, size) = self.old.remove(key)?;
        self.put(*key, value.clone(), size);
        Some(value)
    }

    pub(super) fn put(&mut self, key: K, value: V, size: usize) {
        if self.young_size.saturating_add(size) > self.bound / 2 {
            self.old = mem::take(&mut self.young);
            self.young_size = 0;
        }
        let before = self.young.insert(key, (value, size));
        let before = before.map_or(0, |(_, size)| size);
        self.young_size = self.young_size.saturating_sub(before).saturating_add(size);
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.old.remove(key);
        if let Some((_, size)) = self.young.remove(key) {
            self.young_size = self.young_size.saturating_sub(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_bound_is_kept() {
        let mut recent = Recent::new(100);
        recent.put("kept", 0, 10);
        for number in 1..1_000 {
            assert_eq!(recent.get(&"kept"), Some(0), "it is used each time");
            recent.put("other", number, 10);
            recent.put("another", number, 25);
            let all = recent.young.values().chain(recent.old.values());
            assert!(all.map(|(_, size)| size).sum::<usize>() <= 100);
        }
        recent.remove(&"kept");
        assert_eq!(recent.get(&"kept"), None);
    }
}
