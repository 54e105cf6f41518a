//! Equal stacks, added up in bounded memory.

use std::collections::{HashMap, HashSet, VecDeque};

use cachewise_model::{Reason, StackKind};
use cachewise_probe::{StackUnit, StackWeight};

use crate::address::Address;

/// Distinct stacks that are kept.
const MAX_STACKS: usize = 16_384;

/// Samples whose weights are still awaited.
const MAX_AWAITED: usize = 262_144;

/// The latest samples, whose stacks stay when the table is half full at the end of an interval.
const KEPT_AWAITED: usize = 4096;

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

    /// Takes the weights out that were added since the last call, and makes room. A negative sum stays, until more is
    /// added.
    pub(crate) fn drain(&mut self) -> Vec<(Key, Sum)> {
        let mut drained = Vec::new();
        for (key, index) in &self.stacks {
            let sum = self.sums[*index].take();
            if !sum.is_nothing() {
                drained.push((key.clone(), sum));
            }
        }
        if self.stacks.len() > MAX_STACKS / 2 {
            self.forget_old();
        }
        drained
    }

    /// Removes stacks that no recent sample has.
    fn forget_old(&mut self) {
        while self.order.len() > KEPT_AWAITED
            && let Some(oldest) = self.order.pop_front()
        {
            self.awaited.remove(&oldest);
        }
        let kept: HashSet<usize> = self.awaited.values().copied().collect();
        let mut places = HashMap::new();
        let mut sums = Vec::new();
        self.stacks.retain(|_, index| {
            if !kept.contains(index) {
                return false;
            }
            places.insert(*index, sums.len());
            sums.push(self.sums[*index]);
            *index = sums.len() - 1;
            true
        });
        self.sums = sums;
        for index in self.awaited.values_mut() {
            *index = places[index];
        }
    }
}

impl Sum {
    fn is_nothing(&self) -> bool {
        (self.pages, self.bytes, self.nanoseconds) == (0, 0, 0)
    }

    /// The part that is more than zero; the other one stays.
    fn take(&mut self) -> Sum {
        let positive = Sum {
            pages: self.pages.max(0),
            bytes: self.bytes.max(0),
            nanoseconds: self.nanoseconds.max(0),
        };
        self.pages -= positive.pages;
        self.bytes -= positive.bytes;
        self.nanoseconds -= positive.nanoseconds;
        positive
    }

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
        assert_eq!(drained(&mut table), [5, 6], "two stacks, by their calls");
    }

    fn drained(table: &mut Table) -> Vec<i64> {
        let drained = table.drain().into_iter();
        let mut sums: Vec<i64> = drained.map(|(_, sum)| sum.pages).collect();
        sums.sort_unstable();
        sums
    }

    #[test]
    fn drain_has_the_weights_since_the_last_one() {
        let mut table = Table::default();
        table.enter(10, key(1));
        table.weigh(&pages(10, 4));
        assert_eq!(drained(&mut table), [4]);
        assert_eq!(drained(&mut table), [0; 0], "nothing since");
        table.weigh(&pages(10, -3));
        assert_eq!(drained(&mut table), [0; 0], "too much was drained");
        table.weigh(&pages(10, 5));
        assert_eq!(drained(&mut table), [2], "sums of all intervals hold");
    }

    #[test]
    fn drain_makes_room_and_keeps_the_stacks_of_recent_samples() {
        let mut table = Table::default();
        let many = MAX_STACKS as u64;
        for id in 0..many {
            table.enter(id, key(id));
            table.weigh(&pages(id, 1));
        }
        assert_eq!(table.drain().len(), MAX_STACKS);
        assert_eq!(table.stacks.len(), KEPT_AWAITED, "the latest");
        table.weigh(&pages(many - 1, 7));
        table.weigh(&pages(0, 5));
        let late: Vec<(Option<Reason>, i64)> = table
            .drain()
            .into_iter()
            .map(|(key, sum)| (key.cut, sum.pages))
            .collect();
        assert!(
            late.contains(&(None, 7)) && late.contains(&(Some(Reason::StackLost), 5)),
            "of an old sample the weight stays: {late:?}"
        );
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
        let stacks = table.drain();
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
