//! Blocks of work, timed in pairs with the probe and without.

use std::time::{Duration, Instant};

use cachewise_model::Counter;

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
}

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
    });
    let load_before = load();
    let before = Machine::now()?;
    for round in 0..rounds {
        let mut previous = block(work, operations, Variant::Off, false)?;
        off.push(previous);
        for place in 0..VARIANTS.len() {
            let ratios = &mut ratios[(place + round) % VARIANTS.len()];
            let on = block(work, operations, ratios.variant, round == 0)?;
            let next = block(work, operations, Variant::Off, false)?;
            ratios.cpu.push(2.0 * on.cpu / (previous.cpu + next.cpu));
            ratios
                .wall
                .push(2.0 * on.wall / (previous.wall + next.wall));
            off.push(next);
            previous = next;
        }
    }
    let (others, stolen) = Machine::now()?.since(&before);
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

/// One block. `check`: ask the probe afterwards whether it saw it.
fn block(
    work: &mut dyn Work,
    operations: Option<u64>,
    variant: Variant,
    check: bool,
) -> Outcome<Sample> {
    work.reset()?;
    let mut attached = variant.attach(work.clock())?;
    std::thread::sleep(PAUSE);
    if work.warms_up() {
        work.run(operations.map(|count| (count / 10).max(1)))?;
    }
    let (sample, done) = timed(work, operations)?;
    match &mut attached {
        Attached::Probe(probe) if check => {
            let seen = probe.snapshot()?.total;
            let pages = seen[Counter::ReadRequestedPages] + seen[Counter::FaultRequests];
            let expected = work.pages(done);
            if pages < expected {
                return Err(format!(
                    "{}: {pages} pages counted of {expected} read",
                    variant.name()
                )
                .into());
            }
        }
        Attached::Nothing | Attached::Empty { .. } | Attached::Probe(_) => {}
    }
    let was_on = !matches!(attached, Attached::Nothing);
    drop(attached);
    if was_on {
        std::thread::sleep(PAUSE);
    }
    Ok(sample)
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
