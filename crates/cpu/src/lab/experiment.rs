//! [`Experiment`] and its [`Outcome`].

use crate::measure::estimate::{Estimate, Trust};

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its subject, in one line.
    pub about: &'static str,
    /// Why it is so.
    pub why: &'static str,
    /// Advice for the user's own code.
    pub advice: &'static str,
    pub(super) run: fn() -> Result<Outcome, String>,
}

/// Result of an experiment.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The time of each case.
    pub cases: Vec<Case>,
    /// How cases compare.
    pub effects: Vec<Effect>,
    /// Whether it was what it should be.
    pub checks: Vec<Check>,
    /// Parts that could not be done here, and why.
    pub not_tried: Vec<String>,
}

/// One way of doing it.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Nanoseconds for one of what is counted.
    pub ns: Estimate,
    /// The counted unit: `element`, `call`.
    pub unit: &'static str,
    /// Whether it is there to isolate the cause.
    pub is_control: bool,
}

/// One case against another.
#[derive(Debug, Clone)]
pub struct Effect {
    /// Its name.
    pub name: String,
    /// Time of the first case over that of the second, in the same round.
    pub ratio: Estimate,
    /// Whether it separates the cause from others.
    pub is_control: bool,
}

/// Something that must be so if the figures are to mean what they say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Whether it is.
    pub holds: bool,
    /// The checked condition.
    pub what: String,
}

impl Experiment {
    /// Does it.
    ///
    /// # Errors
    /// Why it cannot be done here.
    pub fn run(&self) -> Result<Outcome, String> {
        (self.run)()
    }
}

impl Effect {
    /// How far it can be trusted.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.ratio.trust()
    }
}
