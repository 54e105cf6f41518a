//! Branches that can be guessed, and those that cannot.

use std::hint::black_box;

use super::experiment::{Check, Experiment, Outcome};
use super::rounds::{Rounds, seen, timed};
use crate::measure::order::Shuffled;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "branches",
    about: "a condition on random and on sorted data, and without a branch",
    why: "A core works ahead along the way that it guesses; a wrong guess throws that work away, 10 to 20 cycles of it, and random data is wrong half of the time.",
    advice: "Sort or group data by the condition, or compute without a branch (masks, select, min and max); look at the assembly, as compilers do so by themselves at times.",
    run,
};

const COUNT: usize = 1 << 20;
const ROUNDS: usize = 11;

#[inline(never)]
fn with_branch(data: &[u32]) -> u64 {
    let mut sum = 0u64;
    for value in data {
        if *value >= 128 {
            // Else it becomes a conditional move, or a vector.
            sum = black_box(sum + u64::from(*value));
        }
    }
    sum
}

#[inline(never)]
fn without_branch(data: &[u32]) -> u64 {
    let mut sum = 0u64;
    for value in data {
        let mask = u64::from(*value >= 128).wrapping_neg();
        // As above, so that nothing but the branch is different.
        sum = black_box(sum + (u64::from(*value) & mask));
    }
    sum
}

fn run() -> Result<Outcome, String> {
    let shuffled = Shuffled::new(COUNT as u64, 5);
    let random: Vec<u32> = (0..COUNT as u64)
        .map(|place| (shuffled.at(place) % 256) as u32)
        .collect();
    let mut sorted = random.clone();
    sorted.sort_unstable();
    let same = with_branch(&random) == without_branch(&sorted);
    let mut rounds = Rounds::new("number");
    rounds.case("branch, random data", || {
        timed(COUNT, || with_branch(black_box(&random)))
    });
    rounds.case("branch, sorted data", || {
        timed(COUNT, || with_branch(black_box(&sorted)))
    });
    rounds.case("no branch, random data", || {
        timed(COUNT, || without_branch(black_box(&random)))
    });
    rounds.control("no branch, sorted data", || {
        timed(COUNT, || without_branch(black_box(&sorted)))
    });
    rounds.run(ROUNDS);
    let effects: Vec<_> = [
        rounds.ratio("random against sorted", 0, 1),
        rounds.ratio("with against without a branch, on random data", 0, 2),
        rounds.ratio("random against sorted, without a branch", 2, 3),
    ]
    .into_iter()
    .flatten()
    .collect();
    let order = effects.get(2).map_or(f64::NAN, |effect| effect.ratio.value);
    Ok(Outcome {
        not_tried: Vec::new(),
        checks: vec![
            Check {
                holds: same,
                what: "all ways give the same sum".into(),
            },
            seen(&effects, 0, 1.5, "the compiler removed the branch"),
            Check {
                holds: (0.7..1.4).contains(&order),
                what: format!("without a branch the order does not matter: {order:.2} times"),
            },
        ],
        cases: rounds.cases(),
        effects,
    })
}
