//! Objects of which few are needed: the position of their flags.

use std::hint::black_box;

use super::experiment::{Check, Effect, Experiment, Outcome};
use super::rounds::{Rounds, seen, timed};
use crate::measure::order::Shuffled;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "alive",
    about: "objects with a flag in them, flags apart, a bitmap, and only those that are alive",
    why: "To look at one flag a whole line is fetched, and thrown away if the object is not wanted; apart, flags of 64 objects (as bits, of 512) come with one line.",
    advice: "Keep what is alive together (swap-remove, or compact now and then): it wins at every ratio; flags apart help where few are alive, and can lose where every tenth is, by wrong guesses.",
    run,
};

const COUNT: usize = 1 << 20;
const ROUNDS: usize = 5;

/// Alive ones in a thousand.
const RATIOS: [u64; 4] = [10, 100, 500, 1000];

/// A line long.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Object {
    is_alive: bool,
    values: [u64; 7],
}

/// The work on one element: a call, so that the loop is not vectorised.
#[inline(never)]
fn work(object: &Object) -> u64 {
    object.values[0] ^ object.values[3] ^ object.values[6]
}

#[inline(never)]
fn inside(objects: &[Object]) -> u64 {
    let alive = objects.iter().filter(|object| object.is_alive);
    alive.fold(0, |sum, object| sum ^ work(object))
}

#[inline(never)]
fn apart(flags: &[bool], objects: &[Object]) -> u64 {
    let both = flags.iter().zip(objects);
    both.filter(|(is_alive, _)| **is_alive)
        .fold(0, |sum, (_, object)| sum ^ work(object))
}

#[inline(never)]
fn bitmap(words: &[u64], objects: &[Object]) -> u64 {
    let mut sum = 0;
    for (word, objects) in words.iter().zip(objects.chunks(64)) {
        let mut rest = *word;
        while rest != 0 {
            sum ^= work(&objects[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
    }
    sum
}

#[inline(never)]
fn compacted(objects: &[Object]) -> u64 {
    objects.iter().fold(0, |sum, object| sum ^ work(object))
}

/// The same objects, in each layout.
struct Layouts {
    objects: Vec<Object>,
    flags: Vec<bool>,
    words: Vec<u64>,
    alive: Vec<Object>,
}

fn layouts(in_thousand: u64) -> Layouts {
    let shuffled = Shuffled::new(COUNT as u64, 11);
    let object = |place: u64| Object {
        is_alive: shuffled.at(place) % 1000 < in_thousand,
        values: [place; 7].map(|value| value.wrapping_mul(0x9e37_79b9)),
    };
    let objects: Vec<Object> = (0..COUNT as u64).map(object).collect();
    let flags: Vec<bool> = objects.iter().map(|object| object.is_alive).collect();
    let bits = |flags: &[bool]| {
        let set = flags.iter().enumerate().filter(|(_, is_alive)| **is_alive);
        set.fold(0u64, |word, (place, _)| word | 1 << place)
    };
    Layouts {
        words: flags.chunks(64).map(bits).collect(),
        alive: objects
            .iter()
            .copied()
            .filter(|object| object.is_alive)
            .collect(),
        flags,
        objects,
    }
}

fn run() -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut same = true;
    for in_thousand in RATIOS {
        let Layouts {
            objects,
            flags,
            words,
            alive,
        } = &layouts(in_thousand);
        let sums = [
            inside(objects),
            apart(flags, objects),
            bitmap(words, objects),
            compacted(alive),
        ];
        same &= sums.iter().all(|sum| *sum == sums[0]);
        let percent = in_thousand as f64 / 10.0;
        let mut rounds = Rounds::new("object");
        rounds.case(format!("{percent} % alive: flag inside"), || {
            timed(COUNT, || inside(black_box(objects)))
        });
        rounds.case(format!("{percent} % alive: flags apart"), || {
            timed(COUNT, || apart(black_box(flags), objects))
        });
        rounds.case(format!("{percent} % alive: bitmap"), || {
            timed(COUNT, || bitmap(black_box(words), objects))
        });
        rounds.control(format!("{percent} % alive: only those"), || {
            timed(COUNT, || compacted(black_box(alive)))
        });
        rounds.run(ROUNDS);
        outcome.cases.extend(rounds.cases());
        let against = |what: &str, below: usize| -> Option<Effect> {
            rounds.ratio(
                format!("{percent} % alive: flag inside against {what}"),
                0,
                below,
            )
        };
        outcome.effects.extend(
            [
                against("only those", 3),
                against("flags apart", 1),
                against("bitmap", 2),
            ]
            .into_iter()
            .flatten(),
        );
    }
    outcome.checks.push(Check {
        holds: same,
        what: "all layouts give the same sum".into(),
    });
    let missing = "the cache holds all objects";
    outcome.checks.push(seen(&outcome.effects, 0, 2.0, missing));
    Ok(outcome)
}
