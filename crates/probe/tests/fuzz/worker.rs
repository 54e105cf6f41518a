//! A process of a program with several tasks: this program started again.
//!
//! Its first thread starts a thread for each of the process's tasks and does no operation itself: it writes `ready`,
//! and when all tasks have ended a report. Each task waits until its standard input ends, which all tasks of a program
//! share: so they begin together. A task reads nothing else, because a later read could hide the result of a short one.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::account::Account;
use crate::call::Outcome;
use crate::oracle::faults;
use crate::problem::{Context, Problem, Result};
use crate::program::Program;
use crate::task::Task;

/// Tells this program, started again, to be a worker: the number of its process.
const PROCESS: &str = "CACHEWISE_FUZZ_WORKER";

/// The program's text.
const TEXT: &str = "CACHEWISE_FUZZ_TEXT";

/// The directory of its files.
const DIRECTORY: &str = "CACHEWISE_FUZZ_DIRECTORY";

/// The memory group to enter, if any.
const GROUP: &str = "CACHEWISE_FUZZ_GROUP";

/// Set if io_uring may use registered memory with O_DIRECT.
const FIXED: &str = "CACHEWISE_FUZZ_FIXED";

/// An operation as its task saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Page faults of the task meanwhile.
    pub faults: u64,
    /// The result of each request.
    pub outcomes: Vec<Outcome>,
}

/// All that a task saw.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Its operations.
    pub done: Vec<Done>,
    /// Its account in /proc, from its first operation to its last.
    pub account: Account,
}

/// The order for a worker.
#[derive(Debug)]
pub struct Order<'p> {
    /// The program.
    pub program: &'p Program,
    /// The number of the process.
    pub process: u64,
    /// Where its files are.
    pub directory: &'p Path,
    /// The memory group to enter.
    pub group: Option<&'p PathBuf>,
    /// Whether io_uring may use registered memory with O_DIRECT.
    pub fixed_and_direct: bool,
}

impl Order<'_> {
    /// Starts a worker that begins when `start` ends.
    pub fn start(&self, start: Stdio) -> Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command
            .env(PROCESS, self.process.to_string())
            .env(TEXT, self.program.to_string())
            .env(DIRECTORY, self.directory)
            .stdin(start)
            .stdout(Stdio::piped());
        if let Some(group) = self.group {
            command.env(GROUP, group);
        }
        if self.fixed_and_direct {
            command.env(FIXED, "1");
        }
        command.spawn().context("start a worker")
    }
}

/// If this program was started to be a worker: works, and gives the exit code.
pub fn be_a_worker() -> Option<ExitCode> {
    let process = env::var(PROCESS).ok()?;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        std::process::exit(1);
    }));
    Some(match work(&process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("worker: {problem}");
            ExitCode::FAILURE
        }
    })
}

/// From a task to the first thread.
enum Word {
    /// It waits for the start, and has this thread id.
    Ready(i32),
    /// It has ended, and waits to be let go.
    Ended(Vec<Done>),
    Failed(Problem),
}

fn work(process: &str) -> Result<()> {
    let process: u64 = process.parse().context("the number of the process")?;
    let program = Program::parse(&env::var(TEXT).context(TEXT)?)?;
    let directory = PathBuf::from(env::var(DIRECTORY).context(DIRECTORY)?);
    let paths: Vec<PathBuf> = (0..program.files.len())
        .map(|file| directory.join(file.to_string()))
        .collect();
    let numbers: Vec<usize> = (0..program.tasks.len())
        .filter(|task| program.tasks[*task].process == process)
        .collect();
    let end = Barrier::new(numbers.len() + 1);
    thread::scope(|scope| {
        let (to_first, words) = channel();
        for number in &numbers {
            let (to_first, program, paths, end) = (to_first.clone(), &program, &paths, &end);
            scope.spawn(move || {
                let word = match run(program, *number, paths, &to_first) {
                    Ok(done) => Word::Ended(done),
                    Err(problem) => Word::Failed(problem),
                };
                let _ = to_first.send((*number, word));
                end.wait();
            });
        }
        if let Err(problem) = lead(&numbers, &words) {
            // Tasks may wait for what never comes.
            eprintln!("worker: {problem}");
            std::process::exit(1);
        }
        end.wait();
    });
    Ok(())
}

/// A task: prepares, waits for the start, and does the operations.
fn run(
    program: &Program,
    number: usize,
    paths: &[PathBuf],
    to_first: &Sender<(usize, Word)>,
) -> Result<Vec<Done>> {
    let mut task = Task::new(paths, env::var_os(FIXED).is_some())?;
    task.touch();
    let operations = &program.tasks[number].operations;
    let mut done: Vec<Done> = vec![Done::default(); operations.len()];
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let _ = to_first.send((number, Word::Ready(thread)));
    let started = rustix::io::read(std::io::stdin(), &mut [0; 1]).context("wait")?;
    if started != 0 {
        return Err(Problem::new("a worker's input has something in it"));
    }
    for (operation, done) in operations.iter().zip(&mut done) {
        let before = faults();
        done.outcomes = task.run(operation)?;
        done.faults = faults() - before;
    }
    Ok(done)
}

/// The first thread: brings the tasks to the start, and reports.
fn lead(numbers: &[usize], words: &Receiver<(usize, Word)>) -> Result<()> {
    let next = || words.recv().context("a task has gone");
    let mut threads = Vec::new();
    for _ in numbers {
        match next()? {
            (number, Word::Ready(thread)) => threads.push((number, thread)),
            (_, Word::Failed(problem)) => return Err(problem),
            (number, Word::Ended(_)) => {
                return Err(Problem::new(format!("task {number} ended too early")));
            }
        }
    }
    let account = |thread: i32| Account::read(&format!("/proc/self/task/{thread}/io"));
    let before: Result<Vec<Account>> = (threads.iter())
        .map(|(_, thread)| account(*thread))
        .collect();
    let before = before?;
    let process_before = Account::read("/proc/self/io")?;
    if let Some(group) = env::var_os(GROUP) {
        let members = Path::new(&group).join("cgroup.procs");
        fs::write(members, std::process::id().to_string()).context("enter the memory group")?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "ready").context("report")?;
    let mut report = String::new();
    for _ in numbers {
        match next()? {
            (number, Word::Ended(all)) => {
                for one in all {
                    let outcomes = one.outcomes.iter().map(|outcome| format!(" {outcome}"));
                    let outcomes: String = outcomes.collect();
                    report += &format!("done {number} {}{outcomes}\n", one.faults);
                }
            }
            (_, Word::Failed(problem)) => return Err(problem),
            (number, Word::Ready(_)) => {
                return Err(Problem::new(format!("task {number} is ready again")));
            }
        }
    }
    for ((number, thread), before) in threads.iter().zip(before) {
        let account = account(*thread)?.since(before);
        report += &format!("account {number} {account}\n");
    }
    let process = Account::read("/proc/self/io")?.since(process_before);
    report += &format!("process {process}\n");
    out.write_all(report.as_bytes()).context("report")
}

/// Reads a worker's report into the logs of its tasks; gives the account of the process.
pub fn read_report(text: &str, logs: &mut [Log]) -> Result<Account> {
    let mut process = None;
    for line in text.lines() {
        let mut words = line.split(' ');
        let read = || -> Option<()> {
            match words.next()? {
                "done" => {
                    let log = logs.get_mut(words.next()?.parse::<usize>().ok()?)?;
                    let faults = words.next()?.parse().ok()?;
                    let outcomes = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
                    log.done.push(Done { faults, outcomes });
                }
                "account" => {
                    let log = logs.get_mut(words.next()?.parse::<usize>().ok()?)?;
                    log.account = Account::parse(&mut words)?;
                }
                "process" => process = Some(Account::parse(&mut words)?),
                _ => return None,
            }
            Some(())
        };
        read().ok_or_else(|| Problem::new(format!("a worker says: {line}")))?;
    }
    process.ok_or_else(|| Problem::new("a worker ended without a report"))
}
