//! A program that opens files of a mount and reads parts of them until its input ends: this test file itself.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::Advice;

use crate::mounted::part_of;
use crate::support::Started;

const DIRECTORY: &str = "CACHEWISE_TEST_READER";
const SHAPE: &str = "CACHEWISE_TEST_READER_SHAPE";

/// How much is read at a time.
const PART: usize = 4096;

/// Starts a reader on a directory of `files` files of `size` bytes.
pub fn start(directory: &Path, files: usize, size: usize, seed: usize) -> Started {
    let own = std::env::current_exe().expect("a program knows where it is");
    let mut command = Command::new(own);
    command
        .env(DIRECTORY, directory)
        .env(SHAPE, format!("{files} {size} {seed}"))
        .stdin(Stdio::piped());
    Started::of(&mut command)
}

/// The results of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    pub reads: u64,
    pub errors: u64,
    pub wrong: u64,
    pub worst: Duration,
}

/// Has it end, and returns what it met.
pub fn end(mut reader: Started) -> Met {
    drop(reader.child.stdin.take());
    let ended = reader.wait().expect(0, "a reader ends by itself");
    print!("{}", ended.err());
    let out = ended.out();
    let numbers: Vec<u64> = out
        .split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [reads, errors, wrong, worst] = numbers[..] else {
        panic!("four numbers: {out}");
    };
    let worst = Duration::from_micros(worst);
    Met {
        reads,
        errors,
        wrong,
        worst,
    }
}

/// Is one, if it was started as one.
pub fn be_one() -> Option<ExitCode> {
    let directory = PathBuf::from(std::env::var_os(DIRECTORY)?);
    let shape = std::env::var(SHAPE).expect("it comes with it");
    let shape: Vec<usize> = shape
        .split(' ')
        .map(|number| number.parse().expect("a number"))
        .collect();
    let [files, size, seed] = shape[..] else {
        panic!("three numbers");
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        flag.store(true, Ordering::Relaxed);
    });
    let mut state = 0x2545_f491_4f6c_dd1du64.wrapping_mul(seed as u64 + 1);
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut reads, mut errors, mut wrong, mut worst) = (0u64, 0u64, 0u64, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let number = random(files);
        let place = random(size - PART);
        let began = Instant::now();
        let mut part = [0; PART];
        let read = File::open(directory.join(format!("f/{number}"))).and_then(|file| {
            file.read_exact_at(&mut part, place as u64)?;
            Ok(file)
        });
        worst = worst.max(began.elapsed());
        reads += 1;
        match read {
            Ok(file) => {
                wrong += u64::from(part[..] != part_of(number, place, PART));
                // The next read is the mount's again, and not the kernel's.
                let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
            }
            Err(error) => {
                errors += 1;
                eprintln!(
                    "f/{number} at {place}, after {:?}: {error}",
                    began.elapsed()
                );
            }
        }
        // Paced: five a second, as 120 of them make 600.
        std::thread::sleep(Duration::from_millis(200).saturating_sub(began.elapsed()));
    }
    println!("{reads} {errors} {wrong} {}", worst.as_micros());
    let _ = std::io::stdout().flush();
    Some(ExitCode::SUCCESS)
}
