//! [`Top`]: the largest of many, in the memory of a few.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Keeps the items with the largest keys, of however many are offered.
///
/// Of equal keys those are kept that came first: where the order of arrival is no order, as in a walk by
/// several threads, put what decides into the key.
#[derive(Clone, Debug)]
pub struct Top<K, T> {
    most: usize,
    arrived: u64,
    // The smallest of those kept is on top: it goes first.
    kept: BinaryHeap<Reverse<Kept<K, T>>>,
}

#[derive(Clone, Debug)]
struct Kept<K, T> {
    key: K,
    arrived: Reverse<u64>,
    item: T,
}

impl<K: Ord, T> Top<K, T> {
    /// Keeps `most` items.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            arrived: 0,
            kept: BinaryHeap::new(),
        }
    }

    /// Offers an item, which is only made if it is kept.
    pub fn offer(&mut self, key: K, item: impl FnOnce() -> T) {
        self.arrived += 1;
        if self.kept.len() >= self.most {
            match self.kept.peek() {
                Some(Reverse(smallest)) if key > smallest.key => self.kept.pop(),
                _ => return,
            };
        }
        self.kept.push(Reverse(Kept {
            key,
            arrived: Reverse(self.arrived),
            item: item(),
        }));
    }

    /// Says whether an item with this key would be kept if it were offered now.
    #[must_use]
    pub fn wants(&self, key: &K) -> bool {
        self.kept.len() < self.most
            || matches!(self.kept.peek(), Some(Reverse(smallest)) if *key > smallest.key)
    }

    /// Returns what was kept, the largest first.
    #[must_use]
    pub fn into_sorted(self) -> Vec<(K, T)> {
        self.kept
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(kept)| (kept.key, kept.item))
            .collect()
    }
}

impl<K: Ord, T> Ord for Kept<K, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.key, &self.arrived).cmp(&(&other.key, &other.arrived))
    }
}

impl<K: Ord, T> PartialOrd for Kept<K, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, T> PartialEq for Kept<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord, T> Eq for Kept<K, T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_what_sorting_would(
            keys in prop::collection::vec(0..20_u8, 0..60),
            most in 0..10_usize,
        ) {
            let mut top = Top::new(most);
            let mut all: Vec<(u8, usize)> = Vec::new();
            for (arrived, key) in keys.into_iter().enumerate() {
                top.offer(key, || arrived);
                all.push((key, arrived));
            }
            all.sort_by_key(|(key, arrived)| (Reverse(*key), *arrived));
            all.truncate(most);
            prop_assert_eq!(top.into_sorted(), all, "the largest, the first of equals before others");
        }
    }

    #[test]
    fn rejected_item_is_not_built() {
        let mut top = Top::new(1);
        top.offer(5, || "five");
        top.offer(4, || unreachable!("smaller than what is there"));
        assert_eq!(top.into_sorted(), [(5, "five")], "the larger one");
    }
}
