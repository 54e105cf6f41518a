//! Control groups with metrics of their own: the busiest ones, so that the number of series has a bound.
//!
//! A series must only grow. So a group that gets a place begins at 0, what it did before staying in
//! `other`; and one that loses its place leaves all of its counts there.

use std::collections::HashMap;

use cachewise_model::{CgroupRow, Counter, GroupNames, Ledger, Measured, System};
use cachewise_units::{Bytes, PageSize};

/// Groups without a place of which it is known how busy they are.
pub(super) const MOST_WAITING: usize = 4096;
/// A group replaces another if it is busier by this factor.
pub(super) const BUSIER: u64 = 2;

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    pub(crate) system: System,
    pub(crate) names: GroupNames,
    weight: u64,
    seen: bool,
}

/// The groups with places, and the sum of the others.
#[derive(Debug)]
pub(crate) struct Groups {
    most: usize,
    pub(crate) placed: Vec<Group>,
    pub(crate) others: Ledger,
    waiting: HashMap<String, u64>,
}

impl Groups {
    pub(crate) fn new(most: usize) -> Groups {
        Groups {
            most,
            placed: Vec::new(),
            others: Ledger::default(),
            waiting: HashMap::new(),
        }
    }

    /// Adds the activity of an interval.
    pub(crate) fn add(&mut self, rows: &[CgroupRow]) {
        if self.most == 0 {
            return;
        }
        self.placed.iter_mut().for_each(|group| group.seen = false);
        for row in rows {
            let Measured::Exact(name) = &row.path else {
                self.others += &row.ledger;
                continue;
            };
            let weight = weight(&row.ledger);
            if let Some(group) = self.placed.iter_mut().find(|group| group.name == *name) {
                group.ledger += &row.ledger;
                group.system = row.system.clone();
                group.names = row.names.clone();
                group.weight = group.weight.saturating_add(weight);
                group.seen = true;
            } else if self.placed.len() < self.most {
                self.place(row, name, row.ledger.clone(), weight);
            } else {
                self.others += &row.ledger;
                self.wait(row, name, weight);
            }
        }
        // A group that is gone, or does nothing and is not listed for it, makes room when one asks.
        self.waiting.retain(|_, weight| *weight > 0);
    }

    fn wait(&mut self, row: &CgroupRow, name: &str, weight: u64) {
        if self.waiting.len() >= MOST_WAITING && !self.waiting.contains_key(name) {
            // Idle ones come back when they do something.
            self.waiting.clear();
        }
        let sum = self.waiting.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(weight);
        let sum = *sum;
        let least = self
            .placed
            .iter()
            .enumerate()
            .filter(|(_, group)| group.weight.saturating_mul(BUSIER) < sum)
            .min_by_key(|(_, group)| group.weight);
        if let Some((place, _)) = least {
            let gone = self.placed.swap_remove(place);
            self.others += &gone.ledger;
            self.waiting.insert(gone.name, gone.weight);
            self.waiting.remove(name);
            self.place(row, name, Ledger::default(), sum);
        }
    }

    fn place(&mut self, row: &CgroupRow, name: &str, ledger: Ledger, weight: u64) {
        self.placed.push(Group {
            name: name.to_owned(),
            ledger,
            system: row.system.clone(),
            names: row.names.clone(),
            weight,
            seen: true,
        });
        self.placed.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Returns whether the group was in the last interval, so that its charged memory is known.
    pub(crate) fn is_current(group: &Group) -> bool {
        group.seen
    }
}

/// Returns the activity of a group: pages requested by read, write or fault.
fn weight(ledger: &Ledger) -> u64 {
    let direct = ledger[Counter::DirectReadBytes].saturating_add(ledger[Counter::DirectWriteBytes]);
    [
        ledger[Counter::ReadRequestedPages],
        ledger[Counter::FaultRequests],
        ledger[Counter::WritePages],
        Bytes(direct).pages_ceil(PageSize::SMALLEST).0,
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, pages: u64) -> CgroupRow {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, pages);
        CgroupRow {
            path: Measured::Exact(name.into()),
            names: GroupNames::none(),
            ledger,
            system: System::default(),
            memory_limit_path: Measured::not_offered(cachewise_model::Reason::NotMeasured),
        }
    }

    fn shown(groups: &Groups) -> Vec<(&str, u64)> {
        let of = |ledger: &Ledger| ledger[Counter::ReadRequestedPages];
        let placed = groups
            .placed
            .iter()
            .map(|group| (group.name.as_str(), of(&group.ledger)));
        placed.chain([("other", of(&groups.others))]).collect()
    }

    #[test]
    fn places_are_bounded_and_sums_are_whole() {
        let mut groups = Groups::new(2);
        groups.add(&[row("/a", 10), row("/b", 20), row("/c", 5)]);
        assert_eq!(
            shown(&groups),
            [("/a", 10), ("/b", 20), ("other", 5)],
            "two have places"
        );
        groups.add(&[row("/c", 30)]);
        assert_eq!(
            shown(&groups),
            [("/b", 20), ("/c", 0), ("other", 45)],
            "a busier one takes the place, and begins at 0"
        );
        groups.add(&[row("/c", 7)]);
        let sum: u64 = shown(&groups).iter().map(|(_, pages)| pages).sum();
        assert_eq!(sum, 72, "nothing is lost and nothing counted twice");
    }

    #[test]
    fn thousands_of_groups_that_come_and_go_take_no_memory() {
        let mut groups = Groups::new(1);
        for number in 0..2 * MOST_WAITING {
            groups.add(&[row(&format!("/run-{number}.scope"), 1)]);
        }
        assert!(groups.waiting.len() <= MOST_WAITING, "a bound holds");
        assert_eq!(groups.placed.len(), 1, "one has a place");
        assert_eq!(
            groups.others[Counter::ReadRequestedPages]
                + groups.placed[0].ledger[Counter::ReadRequestedPages],
            2 * MOST_WAITING as u64,
            "all were counted"
        );
    }
}
