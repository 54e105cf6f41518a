//! A program's misses, simulated where they cannot be counted.

use anyhow::{Result, bail};
use cachewise_cpu::Topology;
use cachewise_cpu::program::{Simulation, hottest};
use cachewise_units::Bytes;

use super::counted::BY_KERNEL;
use super::{How, Lines, Usage, course, no_debug_note, notes_of};
use crate::commands::arguments::CpuRun;
use crate::commands::line_of;
use cachewise_cli::child::status_of;
use cachewise_cli::tools;

/// Runs it under callgrind; `no_counters` is why it is not counted.
pub fn simulated(arguments: &CpuRun, no_counters: Option<String>) -> Result<Usage> {
    let Some(valgrind) = tools::find("valgrind") else {
        let why = no_counters.map_or_else(
            || "--simulate needs valgrind".to_owned(),
            |reason| {
                format!("no hardware counters: {reason}. {BY_KERNEL}. Misses can be simulated")
            },
        );
        bail!("{why}, but valgrind is not installed: apt-get install valgrind");
    };
    let why =
        no_counters.map(|reason| format!("no hardware counters: {reason}; so it was simulated"));
    let topology = Topology::read(&arguments.sys)?;
    let simulation = Simulation::for_program(&topology, &valgrind, &arguments.command)?;
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
    let caches = ["L1d", "L1i", "last level"]
        .into_iter()
        .zip(&simulation.caches);
    let (told, guessed): (Vec<_>, Vec<_>) = caches.partition(|(_, cache)| cache.is_some());
    let told = told.iter().filter_map(|(name, cache)| {
        let cache = cache.as_ref()?;
        Some(format!(
            "{name} {} of {} ways",
            Bytes(cache.size),
            cache.ways
        ))
    });
    let mut caches: Vec<String> = told.collect();
    if !guessed.is_empty() {
        let names: Vec<&str> = guessed.iter().map(|(name, _)| *name).collect();
        caches.push(format!(
            "{} as callgrind guesses, as sysfs has no size",
            names.join(", ")
        ));
    }
    notes.push(format!(
        "simulated by callgrind: {}; without prefetching, one thread at a time. Misses are counted, their time is not",
        caches.join(", ")
    ));
    notes
        .push("GODEBUG contains asyncpreemptoff=1, without which valgrind ends Go programs".into());
    if arguments.period.is_some() {
        notes.push("--period has no effect: each miss is simulated".into());
    }
    notes.extend(no_debug_note(&places));
    let rates = profile.rates();
    Ok(Usage {
        head: line_of(&arguments.command),
        exit,
        how: How::Callgrind,
        lines: Lines::Simulated {
            places,
            misses: profile.total.misses(),
        },
        notes: notes_of(&rates, &notes.join("\n")),
        rates,
    })
}
