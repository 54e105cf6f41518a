//! `files`: residency of files, directories, processes or the whole machine.
//!
//! # Layout
//! - `plan`, `walk`, `process`, `census`: sources of files; each passes them to a `Show`
//! - `fuse`: files that are not opened; `listed_file`: one file; `order`: selection of rows; `counting`: the total; `tree`, `ncdu`: sums of directories
//! - `culprits`: processes that evicted files, from a recording
//! - `batched`: output in large pieces; `notes`: notes beside the list, each once
//! - this file: the choice of source and output

pub mod arguments;
mod batched;
mod census;
mod counting;
mod culprits;
mod fuse;
mod listed_file;
mod ncdu;
mod notes;
mod order;
mod plan;
mod process;
mod show;
mod tree;
mod unknown;
mod walk;

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};

use anyhow::{Result, bail};
use cachewise_kstat::Kernel;
use cachewise_units::escaped;

use crate::interrupt::{Interrupt, Stop};
use crate::options::FileLabels;
use arguments::{Files, SortKey};
use cachewise_cli::output::{self, FAILED, tell};
use cachewise_cli::signals::{self, Caught};

pub use counting::{Answer, Counting};
pub use fuse::{NotOpened, is_not_opened};
pub use listed_file::ListedFile;
pub use notes::Notes;
pub use order::Order;
pub use plan::{plan, skipped};
pub use show::{Plan, Show};
pub use unknown::unknown_reason;

/// Shows them once, or again and again.
pub fn files(mut arguments: Files) -> Result<ExitCode> {
    arguments.list.add_to(&mut arguments.paths)?;
    if arguments.named.option().is_some() {
        if !arguments.paths.is_empty() {
            bail!(
                "a PATH and a selection of processes name different files: remove one of the two"
            );
        }
        let kernel = Kernel::new();
        let selected = arguments.named.select(&kernel)?;
        arguments.pid.extend(selected.processes(&kernel)?);
    }
    let arguments = &arguments;
    if arguments.select.one_file_system && arguments.paths.is_empty() {
        bail!(
            "-x stays on the file system of each PATH: add a PATH, or use --include to select by path"
        );
    }
    let labels = arguments.labels.read()?;
    let Some(interval) = arguments.watch else {
        let interrupt = Interrupt::catch_apart()?;
        let mut show = Show::open(&arguments.output, shown(arguments, labels))?;
        show.end_early(Stop::at(&interrupt));
        let (status, is_complete) = once(arguments, &mut show)?;
        if let Some(status) = interrupt.status() {
            tell("interrupted: the result so far is shown, the rest was not examined");
            return Ok(status);
        }
        if is_complete {
            show.keep()?;
        }
        return Ok(status);
    };
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let mut show = Show::open(&arguments.output, shown(arguments, labels))?;
    loop {
        let (status, _) = once(arguments, &mut show)?;
        match interrupts.recv_timeout(interval.get()) {
            Ok(_) => return show.close().map(|()| status),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals ended"),
        }
    }
}

fn shown(arguments: &Files, labels: Option<FileLabels>) -> Plan {
    let by = if arguments.evicted {
        SortKey::Evicted
    } else {
        SortKey::Resident
    };
    // A list may be long: what does not depend on it does not look at each path.
    let are_files = arguments
        .output
        .has_table()
        .then(|| !walk::has_directory(&arguments.paths));
    Plan {
        are_files,
        columns: arguments.fields(),
        columns_are_chosen: arguments.columns.is_some(),
        all_are_named: arguments.tree
            || !arguments.all && !arguments.evicted && are_files == Some(true),
        order: Order {
            key: arguments.sort.unwrap_or(by),
            reverse: arguments.reverse,
        },
        order_is_chosen: arguments.sort.is_some()
            || arguments.reverse
            || !arguments.pid.is_empty()
            || arguments.tree && arguments.top.is_some_and(|top| top > 0),
        top: arguments.top,
        only_cached: arguments.only_cached,
        maps: arguments.map,
        strips: arguments.histogram,
        repeated: arguments.watch.is_some(),
        labels,
    }
}

/// Shows the files once; the flag is true if the output should replace an older report.
fn once(arguments: &Files, show: &mut Show) -> Result<(ExitCode, bool)> {
    let answer = if arguments.all || arguments.evicted {
        census::show(arguments, &Kernel::new(), show)?
    } else if !arguments.pid.is_empty() {
        process::show(arguments, &Kernel::new(), show)?
    } else {
        walk::show(arguments, show)?
    };
    let may_be_none = arguments.evicted || !arguments.pid.is_empty();
    let is_complete = answer.files > 0 || may_be_none && answer.failed == 0;
    Ok((status(arguments, &answer), is_complete))
}

fn status(arguments: &Files, answer: &Answer) -> ExitCode {
    if answer.failed > 0 || answer.unknown > 0 {
        return ExitCode::from(FAILED);
    }
    match (arguments.fail_below, answer.counts.ratio()) {
        // Files without pages have no share to compare; without files, the answer is unknown.
        (_, None) if answer.files == 0 && !arguments.evicted => nothing(arguments),
        (Some(least), Some(ratio)) if ratio.get() < least => ExitCode::from(output::NO),
        _ => ExitCode::SUCCESS,
    }
}

/// Says that there is no file. To a script a list of nothing would look like a good one.
fn nothing(arguments: &Files) -> ExitCode {
    let picked = arguments.select.picked();
    if !arguments.pid.is_empty() {
        tell(&format!(
            "note: the process has no file{picked} open or mapped: kernel threads have none"
        ));
        // That may well be the answer.
        return match arguments.fail_below {
            Some(_) => ExitCode::from(FAILED),
            None => ExitCode::SUCCESS,
        };
    }
    let mut place = String::from("anywhere");
    if let [first, others @ ..] = &arguments.paths[..] {
        place = format!("under {}", escaped(first));
        if !others.is_empty() {
            place += &format!(" or {} other paths", others.len());
        }
    }
    tell(&format!("there is no file{picked} {place}"));
    ExitCode::from(FAILED)
}
