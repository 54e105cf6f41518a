//! Sums of stacks, in bounded space.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::reason::Reason;
use crate::stacks::{Frame, Stack, StackKind, Stacks};

/// The identity of a stack.
type Key = (StackKind, String, Vec<Frame>, Option<Reason>);

/// Indexes of stacks, by identity.
#[derive(Debug, Default)]
pub(crate) struct StackPlaces {
    places: HashMap<Key, usize>,
}

impl StackPlaces {
    /// Adds a stack to the one of these with the same calls.
    pub(crate) fn add(&mut self, stacks: &mut Stacks, later: Stack) {
        let key = (
            later.kind,
            later.command.clone(),
            later.frames.clone(),
            later.cut,
        );
        match self.places.entry(key) {
            Entry::Occupied(place) => stacks.stacks[*place.get()].weight.add(&later.weight),
            Entry::Vacant(place) => {
                place.insert(stacks.stacks.len());
                stacks.stacks.push(later);
            }
        }
    }
}

impl Stacks {
    /// Adds later stacks to those with the same calls.
    pub fn append(&mut self, later: Stacks) {
        let mut places = StackPlaces::default();
        for stack in std::mem::take(&mut self.stacks) {
            places.add(self, stack);
        }
        for stack in later.stacks {
            places.add(self, stack);
        }
    }

    /// Keeps the `top` heaviest stacks of each event. Of the others it keeps the program's own function, for `top`
    /// functions; the rest becomes a stack without calls. Sums stay.
    pub fn reduce(&mut self, top: usize, page_bytes: u64) {
        let mut kept = Stacks::default();
        let mut places = StackPlaces::default();
        let all = std::mem::take(&mut self.stacks);
        for kind in StackKind::ALL {
            let of_kind = all.iter().filter(|stack| stack.kind == kind);
            let mut stacks: Vec<&Stack> = of_kind.collect();
            heaviest_first(&mut stacks, page_bytes);
            let (heaviest, others) = stacks.split_at(top.min(stacks.len()));
            for stack in heaviest {
                places.add(&mut kept, (*stack).clone());
            }
            let mut functions = Stacks::default();
            let mut function_places = StackPlaces::default();
            for stack in others {
                function_places.add(&mut functions, own_function(stack));
            }
            let mut functions: Vec<&Stack> = functions.stacks.iter().collect();
            heaviest_first(&mut functions, page_bytes);
            for (rank, function) in functions.into_iter().enumerate() {
                let mut function = function.clone();
                if rank >= top {
                    function.command = String::new();
                    function.frames = Vec::new();
                    function.cut = Some(Reason::StacksSummedUp);
                }
                places.add(&mut kept, function);
            }
        }
        *self = kept;
    }
}

fn heaviest_first(stacks: &mut [&Stack], page_bytes: u64) {
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.weight.rank(page_bytes)));
}

/// The stack with the program's own function alone.
fn own_function(stack: &Stack) -> Stack {
    let own = stack.own().cloned();
    Stack {
        kind: stack.kind,
        command: stack.command.clone(),
        cut: match own {
            Some(_) => Some(Reason::StacksSummedUp),
            None => stack.cut,
        },
        frames: own.into_iter().collect(),
        weight: stack.weight,
    }
}

#[cfg(test)]
mod tests {
    use cachewise_units::Pages;

    use super::*;
    use crate::stacks::Weight;

    fn stack(calls: &[&str], pages: u64) -> Stack {
        let frame = |name: &&str| Frame {
            function: Some((*name).to_owned()),
            line: Some(1),
            ..Frame::default()
        };
        Stack {
            kind: StackKind::Read,
            command: "test".to_owned(),
            frames: calls.iter().map(frame).collect(),
            cut: None,
            weight: Weight {
                pages: Pages(pages),
                ..Weight::default()
            },
        }
    }

    #[test]
    fn reduce_keeps_sums_and_the_functions_of_lighter_stacks() {
        let mut stacks = Stacks {
            stacks: vec![
                stack(&["load", "b"], 3),
                stack(&["load", "a"], 10),
                stack(&["load", "c"], 2),
                stack(&["scan", "a"], 4),
                stack(&["rest", "a"], 1),
            ],
        };
        let before = stacks.places(4096);
        stacks.reduce(2, 4096);
        let seen: Vec<_> = stacks
            .stacks
            .iter()
            .map(|stack| (stack.frames.len(), stack.cut, stack.weight.pages.0))
            .collect();
        let summed = Some(Reason::StacksSummedUp);
        assert_eq!(
            seen,
            [(2, None, 10), (2, None, 4), (1, summed, 5), (1, summed, 1)],
            "two whole stacks, then two functions"
        );
        assert_eq!(stacks.places(4096), before, "the table of functions stays");
        stacks.reduce(1, 4096);
        assert_eq!(stacks.total(StackKind::Read).pages, Pages(20), "every page");
        assert_eq!(stacks.stacks.len(), 3, "a stack, a function, the rest");
        assert_eq!(stacks.stacks[2].frames, [], "without calls");
    }
}
