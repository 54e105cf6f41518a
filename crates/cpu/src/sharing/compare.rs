//! CPU time of a program on one CPU and on all, with its own heap and a padded one.
//!
//! Threads on one CPU never run at the same time, so no line moves between caches: the additional
//! cost on all CPUs is the interference of the threads. Padding the heap removes one cause of it,
//! and no other: a saving on all CPUs but not on one was false sharing between heap objects. Runs
//! are compared only within a round, because the load of a machine changes; the output has the
//! median round, with the quartiles.

use std::time::Duration;

use super::proofs::{Answer, ONE_CPU, PADDED_HEAP, Proof};
use crate::measure::estimate::{Estimate, quantile};

/// On which CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cpus {
    /// On one.
    One,
    /// On all that it may use.
    All,
}

/// With which heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heap {
    /// As the program has it.
    Plain,
    /// Each object in lines of its own.
    Padded,
}

/// One way to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arm {
    /// Where.
    pub cpus: Cpus,
    /// How.
    pub heap: Heap,
}

impl Arm {
    /// All of them.
    pub const ALL: [Arm; 4] = [
        Arm::new(Cpus::One, Heap::Plain),
        Arm::new(Cpus::All, Heap::Plain),
        Arm::new(Cpus::One, Heap::Padded),
        Arm::new(Cpus::All, Heap::Padded),
    ];

    const fn new(cpus: Cpus, heap: Heap) -> Arm {
        Arm { cpus, heap }
    }
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// CPU time of all its threads, and of what it started.
    pub cpu: Duration,
    /// From its start to its end.
    pub wall: Duration,
    /// How many CPUs others kept busy meanwhile; nothing where that is not known.
    pub others: Option<f64>,
}

impl Run {
    /// How many CPUs it had at the same time, on average.
    #[must_use]
    pub fn at_once(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// A run of each arm that there is.
#[derive(Debug, Clone, Default)]
pub struct Round(Vec<(Arm, Run)>);

impl Round {
    /// Adds a run.
    pub fn add(&mut self, arm: Arm, run: Run) {
        self.0.push((arm, run));
    }

    fn cpu(&self, cpus: Cpus, heap: Heap) -> Option<f64> {
        let wanted = Arm { cpus, heap };
        let (_, run) = self.0.iter().find(|(arm, _)| *arm == wanted)?;
        Some(run.cpu.as_secs_f64()).filter(|cpu| *cpu > 0.0)
    }
}

/// Rounds that are compared.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// In the order in which they ran.
    pub rounds: Vec<Round>,
    /// How many CPUs there are for all of them.
    pub cpus: usize,
    /// Whether all of those are threads of one core.
    pub is_one_core: bool,
    /// Whether the program asked the heap that is padded for so little that its own objects may be elsewhere.
    pub asks_little: bool,
}

/// Fewer rounds say nothing.
const FEWEST: usize = 3;

/// A ratio counts if a quarter of the rounds at most is below this.
pub(super) const MATTERS: f64 = 1.2;

const DISAGREE: &str = "rounds do not agree";

/// Fewer CPUs at once than this are one thread after the other.
const AT_ONCE: f64 = 1.2;

/// So much of a CPU used by others is not alone, if together they fill so much of what there is.
const ALONE: f64 = 0.4;
const FULL: f64 = 0.75;

/// Shorter runs are mostly starting and ending, and the clock of CPU time is coarse.
const SHORTEST: Duration = Duration::from_millis(20);

impl Comparison {
    /// Figures of an arm: its CPU time and its wall time in seconds, and how many CPUs it had at once.
    #[must_use]
    pub fn figures_of(&self, arm: Arm) -> Option<[Estimate; 3]> {
        let runs = self.runs(arm);
        let of = |figure: fn(&Run) -> f64| spread(&runs.iter().map(figure).collect::<Vec<f64>>());
        Some([
            of(|run| run.cpu.as_secs_f64())?,
            of(|run| run.wall.as_secs_f64())?,
            of(Run::at_once)?,
        ])
    }

    fn runs(&self, arm: Arm) -> Vec<Run> {
        let runs = self.rounds.iter().flat_map(|round| &round.0);
        runs.filter(|(of, _)| *of == arm)
            .map(|(_, run)| *run)
            .collect()
    }

    fn ratio(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<Estimate> {
        spread(&self.rounds.iter().filter_map(of).collect::<Vec<f64>>())
    }

    /// How many times the CPU time it takes on all CPUs that it takes on one.
    #[must_use]
    pub fn together(&self) -> Option<Estimate> {
        self.ratio(|round| {
            Some(round.cpu(Cpus::All, Heap::Plain)? / round.cpu(Cpus::One, Heap::Plain)?)
        })
    }

    /// How many times the CPU time it takes plain that it takes padded, on these CPUs.
    #[must_use]
    pub fn padded(&self, cpus: Cpus) -> Option<Estimate> {
        self.ratio(|round| Some(round.cpu(cpus, Heap::Plain)? / round.cpu(cpus, Heap::Padded)?))
    }

    /// Returns the saving by padding on all CPUs beyond that on one.
    #[must_use]
    pub fn saved(&self) -> Option<Estimate> {
        self.ratio(|round| {
            let of = |cpus| Some(round.cpu(cpus, Heap::Plain)? / round.cpu(cpus, Heap::Padded)?);
            Some(of(Cpus::All)? / of(Cpus::One)?)
        })
    }

    /// Reason why these runs prove nothing, whatever the ratios are.
    fn unusable(&self) -> Option<String> {
        let plain = |cpus| Arm::new(cpus, Heap::Plain);
        if self.rounds.len() < FEWEST {
            return Some(format!(
                "{} rounds are too few: --rounds {FEWEST} or more",
                self.rounds.len()
            ));
        }
        let [cpu, ..] = self.figures_of(plain(Cpus::One))?;
        if cpu.value < SHORTEST.as_secs_f64() {
            return Some(format!(
                "a run takes {:.0} ms of CPU time, too short to compare: give it at least {} ms of work",
                cpu.value * 1e3,
                SHORTEST.as_millis()
            ));
        }
        let [.., at_once] = self.figures_of(plain(Cpus::One))?;
        (at_once.value > AT_ONCE).then(|| {
            format!(
                "it used {:.1} CPUs at once instead of one: it sets its CPU affinity itself, so there is no control",
                at_once.value
            )
        })
    }

    /// Reason why the absence of an effect proves nothing: no line could move between cores, or other programs used the
    /// CPUs, so that threads hardly ran at the same time.
    fn blind(&self) -> Option<String> {
        if self.is_one_core {
            return Some(
                "its CPUs are threads of one core and share the first-level cache: a line does not move between them"
                    .into(),
            );
        }
        self.crowded(Heap::Plain)
    }

    /// Reason why runs on all CPUs may be cheap only because other programs used the CPUs.
    fn crowded(&self, heap: Heap) -> Option<String> {
        let runs = self.runs(Arm::new(Cpus::All, heap));
        let at_once = quantile(&runs.iter().map(Run::at_once).collect::<Vec<f64>>(), 0.5)?;
        let threads = match heap {
            Heap::Plain => "its threads",
            Heap::Padded => "with a padded heap its threads",
        };
        let others: Vec<f64> = runs.iter().filter_map(|run| run.others).collect();
        match quantile(&others, 0.5) {
            Some(others) => {
                let is_full = at_once + others > FULL * self.cpus as f64;
                (others > ALONE && is_full).then(|| {
                    format!(
                        "{threads} had {at_once:.1} CPUs at once, as other programs used {others:.1} of {}: try again \
                         on a quiet machine",
                        self.cpus
                    )
                })
            }
            None => (at_once < AT_ONCE).then(|| {
                format!(
                    "{threads} had {at_once:.1} CPUs at once, and the use of the other CPUs is unknown"
                )
            }),
        }
    }

    /// Compares one CPU with all: whether threads interfere at all. It cannot tell the cause.
    #[must_use]
    pub fn one_cpu(&self) -> Proof {
        let ratio = self.together();
        let (answer, says) = match (self.unusable(), ratio) {
            (Some(reason), _) => (Answer::Unknown, reason),
            (None, None) => (Answer::Unknown, "there were no runs".into()),
            (None, Some(ratio)) if ratio.low >= MATTERS => (
                Answer::Unknown,
                "running at the same time costs: by sharing, false or true, or by locks, memory or a shared core"
                    .into(),
            ),
            (None, Some(ratio)) if is_same(ratio) => match self.blind() {
                Some(reason) => (Answer::Unknown, reason),
                None => (Answer::NotFound, "running at the same time costs nothing".into()),
            },
            (None, Some(ratio)) if ratio.high < MATTERS => (
                Answer::Unknown,
                "on one CPU it costs more than on all, as where threads wait busily or one cache is too small for \
                 all: that may hide what they cost each other"
                    .into(),
            ),
            (None, Some(_)) => (Answer::Unknown, DISAGREE.into()),
        };
        Proof {
            name: ONE_CPU,
            answer,
            ratio,
            says,
        }
    }

    /// Padded against plain: whether heap objects share lines, and what that costs. A padded heap is also larger,
    /// which may cost more on one CPU than on all or the other way round: so found is only what really got cheaper.
    #[must_use]
    pub fn padded_heap(&self) -> Proof {
        let ratio = self.saved();
        let is_cheaper = self
            .padded(Cpus::All)
            .is_some_and(|on_all| on_all.low >= MATTERS);
        let (answer, says) = match (self.unusable(), ratio) {
            (Some(reason), _) => (Answer::Unknown, reason),
            (None, None) => (Answer::Unknown, "there were no padded runs".into()),
            (None, Some(ratio)) if ratio.low >= MATTERS && is_cheaper => {
                match self.crowded(Heap::Padded) {
                    Some(reason) => (Answer::Unknown, reason),
                    None => (
                        Answer::Found,
                        "heap objects of different threads share lines: apart from each other they cost less, on one \
                         CPU they do not"
                            .into(),
                    ),
                }
            }
            (None, Some(ratio)) if is_same(ratio) => match self.blind() {
                Some(reason) => (Answer::Unknown, reason),
                None if self.asks_little => (
                    Answer::Unknown,
                    "it costs the same, but fewer than 1,000 blocks were allocated by the C library: if a program \
                     has a heap of its own, nothing of that was padded"
                        .into(),
                ),
                None => (Answer::NotFound, "heap objects apart from each other cost the same".into()),
            },
            (None, Some(ratio)) if ratio.low >= MATTERS => (
                Answer::Unknown,
                "padding costs more on one CPU than on all, and saves too little there to show a cause".into(),
            ),
            (None, Some(ratio)) if ratio.high < MATTERS => (
                Answer::Unknown,
                "padding costs more on all CPUs than on one: that may hide what it saves".into(),
            ),
            (None, Some(_)) => (Answer::Unknown, DISAGREE.into()),
        };
        Proof {
            name: PADDED_HEAP,
            answer,
            ratio,
            says,
        }
    }
}

/// Whether a ratio says that there is no difference that counts, either way.
fn is_same(ratio: Estimate) -> bool {
    ratio.high < MATTERS && ratio.low > 1.0 / MATTERS
}

/// The middle, and the quarters below and above.
fn spread(figures: &[f64]) -> Option<Estimate> {
    Some(Estimate {
        value: quantile(figures, 0.5)?,
        low: quantile(figures, 0.25)?,
        high: quantile(figures, 0.75)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of these CPU times in seconds, in the order of `Arm::ALL`; on all CPUs it has `at_once` of them.
    fn rounds(times: &[[f64; 4]], at_once: f64, others: f64) -> Comparison {
        let round = |times: &[f64; 4]| {
            let mut round = Round::default();
            for (arm, cpu) in Arm::ALL.into_iter().zip(times) {
                let at_once = if arm.cpus == Cpus::One { 1.0 } else { at_once };
                round.add(
                    arm,
                    Run {
                        cpu: Duration::from_secs_f64(*cpu),
                        wall: Duration::from_secs_f64(cpu / at_once),
                        others: Some(others),
                    },
                );
            }
            round
        };
        Comparison {
            rounds: times.iter().map(round).collect(),
            cpus: 2,
            is_one_core: false,
            asks_little: false,
        }
    }

    fn answers(comparison: &Comparison) -> (Answer, Answer) {
        (comparison.one_cpu().answer, comparison.padded_heap().answer)
    }

    #[test]
    fn saving_only_on_all_cpus_is_false_sharing() {
        let shared = rounds(
            &[
                [1.0, 3.0, 1.0, 1.0],
                [1.0, 2.5, 1.0, 1.1],
                [1.1, 4.0, 1.0, 1.0],
            ],
            2.0,
            0.0,
        );
        assert_eq!(
            answers(&shared),
            (Answer::Unknown, Answer::Found),
            "{shared:?}"
        );
        let ratio = shared.together().unwrap();
        assert!((2.5..4.0).contains(&ratio.value), "{ratio:?}");
    }

    #[test]
    fn saving_of_crowded_threads_is_not_false_sharing() {
        let mut crowded = rounds(&[[1.0, 3.0, 1.0, 1.0]; 4], 2.0, 0.0);
        let padded = Arm::new(Cpus::All, Heap::Padded);
        for (arm, run) in crowded.rounds.iter_mut().flat_map(|round| &mut round.0) {
            if *arm == padded {
                run.wall = run.cpu;
                run.others = Some(0.9);
            }
        }
        let proof = crowded.padded_heap();
        assert_eq!(
            proof.answer,
            Answer::Unknown,
            "other programs had one of the two CPUs: {proof:?}"
        );
        assert!(
            proof.says.contains("with a padded heap"),
            "the reason names those runs: {proof:?}"
        );
    }

    #[test]
    fn saving_on_one_cpu_too_is_not_false_sharing() {
        let faster = rounds(&[[2.0, 2.0, 1.0, 1.0]; 4], 2.0, 0.0);
        assert_eq!(
            answers(&faster),
            (Answer::NotFound, Answer::NotFound),
            "a better allocator"
        );
    }

    #[test]
    fn sharing_that_padding_does_not_mend_is_not_said_to_be_false() {
        let one = rounds(&[[1.0, 3.0, 1.0, 3.1]; 4], 2.0, 0.0);
        assert_eq!(
            answers(&one),
            (Answer::Unknown, Answer::NotFound),
            "one counter for all"
        );
        assert!(
            one.one_cpu().says.contains("costs"),
            "but that it costs is said"
        );
    }

    #[test]
    fn cost_of_padding_makes_the_answer_unknown() {
        // It saves nothing on all CPUs: it costs on one.
        let dear = rounds(&[[1.0, 1.0, 1.5, 1.0]; 4], 2.0, 0.0);
        assert_eq!(dear.padded_heap().answer, Answer::Unknown, "{dear:?}");
        // It saves on all CPUs, though it costs on one.
        let both = rounds(&[[1.0, 3.0, 1.2, 1.3]; 4], 2.0, 0.0);
        assert_eq!(both.padded_heap().answer, Answer::Found, "{both:?}");
        // It costs on all CPUs only.
        let hidden = rounds(&[[1.0, 1.0, 1.0, 1.5]; 4], 2.0, 0.0);
        assert_eq!(hidden.padded_heap().answer, Answer::Unknown, "{hidden:?}");
    }

    #[test]
    fn higher_cost_on_one_cpu_is_no_control() {
        let spins = rounds(&[[3.0, 1.0, 3.0, 1.0]; 4], 2.0, 0.0);
        assert_eq!(spins.one_cpu().answer, Answer::Unknown, "{spins:?}");
    }

    #[test]
    fn threads_of_one_core_show_nothing() {
        let mut same = rounds(&[[1.0; 4]; 4], 2.0, 0.0);
        same.asks_little = true;
        assert_eq!(
            same.padded_heap().answer,
            Answer::Unknown,
            "it may have a heap of its own"
        );
        same.is_one_core = true;
        assert_eq!(
            answers(&same),
            (Answer::Unknown, Answer::Unknown),
            "{same:?}"
        );
        assert!(
            same.padded_heap().says.contains("one core"),
            "which is said: {same:?}"
        );
    }

    #[test]
    fn unusable_runs_give_no_answer() {
        let same = [1.0; 4];
        let crowded = rounds(&[same; 4], 1.0, 1.5);
        assert_eq!(
            answers(&crowded),
            (Answer::Unknown, Answer::Unknown),
            "others had the CPUs"
        );
        assert!(
            crowded.padded_heap().says.contains("other programs"),
            "which is said"
        );
        let half = rounds(&[same; 4], 1.3, 0.7);
        assert_eq!(
            answers(&half),
            (Answer::Unknown, Answer::Unknown),
            "most of the time others had one of the two"
        );
        let alone = rounds(&[same; 4], 1.0, 0.0);
        assert_eq!(
            answers(&alone),
            (Answer::NotFound, Answer::NotFound),
            "one thread"
        );
        let few = rounds(&[same; 2], 2.0, 0.0);
        assert_eq!(
            answers(&few),
            (Answer::Unknown, Answer::Unknown),
            "too few rounds"
        );
        let short = rounds(&[[0.001; 4]; 4], 2.0, 0.0);
        assert_eq!(
            answers(&short),
            (Answer::Unknown, Answer::Unknown),
            "too short"
        );
        let wild = rounds(
            &[
                [1.0, 1.0, 1.0, 1.0],
                [1.0, 3.0, 1.0, 1.0],
                [1.0, 1.0, 1.0, 2.0],
            ],
            2.0,
            0.0,
        );
        assert_eq!(
            wild.padded_heap().answer,
            Answer::Unknown,
            "rounds do not agree"
        );
        let mut pinned = rounds(&[[1.0, 3.0, 1.0, 1.0]; 4], 2.0, 0.0);
        for round in &mut pinned.rounds {
            for (_, run) in &mut round.0 {
                run.wall = run.cpu / 2;
            }
        }
        assert_eq!(
            answers(&pinned),
            (Answer::Unknown, Answer::Unknown),
            "no control"
        );
        assert_eq!(
            answers(&Comparison::default()),
            (Answer::Unknown, Answer::Unknown),
            "none"
        );
    }
}
