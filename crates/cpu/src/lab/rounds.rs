//! Cases that take turns, round by round.

use super::experiment::{Case, Check, Effect};
use crate::measure::estimate::{Estimate, quantile};

/// A case that takes turns with others; it returns the nanoseconds for one of its unit.
struct Turn<'a> {
    name: String,
    is_control: bool,
    go: Box<dyn FnMut() -> f64 + 'a>,
}

/// Cases that take turns.
pub(super) struct Rounds<'a> {
    unit: &'static str,
    turns: Vec<Turn<'a>>,
    figures: Vec<Vec<f64>>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(unit: &'static str) -> Rounds<'a> {
        Rounds {
            unit,
            turns: Vec::new(),
            figures: Vec::new(),
        }
    }

    pub(super) fn case(&mut self, name: impl Into<String>, go: impl FnMut() -> f64 + 'a) {
        self.add(name, false, go);
    }

    pub(super) fn control(&mut self, name: impl Into<String>, go: impl FnMut() -> f64 + 'a) {
        self.add(name, true, go);
    }

    pub(super) fn add(
        &mut self,
        name: impl Into<String>,
        is_control: bool,
        go: impl FnMut() -> f64 + 'a,
    ) {
        self.turns.push(Turn {
            name: name.into(),
            is_control,
            go: Box::new(go),
        });
        self.figures.push(Vec::new());
    }

    /// Runs this number of rounds, after a first one that is discarded: its memory is new to the
    /// process.
    pub(super) fn run(&mut self, rounds: usize) {
        for round in 0..=rounds {
            for (turn, figures) in self.turns.iter_mut().zip(&mut self.figures) {
                let ns = (turn.go)();
                if round > 0 {
                    figures.push(ns);
                }
            }
        }
    }

    pub(super) fn cases(&self) -> Vec<Case> {
        let cases = self.turns.iter().zip(&self.figures);
        let case = |(turn, figures): (&Turn<'_>, &Vec<f64>)| {
            Some(Case {
                name: turn.name.clone(),
                ns: spread(figures)?,
                unit: self.unit,
                is_control: turn.is_control,
            })
        };
        cases.filter_map(case).collect()
    }

    /// How many times as long one case takes as another, by their places.
    pub(super) fn ratio(
        &self,
        name: impl Into<String>,
        above: usize,
        below: usize,
    ) -> Option<Effect> {
        let pairs = self
            .figures
            .get(above)?
            .iter()
            .zip(self.figures.get(below)?);
        let ratios: Vec<f64> = pairs.map(|(above, below)| above / below).collect();
        Some(Effect {
            name: name.into(),
            ratio: spread(&ratios)?,
            is_control: self.turns.get(above)?.is_control || self.turns.get(below)?.is_control,
        })
    }
}

/// The median, and the quarters below and above it: what was interrupted is in neither.
pub(super) fn spread(figures: &[f64]) -> Option<Estimate> {
    let known: Vec<f64> = figures
        .iter()
        .copied()
        .filter(|figure| figure.is_finite())
        .collect();
    Some(Estimate {
        value: quantile(&known, 0.5)?,
        low: quantile(&known, 0.25)?,
        high: quantile(&known, 0.75)?,
    })
}

/// The effect that an experiment is about, seen or not: what to say if it was not.
pub(super) fn seen(effects: &[Effect], place: usize, least: f64, otherwise: &str) -> Check {
    let ratio = effects
        .get(place)
        .map_or(f64::NAN, |effect| effect.ratio.value);
    let holds = ratio >= least;
    let what = match holds {
        true => format!("the effect is there: {ratio:.1} times, at least {least} were expected"),
        false => format!(
            "the effect is not there ({ratio:.1} times, {least} were expected): {otherwise}"
        ),
    };
    Check { holds, what }
}

/// Nanoseconds that `go` takes for each of `count`.
pub(super) fn timed<T>(count: usize, go: impl FnOnce() -> T) -> f64 {
    let begin = std::time::Instant::now();
    std::hint::black_box(go());
    begin.elapsed().as_secs_f64() * 1e9 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_take_turns_and_ratios_are_of_a_round() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut rounds = Rounds::new("thing");
        let mut slow = 1.0;
        rounds.case("a", || {
            order.borrow_mut().push('a');
            // The machine slows down from round to round, for both.
            slow *= 2.0;
            3.0 * slow
        });
        let mut slow = 1.0;
        rounds.control("b", || {
            order.borrow_mut().push('b');
            slow *= 2.0;
            slow
        });
        rounds.run(3);
        let ratio = rounds.ratio("a to b", 0, 1).unwrap();
        assert_eq!(
            (ratio.ratio.low, ratio.ratio.high),
            (3.0, 3.0),
            "the slowness is in both"
        );
        assert!(ratio.is_control, "one of them is");
        assert_eq!(rounds.cases().len(), 2, "each has a figure");
        drop(rounds);
        let order: String = order.borrow().iter().collect();
        assert_eq!(order, "abababab", "by turns, the first round to warm up");
    }

    #[test]
    fn an_effect_that_is_not_there_is_said() {
        let effect = |ratio: f64| Effect {
            name: "x".into(),
            ratio: Estimate::median_of(&[ratio]).unwrap(),
            is_control: false,
        };
        assert!(
            seen(&[effect(3.0)], 0, 2.0, "why").holds,
            "3 is more than 2"
        );
        let check = seen(&[effect(1.0)], 0, 2.0, "the compiler did it");
        assert!(
            !check.holds && check.what.contains("the compiler did it"),
            "{check:?}"
        );
        assert!(
            !seen(&[], 0, 2.0, "").holds,
            "what was not measured was not seen"
        );
    }
}
