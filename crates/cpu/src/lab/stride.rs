//! Effect of prefetching, by the distance from one load to the next.

use super::experiment::{Experiment, Outcome};
use super::rounds::{Rounds, seen};
use crate::measure::chase::{Arena, PageKind};
use crate::measure::order::{Order, visits};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stride",
    about: "going through memory in steps of so many bytes, each load waiting for the one before",
    why: "A core fetches ahead what it can guess: steps that are the same again and again, forwards or backwards; at random every load waits for memory.",
    advice: "Keep what is used together side by side and go through it in order; arrays and indices instead of lists of pointers; where it must be random, have several loads under way.",
    run,
};

/// More than a core has for itself, and mostly more than its neighbours leave.
const SIZE: usize = 256 << 20;
/// With longer ones the lines that are visited would fit into a last cache.
const STEPS: [usize; 4] = [64, 128, 256, 512];
const LOADS: u64 = 40_000;
const ROUNDS: usize = 5;

fn run() -> Result<Outcome, String> {
    let fail = |error: crate::Error| error.to_string();
    // Several of them at a time would take too much memory; they are linked anew in each round, which costs less.
    let arena = std::cell::RefCell::new(Arena::new(SIZE, PageKind::Small).map_err(fail)?);
    let page = rustix::param::page_size();
    let through = |offsets: &mut dyn Iterator<Item = usize>| {
        let mut arena = arena.borrow_mut();
        let Some(mut circle) = arena.link(offsets) else {
            return f64::NAN;
        };
        circle.sample(LOADS)
    };
    let through = &through;
    let mut rounds = Rounds::new("load");
    for step in STEPS {
        let name = format!("every {step} bytes");
        rounds.case(name, move || {
            through(&mut (0..SIZE / step).map(|place| place * step))
        });
    }
    rounds.control("at random, page by page", move || {
        through(&mut visits(Order::PageLocal, SIZE, 64, page, 3))
    });
    rounds.run(ROUNDS);
    let random = STEPS.len();
    let effects: Vec<_> = [
        rounds.ratio("at random against every line", random, 0),
        rounds.ratio("every eighth line against every line", random - 1, 0),
    ]
    .into_iter()
    .flatten()
    .collect();
    Ok(Outcome {
        not_tried: Vec::new(),
        checks: vec![seen(
            &effects,
            0,
            2.0,
            "nothing is fetched ahead here, or all of it is in the cache",
        )],
        cases: rounds.cases(),
        effects,
    })
}
