//! Two threads that count: in the same line, apart, in a variable of their own, on one CPU.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cachewise_sys::start_thread_in;

use super::experiment::{Case, Check, Effect, Experiment, Outcome};
use super::rounds::{seen, spread};
use crate::measure::budget::cpu_time;
use crate::measure::pin::{Pinned, allowed};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sharing",
    about: "two threads that count, each its own counter, in one line or apart",
    why: "A line belongs to one core at a time for writing. Two counters in one line make it go to and fro at every step, though no thread ever reads the other's.",
    advice: "Count in a local variable and write it out once; else give each thread's counter lines of its own (crossbeam's CachePadded, alignas(128)); perf c2c finds it where there are hardware counters.",
    run,
};

/// Samples of each case; many do not count on a busy machine.
const SAMPLES: usize = 120;

/// With fewer that count there is no figure.
const FEWEST: usize = 8;

/// A thread was on its CPU for so much of the sample, and both at the same time for so much.
const RAN: f64 = 0.95;
const OVERLAP: f64 = 0.7;

/// Maximum time of the experiment on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(12);

/// Counters at any distance, the first at the beginning of a line.
#[repr(C, align(128))]
struct Counters([AtomicU64; 64]);

/// How a step is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Increment {
    /// A load, an addition and a store, as compilers make of `+= 1` on what they may not keep in a register.
    Plain,
    /// One atomic operation.
    Locked,
    /// In a local variable, written out at the end.
    Local,
}

struct SharingVariant {
    name: &'static str,
    step: Increment,
    /// Steps in a sample: some tenths of a millisecond, so that threads overlap though they do not start at once,
    /// and most samples are not interrupted.
    steps: u64,
    /// From one counter to the other, in words.
    apart: usize,
    one_cpu: bool,
    is_control: bool,
}

const fn variant(name: &'static str, step: Increment, steps: u64, apart: usize) -> SharingVariant {
    SharingVariant {
        name,
        step,
        steps,
        apart,
        one_cpu: false,
        is_control: false,
    }
}

const VARIANTS: [SharingVariant; 7] = [
    variant("same line", Increment::Plain, 150_000, 1),
    variant("64 bytes apart", Increment::Plain, 600_000, 8),
    variant("128 bytes apart", Increment::Plain, 600_000, 16),
    variant("same line, locked", Increment::Locked, 20_000, 1),
    variant("64 bytes apart, locked", Increment::Locked, 100_000, 8),
    variant("local variable", Increment::Local, 600_000, 1),
    SharingVariant {
        one_cpu: true,
        is_control: true,
        ..variant(
            "same line, both threads on one CPU",
            Increment::Plain,
            150_000,
            1,
        )
    },
];

/// Result of a thread in a sample.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    begin: Instant,
    end: Instant,
    cpu: Duration,
}

/// The same number, of which the compiler knows nothing: it neither adds at one go nor goes through memory.
#[inline(always)]
fn kept(mut number: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {number} */", number = inout(reg) number, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        number = std::hint::black_box(number);
    }
    number
}

#[inline(never)]
fn count(counter: &AtomicU64, step: Increment, steps: u64) {
    match step {
        Increment::Plain => {
            for _ in 0..steps {
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
        Increment::Locked => {
            for _ in 0..steps {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        Increment::Local => {
            let mut own = 0u64;
            for _ in 0..steps {
                own = kept(own + 1);
            }
            counter.fetch_add(own, Ordering::Relaxed);
        }
    }
}

/// Two threads meet here before each sample; they let others run while they wait.
struct Meeting(AtomicUsize);

impl Meeting {
    fn wait(&self, time: usize) {
        self.0.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0u32;
        while self.0.load(Ordering::Acquire) < 2 * (time + 1) {
            looks += 1;
            match looks % 1000 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// Samples of both threads.
fn samples(
    way: &SharingVariant,
    cpus: [u32; 2],
    samples: usize,
) -> Result<Vec<[Stretch; 2]>, String> {
    let counters = Counters([const { AtomicU64::new(0) }; 64]);
    let meeting = Meeting(AtomicUsize::new(0));
    let thread = |place: usize| -> Result<Vec<Stretch>, String> {
        let cpu = if way.one_cpu { cpus[0] } else { cpus[place] };
        let pinned = Pinned::to(cpu).map_err(|error| error.to_string());
        let counter = &counters.0[place * way.apart];
        let mut stretches = Vec::with_capacity(samples);
        for sample in 0..samples {
            meeting.wait(sample);
            let (begin, before) = (Instant::now(), cpu_time());
            count(counter, way.step, way.steps);
            let (cpu, end) = (cpu_time().saturating_sub(before), Instant::now());
            stretches.push(Stretch { begin, end, cpu });
        }
        pinned.map(|_| stretches)
    };
    let (first, second) = std::thread::scope(|scope| {
        let other =
            start_thread_in(scope, "count", || thread(1)).map_err(|error| error.to_string())?;
        Ok::<_, String>((thread(0), other.join()))
    })?;
    let second = second.map_err(|_| "a counting thread panicked".to_owned())??;
    let total: u64 = counters
        .0
        .iter()
        .map(|counter| counter.load(Ordering::Relaxed))
        .sum();
    if total != 2 * way.steps * samples as u64 {
        return Err(format!(
            "{}: {total} steps were counted, not all: a store got lost",
            way.name
        ));
    }
    Ok(first?
        .into_iter()
        .zip(second)
        .map(|(one, other)| [one, other])
        .collect())
}

/// Whether both threads ran, and at the same time.
fn counts(pair: &[Stretch; 2]) -> bool {
    let [one, other] = pair;
    let wall = |stretch: &Stretch| stretch.end.duration_since(stretch.begin).as_secs_f64();
    let ran = pair
        .iter()
        .all(|stretch| stretch.cpu.as_secs_f64() >= RAN * wall(stretch));
    let both = one
        .end
        .min(other.end)
        .saturating_duration_since(one.begin.max(other.begin));
    let longest = wall(one).max(wall(other));
    ran && both.as_secs_f64() >= OVERLAP * longest
}

/// Nanoseconds of CPU time for a step.
fn step_ns(pair: &[Stretch; 2], steps: u64) -> f64 {
    let cpu: Duration = pair.iter().map(|stretch| stretch.cpu).sum();
    cpu.as_secs_f64() * 1e9 / (2 * steps) as f64
}

fn run() -> Result<Outcome, String> {
    let cpus = allowed().map_err(|error| error.to_string())?;
    let (Some(one), Some(other)) = (cpus.first(), cpus.iter().nth(1)) else {
        return Err(format!(
            "two CPUs are needed, and this process may use only CPU {cpus}"
        ));
    };
    const ROUNDS: usize = 4;
    let begin = Instant::now();
    let mut figures: Vec<Vec<f64>> = vec![Vec::new(); VARIANTS.len()];
    let mut taken = 0;
    for round in 0..ROUNDS {
        if round > 0 && begin.elapsed() > TIME_LIMIT {
            break;
        }
        for (way, figures) in VARIANTS.iter().zip(&mut figures) {
            let samples = samples(way, [one, other], SAMPLES / ROUNDS)?;
            // On one CPU they never run at the same time: that is the control.
            let good = samples.iter().filter(|pair| way.one_cpu || counts(pair));
            figures.extend(good.map(|pair| step_ns(pair, way.steps)));
        }
        taken += SAMPLES / ROUNDS;
    }
    let case = |(way, figures): (&SharingVariant, &Vec<f64>)| {
        let enough = figures.len() >= FEWEST;
        Some(Case {
            name: way.name.into(),
            ns: spread(figures).filter(|_| enough)?,
            unit: "step",
            is_control: way.is_control,
        })
    };
    let cases: Vec<Case> = VARIANTS.iter().zip(&figures).filter_map(case).collect();
    let ratio = |name: &str, above: &str, below: &str| {
        let of = |name: &str| {
            cases
                .iter()
                .find(|case| case.name == name)
                .map(|case| case.ns)
        };
        let (above, below) = (of(above)?, of(below)?);
        Some(Effect {
            name: name.into(),
            // Different samples: the range is the widest that both allow.
            ratio: crate::measure::estimate::Estimate {
                value: above.value / below.value,
                low: above.low / below.high,
                high: above.high / below.low,
            },
            is_control: name.contains("one CPU") || name.contains("128"),
        })
    };
    let effects: Vec<Effect> = [
        ratio(
            "same line against 64 bytes apart, locked",
            "same line, locked",
            "64 bytes apart, locked",
        ),
        ratio(
            "same line against 64 bytes apart",
            "same line",
            "64 bytes apart",
        ),
        ratio(
            "same line against a local variable",
            "same line",
            "local variable",
        ),
        ratio(
            "64 against 128 bytes apart",
            "64 bytes apart",
            "128 bytes apart",
        ),
        ratio(
            "same line on one CPU against 64 bytes apart on two",
            "same line, both threads on one CPU",
            "64 bytes apart",
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    let few: Vec<String> = VARIANTS
        .iter()
        .zip(&figures)
        .filter(|(_, figures)| figures.len() < FEWEST)
        .map(|(way, figures)| format!("{} ({} of {taken})", way.name, figures.len()))
        .collect();
    let overlap = Check {
        holds: few.is_empty(),
        what: match few.is_empty() {
            true => format!(
                "both threads ran at the same time in at least {FEWEST} of {taken} samples of each case"
            ),
            false => format!(
                "both threads hardly ever ran at the same time, as others use the CPUs: {}",
                few.join(", ")
            ),
        },
    };
    let effect = match effects
        .first()
        .is_some_and(|effect| effect.name.ends_with("locked"))
    {
        true => vec![seen(&effects, 0, 1.5, "do these two CPUs share a core?")],
        false => Vec::new(),
    };
    Ok(Outcome {
        not_tried: Vec::new(),
        checks: [vec![overlap], effect].concat(),
        cases,
        effects,
    })
}
