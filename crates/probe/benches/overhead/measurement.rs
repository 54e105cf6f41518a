//! Blocks of work, timed in pairs with the probe and without.

use std::time::{Duration, Instant};

use cachewise_model::Counter;

use crate::clocked::Clocked;
use crate::machine::{Machine, load};
use crate::variant::{Attached, VARIANTS, Variant};
use crate::work::Work;
use crate::{Outcome, PAUSE};

/// Time of a block, per operation, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Sample {
    pub cpu: f64,
    pub wall: f64,
}

/// The ratios of one variant, a pair each round.
pub struct Ratios {
    pub variant: Variant,
    pub cpu: Vec<f64>,
    pub wall: Vec<f64>,
    /// Nanoseconds of the probe's programs in the kernel for each operation.
    pub kernel: Vec<f64>,
}

/// Blocks of each variant in which the kernel takes the time of the programs.
const CLOCKED: usize = 3;

pub struct Measurement {
    pub off: Vec<Sample>,
    pub ratios: Vec<Ratios>,
    pub others: f64,
    pub stolen: f64,
    pub load: (String, String),
}

pub fn measure(work: &mut dyn Work, rounds: usize, length: Duration) -> Outcome<Measurement> {
    work.prepare()?;
    let operations = calibrate(work, length)?;
    let mut off = Vec::new();
    let mut ratios = VARIANTS.map(|variant| Ratios {
        variant,
        cpu: Vec::new(),
        wall: Vec::new(),
        kernel: Vec::new(),
    });
    let load_before = load();
    let before = Machine::now()?;
    for round in 0..rounds {
        let (mut previous, _) = block(work, operations, Variant::Off, Beside::Nothing)?;
        off.push(previous);
        for place in 0..VARIANTS.len() {
            let ratios = &mut ratios[(place + round) % VARIANTS.len()];
            let check = if round == 0 {
                Beside::Check
            } else {
                Beside::Nothing
            };
            let (on, _) = block(work, operations, ratios.variant, check)?;
            let (next, _) = block(work, operations, Variant::Off, Beside::Nothing)?;
            ratios.cpu.push(2.0 * on.cpu / (previous.cpu + next.cpu));
            ratios
                .wall
                .push(2.0 * on.wall / (previous.wall + next.wall));
            off.push(next);
            previous = next;
        }
    }
    let (others, stolen) = Machine::now()?.since(&before);
    for _ in 0..CLOCKED.min(rounds) {
        for ratios in &mut ratios {
            let (_, kernel) = block(work, operations, ratios.variant, Beside::Clock)?;
            ratios.kernel.push(kernel);
        }
    }
    Ok(Measurement {
        off,
        ratios: ratios.into(),
        others,
        stolen,
        load: (load_before, load()),
    })
}

/// The number of operations that take about the time of a block; at most the number that exists.
fn calibrate(work: &mut dyn Work, block: Duration) -> Outcome<Option<u64>> {
    let Some(most) = work.operations() else {
        return Ok(None);
    };
    let (mut count, step) = (64, 16);
    loop {
        work.reset()?;
        let (sample, _) = timed(work, Some(count))?;
        let took = sample.wall * count as f64;
        if took >= block.as_nanos() as f64 / 2.0 || count >= most {
            let wanted = (block.as_nanos() as f64 / sample.wall) as u64;
            // Whole reads of 64 KiB, where an operation is a page of them.
            return Ok(Some((wanted.min(most) / step * step).max(step)));
        }
        count = (count * 2).min(most);
    }
}

/// Extra work of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Ask the probe afterwards whether it saw the work.
    Check,
    /// Take the time of the programs in the kernel.
    Clock,
}

/// One block; and the nanoseconds of the programs in the kernel for each operation, with [`Beside::Clock`].
fn block(
    work: &mut dyn Work,
    operations: Option<u64>,
    variant: Variant,
    beside: Beside,
) -> Outcome<(Sample, f64)> {
    work.reset()?;
    let mut attached = variant.attach(work.clock())?;
    std::thread::sleep(PAUSE);
    if work.warms_up() {
        work.run(operations.map(|count| (count / 10).max(1)))?;
    }
    let clocked = (beside == Beside::Clock).then(Clocked::start).transpose()?;
    let (sample, done) = timed(work, operations)?;
    let kernel = match &clocked {
        Some(clocked) => clocked.nanoseconds()? as f64 / done as f64,
        None => 0.0,
    };
    match &mut attached {
        Attached::Probe(probe) if beside == Beside::Check => {
            let seen = probe.snapshot()?.total;
            let pages = seen[Counter::ReadRequestedPages]
                + seen[Counter::WritePages]
                + seen[Counter::FaultRequests];
            let expected = work.pages(done);
            if pages < expected {
                return Err(
                    format!("{}: {pages} pages counted of {expected}", variant.name()).into(),
                );
            }
        }
        Attached::Nothing | Attached::Empty { .. } | Attached::Probe(_) => {}
    }
    let was_on = !matches!(attached, Attached::Nothing);
    drop(attached);
    if was_on {
        std::thread::sleep(PAUSE);
    }
    Ok((sample, kernel))
}

fn timed(work: &mut dyn Work, operations: Option<u64>) -> Outcome<(Sample, u64)> {
    let clock = work.clock();
    let (cpu, wall) = (clock.now(), Instant::now());
    let done = work.run(operations)?;
    let (wall, cpu) = (wall.elapsed(), clock.now() - cpu);
    let each = |time: Duration| time.as_nanos() as f64 / done as f64;
    Ok((
        Sample {
            cpu: each(cpu),
            wall: each(wall),
        },
        done,
    ))
}
