//! Random programs: all of them follow from a seed and a number.

use crate::call::{Argument, Call, Operation, SLOT_BYTES, flags};
use crate::image::FileSystem;
use crate::oracle::page_size;
use crate::program::{Initial, Kind, Made, Program, Sequence};
use crate::random::Random;

/// The file systems that programs run on.
pub const PLACES: [FileSystem; 7] = [
    FileSystem::Ext4,
    FileSystem::Xfs,
    FileSystem::Btrfs,
    FileSystem::Ext4SmallBlocks,
    FileSystem::Ext4Inline,
    FileSystem::XfsLargeBlocks,
    FileSystem::Ext4Tiny,
];

/// How often each operation comes, in parts of their sum.
const OPERATIONS: [(Call, u64); 38] = [
    (Call::Read, 8),
    (Call::Pread, 12),
    (Call::Preadv, 6),
    (Call::NoWait, 5),
    (Call::DontCache, 2),
    (Call::BadRead, 5),
    (Call::Sendfile, 5),
    (Call::SendSocket, 3),
    (Call::Splice, 5),
    (Call::Write, 5),
    (Call::Pwrite, 6),
    (Call::Pwritev, 4),
    (Call::Append, 3),
    (Call::BadWrite, 3),
    (Call::LimitedWrite, 2),
    (Call::SpliceIn, 2),
    (Call::Copy, 3),
    (Call::Touch, 5),
    (Call::Store, 3),
    (Call::Madvise, 2),
    (Call::WillNeed, 4),
    (Call::DontNeed, 5),
    (Call::Random, 2),
    (Call::Normal, 1),
    (Call::Readahead, 3),
    (Call::DirectRead, 4),
    (Call::DirectWrite, 3),
    (Call::Truncate, 4),
    (Call::Punch, 3),
    (Call::Allocate, 1),
    (Call::Fsync, 3),
    (Call::Unlink, 1),
    (Call::Rename, 1),
    (Call::AioRead, 4),
    (Call::AioWrite, 3),
    (Call::UringRead, 10),
    (Call::UringWrite, 5),
    (Call::UringEnter, 8),
];

/// The largest file of a program without a memory limit.
const MOST_BYTES: u64 = 1_300_000;

/// The smallest memory limit, and by how much one can be larger.
const LIMIT_BYTES: (u64, u64) = (1 << 20, 3 << 20);

/// The calls that a program is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// All of them.
    All,
    /// Those without documented gaps.
    Plain,
    /// Those that change no file: then what storage must read is known.
    Reads,
}

impl Mood {
    fn has(self, call: Call) -> bool {
        match self {
            Mood::All => true,
            Mood::Plain => !matches!(
                call,
                Call::NoWait | Call::BadRead | Call::SpliceIn | Call::AioRead | Call::AioWrite
            ),
            Mood::Reads => call.only_reads(),
        }
    }
}

/// Makes a program. `limits`: memory groups can be had here.
pub fn program(place: FileSystem, limits: bool, random: &mut Random) -> Program {
    let kind = match random.below(10) {
        _ if place == FileSystem::Ext4Tiny => Kind::Alone,
        0..5 => Kind::Alone,
        5..8 => Kind::Together,
        _ if !limits => Kind::Together,
        _ => Kind::Within(LIMIT_BYTES.0 + random.below(LIMIT_BYTES.1) / 4096 * 4096),
    };
    let mood = [Mood::All, Mood::Plain, Mood::Reads][random.below(3) as usize];
    let mut program = Program {
        place: place.name().to_owned(),
        kind,
        files: Vec::new(),
        tasks: Vec::new(),
    };
    let tasks = match kind {
        Kind::Alone => 1,
        _ => 2 + random.below(3),
    };
    let files = match kind {
        Kind::Alone => 1 + random.below(2),
        _ => 1 + random.below(3),
    };
    program.files = (0..files)
        .map(|_| Made {
            bytes: match kind {
                Kind::Within(limit) => limit / 2 + random.below(limit),
                _ => size(random),
            },
            initial: Initial::ALL[random.below(3) as usize],
        })
        .collect();
    // Some files are of one task alone, the first is of all.
    let owners: Vec<u64> = (0..files)
        .map(|file| match file {
            0 => u64::MAX,
            _ if random.below(2) == 0 => u64::MAX,
            _ => random.below(tasks),
        })
        .collect();
    let processes: Vec<u64> = (0..tasks).map(|_| random.below(tasks)).collect();
    // A page of a mapping that another task cuts off ends the process.
    let mapped = random.below(2) == 0;
    for task in 0..tasks {
        let process = processes[task as usize];
        let has_threads = processes.iter().filter(|one| **one == process).count() > 1;
        let fits = |call: Call| {
            mood.has(call)
                && (kind == Kind::Alone
                    || match call {
                        Call::Touch | Call::Store => mapped,
                        Call::Truncate => !mapped,
                        // The limit is the whole process's.
                        Call::LimitedWrite => !has_threads,
                        _ => true,
                    })
        };
        let its = |file: &usize| owners[*file] == u64::MAX || owners[*file] == task;
        let choice = Choice {
            place,
            files: &program.files,
            its: (0..files as usize).filter(its).collect(),
            operations: OPERATIONS
                .into_iter()
                .filter(|(call, _)| fits(*call))
                .collect(),
        };
        let most = 1 + random.below(if kind == Kind::Alone { 30 } else { 20 });
        let operations = 1 + random.below(most);
        program.tasks.push(Sequence {
            process,
            operations: (0..operations).map(|_| choice.operation(random)).collect(),
        });
    }
    if place == FileSystem::Ext4Tiny {
        let fill = Operation {
            call: Call::Fill,
            numbers: vec![random.below(1 << 20)],
        };
        program.tasks[0].operations.insert(0, fill);
    }
    program
}

/// The calls and files that a task chooses from.
struct Choice<'p> {
    place: FileSystem,
    files: &'p [Made],
    its: Vec<usize>,
    operations: Vec<(Call, u64)>,
}

impl Choice<'_> {
    fn operation(&self, random: &mut Random) -> Operation {
        let files = self.files;
        let sum: u64 = self.operations.iter().map(|(_, weight)| weight).sum();
        let mut lot = random.below(sum);
        let mut call = Call::Pread;
        for (one, weight) in &self.operations {
            if lot < *weight {
                call = *one;
                break;
            }
            lot -= weight;
        }
        let mut numbers: Vec<u64> = Vec::new();
        let mut file = 0;
        let mut files_named = 0;
        for argument in call.arguments() {
            let number = match argument {
                Argument::File => {
                    file = self.its[random.below(self.its.len() as u64) as usize];
                    files_named += 1;
                    file as u64
                }
                // Where blocks can be shared, copy_file_range(2) copies only what is not aligned.
                Argument::Offset if files_named == 2 && self.place.has_reflinks() => {
                    offset(files[file].bytes, random) | 1
                }
                Argument::Offset => offset(files[file].bytes, random),
                Argument::Length if matches!(call, Call::UringRead | Call::UringWrite) => {
                    length(random) % SLOT_BYTES
                }
                Argument::Length => length(random),
                Argument::Good => match random.below(3) {
                    0 => 0,
                    1 => random.below(20) * page_size(),
                    _ => random.below(100_000),
                },
                Argument::Pieces => [2, 3, 17, 100, 1024][random.below(5) as usize],
                Argument::Page => random.below(files[file].bytes / page_size() + 2),
                Argument::Flags => random.below(flags::ALL + 1),
                Argument::Size => size(random),
            };
            numbers.push(number);
        }
        let mut operation = Operation { call, numbers };
        if operation.is_direct() && random.below(8) > 0 {
            align(&mut operation, 512 << (3 * random.below(2)));
        }
        operation
    }
}

/// Makes offset and length multiples of a number.
fn align(operation: &mut Operation, bytes: u64) {
    let arguments = operation.call.arguments().iter();
    for (argument, number) in arguments.zip(&mut operation.numbers) {
        if matches!(argument, Argument::Offset | Argument::Length) {
            *number = *number / bytes * bytes;
        }
    }
}

fn size(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => random.below(200),
        1 => random.below(5) * page_size(),
        2 => random.below(20_000),
        3 => random.below(300) * page_size(),
        _ => random.below(MOST_BYTES),
    }
}

/// A byte of a file, mostly: some are behind its end, and many are where pages or blocks begin.
fn offset(bytes: u64, random: &mut Random) -> u64 {
    let anywhere = random.below(bytes + bytes / 8 + 100);
    match random.below(4) {
        0 => 0,
        1 => anywhere / page_size() * page_size(),
        2 => anywhere / 1024 * 1024,
        _ => anywhere,
    }
}

fn length(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.below(3),
        1 => random.below(200),
        2 => page_size(),
        3 => random.below(40) * page_size(),
        4 | 5 => random.below(30_000),
        6 => random.below(300_000),
        _ => random.below(1 << 20),
    }
}
