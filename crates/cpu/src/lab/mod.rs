//! Experiments: what a way of going through memory or code costs on this machine, with a control that isolates the
//! cause, and checks that the effect was there to be seen.
//!
//! All cases of an experiment take turns, round by round, and ratios are of the same round: a machine that is busy
//! for a while is so for all of them.
//!
//! # Layout
//! - `experiment`: experiments and their outcomes; `rounds`: their cases, in turns; one file for each experiment
//! - this file: the list of them

mod alive;
mod branches;
mod calls;
mod code;
mod experiment;
mod pgo;
mod rounds;
mod rows;
mod sharing;
mod stride;

pub use experiment::{Case, Check, Effect, Experiment, Outcome};

/// All of them, in the order of the essay that they are from.
pub const EXPERIMENTS: [Experiment; 8] = [
    rows::EXPERIMENT,
    sharing::EXPERIMENT,
    alive::EXPERIMENT,
    calls::EXPERIMENT,
    branches::EXPERIMENT,
    code::EXPERIMENT,
    stride::EXPERIMENT,
    pgo::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_experiment_is_named_and_explained() {
        let names: HashSet<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len(), "no name twice");
        for one in EXPERIMENTS {
            assert!(
                !one.why.contains('\n') && one.why.len() > 40,
                "{}: a line on why",
                one.name
            );
            assert!(one.advice.len() > 40, "{}: a line on what to do", one.name);
        }
    }
}
