//! The files, and readers that think between two reads.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cachewise_units::ByteRange;
use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process};

pub const FILES: usize = 500;

/// What is read of a file.
pub const FIRST: ByteRange = ByteRange {
    start: 0,
    len: 4 << 10,
};

/// How long a reader thinks, on the average.
const THINKS: Duration = Duration::from_millis(200);

pub struct Load {
    pub directory: tempfile::TempDir,
}

pub fn name_of(number: usize) -> PathBuf {
    PathBuf::from(format!("file{}/block{}.bin", number / 10, number % 10))
}

impl Load {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let mut random = Random(1);
        for number in 0..FILES {
            let size = [64 << 10, 256 << 10, 1 << 20][number % 3];
            let bytes: Vec<u8> = (0..size / 8)
                .flat_map(|_| random.next().to_le_bytes())
                .collect();
            let path = directory.path().join(name_of(number));
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
            std::fs::write(path, bytes).expect("a file can be written");
        }
        // Old enough to be kept.
        std::thread::sleep(Duration::from_secs(1));
        Self { directory }
    }
}

/// xorshift, which is random enough to choose files and pauses by.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// An exponential pause.
    pub fn pause(&mut self) -> Duration {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        THINKS.mul_f64(-(1.0 - uniform).ln())
    }
}

/// What paced readers met. One that is blocked asks for nothing meanwhile, so the rate tells as much
/// as the percentiles.
pub struct Paced {
    pub rate: f64,
    pub failed: u64,
    histogram: Histogram<u64>,
}

impl Paced {
    pub fn of(histogram: Histogram<u64>, failed: u64, time: Duration) -> Self {
        Self {
            rate: histogram.len() as f64 / time.as_secs_f64(),
            failed,
            histogram,
        }
    }

    pub async fn run<F>(
        readers: usize,
        time: Duration,
        read: impl Fn(usize) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = bool> + Send,
    {
        let end = Instant::now() + time;
        let tasks: Vec<_> = (0..readers)
            .map(|reader| {
                let read = read.clone();
                tokio::spawn(async move {
                    let mut random = Random(0x1234_5678_9ABC_DEF1 ^ (reader as u64 + 1) << 20);
                    let mut histogram = Histogram::<u64>::new(3).expect("three digits");
                    let mut failed = 0;
                    loop {
                        tokio::time::sleep(random.pause()).await;
                        if Instant::now() >= end {
                            return (histogram, failed);
                        }
                        let number = (random.next() % FILES as u64) as usize;
                        let begun = Instant::now();
                        let good = read(number).await;
                        failed += u64::from(!good);
                        let took = begun.elapsed();
                        // What ends after the time is over is in the percentiles, not in the rate.
                        histogram
                            .record(took.as_micros() as u64)
                            .expect("it is small");
                        if Instant::now() >= end {
                            return (histogram, failed);
                        }
                    }
                })
            })
            .collect();
        let mut all = Histogram::<u64>::new(3).expect("three digits");
        let mut failed = 0;
        for task in tasks {
            let (histogram, bad) = task.await.expect("no reader fails");
            all += histogram;
            failed += bad;
        }
        Self::of(all, failed, time)
    }
}

impl std::fmt::Display for Paced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |quantile: f64| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        write!(
            f,
            "{:6.0}/s  p50 {:7.2}  p95 {:7.2}  p99 {:7.2}  max {:7.2} ms  {} errors",
            self.rate,
            ms(0.5),
            ms(0.95),
            ms(0.99),
            self.histogram.max() as f64 / 1e3,
            self.failed
        )
    }
}

/// A process that is stopped, until this is dropped.
pub struct Frozen(Pid);

pub fn freeze(pid: u32) -> Frozen {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, Signal::STOP).expect("it is ours");
    Frozen(pid)
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}
