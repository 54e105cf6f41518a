//! Evicted pages by the control group of the process that evicts: the groups that evict most, and the sum of the
//! others, so that the number of series has a bound.
//!
//! A series only grows, as those of [`Groups`](super::Groups): a group that gets a place begins at 0, and one that
//! loses it leaves its counts in `other`.

use std::collections::HashMap;

use cachewise_model::{Eviction, EvictionCause};

use super::groups::{BUSIER, MOST_WAITING};

/// Evicted pages, by the number of the cause.
pub(crate) type ByCause = [u64; EvictionCause::ALL.len()];

/// Groups that evict pages of any file.
#[derive(Debug)]
pub(crate) struct Culprits {
    most: usize,
    pub(crate) placed: Vec<(String, ByCause)>,
    pub(crate) others: ByCause,
    /// Pages that groups without a place have evicted.
    waiting: HashMap<String, u64>,
}

impl Culprits {
    pub(crate) fn new(most: usize) -> Culprits {
        Culprits {
            most,
            placed: Vec::new(),
            others: ByCause::default(),
            waiting: HashMap::new(),
        }
    }

    /// Adds the evictions of an interval. Those of kernel threads are of no group.
    pub(crate) fn add(&mut self, evictions: &[Eviction]) {
        if self.most == 0 {
            return;
        }
        for eviction in evictions {
            let Some(culprit) = &eviction.culprit else {
                continue;
            };
            let name = culprit.cgroup.as_ref().exact().map(String::as_str);
            let sums = self.place_of(name, eviction.pages);
            let sum = &mut sums[eviction.cause as usize];
            *sum = sum.saturating_add(eviction.pages);
        }
    }

    /// Where evictions of the group are counted.
    fn place_of(&mut self, name: Option<&str>, pages: u64) -> &mut ByCause {
        let Some(name) = name else {
            return &mut self.others;
        };
        if let Some(place) = self.placed.iter().position(|(placed, _)| placed == name) {
            return &mut self.placed[place].1;
        }
        if self.placed.len() < self.most {
            self.placed.push((name.to_owned(), ByCause::default()));
            let last = self.placed.len() - 1;
            return &mut self.placed[last].1;
        }
        self.wait(name, pages);
        &mut self.others
    }

    /// Counts pages of a group without a place, which takes that of one that evicted far less.
    fn wait(&mut self, name: &str, pages: u64) {
        if self.waiting.len() >= MOST_WAITING && !self.waiting.contains_key(name) {
            self.waiting.clear();
        }
        let sum = self.waiting.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(pages);
        let sum = *sum;
        let weight = |causes: &ByCause| {
            causes
                .iter()
                .fold(0, |sum: u64, one| sum.saturating_add(*one))
        };
        let least = self
            .placed
            .iter_mut()
            .min_by_key(|(_, causes)| weight(causes));
        let Some(least) = least.filter(|(_, causes)| weight(causes).saturating_mul(BUSIER) < sum)
        else {
            return;
        };
        let (gone, causes) = std::mem::replace(least, (name.to_owned(), ByCause::default()));
        for (sum, pages) in self.others.iter_mut().zip(causes) {
            *sum = sum.saturating_add(pages);
        }
        self.waiting.remove(name);
        self.waiting.insert(gone, weight(&causes));
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Culprit, Measured, Reason};

    use super::*;

    fn eviction(group: Option<&str>, cause: EvictionCause, pages: u64) -> Eviction {
        let known = |group: &str| Measured::Exact(group.to_owned());
        Eviction {
            file: 0,
            charged: Measured::unknown(Reason::GroupGone),
            cause,
            culprit: cause.has_culprit().then(|| Culprit {
                pid: Measured::Exact(7),
                started: 1,
                command: Measured::Exact("tar".into()),
                cgroup: group.map_or(Measured::unknown(Reason::GroupGone), known),
            }),
            own: false,
            pages,
        }
    }

    fn shown(culprits: &Culprits) -> Vec<(&str, u64)> {
        let placed = culprits.placed.iter();
        let placed = placed.map(|(name, causes)| (name.as_str(), causes.iter().sum()));
        placed
            .chain([("other", culprits.others.iter().sum())])
            .collect()
    }

    #[test]
    fn places_are_bounded_and_sums_are_whole() {
        use EvictionCause::{Advice, Damon, GroupLimit, Kswapd};
        let mut culprits = Culprits::new(2);
        culprits.add(&[
            eviction(Some("/backup"), GroupLimit, 10),
            eviction(Some("/db"), GroupLimit, 20),
            eviction(Some("/web"), Advice, 5),
            eviction(None, GroupLimit, 1),
            eviction(None, Kswapd, 1000),
            eviction(None, Damon, 1000),
        ]);
        assert_eq!(
            shown(&culprits),
            [("/backup", 10), ("/db", 20), ("other", 6)],
            "kernel threads are of no group"
        );
        assert_eq!(culprits.others[Advice as usize], 5, "by cause");
        culprits.add(&[eviction(Some("/web"), Advice, 30)]);
        assert_eq!(
            shown(&culprits),
            [("/web", 0), ("/db", 20), ("other", 46)],
            "the group that evicts more takes the place, and begins at 0"
        );
        culprits.add(&[eviction(Some("/web"), Advice, 7)]);
        assert_eq!(shown(&culprits)[0], ("/web", 7));
    }

    #[test]
    fn without_places_nothing_is_kept() {
        let mut culprits = Culprits::new(0);
        culprits.add(&[eviction(Some("/a"), EvictionCause::Unlink, 10)]);
        assert_eq!(shown(&culprits), [("other", 0)]);
    }
}
