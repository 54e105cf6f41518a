//! Weights that come in no record: the kernel has their sums since the start, and intervals want what was added.

use std::collections::HashMap;

use cachewise_model::StackKind;
use cachewise_probe::{StackRest, StackUnit, StackWeight};

/// The weights that were taken so far.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Pages by the stack of a call that evicts and may go on, with the last turn that had it. Its record has all of them.
    evicted: HashMap<u64, (i64, u64)>,
    turn: u64,
    outside_calls: Sums,
    lost: Sums,
    lost_stacks: u64,
}

type Sums = HashMap<(StackKind, StackUnit), i64>;

impl Rest {
    /// The weights since the last call. Leaves out evictions whose stack was lost.
    pub(crate) fn added(&mut self, rest: &StackRest) -> StackRest {
        self.turn += 1;
        // The record of a call that ended before the last turn has come, or was lost.
        let last = self.turn - 1;
        self.evicted.retain(|_, (_, turn)| *turn >= last);
        let evicted = rest.evicted.iter().filter(|weight| weight.has_stack());
        let evicted = evicted.map(|weight| {
            let now = (weight.weight, self.turn);
            let before = self.evicted.insert(weight.id, now);
            StackWeight {
                weight: weight.weight - before.map_or(0, |(taken, _)| taken),
                ..*weight
            }
        });
        let lost_stacks = rest.lost_stacks.saturating_sub(self.lost_stacks);
        let added = StackRest {
            evicted: evicted.collect(),
            outside_calls: since(&mut self.outside_calls, &rest.outside_calls),
            lost: since(&mut self.lost, &rest.lost),
            lost_stacks,
        };
        self.lost_stacks = rest.lost_stacks;
        added
    }

    /// The weight of a record, without the part that was taken before it came.
    pub(crate) fn corrected(&mut self, weight: &StackWeight) -> StackWeight {
        let taken = match weight.kind {
            StackKind::Eviction => self.evicted.remove(&weight.id),
            _ => None,
        };
        StackWeight {
            weight: weight.weight - taken.map_or(0, |(taken, _)| taken),
            ..*weight
        }
    }
}

fn since(before: &mut Sums, now: &[StackWeight]) -> Vec<StackWeight> {
    let added = now.iter().map(|weight| {
        let key = (weight.kind, weight.unit);
        let before = before.insert(key, weight.weight).unwrap_or(0);
        StackWeight {
            weight: weight.weight - before,
            ..*weight
        }
    });
    added.filter(|weight| weight.weight != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(id: u64, weight: i64) -> StackWeight {
        StackWeight {
            id,
            kind: StackKind::Eviction,
            unit: StackUnit::Pages,
            weight,
        }
    }

    #[test]
    fn evictions_of_a_call_that_goes_on_count_once() {
        let mut rest = Rest::default();
        let so_far = |weight| StackRest {
            evicted: vec![pages(7, weight)],
            ..StackRest::default()
        };
        let mut sum = 0;
        for weight in [3, 5] {
            sum += rest.added(&so_far(weight)).evicted[0].weight;
        }
        assert_eq!(sum, 5, "in two intervals");
        sum += rest.corrected(&pages(7, 6)).weight;
        assert_eq!(sum, 6, "its record has all of them");
        assert_eq!(rest.corrected(&pages(7, 2)).weight, 2, "another one");
    }

    #[test]
    fn sums_of_the_kernel_become_differences() {
        let mut rest = Rest::default();
        let so_far = |weight, lost_stacks| StackRest {
            lost: vec![pages(0, weight)],
            lost_stacks,
            ..StackRest::default()
        };
        let first = rest.added(&so_far(4, 1));
        assert_eq!((first.lost[0].weight, first.lost_stacks), (4, 1));
        let second = rest.added(&so_far(9, 1));
        assert_eq!((second.lost[0].weight, second.lost_stacks), (5, 0));
        assert_eq!(rest.added(&so_far(9, 1)).lost, [], "nothing since");
    }
}
