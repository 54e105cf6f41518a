//! A program's misses, counted by the hardware, and their lines by samples.

use std::ffi::OsString;
use std::fs;

use anyhow::{Context, Result, bail};
use cachewise_cpu::program::sampling::{Event, Samples, Sampling, Skid, Tally, Unit};
use cachewise_cpu::program::{CostLocation, Counters, NoCounter, Rate, sum};
use cachewise_kstat::Kernel;
use cachewise_sys::allow_open_files;
use cachewise_units::{Period, Ratio};

use super::{How, Lines, Usage, course, no_debug_note, notes_of};
use crate::commands::arguments::CpuRun;
use crate::commands::line_of;
use cachewise_cli::child;

/// Those that need no hardware, for who has none.
pub const BY_KERNEL: &str = "--sample page-faults and --sample cpu-clock need no hardware";

/// Opens sampling of the requested event, else of the first event of data misses that this machine offers. The inner
/// error is the reason if there is none.
fn sampling(
    asked: Option<&'static Event>,
    begin: impl Fn(&'static Event) -> Result<Sampling, NoCounter>,
) -> Result<Result<Sampling, String>> {
    if let Some(event) = asked {
        return match begin(event) {
            Ok(sampling) => Ok(Ok(sampling)),
            Err(reason) if event.is_software() => {
                bail!("{} cannot be sampled: {reason}", event.name)
            }
            Err(reason) => bail!("{} cannot be sampled: {reason}; {BY_KERNEL}", event.name),
        };
    }
    let mut why = String::new();
    for event in Event::of_data() {
        match begin(event) {
            Ok(sampling) => return Ok(Ok(sampling)),
            Err(reason) => {
                why = format!("no lines, as {} cannot be sampled: {reason}", event.name);
            }
        }
    }
    Ok(Err(why))
}

/// Runs a command to its end.
pub fn counted(arguments: &CpuRun, counters: &mut Counters) -> Result<Usage> {
    let sampling = sampling(arguments.sample, |event| {
        Sampling::of_children(event, arguments.period)
    })?;
    let command: &[OsString] = &arguments.command;
    let exit = course(command)?;
    let sampled = sampling.map(|sampling| Sampled::from_samples(sampling.finish()));
    let rates = counters.read();
    let scope = "in user space, with all that it started";
    Ok(Usage {
        head: line_of(command),
        exit,
        how: how(&rates),
        notes: notes(
            &rates,
            &partly(0, counters.counted_ratio()),
            &sampled,
            scope,
        ),
        rates,
        lines: lines(sampled, arguments.top),
    })
}

/// Follows a process until it ends or the time is over.
pub fn followed(pid: u32, arguments: &CpuRun) -> Result<Usage> {
    let kernel = Kernel::new();
    if !kernel.process_exists(pid) {
        bail!("process {pid} does not exist");
    }
    // Each thread takes a dozen, and nothing is started that would inherit the limit.
    let _ = allow_open_files(u64::MAX);
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let threads: Vec<u32> = tasks
        .with_context(|| format!("process {pid} has ended"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut counters: Vec<Counters> = threads.iter().copied().map(Counters::of_thread).collect();
    // The first one may have ended before the others.
    let has_ended = |counters: &Counters| counters.none().is_some_and(NoCounter::has_ended);
    counters.retain(|counters| !has_ended(counters));
    if counters.is_empty() {
        bail!("process {pid} has ended");
    }
    // If one of them has some, there are some.
    let reasons: Option<Vec<NoCounter>> = counters.iter().map(Counters::none).collect();
    if let Some(reason) = reasons.and_then(|reasons| reasons.first().copied())
        && arguments.sample.is_none()
    {
        bail!(
            "process {pid} cannot be followed: no hardware counters: {reason}. {BY_KERNEL}; or simulate a program from \
             its start: cachewise cpu run -- COMMAND"
        );
    }
    let sampling = sampling(arguments.sample, |event| {
        Sampling::of_process(event, arguments.period, pid, threads.clone())
    })?;
    let course = child::follow(&kernel, &[pid], arguments.duration.map(Period::get), false)?;
    let sampled = sampling.map(|sampling| Sampled::from_samples(sampling.finish()));
    let rates: Vec<Vec<Rate>> = counters.iter_mut().map(Counters::read).collect();
    let (rates, without) = sum(&rates);
    let ratios = counters.iter().filter_map(Counters::counted_ratio);
    let least = ratios.min_by(f64::total_cmp);
    let scope = "in user space, of the present threads and their descendants";
    Ok(Usage {
        head: format!("process {pid}"),
        exit: course.exit,
        how: how(&rates),
        notes: notes(&rates, &partly(without, least), &sampled, scope),
        rates,
        lines: lines(sampled, arguments.top),
    })
}

/// Notes on incomplete figures: the number of threads without counters, and the share of time that was counted.
fn partly(without: usize, least: Option<f64>) -> Vec<String> {
    let mut notes = Vec::new();
    if without > 0 {
        notes.push(format!(
            "{without} threads lack some of the counters, and are not in their figures"
        ));
    }
    if let Some(ratio) = least.filter(|ratio| *ratio < 0.95) {
        notes.push(format!(
            "counters had to share the hardware: figures are extrapolated, from {:.0} % of the time at least",
            100.0 * ratio
        ));
    }
    notes
}

fn how(rates: &[Rate]) -> How {
    match rates.iter().any(|rate| rate.counts.is_ok()) {
        true => How::Counters,
        false => How::Kernel,
    }
}

/// Samples, and all places that they are in.
struct Sampled {
    samples: Samples,
    places: Vec<CostLocation<Tally>>,
}

impl Sampled {
    fn from_samples(samples: Samples) -> Sampled {
        let places = samples.hottest(usize::MAX);
        Sampled { samples, places }
    }
}

fn lines(sampled: Result<Sampled, String>, top: usize) -> Lines {
    match sampled {
        Ok(mut sampled) => {
            sampled.places.truncate(top);
            Lines::Sampled {
                places: sampled.places,
                samples: Box::new(sampled.samples),
            }
        }
        Err(_) => Lines::None,
    }
}

fn notes(
    rates: &[Rate],
    partly: &[String],
    sampled: &Result<Sampled, String>,
    scope: &str,
) -> Vec<String> {
    let mut notes = Vec::new();
    if how(rates) == How::Counters {
        notes.push(format!("counted by hardware, {scope}"));
        notes.extend_from_slice(partly);
    }
    match sampled {
        Ok(sampled) => {
            notes.push(how_sampled(&sampled.samples, scope));
            notes.extend(caveats(&sampled.samples));
            notes.extend(no_debug_note(&sampled.places));
        }
        Err(why) => notes.push(format!("{why}; --simulate reports lines")),
    }
    notes_of(rates, &notes.join("\n"))
}

/// How many samples, of what, and how near.
fn how_sampled(samples: &Samples, scope: &str) -> String {
    let event = samples.event;
    let every = match (samples.period, event.unit) {
        (1, _) => "each one".to_owned(),
        (period, Unit::Times) => format!("one of {period}"),
        (period, Unit::Nanoseconds) => format!("one for {:.3} ms", period as f64 / 1e6),
    };
    let near = match samples.skid {
        Skid::None => "at the instruction itself",
        Skid::Asked => "at the instruction itself as far as the hardware can",
        Skid::Constant => "a fixed few instructions behind, maybe on the next line",
        Skid::Any => "some instructions behind, maybe on a later line",
    };
    let level = match event.is_software() {
        true => String::new(),
        false => format!(" (precise_ip {})", samples.skid.level()),
    };
    format!(
        "{} of {}, {every}, {scope}; taken {near}{level}",
        cachewise_units::counted(samples.taken.samples, "sample"),
        event.what
    )
}

/// Notes on missing samples.
fn caveats(samples: &Samples) -> Vec<String> {
    let mut caveats = Vec::new();
    let mut say = |is_so: bool, text: String| {
        if is_so {
            caveats.push(text);
        }
    };
    let lost = samples.lost();
    say(
        lost > 0,
        format!(
            "{lost} records were lost, as they came faster than they were read: shares are those of the rest, and where \
             what was lost said that code was mapped, samples are in ? or in what was there before; a longer --period loses \
             less"
        ),
    );
    let throttled = samples.throttled();
    let path = "/proc/sys/kernel/perf_event_max_sample_rate";
    let most = fs::read_to_string(path).unwrap_or_else(|_| "?".into());
    say(
        throttled > 0,
        format!(
            "the kernel throttled sampling {throttled} times (kernel.perf_event_max_sample_rate is {}): some samples \
             are missing; use a longer --period",
            most.trim()
        ),
    );
    let counted = samples.counted_ratio().filter(|ratio| *ratio < 0.95);
    say(
        counted.is_some(),
        format!(
            "the counter was on the hardware {:.0} % of the time: samples cover only that time",
            100.0 * counted.unwrap_or(1.0)
        ),
    );
    let left_out = samples.left_out;
    say(
        left_out > 0,
        format!(
            "{left_out} threads were not sampled: too many open files; raise the limit with ulimit -n"
        ),
    );
    say(
        !samples.without.is_empty(),
        format!(
            "CPU {} has no such counter: programs were not sampled there",
            samples.without
        ),
    );
    if let Some(why) = &samples.unmapped {
        let text = format!("{why}: samples in earlier mappings count as ?");
        say(true, text);
    }
    let garbled = samples.garbled();
    say(
        garbled > 0,
        format!("{garbled} records of the kernel could not be parsed and are omitted"),
    );
    let beyond = samples.beyond().samples;
    let share = Ratio::of(beyond, samples.taken.samples);
    say(
        beyond > 0,
        format!(
            "{beyond} samples ({}) are beyond the maximum number of distinct locations",
            share.map_or_else(|| "?".to_owned(), |share| share.to_string())
        ),
    );
    let none = samples.taken.samples == 0;
    if none {
        caveats.push(match samples.happened() {
            Some(0) => "no samples: the event did not occur".into(),
            Some(_) => "no samples: too few events in user space; use a shorter --period".into(),
            None => "no samples, and the number of events could not be read".into(),
        });
    }
    caveats
}
