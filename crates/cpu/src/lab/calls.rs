//! Virtual calls: which function comes next, and where its code and its object are.

use std::hint::black_box;

use super::experiment::{Check, Effect, Experiment, Outcome};
use super::rounds::{Rounds, seen, timed};
use crate::measure::order::Shuffled;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "calls",
    about: "virtual calls on objects of many types: mixed, in a cycle, sorted, sorted and laid out anew",
    why: "What a mixed order costs with small functions is guessing where the call goes, as a cycle of the same types costs little; with big functions it is fetching their code again and again.",
    advice: "Group objects by type, best one array for each type; after sorting pointers allocate the objects anew in that order, else each is where it was and sorting can make it slower.",
    run,
};

const COUNT: usize = 1 << 16;
const ROUNDS: usize = 7;

/// Few types with small functions, so that all of their code is in the first cache; many with big ones, so that it
/// is not.
const FEW: u64 = 8;
const MANY: u64 = 64;

trait Work {
    fn small(&self) -> u64;
    fn big(&self) -> u64;
}

/// A separate type for each number, so that each has its own functions.
struct NumberedType<const N: u64>(u64);

impl<const N: u64> Work for NumberedType<N> {
    fn small(&self) -> u64 {
        self.0.wrapping_mul(2 * N + 1) ^ N
    }

    fn big(&self) -> u64 {
        code_of_its_own::<N>();
        self.small()
    }
}

/// 3 KiB that take as good as no time when they are in the first cache: 64 of them are not.
#[inline(always)]
fn code_of_its_own<const N: u64>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: instructions that do nothing. The constant makes those of each type different.
    unsafe {
        std::arch::asm!(
            ".rept 384", ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0", ".endr",
            "/* {number} */",
            number = const N,
            options(nomem, nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            ".rept 768", "nop", ".endr",
            "/* {number} */",
            number = const N,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// An object of the type with this number.
fn object(kind: u64, value: u64) -> Box<dyn Work> {
    macro_rules! of {
        ($($n:literal)*) => {
            match kind {
                $($n => Box::new(NumberedType::<$n>(value)),)*
                _ => Box::new(NumberedType::<63>(value)),
            }
        };
    }
    of!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62)
}

#[inline(never)]
fn small(objects: &[Box<dyn Work>]) -> u64 {
    objects.iter().fold(0, |sum, object| sum ^ object.small())
}

#[inline(never)]
fn big(objects: &[Box<dyn Work>]) -> u64 {
    objects.iter().fold(0, |sum, object| sum ^ object.big())
}

fn made(kinds: &[(u64, u64)]) -> Vec<Box<dyn Work>> {
    kinds
        .iter()
        .map(|(kind, value)| object(*kind, *value))
        .collect()
}

fn run() -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut same = true;
    for (size, types, call) in [
        ("small", FEW, small as fn(&[Box<dyn Work>]) -> u64),
        ("big", MANY, big),
    ] {
        let shuffled = Shuffled::new(COUNT as u64, 3);
        let mixed: Vec<(u64, u64)> = (0..COUNT as u64)
            .map(|place| (shuffled.at(place) % types, place))
            .collect();
        let mut sorted = mixed.clone();
        sorted.sort_unstable();
        let cycle: Vec<(u64, u64)> = (0..COUNT as u64)
            .map(|place| (place % types, place))
            .collect();
        let (in_order, in_cycle, at_random) = (made(&sorted), made(&cycle), made(&mixed));
        // The pointers are sorted, the objects stay where they were made: in mixed order.
        let scattered = mixed
            .iter()
            .map(|(kind, value)| (*kind, object(*kind, *value)));
        let mut scattered: Vec<(u64, Box<dyn Work>)> = scattered.collect();
        scattered.sort_by_key(|(kind, _)| *kind);
        let scattered: Vec<Box<dyn Work>> =
            scattered.into_iter().map(|(_, object)| object).collect();
        same &= call(&at_random) == call(&in_order) && call(&in_order) == call(&scattered);
        let mut rounds = Rounds::new("call");
        for (order, is_control, objects) in [
            ("mixed", false, &at_random),
            ("sorted and laid out anew", false, &in_order),
            ("sorted pointers only", false, &scattered),
            ("in a cycle", true, &in_cycle),
        ] {
            let name = format!("{types} types, {size} functions, {order}");
            rounds.add(name, is_control, move || {
                timed(COUNT, || call(black_box(objects)))
            });
        }
        rounds.run(ROUNDS);
        outcome.cases.extend(rounds.cases());
        let against = |what: &str, above: usize, below: usize| -> Option<Effect> {
            rounds.ratio(format!("{size} functions: {what}"), above, below)
        };
        let effects = [
            against("mixed against sorted and laid out anew", 0, 1),
            against("mixed against a cycle: guessing the call", 0, 3),
            against("a cycle against sorted: fetching the code", 3, 1),
            against("sorted pointers only against laid out anew", 2, 1),
        ];
        outcome.effects.extend(effects.into_iter().flatten());
    }
    outcome.checks.push(Check {
        holds: same,
        what: "every order gives the same sum".into(),
    });
    let otherwise = "the core guesses even mixed calls, or calls were inlined";
    outcome
        .checks
        .push(seen(&outcome.effects, 0, 1.3, otherwise));
    Ok(outcome)
}
