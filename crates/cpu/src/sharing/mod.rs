//! False sharing in a program: threads that write to different bytes of one cache line.
//!
//! Three proofs need no hardware counters, and a fourth one uses them. Each gives an [`Answer`] with its figures; none is
//! a guess.
//!
//! # Layout
//! - `compare`: CPU time on one CPU and on all, with a plain and a padded heap, and the conclusions
//! - `padding`: the padding allocator, and the programs that can load it
//! - `watch`: hardware breakpoints on a line, and the conclusions; `symbol`: address of a variable
//! - `line`: who touches which bytes, and whether that is false sharing
//! - `c2c`: what `perf c2c` recorded
//! - `proofs`: proofs and their answers; this file: the verdict

mod c2c;
mod compare;
mod line;
mod padding;
mod proofs;
mod symbol;
mod watch;

pub use c2c::{Recorded, Recording, proof as recorded_proof, recorded};
pub use compare::{Arm, Comparison, Cpus, Heap, Round, Run};
pub use line::{LineUse, Touch, judge};
pub use padding::{CannotPreload, Padded, Padding};
pub use proofs::{Answer, BREAKPOINTS, ONE_CPU, PADDED_HEAP, PERF_C2C, Proof};
pub use symbol::{Variable, find_variable, is_mapped};
pub use watch::{NoWatch, Watch};

/// Whether runs show that the program's threads cost each other something, of whatever.
#[must_use]
pub fn costs(proofs: &[Proof]) -> bool {
    proofs.iter().any(|proof| {
        proof.name == ONE_CPU
            && proof
                .ratio
                .is_some_and(|ratio| ratio.low >= compare::MATTERS)
    })
}

/// Combines the proofs: one that found false sharing is enough; its absence needs a proof that
/// could have found it. If threads interfere, that must be one that saw which bytes each thread
/// uses: excluding the heap leaves all other memory.
#[must_use]
pub fn verdict(proofs: &[Proof]) -> Answer {
    let costs = costs(proofs);
    let saw_none = |proof: &Proof| {
        proof.answer == Answer::NotFound
            && (!costs || [BREAKPOINTS, PERF_C2C].contains(&proof.name))
    };
    if proofs.iter().any(|proof| proof.answer == Answer::Found) {
        Answer::Found
    } else if proofs.iter().any(|proof| proof.answer == Answer::Mixed) {
        Answer::Mixed
    } else if proofs.iter().any(saw_none) {
        Answer::NotFound
    } else {
        Answer::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::estimate::Estimate;

    #[test]
    fn one_proof_is_enough_and_none_is_no_answer() {
        let proof = |answer| Proof {
            name: BREAKPOINTS,
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
        assert_eq!(
            of(&[Answer::NotFound, Answer::Mixed]),
            Answer::Mixed,
            "some of it was seen"
        );
        assert_eq!(
            of(&[Answer::Mixed, Answer::Found]),
            Answer::Found,
            "another line has it alone"
        );
        assert_eq!(of(&[Answer::Unknown]), Answer::Unknown, "nobody could look");
        assert_eq!(of(&[]), Answer::Unknown, "nobody looked");
    }

    #[test]
    fn where_threads_cost_each_other_something_the_heap_alone_is_no_answer() {
        let ratio = |low| {
            Some(Estimate {
                value: 3.0,
                low,
                high: 3.2,
            })
        };
        let proof = |name, answer, ratio| Proof {
            name,
            answer,
            ratio,
            says: String::new(),
        };
        let dear = proof(ONE_CPU, Answer::Unknown, ratio(2.9));
        let of =
            |first: &Proof, name| verdict(&[first.clone(), proof(name, Answer::NotFound, None)]);
        assert_eq!(of(&dear, PADDED_HEAP), Answer::Unknown, "it may be statics");
        assert_eq!(
            of(&dear, BREAKPOINTS),
            Answer::NotFound,
            "that line was seen"
        );
        assert_eq!(of(&dear, PERF_C2C), Answer::NotFound, "all was seen");
        let wild = proof(ONE_CPU, Answer::Unknown, ratio(0.9));
        assert_eq!(
            of(&wild, PADDED_HEAP),
            Answer::NotFound,
            "it does not cost each time"
        );
    }
}
