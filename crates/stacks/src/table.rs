//! Equal stacks, added up in bounded memory.

use std::collections::{HashMap, VecDeque};

use cachewise_model::{Reason, StackKind};
use cachewise_probe::{StackUnit, StackWeight};

use crate::address::Address;

/// Distinct stacks that are kept.
const MAX_STACKS: usize = 16_384;

/// Samples whose weights are still awaited.
const MAX_AWAITED: usize = 262_144;

/// A stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) kind: StackKind,
    pub(crate) command: String,
    /// The user's calls after those of the kernel, the innermost first.
    pub(crate) addresses: Vec<Address>,
    pub(crate) cut: Option<Reason>,
}

impl Key {
    /// A stack without calls.
    pub(crate) fn unknown(kind: StackKind, why: Reason) -> Key {
        Key {
            kind,
            command: String::new(),
            addresses: Vec::new(),
            cut: Some(why),
        }
    }
}

/// A weight; less is subtracted when it turns out to be too much.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) pages: i64,
    pub(crate) bytes: i64,
    pub(crate) nanoseconds: i64,
}

/// Stacks and their weights.
#[derive(Default)]
pub(crate) struct Table {
    stacks: HashMap<Key, usize>,
    sums: Vec<Sum>,
    /// The stack of each sample.
    awaited: HashMap<u64, usize>,
    order: VecDeque<u64>,
    /// Stacks that found no room.
    pub(crate) lost: u64,
}

impl Table {
    /// Enters a sample; weights with its id are those of this stack.
    pub(crate) fn enter(&mut self, id: u64, key: Key) {
        let index = self.index(key);
        if self.order.len() == MAX_AWAITED
            && let Some(oldest) = self.order.pop_front()
        {
            self.awaited.remove(&oldest);
        }
        self.order.push_back(id);
        self.awaited.insert(id, index);
    }

    /// Adds a weight.
    pub(crate) fn weigh(&mut self, weight: &StackWeight) {
        match self.awaited.get(&weight.id) {
            Some(index) => self.sums[*index].add(weight),
            None => self.weigh_unknown(weight, Reason::StackLost),
        }
    }

    /// Adds a weight whose stack is unknown.
    pub(crate) fn weigh_unknown(&mut self, weight: &StackWeight, why: Reason) {
        let index = self.index(Key::unknown(weight.kind, why));
        self.sums[index].add(weight);
    }

    fn index(&mut self, key: Key) -> usize {
        if let Some(index) = self.stacks.get(&key) {
            return *index;
        }
        // Room for stacks without calls, of which there are few, remains.
        if self.stacks.len() >= MAX_STACKS && !key.addresses.is_empty() {
            self.lost += 1;
            return self.index(Key::unknown(key.kind, Reason::StackLost));
        }
        let index = self.sums.len();
        self.sums.push(Sum::default());
        self.stacks.insert(key, index);
        index
    }

    /// Every stack with its weight.
    pub(crate) fn into_stacks(self) -> impl Iterator<Item = (Key, Sum)> {
        let sums = self.sums;
        self.stacks
            .into_iter()
            .map(move |(key, index)| (key, sums[index]))
    }
}

impl Sum {
    fn add(&mut self, weight: &StackWeight) {
        let sum = match weight.unit {
            StackUnit::Pages => &mut self.pages,
            StackUnit::Bytes => &mut self.bytes,
            StackUnit::Nanoseconds => &mut self.nanoseconds,
        };
        *sum += weight.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: u64) -> Key {
        Key {
            kind: StackKind::Read,
            command: "test".to_owned(),
            addresses: vec![Address::Kernel(address)],
            cut: None,
        }
    }

    fn pages(id: u64, weight: i64) -> StackWeight {
        StackWeight {
            id,
            kind: StackKind::Read,
            unit: StackUnit::Pages,
            weight,
        }
    }

    #[test]
    fn equal_stacks_share_a_sum_and_corrections_reduce_it() {
        let mut table = Table::default();
        table.enter(10, key(1));
        table.enter(11, key(1));
        table.enter(12, key(2));
        for weight in [pages(10, 4), pages(11, 3), pages(11, -1), pages(12, 5)] {
            table.weigh(&weight);
        }
        let mut sums: Vec<i64> = table.into_stacks().map(|(_, sum)| sum.pages).collect();
        sums.sort_unstable();
        assert_eq!(sums, [5, 6], "two stacks, by their calls");
    }

    #[test]
    fn weights_beyond_the_bounds_stay_in_the_sum_without_a_stack() {
        let mut table = Table::default();
        let many = MAX_STACKS as u64 + 10;
        for id in 0..many {
            table.enter(id, key(id));
            table.weigh(&pages(id, 1));
        }
        table.weigh(&pages(many, 1));
        assert_eq!(table.lost, 10, "those that found no room");
        let stacks: Vec<(Key, Sum)> = table.into_stacks().collect();
        assert_eq!(stacks.len(), MAX_STACKS + 1, "one has the rest");
        let sum: i64 = stacks.iter().map(|(_, sum)| sum.pages).sum();
        assert_eq!(sum as u64, many + 1, "nothing is left out");
        let lost = stacks
            .iter()
            .find(|(key, _)| key.cut == Some(Reason::StackLost))
            .map(|(_, sum)| sum.pages);
        assert_eq!(lost, Some(11), "with an id that no sample had, too");
    }
}
