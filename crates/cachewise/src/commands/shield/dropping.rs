//! The thread that drops pages behind shielded programs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_probe::shield::{Block, Decision, Kept, PageSet, Resident, Shield, ShieldedFile};
use cachewise_sys::{begin_write_back_range, fadvise_dont_need_range, page_size, thread_usage};
use cachewise_units::{ByteRange, Bytes, Pages};
use rustix::time::{ClockId, clock_gettime};

use super::open_files::{CLOSE, NAMES, OpenFiles};
use super::outcome::{Figures, FileReport, Outcome};
use super::shielded_files::ShieldedFiles;

/// Time between two looks at all blocks.
const SCAN: Duration = Duration::from_millis(250);

/// A look at all blocks takes at most this share of the time.
const SCAN_SHARE: u32 = 50;

/// Wait for the next record of the kernel, at most, while pages of programs are resident; and when there are none. The end
/// of a command is seen after that.
const BUSY: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_millis(50);

/// From this much on, pages that a program has read ahead and gone away from are dropped too.
const RESIDENT: Bytes = Bytes(24 << 20);

/// A program that has not touched a block for this long has gone away from it.
const LEFT: Duration = Duration::from_millis(250);

/// Nice value of the thread.
const PRIORITY: i32 = -10;

/// Waits before a block is decided on again, at first and at most.
const RETRY: Duration = Duration::from_millis(10);
const RETRY_MOST: Duration = Duration::from_secs(2);

/// The same where the file cannot be opened, as while another file system is mounted over its own.
const REOPEN: Duration = CLOSE;
const REOPEN_MOST: Duration = Duration::from_secs(60);

/// The wait after which pages that the kernel still holds a reference to are advised to be dropped, once in a block. A CPU
/// that has become idle keeps the latest folios that it read on a list of its own; only this advice empties the lists, of
/// all CPUs, which is too much for each block.
const HELD: Duration = Duration::from_millis(80);

/// Time at the end for pages that are locked or under writeback.
const AT_END: Duration = Duration::from_millis(500);
const AT_END_WRITES: Duration = Duration::from_secs(30);

/// Reasons that may pass.
const PASSING: [Kept; 4] = [Kept::Writeback, Kept::Locked, Kept::Mapped, Kept::InUse];

/// A block that is decided on again.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    wait: Duration,
}

/// How the shield is to end.
#[derive(Debug, Default)]
pub struct Ending {
    asked: AtomicBool,
    /// The programs have ended: nothing that they read ahead will be used.
    programs_ended: AtomicBool,
    /// The figures at the latest look at all blocks.
    figures: Mutex<Figures>,
}

/// The running thread.
#[derive(Debug)]
pub struct Dropping {
    ending: Arc<Ending>,
    thread: JoinHandle<Result<Outcome>>,
}

impl Dropping {
    /// Starts to drop.
    pub fn start(
        shield: Shield,
        kernel: Kernel,
        writes: bool,
        named: ShieldedFiles,
    ) -> Result<Dropping> {
        let ending = Arc::new(Ending::default());
        let shared = Arc::clone(&ending);
        let thread = cachewise_sys::start_thread("shield", move || {
            // A late drop is none: the pages have evicted others by then. Without the right to it, it works as well where
            // CPUs are free.
            let _ = rustix::process::setpriority_process(None, PRIORITY);
            Dropper::new(shield, kernel, writes, named).run(&shared)
        })
        .context("cannot start the thread that drops pages")?;
        Ok(Dropping { ending, thread })
    }

    /// Its figures, up to a quarter of a second old, or more where there are many files.
    pub fn figures(&self) -> Figures {
        *self
            .ending
            .figures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, with a last look at all pages.
    pub fn finish(self, programs_ended: bool) -> Result<Outcome> {
        self.ending
            .programs_ended
            .store(programs_ended, Ordering::Relaxed);
        self.ending.asked.store(true, Ordering::Release);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Dropper {
    shield: Shield,
    open: OpenFiles,
    writes: bool,
    retries: HashMap<Block, Retry>,
    /// Blocks whose pages stay for good, as far as is known.
    parked: HashMap<Block, u64>,
    scanned: Instant,
    scan_every: Duration,
    /// The latest answer of `Shield::look`.
    found: Vec<Resident>,
    /// Files of the table at most, when the given number of them had been made.
    files: (usize, u32),
    outcome: Outcome,
}

impl Dropper {
    fn new(shield: Shield, kernel: Kernel, writes: bool, named: ShieldedFiles) -> Dropper {
        Dropper {
            shield,
            open: OpenFiles::new(kernel, named),
            writes,
            retries: HashMap::new(),
            parked: HashMap::new(),
            scanned: Instant::now(),
            scan_every: SCAN,
            found: Vec::new(),
            files: (0, 0),
            outcome: Outcome::default(),
        }
    }

    fn run(mut self, ending: &Ending) -> Result<Outcome> {
        let mut blocks = Vec::new();
        while !ending.asked.load(Ordering::Acquire) {
            self.shield.passed(&mut blocks)?;
            for block in blocks.drain(..) {
                self.handle(block, false)?;
            }
            self.retry()?;
            if self.scanned.elapsed() >= self.scan_every {
                self.scan()?;
                *ending
                    .figures
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = self.figures()?;
            }
            let resident = self.resident()?;
            let most = &mut self.outcome.figures.most_resident;
            *most = resident.max(*most);
            let longest = match resident {
                Pages(0) => IDLE,
                _ => BUSY,
            };
            self.shield.wait(longest);
        }
        self.finish(ending.programs_ended.load(Ordering::Relaxed))
    }

    /// Resident pages of the programs that may still be dropped.
    fn resident(&mut self) -> Result<Pages> {
        let parked = self.parked.values().sum();
        Ok(Pages(
            self.shield.totals()?.resident().0.saturating_sub(parked),
        ))
    }

    fn figures(&mut self) -> Result<Figures> {
        let usage = thread_usage();
        let resident = self.resident()?;
        self.outcome.figures = Figures {
            totals: self.shield.totals()?,
            resident,
            cpu: usage.user + usage.system,
            ..self.outcome.figures
        };
        Ok(self.outcome.figures)
    }

    /// Drops what can be dropped of a block, and remembers to look again if that may change. Returns what stays, and what
    /// would have been dropped of a file that cannot be opened.
    fn handle(&mut self, block: Block, ahead: bool) -> Result<Decision> {
        let mut decision = self.shield.decide(block, ahead, self.writes, false)?;
        let is_due = |retry: &Retry| retry.wait == HELD;
        if decision.kept(Kept::InUse) > 0 && self.retries.get(&block).is_some_and(is_due) {
            let held = self.shield.decide(block, ahead, self.writes, true)?;
            if let Some(file) = self.open.file(&mut self.shield, block.mapping)? {
                let file = file.as_fd();
                let dropped = each_run(block, &held.drop, |range| {
                    fadvise_dont_need_range(file, range)
                });
                self.advised(&held.drop, dropped);
            }
            decision = self.shield.decide(block, ahead, self.writes, false)?;
        }
        if decision.is_gone {
            self.retries.remove(&block);
            self.parked.remove(&block);
            return Ok(decision);
        }
        if decision.drop.is_empty() && decision.write.is_empty() {
            self.settle(block, &decision);
            return Ok(decision);
        }
        let mut advice = self.outcome.figures.advice;
        let Some(file) = self.open.file(&mut self.shield, block.mapping)? else {
            // Pages of a file that cannot be opened stay, as far as is known.
            let pages = decision.drop.count() + decision.all_kept();
            self.parked.insert(block, pages);
            if self.open.is_named(block.mapping) {
                self.retry_later(block, REOPEN, REOPEN_MOST);
            }
            return Ok(decision);
        };
        let pages = decision.drop.count() + decision.write.count();
        let begin = advice.is_measured(pages).then(thread_time);
        let write = each_run(block, &decision.write, |range| {
            begin_write_back_range(file.as_fd(), range)
        });
        let dropped = each_run(block, &decision.drop, |range| {
            fadvise_dont_need_range(file.as_fd(), range)
        });
        if let Some(begin) = begin {
            advice.measured(pages, thread_time().saturating_sub(begin));
        }
        self.outcome.figures.advice = advice;
        self.outcome.written_back += decision.write.count();
        self.advised(&decision.drop, write.and(dropped));
        let left = self.shield.decide(block, ahead, self.writes, false)?;
        let left = left.after_dropping();
        self.settle(block, &left);
        Ok(left)
    }

    /// Notes advice to drop pages, and its first error.
    fn advised(&mut self, pages: &PageSet, result: Result<(), cachewise_sys::Error>) {
        self.outcome.calls += pages.runs().count() as u64;
        if let Err(error) = result {
            self.outcome.error.get_or_insert_with(|| error.to_string());
        }
    }

    fn settle(&mut self, block: Block, decision: &Decision) {
        let mut passing: u64 = PASSING.iter().map(|reason| decision.kept(*reason)).sum();
        if self.writes {
            passing += decision.kept(Kept::Dirty);
        }
        let ahead = decision.kept(Kept::Ahead);
        let stays = decision.all_kept() - passing - ahead;
        match stays {
            0 => self.parked.remove(&block),
            stays => self.parked.insert(block, stays),
        };
        if passing == 0 {
            self.retries.remove(&block);
            return;
        }
        self.retry_later(block, RETRY, RETRY_MOST);
    }

    /// Has a block decided on again, each time after twice the wait of before.
    fn retry_later(&mut self, block: Block, first: Duration, most: Duration) {
        let wait = match self.retries.get(&block) {
            Some(retry) => (retry.wait * 2).clamp(first, most),
            None => first,
        };
        let at = Instant::now() + wait;
        self.retries.insert(block, Retry { at, wait });
    }

    fn retry(&mut self) -> Result<()> {
        let now = Instant::now();
        let due = self.retries.iter().filter(|(_, retry)| retry.at <= now);
        let due: Vec<Block> = due.map(|(block, _)| *block).collect();
        for block in due {
            self.handle(block, false)?;
        }
        Ok(())
    }

    /// Looks at blocks of which no record came: those that programs have gone through in part.
    fn scan(&mut self) -> Result<()> {
        let begin = Instant::now();
        let mut found = std::mem::take(&mut self.found);
        let blocks = self.shield.look(&mut found)?;
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
        found.sort_unstable_by_key(|resident| resident.touched);
        for resident in &found {
            let is_left = resident
                .touched
                .is_some_and(|touched| now.saturating_sub(touched) >= LEFT);
            if resident.passed == 0 || !is_left || self.parked.contains_key(&resident.block) {
                continue;
            }
            let ahead = self.resident()?.bytes(page_size()) > RESIDENT;
            self.handle(resident.block, ahead)?;
        }
        if !self.parked.is_empty() {
            let resident: HashSet<Block> = found.iter().map(|resident| resident.block).collect();
            self.parked.retain(|block, _| resident.contains(block));
        }
        self.found = found;
        self.forget_blocks(blocks)?;
        self.forget_files()?;
        self.open.close_unused();
        self.scanned = Instant::now();
        self.scan_every = SCAN.max(begin.elapsed() * SCAN_SHARE);
        Ok(())
    }

    /// Makes room in the table of blocks. Those of which nothing is resident are kept to notice when a program comes back,
    /// as long as there is room.
    fn forget_blocks(&mut self, blocks: usize) -> Result<()> {
        let most = self.shield.most_blocks() / 4 * 3;
        if blocks <= most {
            return Ok(());
        }
        let mut empty = self.shield.blocks()?;
        empty.retain(|noted| noted.ours == 0);
        empty.sort_unstable_by_key(|noted| noted.dropped_at);
        for noted in empty.iter().take(blocks - most + most / 8) {
            self.shield.forget_block(noted.block)?;
        }
        Ok(())
    }

    /// Makes room in the table of files.
    fn forget_files(&mut self) -> Result<()> {
        let made = self.shield.files_made()?;
        let (files, then) = self.files;
        let most = self.shield.most_files() / 2;
        if files + made.wrapping_sub(then) as usize <= most {
            return Ok(());
        }
        let all = self.shield.files()?;
        let mut left = all.len();
        if all.len() > most {
            let blocks = self.shield.blocks()?;
            let used: HashSet<u64> = blocks.iter().map(|noted| noted.block.mapping).collect();
            for (mapping, file) in all {
                if !used.contains(&mapping) && !file.is_stopped {
                    self.remember(mapping, file);
                    self.shield.forget_file(mapping)?;
                    left -= 1;
                }
            }
        }
        self.files = (left, made);
        Ok(())
    }

    fn remember(&mut self, mapping: u64, file: ShieldedFile) {
        let path = self.open.forget_name(mapping);
        if self.outcome.files.len() < NAMES {
            self.outcome.files.push(FileReport { path, file });
        }
    }

    fn finish(mut self, ahead: bool) -> Result<Outcome> {
        let mut rest = Vec::new();
        self.shield.passed(&mut rest)?;
        for block in rest {
            self.handle(block, false)?;
        }
        self.parked.clear();
        self.open.forget_unopened();
        let patience = match self.writes {
            true => AT_END_WRITES,
            false => AT_END,
        };
        let begin = Instant::now();
        let mut kept;
        let mut not_opened;
        let mut not_named;
        loop {
            kept = BTreeMap::new();
            not_opened = 0;
            not_named = 0;
            let mut passing = 0;
            for noted in self.shield.blocks()? {
                if noted.ours == 0 {
                    continue;
                }
                let decision = self.handle(noted.block, ahead)?;
                match self.open.is_named(noted.block.mapping) {
                    true => not_opened += decision.drop.count(),
                    false => not_named += decision.drop.count(),
                }
                for reason in Kept::ALL {
                    let pages = decision.kept(reason);
                    if pages > 0 {
                        *kept.entry(reason).or_insert(0) += pages;
                    }
                    let may_pass = match reason {
                        // A process that maps them may go on for long.
                        Kept::Mapped => false,
                        Kept::Dirty => self.writes,
                        reason => PASSING.contains(&reason),
                    };
                    passing += if may_pass { pages } else { 0 };
                }
            }
            if passing == 0 || begin.elapsed() >= patience {
                break;
            }
            std::thread::sleep(RETRY);
        }
        for (mapping, file) in self.shield.files()? {
            self.remember(mapping, file);
        }
        let outcome = &mut self.outcome;
        outcome.kept = kept;
        outcome.not_opened = not_opened;
        outcome.not_named = not_named;
        outcome
            .files
            .sort_by_key(|found| std::cmp::Reverse(found.file.dropped));
        self.figures()?;
        Ok(self.outcome)
    }
}

/// Calls `act` with each run of pages of a block.
fn each_run(
    block: Block,
    set: &PageSet,
    mut act: impl FnMut(ByteRange) -> Result<(), cachewise_sys::Error>,
) -> Result<(), cachewise_sys::Error> {
    let page = page_size().get();
    set.runs().try_for_each(|(first, pages)| {
        act(ByteRange {
            start: (block.first_page() + first) * page,
            len: pages * page,
        })
    })
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
