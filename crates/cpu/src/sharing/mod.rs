//! False sharing in a program of one's own: threads that write to different bytes of one cache line.
//!
//! Three proofs need no hardware counters, and a fourth one is for machines that have them. Each gives an [`Answer`]
//! with its figures; none is a guess.
//!
//! # Layout
//! - `compare`: CPU time on one CPU and on all, with the heap as it is and padded, and what that says
//! - `padding`: the allocator that pads, and which programs take it
//! - `watch`: hardware breakpoints on a line; `symbol`: where a variable is
//! - `line`: who touches which bytes, and whether that is false sharing
//! - `c2c`: what `perf c2c` recorded
//! - this file: answers, and the verdict

mod c2c;
mod compare;
mod line;
mod padding;
mod symbol;
mod watch;

pub use c2c::{Recorded, proof as recorded_proof, recorded};
pub use compare::{Arm, Comparison, Cpus, Heap, Round, Run};
pub use line::{Seen, Touch, judge};
pub use padding::{CannotPreload, Padded, Padding};
pub use symbol::{Variable, find_variable, is_mapped};
pub use watch::{NoWatch, Watch};

use crate::measure::estimate::Estimate;

/// What a proof, or all of them together, say of false sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// There is some.
    Found,
    /// None was seen where it looked.
    NotFound,
    /// It cannot tell.
    Unknown,
}

impl Answer {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Answer::Found => "found",
            Answer::NotFound => "not_found",
            Answer::Unknown => "unknown",
        }
    }
}

/// One proof.
#[derive(Debug, Clone)]
pub struct Proof {
    /// `one cpu`, `padded heap`, `breakpoints`, `perf c2c`.
    pub name: &'static str,
    /// What it says.
    pub answer: Answer,
    /// How many times as much, where it compares.
    pub ratio: Option<Estimate>,
    /// What it saw, or why it cannot tell.
    pub says: String,
}

/// What all proofs together say: one that found some is enough; that none was found needs one that could have.
#[must_use]
pub fn verdict(proofs: &[Proof]) -> Answer {
    let says = |answer: Answer| proofs.iter().any(|proof| proof.answer == answer);
    match (says(Answer::Found), says(Answer::NotFound)) {
        (true, _) => Answer::Found,
        (false, true) => Answer::NotFound,
        (false, false) => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_proof_is_enough_and_none_is_no_answer() {
        let proof = |answer| Proof {
            name: "breakpoints",
            answer,
            ratio: None,
            says: String::new(),
        };
        let of =
            |answers: &[Answer]| verdict(&answers.iter().copied().map(proof).collect::<Vec<_>>());
        assert_eq!(
            of(&[Answer::NotFound, Answer::Found]),
            Answer::Found,
            "seen is seen"
        );
        assert_eq!(
            of(&[Answer::Unknown, Answer::NotFound]),
            Answer::NotFound,
            "one looked"
        );
        assert_eq!(of(&[Answer::Unknown]), Answer::Unknown, "nobody could look");
        assert_eq!(of(&[]), Answer::Unknown, "nobody looked");
    }
}
