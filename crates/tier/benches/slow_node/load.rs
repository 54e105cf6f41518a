//! The files, and readers that think between two reads.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cachewise_units::ByteRange;
use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe;

use crate::support::{READERS, cpu_seconds, random_of};

pub const FILES: usize = 500;

/// The range to read of a file.
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
        let mut random = random_of(0);
        for number in 0..FILES {
            let size = [64 << 10, 256 << 10, 1 << 20][number % 3];
            let bytes: Vec<u8> = (0..size / 8)
                .flat_map(|_| random.u64(..).to_le_bytes())
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

/// An exponential pause.
pub fn pause(random: &mut fastrand::Rng) -> Duration {
    THINKS.mul_f64(-(1.0 - random.f64()).ln())
}

/// A pause as exact as a thread's: tokio's own end at whole milliseconds, all those of one millisecond at once, and
/// readers would come in bunches.
struct Timer(pipe::Receiver);

impl Timer {
    fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).expect("a timer can be made");
        // Of what can be read from a descriptor, tokio has pipes that need no unsafe; nothing here is special to them.
        Self(pipe::Receiver::from_owned_fd_unchecked(timer).expect("it can be waited for"))
    }

    async fn sleep(&self, pause: Duration) {
        // Zero would be never.
        let pause = pause.max(Duration::from_nanos(1));
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(pause).expect("it is short"),
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).expect("it can be set");
        loop {
            self.0.readable().await.expect("it is waited for");
            if self.0.try_read(&mut [0; 8]).is_ok() {
                return;
            }
        }
    }
}

/// The results of paced readers. A blocked reader sends no requests meanwhile, so the rate says as
/// much as the percentiles.
#[derive(Clone)]
pub struct Paced {
    histogram: Histogram<u64>,
    failed: u64,
    /// How many ended within the time: what ends later is in the percentiles, and not in the rate.
    within: u64,
    time: Duration,
    /// CPU time of this process meanwhile.
    cpu: f64,
}

impl Paced {
    pub fn new(time: Duration) -> Self {
        Self {
            histogram: Histogram::new(3).expect("three digits"),
            failed: 0,
            within: 0,
            time,
            cpu: 0.0,
        }
    }

    /// Notes a read that has just ended.
    pub fn record(&mut self, begun: Instant, end: Instant, is_good: bool) {
        let now = Instant::now();
        let microseconds = (now - begun).as_micros() as u64;
        self.histogram.record(microseconds).expect("it is small");
        self.failed += u64::from(!is_good);
        self.within += u64::from(now < end);
    }

    /// Adds the results of a concurrent reader.
    pub fn beside(&mut self, other: &Self) {
        self.histogram += &other.histogram;
        self.failed += other.failed;
        self.within += other.within;
    }

    /// Adds the results of another run.
    pub fn and(&mut self, other: &Self) {
        self.beside(other);
        self.time += other.time;
        self.cpu += other.cpu;
    }

    /// Notes how much CPU time this process had when it began.
    pub fn cost(&mut self, cpu_before: f64) {
        self.cpu = cpu_seconds() - cpu_before;
    }

    /// Of a read, in microseconds.
    pub fn cpu(&self) -> f64 {
        1e6 * self.cpu / self.histogram.len() as f64
    }

    pub async fn run<F>(time: Duration, read: impl Fn(usize) -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = bool> + Send,
    {
        let cpu = cpu_seconds();
        let end = Instant::now() + time;
        let tasks: Vec<_> = (0..READERS)
            .map(|reader| {
                let read = read.clone();
                tokio::spawn(async move {
                    let mut random = random_of(reader);
                    let mut met = Self::new(time);
                    let timer = Timer::new();
                    loop {
                        timer.sleep(pause(&mut random)).await;
                        if Instant::now() >= end {
                            return met;
                        }
                        let number = random.usize(..FILES);
                        let begun = Instant::now();
                        let is_good = read(number).await;
                        met.record(begun, end, is_good);
                    }
                })
            })
            .collect();
        let mut all = Self::new(time);
        for task in tasks {
            all.beside(&task.await.expect("no reader fails"));
        }
        all.cost(cpu);
        all
    }

    pub fn rate(&self) -> f64 {
        self.within as f64 / self.time.as_secs_f64()
    }

    /// In milliseconds.
    pub fn at(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1e3
    }

    pub fn failed(&self) -> u64 {
        self.failed
    }
}

impl std::fmt::Display for Paced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:6.0}/s  p50 {:7.2}  p95 {:7.2}  p99 {:7.2}  max {:7.2} ms  {:4.0} us CPU  {} errors",
            self.rate(),
            self.at(0.5),
            self.at(0.95),
            self.at(0.99),
            self.at(1.0),
            self.cpu(),
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
        // It may have ended meanwhile.
        let _ = kill_process(self.0, Signal::CONT);
    }
}
