//! `tier put`, `warm` and `verify`: files and trees of an origin, block by block.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cachewise_model::{Datum, Missing, Reason};
use cachewise_tier::{BlockCache, Error, File, Settings, Tier, Totals, Tree, WarmFrom, Warmed};
use cachewise_units::{Bytes, counted};
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

impl Act {
    /// Returns the tiers in which it looks for blocks.
    fn tiers(self) -> &'static [Tier] {
        match self {
            Self::Put => &[Tier::Origin],
            Self::Warm => &Tier::ALL,
            Self::Verify => &[Tier::Disk, Tier::Remote, Tier::Origin],
        }
    }
}

const NOT_COMPARED: Missing = Missing::NotOffered(Reason::VerifyCompares);

/// Interval between checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Time limit, after Ctrl-C, for pending writes to the disk and to the engine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time limit, after Ctrl-C, for counting the files that are left.
const COUNTS_WITHIN: Duration = Duration::from_millis(500);

/// The outcome for one file.
#[derive(Debug, Default)]
struct Outcome {
    blocks: u64,
    failed: u64,
    different: u64,
    missing: u64,
    /// Blocks, of those that failed, whose server or disk did not answer.
    unanswered: u64,
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
    let cache = cache::open(&runtime, &wanted, origin)?;
    let mut failures = Failures::default();
    let mut sheet = Sheet::new(&FILES);
    let mut is_different = false;
    let (mut blocks, mut missing, mut unanswered, mut taken) = (0, 0, 0, 0);
    // Files that were begun, if the walk ended between two files.
    let mut begun = Some(0);
    let mut tree = Tree::new(&arguments.paths);
    let mut take = |done: Result<(File, Outcome, Instant), Error>| match done {
        Ok((file, outcome, began)) => {
            if let Some(why) = &outcome.why {
                failures.add(&why.to_string(), tell);
            }
            is_different |= outcome.different > 0;
            blocks += outcome.blocks;
            missing += outcome.missing;
            unanswered += outcome.unanswered;
            taken += 1;
            sheet.rows.push(row(&file, &outcome, act, began));
            outcome.is_last
        }
        Err(error) => {
            failures.add(&error.to_string(), tell);
            taken += 1;
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
            let mut number = 0;
            let mut next = || {
                let work = async {
                    // Not known while the walk looks for the next file.
                    begun = None;
                    let found = tree.next(&cache).await;
                    number += u64::from(found.is_some());
                    begun = Some(number);
                    Some(match found? {
                        Ok(file) => Ok(one(&cache, file, act).await),
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
    let status = interrupt.status();
    if status.is_some() {
        let all = match &listed {
            Some(files) => u64::try_from(files.len()).ok(),
            None => begun.and_then(|begun| {
                let rest = runtime
                    .block_on(async { timeout(COUNTS_WITHIN, count(&mut tree, &cache)).await });
                rest.ok().map(|rest| begun + rest)
            }),
        };
        tell(&interrupted(taken, all));
    }
    let table = cache.table();
    if unanswered > 0 {
        let why = cache.engine_failure();
        let why = why.unwrap_or_else(|| "the disk did not answer".to_owned());
        let unanswered = format!(
            "{unanswered} of {} could not be compared: {why}; check the server, then repeat the command",
            counted(blocks, "block")
        );
        failures.add(&unanswered, tell);
    }
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
    let written = Written {
        sheet,
        used: stat::used(&table, act.tiers(), act != Act::Put),
        totals: table.totals,
        is_interrupted: status.is_some(),
    };
    write(sinks, &written, arguments.columns.as_ref())?;
    let failed = failures.end(tell);
    if let Some(status) = status {
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

/// Returns how many files of a walk are left.
async fn count(tree: &mut Tree, cache: &BlockCache) -> u64 {
    let mut left = 0;
    while tree.next(cache).await.is_some() {
        left += 1;
    }
    left
}

/// Says how much of the work is not done after Ctrl-C.
fn interrupted(done: u64, all: Option<u64>) -> String {
    match all {
        Some(all) if all > done => format!(
            "interrupted: {} of {} were not done, or not fully",
            all - done,
            counted(all, "file")
        ),
        Some(_) => "interrupted: all files were read; blocks that were on their way may be missing"
            .to_owned(),
        None => format!(
            "interrupted: {} done; the others were not, or not fully",
            counted(done, "file")
        ),
    }
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
async fn one(cache: &BlockCache, file: File, act: Act) -> (File, Outcome, Instant) {
    let began = Instant::now();
    let from = match act {
        Act::Put => WarmFrom::Origin,
        Act::Warm => WarmFrom::Nearest,
        Act::Verify => {
            return match cache.settled(file.clone()).await {
                Ok(file) => {
                    let outcome = compared(cache, &file).await;
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
        is_last: warmed.is_disk_stuck(),
        why: warmed.why,
        ..Outcome::default()
    };
    (warmed.file, outcome, began)
}

/// Compares a file with the origin, block by block.
async fn compared(cache: &BlockCache, file: &File) -> Outcome {
    let block = cache.settings().block.0;
    let size = file.meta().size;
    let mut outcome = Outcome {
        blocks: size.div_ceil(block),
        ..Outcome::default()
    };
    for number in 0..outcome.blocks {
        match state_of(cache, file, number).await {
            Ok(State::Same) => {}
            Ok(State::Different) => outcome.different += 1,
            Ok(State::Missing) => outcome.missing += 1,
            Ok(State::Unknown) => {
                outcome.failed += 1;
                outcome.unanswered += 1;
            }
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
async fn state_of(cache: &BlockCache, file: &File, number: u64) -> Result<State, Error> {
    let held = cache.held(file, number).await?;
    let true_bytes = cache.at_origin(file, number).await?;
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

/// The output of one run.
struct Written {
    sheet: Sheet,
    used: Sheet,
    totals: Totals,
    is_interrupted: bool,
}

fn write(sinks: Sinks, written: &Written, columns: Option<&SheetColumns>) -> Result<()> {
    let chosen = || written.sheet.clone().chosen(columns);
    let members = || {
        let mut members = Map::new();
        members.insert("interrupted".into(), written.is_interrupted.into());
        members.insert("files".into(), written.sheet.json());
        members.extend(stat::json_of(&written.used, &written.totals));
        members
    };
    super::write(sinks, |sink| {
        Ok(match sink.format {
            Format::Table => format!(
                "{}\n{}",
                chosen().table(sink.style),
                stat::cache_text(&written.used, &written.totals, sink.style)
            ),
            Format::Csv => chosen().csv()?,
            Format::Json => format!("{:#}\n", document(members())),
            Format::JsonLines => format!("{}\n", document(members())),
            Format::OpenMetrics => bail!("nothing to scrape"),
        })
    })
}
