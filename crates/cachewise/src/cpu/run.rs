//! `cpu run`: how a program uses the CPU's caches.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_cpu::Topology;
use cachewise_cpu::program::{Counters, Place, Rate, Simulation, hottest};
use cachewise_kstat::Kernel;
use cachewise_model::{Exit, Missing};
use cachewise_units::{Bytes, Interval, Ratio};
use cachewise_view::{Sheet, SheetCell, SheetColumn, Style};
use serde_json::{Map, Value as Json, json};

use super::{Found, check_format, line_of, startable, write};
use crate::cli::CpuRun;
use crate::doctor::tools;
use crate::output::{Sink, Stream, explain, tell};
use crate::run::child::{self, StartError};
use crate::run::{not_started, status_of};

/// A row is a cache.
pub const COLUMNS: [SheetColumn; 4] = [
    SheetColumn::new("cache", "CACHE", false, "The cache, or branches"),
    SheetColumn::new("accesses", "ACCESSES", true, "How often it was asked"),
    SheetColumn::new(
        "misses",
        "MISSES",
        true,
        "How often it did not have what was wanted",
    ),
    SheetColumn::new("miss_ratio", "MISS%", true, "Misses over accesses"),
];

/// A row is a line of source; in JSON only.
const LINES: [SheetColumn; 9] = [
    SheetColumn::new(
        "misses",
        "MISSES",
        true,
        "Accesses to data that the first level did not have",
    ),
    SheetColumn::new(
        "share_ratio",
        "SHARE",
        true,
        "Its part of all misses of the program",
    ),
    SheetColumn::new("reads", "READS", true, "Reads of data"),
    SheetColumn::new(
        "read_miss_ratio",
        "MISS%",
        true,
        "Reads that the first level did not have, over reads",
    ),
    SheetColumn::new(
        "wasted_bytes",
        "WASTED",
        true,
        "Bytes that were fetched into the first level and thrown out unused",
    ),
    SheetColumn::new("function", "FUNCTION", false, "The function"),
    SheetColumn::new("file", "", false, "The file"),
    SheetColumn::new("line", "", true, "The line"),
    SheetColumn::new("object", "WHERE", false, "The program or library"),
];

const NO_COUNT: Missing = Missing::NotOffered("see the notes");
const NO_DEBUG: Missing = Missing::Unknown("no debug information");
const NO_ACCESS: Missing = Missing::NotOffered("there were none");

/// What is known of a run.
struct Usage {
    /// The program, and how it ended.
    head: String,
    exit: Exit,
    /// `counters` or `callgrind`.
    how: &'static str,
    rates: Vec<Rate>,
    misses: u64,
    places: Vec<Place>,
    notes: Vec<String>,
}

/// Runs or follows a program and reports.
pub fn run(arguments: &CpuRun) -> Result<ExitCode> {
    let sink = Sink::open_whole(&arguments.output, Stream::Stderr)?;
    check_format(&sink)?;
    let (usage, status) = match (arguments.pid, arguments.command.first()) {
        (Some(pid), _) => (followed(pid, arguments.duration)?, 0),
        (None, Some(program)) => {
            if let Err(error) = startable(program) {
                return Ok(not_started(program, &error));
            }
            let mut counters = Counters::for_children();
            let none = counters.none();
            let usage = match none {
                None if !arguments.simulate => counted(&arguments.command, &mut counters)?,
                _ => simulated(arguments, none.map(|reason| reason.to_string()))?,
            };
            let status = status_of(usage.exit);
            (usage, status)
        }
        (None, None) => bail!("nothing to run: give a command, as in `cachewise cpu run -- ls`"),
    };
    let told = write(sink, |style| Found {
        text: text(&usage, style),
        sheet: rates(&usage.rates),
        members: members(&usage),
    });
    match told {
        // The program's own status is worth more than ours.
        Err(error) if status != 0 => tell(&explain(&error)),
        told => told?,
    }
    Ok(ExitCode::from(status))
}

/// Has it run to its end; how it ended.
fn course(command: &[OsString]) -> Result<Exit> {
    match child::run(&Kernel::new(), command) {
        Ok(course) => Ok(course.exit),
        Err(StartError::Start(error)) => {
            bail!("cannot run {}: {error}", command[0].to_string_lossy())
        }
        Err(StartError::Other(error)) => Err(error),
    }
}

fn counted(command: &[OsString], counters: &mut Counters) -> Result<Usage> {
    let exit = course(command)?;
    let rates = counters.read();
    Ok(Usage {
        head: line_of(command),
        exit,
        how: "counters",
        misses: 0,
        places: Vec::new(),
        notes: notes_of(
            &rates,
            "counted by hardware, in user space and of all that it started; --simulate tells lines",
        ),
        rates,
    })
}

fn followed(pid: u32, duration: Option<Interval>) -> Result<Usage> {
    let kernel = Kernel::new();
    if !kernel.process_exists(pid) {
        bail!("process {pid} does not exist");
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut counters: Vec<Counters> = threads.map(Counters::of_thread).collect();
    let Some(none) = counters.first().map(Counters::none) else {
        bail!("process {pid} has ended");
    };
    if let Some(reason) = none {
        bail!(
            "process {pid} cannot be followed: no hardware counters: {reason}. A program can be simulated from its \
             start: cachewise cpu run -- COMMAND"
        );
    }
    let course = child::follow(&kernel, pid, duration.map(Interval::get), false)?;
    let mut rates: Vec<Rate> = Vec::new();
    for thread in &mut counters {
        for rate in thread.read() {
            match rates.iter_mut().find(|sum| sum.name == rate.name) {
                Some(sum) => {
                    if let (Ok(sum), Ok(more)) = (&mut sum.counts, &rate.counts) {
                        *sum = (sum.0 + more.0, sum.1 + more.1);
                    }
                }
                None => rates.push(rate),
            }
        }
    }
    Ok(Usage {
        head: format!("process {pid}"),
        exit: course.exit,
        how: "counters",
        misses: 0,
        places: Vec::new(),
        notes: notes_of(
            &rates,
            "counted by hardware, in user space, of the threads that were there and what they started",
        ),
        rates,
    })
}

fn simulated(arguments: &CpuRun, no_counters: Option<String>) -> Result<Usage> {
    let why =
        no_counters.map(|reason| format!("no hardware counters: {reason}; so it was simulated"));
    let Some(valgrind) = tools::find("valgrind") else {
        let why = why.unwrap_or_else(|| "--simulate was asked for".into());
        bail!("{why}, but valgrind is not installed: apt-get install valgrind");
    };
    let topology = Topology::read(&arguments.sys)?;
    let simulation = Simulation::of(&topology, &valgrind, &arguments.command)?;
    let exit = course(&simulation.command)?;
    let profile = match simulation.profile() {
        Ok(profile) => profile,
        Err(error) => {
            let status = status_of(exit);
            bail!(
                "{}: {error} (it ended with {status})",
                line_of(&arguments.command)
            );
        }
    };
    let places = hottest(&profile, arguments.top);
    let mut notes: Vec<String> = why.into_iter().collect();
    let caches = ["L1d", "L1i", "last level"].iter().zip(&simulation.caches);
    let caches = caches.map(|(name, cache)| match cache {
        Some(cache) => format!("{name} {} of {} ways", Bytes(cache.size), cache.ways),
        None => format!("{name} as callgrind guesses, for sysfs does not tell"),
    });
    let caches: Vec<String> = caches.collect();
    notes.push(format!(
        "simulated by callgrind: {}; no prefetching, one thread at a time. Misses are told, and no time",
        caches.join(", ")
    ));
    if !places.is_empty() && places.iter().all(|place| place.line.is_none()) {
        notes.push(
            "no debug information, so there are no lines: compile with -g (Rust: [profile.release] debug = true), \
             and do not strip"
                .into(),
        );
    }
    let rates = profile.rates();
    Ok(Usage {
        head: line_of(&arguments.command),
        exit,
        how: "callgrind",
        misses: profile.total.misses(),
        places,
        notes: notes_of(&rates, &notes.join("\n")),
        rates,
    })
}

/// The first ones, then why some figures are missing, each reason once.
fn notes_of(rates: &[Rate], first: &str) -> Vec<String> {
    let mut notes: Vec<String> = first.lines().map(str::to_owned).collect();
    let mut reasons: Vec<(&String, Vec<&str>)> = Vec::new();
    for rate in rates {
        if let Err(reason) = &rate.counts {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(rate.name),
                None => reasons.push((reason, vec![rate.name])),
            }
        }
    }
    notes.extend(
        reasons
            .into_iter()
            .map(|(reason, names)| format!("{}: {reason}", names.join(", "))),
    );
    notes
}

fn ratio(part: u64, whole: u64) -> SheetCell {
    SheetCell::or_missing(Ratio::of(part, whole), NO_ACCESS, |ratio| {
        SheetCell::number(ratio.get(), ratio.to_string())
    })
}

fn number(count: u64) -> SheetCell {
    SheetCell::number(count, count.to_string())
}

fn rates(rates: &[Rate]) -> Sheet {
    let mut sheet = Sheet::new(&COLUMNS);
    for rate in rates {
        let mut row = vec![SheetCell::text(rate.name)];
        row.extend(match &rate.counts {
            Ok((accesses, misses)) => [
                number(*accesses),
                number(*misses),
                ratio(*misses, *accesses),
            ],
            Err(_) => [(); 3].map(|()| SheetCell::missing(NO_COUNT)),
        });
        sheet.rows.push(row);
    }
    sheet
}

fn places(usage: &Usage) -> Sheet {
    let mut sheet = Sheet::new(&LINES);
    for place in &usage.places {
        let costs = &place.costs;
        let at = match &place.line {
            Some((file, line)) => format!("{file}:{line}"),
            None => place.object.clone(),
        };
        let line = place.line.as_ref();
        sheet.rows.push(vec![
            number(costs.misses()),
            ratio(costs.misses(), usage.misses),
            number(costs.reads()),
            ratio(costs.read_misses(), costs.reads()),
            SheetCell::number(costs.wasted(), Bytes(costs.wasted()).to_string()),
            SheetCell::text(place.function.clone()),
            SheetCell::or_missing(line, NO_DEBUG, |(file, _)| SheetCell::text(file.clone())),
            SheetCell::or_missing(line, NO_DEBUG, |(_, line)| number((*line).into())),
            SheetCell::number(place.object.clone(), at),
        ]);
    }
    sheet
}

fn text(usage: &Usage, style: Style) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}\nended with {}\n",
        style.bold(&usage.head),
        usage.exit
    );
    text += &rates(&usage.rates).table(style);
    if !usage.places.is_empty() {
        text += "\nwhere data was missed\n";
        text += &places(usage).table(style);
    }
    text.push('\n');
    for note in &usage.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn members(usage: &Usage) -> Map<String, Json> {
    Map::from_iter([
        ("program".to_owned(), usage.head.clone().into()),
        ("exit".to_owned(), usage.exit.to_string().into()),
        ("counted_by".to_owned(), usage.how.into()),
        ("simulated".to_owned(), json!(usage.how == "callgrind")),
        ("caches".to_owned(), rates(&usage.rates).json()),
        ("lines".to_owned(), places(usage).json()),
        ("notes".to_owned(), usage.notes.clone().into()),
    ])
}
