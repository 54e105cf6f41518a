//! `tier put`, `warm` and `verify`: files and trees of an origin, block by block.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cachewise_model::{Datum, Missing, Reason};
use cachewise_tier::{
    BlockCache, Error, File, Origin, Settings, Table, Totals, Tree, WarmFrom, Warmed,
};
use cachewise_units::{ByteRange, Bytes, counted};
use cachewise_view::{Format, Sheet, SheetCell, SheetColumns};
use futures_util::stream::StreamExt;
use serde_json::Map;
use tokio::time::{sleep, timeout};

use super::columns::FILES;
use super::listed::{self, Listed};
use super::stat;
use crate::commands::arguments::OnFiles as Arguments;
use crate::commands::cache;
use cachewise_cli::host::document;
use cachewise_cli::interrupt::Interrupt;
use cachewise_cli::output::{FAILED, Failures, NO, Stream, tell};
use cachewise_cli::sinks::Sinks;

/// The operation on each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Write it from the origin to the engine.
    Put,
    /// Read it, so that the cache has it.
    Warm,
    /// Compare what the cache gives with the origin.
    Verify,
}

const NOT_COMPARED: Missing = Missing::NotOffered(Reason::VerifyCompares);

/// Interval between checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Time limit, after Ctrl-C, for pending writes to the disk and to the engine.
const PATIENCE: Duration = Duration::from_secs(2);

/// The outcome for one file.
#[derive(Debug, Default)]
struct Outcome {
    blocks: u64,
    failed: u64,
    different: u64,
    missing: u64,
    why: Option<Error>,
    /// The other files would fare no better.
    is_last: bool,
}

/// Runs the subcommand on files and trees of the origin, or on those of a snapshot.
pub fn on_files(arguments: &Arguments, act: Act, listed: Option<Vec<Listed>>) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    super::refuse_metrics(&sinks)?;
    let wanted = cache::wanted(&arguments.cache, be_patient)?;
    if act == Act::Put && wanted.cache.engine.is_none() {
        bail!("put writes blocks to an engine, and none is configured: add --engine URL");
    }
    if wanted.cache.engine.is_none() && wanted.cache.disk.is_none() {
        match act {
            Act::Verify => bail!(
                "verify compares what is on a disk or on servers, and none is configured: add --disk DIRECTORY or --engine URL"
            ),
            Act::Warm => tell(
                "warning: neither --disk nor --engine: the blocks are gone when this command ends",
            ),
            Act::Put => {}
        }
    }
    let interrupt = Interrupt::catch()?;
    let origin = cache::origin(&arguments.origin, &wanted)?;
    let runtime = cache::runtime(&wanted.cache)?;
    let cache = cache::open(&runtime, &wanted, Arc::clone(&origin))?;
    let mut failures = Failures::default();
    let mut sheet = Sheet::new(&FILES);
    let mut is_different = false;
    let (mut blocks, mut missing) = (0, 0);
    let mut take = |done: Result<(File, Outcome, Instant), Error>| match done {
        Ok((file, outcome, began)) => {
            if let Some(why) = &outcome.why {
                failures.add(&why.to_string(), tell);
            }
            is_different |= outcome.different > 0;
            blocks += outcome.blocks;
            missing += outcome.missing;
            sheet.rows.push(row(&file, &outcome, act, began));
            outcome.is_last
        }
        Err(error) => {
            failures.add(&error.to_string(), tell);
            false
        }
    };
    match &listed {
        Some(files) => {
            let began = Instant::now();
            let mut warmed = std::pin::pin!(listed::warmed(&cache, files));
            let mut next = || runtime.block_on(unless(interrupt.flag(), warmed.next()));
            while let Some(done) = next().flatten() {
                if take(done.map(|warmed| outcome_of(warmed, began))) {
                    break;
                }
            }
        }
        None => {
            let mut tree = Tree::new(&arguments.paths);
            let mut next = || {
                let work = async {
                    Some(match tree.next(&cache).await? {
                        Ok(file) => Ok(one(&cache, &*origin, file, act).await),
                        Err(error) => Err(error),
                    })
                };
                runtime.block_on(unless(interrupt.flag(), work))
            };
            while let Some(done) = next().flatten() {
                if take(done) {
                    break;
                }
            }
        }
    }
    // Ctrl-C ends this wait too. Blocks not written by then are missing from the cache only.
    match runtime.block_on(unless(interrupt.flag(), cache.close())) {
        // The counters are shown even so.
        Some(Err(error)) => {
            failures.add(&error.to_string(), tell);
        }
        Some(Ok(())) => {}
        None => {
            let _ = runtime.block_on(async { timeout(PATIENCE, cache.close()).await });
        }
    }
    let table = cache.table();
    if act != Act::Verify {
        for lost in cache.lost_since(&Totals::default()) {
            failures.add(&lost, tell);
        }
    }
    if missing > 0 {
        tell(&format!(
            "note: the cache does not have {missing} of {}",
            counted(blocks, "block")
        ));
    }
    write(sinks, &sheet, arguments.columns.as_ref(), &table)?;
    let failed = failures.end(tell);
    if let Some(status) = interrupt.status() {
        return Ok(status);
    }
    Ok(match (failed, is_different) {
        (1.., _) => ExitCode::from(FAILED),
        (0, true) => ExitCode::from(NO),
        (0, false) => ExitCode::SUCCESS,
    })
}

/// Sets long deadlines. No reader waits for a single block here, and every block must arrive, so
/// that deadlines only catch servers that hang.
fn be_patient(settings: &mut Settings) {
    let second = Duration::from_secs(1);
    settings.connect = settings.connect.max(second);
    settings.deadline = settings.deadline.max(2 * second);
    settings.whole = settings.whole.max(10 * second);
    settings.hedge = Duration::ZERO;
}

/// Does it unless the flag is raised before it is done.
async fn unless<T>(flag: &AtomicBool, work: impl Future<Output = T>) -> Option<T> {
    let raised = async {
        while !flag.load(Ordering::Acquire) {
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        // A signal that arrived earlier prevents the start.
        biased;
        () = raised => None,
        done = work => Some(done),
    }
}

/// Does it with one file, and returns the state that it was done with.
async fn one(
    cache: &BlockCache,
    origin: &dyn Origin,
    file: File,
    act: Act,
) -> (File, Outcome, Instant) {
    let began = Instant::now();
    let from = match act {
        Act::Put => WarmFrom::Origin,
        Act::Warm => WarmFrom::Nearest,
        Act::Verify => {
            return match cache.settled(file.clone()).await {
                Ok(file) => {
                    let outcome = compared(cache, origin, &file).await;
                    (file, outcome, began)
                }
                Err(why) => {
                    let blocks = file.meta().size.div_ceil(cache.settings().block.0);
                    let outcome = Outcome {
                        blocks,
                        failed: blocks,
                        why: Some(why),
                        ..Outcome::default()
                    };
                    (file, outcome, began)
                }
            };
        }
    };
    outcome_of(cache.warm(file, from).await, began)
}

fn outcome_of(warmed: Warmed, began: Instant) -> (File, Outcome, Instant) {
    let outcome = Outcome {
        blocks: warmed.blocks,
        failed: warmed.failed_blocks,
        different: 0,
        missing: 0,
        is_last: warmed.is_disk_stuck(),
        why: warmed.why,
    };
    (warmed.file, outcome, began)
}

/// Compares a file with the origin, block by block.
async fn compared(cache: &BlockCache, origin: &dyn Origin, file: &File) -> Outcome {
    let block = cache.settings().block.0;
    let size = file.meta().size;
    let mut outcome = Outcome {
        blocks: size.div_ceil(block),
        ..Outcome::default()
    };
    for number in 0..outcome.blocks {
        let start = number.saturating_mul(block);
        let len = block.min(size - start);
        let range = ByteRange { start, len };
        match state_of(cache, origin, file, number, range).await {
            Ok(State::Same) => {}
            Ok(State::Different) => outcome.different += 1,
            Ok(State::Missing) => outcome.missing += 1,
            Ok(State::Unknown) => outcome.failed += 1,
            Err(error) => {
                outcome.failed += 1;
                outcome.why.get_or_insert(error);
            }
        }
    }
    outcome
}

/// A block of the cache beside the origin's.
enum State {
    Same,
    /// Other bytes, or damaged.
    Different,
    Missing,
    /// A server or the disk did not answer.
    Unknown,
}

/// Compares all copies of a block with the origin.
async fn state_of(
    cache: &BlockCache,
    origin: &dyn Origin,
    file: &File,
    number: u64,
    range: ByteRange,
) -> Result<State, Error> {
    let held = cache.held(file, number).await?;
    let within = cache.settings().read_deadline;
    let read = origin.read(file.path(), file.meta(), range);
    let true_bytes = timeout(within, read).await.map_err(|_| Error::Deadline {
        path: file.path().to_owned(),
        after: within,
        waiting_for: "the origin",
    })??;
    let differs = held.copies.iter().any(|copy| *copy != true_bytes);
    Ok(match held {
        _ if differs || held.damaged > 0 => State::Different,
        _ if held.unknown > 0 => State::Unknown,
        _ if held.copies.is_empty() => State::Missing,
        _ => State::Same,
    })
}

fn row(file: &File, outcome: &Outcome, act: Act, began: Instant) -> Vec<SheetCell> {
    let number = SheetCell::count;
    let elapsed = began.elapsed().as_secs_f64();
    vec![
        SheetCell::text(file.path().to_string_lossy()),
        SheetCell::bytes(Bytes(file.meta().size)),
        number(outcome.blocks),
        number(outcome.failed),
        match act {
            Act::Verify => number(outcome.different),
            _ => SheetCell::missing(NOT_COMPARED),
        },
        match act {
            Act::Verify => number(outcome.missing),
            _ => SheetCell::missing(NOT_COMPARED),
        },
        SheetCell::of(&Datum::Seconds(elapsed)),
    ]
}

fn write(sinks: Sinks, sheet: &Sheet, columns: Option<&SheetColumns>, table: &Table) -> Result<()> {
    let chosen = || sheet.clone().chosen(columns);
    let members = || {
        let mut members = Map::new();
        members.insert("files".into(), sheet.json());
        members.extend(stat::cache_json(table));
        members
    };
    super::write(sinks, |sink| {
        Ok(match sink.format {
            Format::Table => format!(
                "{}\n{}",
                chosen().table(sink.style),
                stat::cache_text(table, sink.style)
            ),
            Format::Csv => chosen().csv()?,
            Format::Json => format!("{:#}\n", document(members())),
            Format::JsonLines => format!("{}\n", document(members())),
            Format::OpenMetrics => bail!("nothing to scrape"),
        })
    })
}
