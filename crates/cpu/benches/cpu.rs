//! How well `cpu table` measures, on this machine as it is now: its latencies against a bare chase in C of the same
//! order, and how often 15 sweeps find the levels, how fast and how large, with the other CPU busy.
//!
//! `CACHEWISE_SWEEPS` sets their number. `CACHEWISE_MULTICHASE`, the path of google/multichase, takes that instead of the
//! bare chase.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_cpu::measure::chase::{Arena, PageKind};
use cachewise_cpu::measure::estimate::{Trust, quantile};
use cachewise_cpu::measure::order::{Order, visits};
use cachewise_cpu::measure::pin::{Pinned, allowed};
use cachewise_cpu::measure::sweep::samples;
use cachewise_cpu::{Hierarchy, TableOptions, Topology};
use cachewise_units::{Bytes, PageSize};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const SIZES: [(&str, usize, f64, f64); 4] = [
    ("L1", 16 << 10, 0.95, 1.05),
    ("L2", 256 << 10, 0.95, 1.05),
    ("L3", 4 << 20, 0.90, 1.10),
    ("memory", 256 << 20, 0.90, 1.10),
];

const ROUNDS: u64 = 7;

fn main() -> Outcome<()> {
    let cpus = allowed()?;
    let cpu = cpus.first().ok_or("no CPU")?;
    compare(cpu)?;
    sweeps(cpu, cpus.iter().nth(1))
}

/// Program to compare our latencies with.
enum Other {
    /// `benches/chase.c`, compiled.
    Bare(PathBuf),
    /// google/multichase, by its path.
    Multichase(PathBuf),
}

impl Other {
    /// A latency in nanoseconds; of the bare chase this part of its samples is not above it.
    fn latency(&self, order: Order, size: usize, seed: u64, part: f64) -> Outcome<f64> {
        let is_local = order == Order::PageLocal;
        let output = match self {
            Other::Bare(program) => Command::new(program)
                .args([
                    size.to_string(),
                    u8::from(is_local).to_string(),
                    seed.to_string(),
                ])
                .arg("200")
                .stdin(Stdio::null())
                .output()?,
            // At random inside of 32 pages, or of everything; the best of its samples of half a second.
            Other::Multichase(program) => Command::new(program)
                .args(["-s", "64", "-n", "2", "-m", &size.to_string(), "-T"])
                .arg(if is_local { size.min(32 << 12) } else { size }.to_string())
                .stdin(Stdio::null())
                .output()?,
        };
        let text = String::from_utf8(output.stdout)?;
        let figures: Vec<f64> = text
            .lines()
            .filter_map(|line| line.trim().parse().ok())
            .collect();
        let part = if matches!(self, Other::Bare(_)) {
            part
        } else {
            0.0
        };
        let found = quantile(&figures, part);
        found.ok_or_else(|| {
            let why = String::from_utf8_lossy(&output.stderr);
            format!("what the latencies are compared with tells none: {text:?} {why}").into()
        })
    }
}

fn other(place: &Path) -> Outcome<Other> {
    if let Some(path) = std::env::var_os("CACHEWISE_MULTICHASE") {
        return Ok(Other::Multichase(path.into()));
    }
    let program = place.join("chase");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/chase.c");
    let compiled = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(source)
        .status()?;
    if !compiled.success() {
        return Err("cc does not compile benches/chase.c".into());
    }
    Ok(Other::Bare(program))
}

/// Rounds by turns, the median of their ratios.
fn compare(cpu: u32) -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let other = other(place.path())?;
    let _pinned = Pinned::to(cpu)?;
    let name = match &other {
        Other::Bare(_) => "a bare chase in C of the same order".to_owned(),
        Other::Multichase(path) => path.display().to_string(),
    };
    println!("against {name}, {ROUNDS} rounds by turns on CPU {cpu}");
    println!(
        "{:8} {:>11} {:>9} {:>9} {:>7}",
        "LEVEL", "ORDER", "OURS", "OTHER", "RATIO"
    );
    for (name, size, low, high) in SIZES {
        for order in [Order::PageLocal, Order::Random] {
            // Memory is what most loads go to: there the median counts.
            let part = if name == "memory" { 0.5 } else { 0.1 };
            let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for seed in 0..ROUNDS {
                let mut arena = Arena::new(size, PageKind::Small)?;
                let mut circle = arena
                    .link(visits(order, size, 64, 4096, seed))
                    .ok_or("nothing to link")?;
                let least = if size > 4 << 20 { 4096 } else { 0 };
                let own = samples(&mut circle, least, Duration::from_millis(30));
                drop(arena);
                let own = quantile(&own, part).ok_or("no samples")?;
                let bare = other.latency(order, size, seed, part)?;
                ours.push(own);
                theirs.push(bare);
                ratios.push(own / bare);
            }
            let middle = |figures: &[f64]| quantile(figures, 0.5).unwrap_or(f64::NAN);
            let ratio = middle(&ratios);
            // Neighbours in the same cache: neither figure is the cache's.
            let is_contended = [&ours, &theirs].iter().any(|figures| {
                let ends = quantile(figures, 0.0).zip(quantile(figures, 1.0));
                ends.is_none_or(|(low, high)| Trust::from_range(low, high) == Trust::Contended)
            });
            let verdict = match (low..=high).contains(&ratio) {
                true => "",
                false if is_contended => "  contended: try again when it is quiet",
                false => "  OUTSIDE of what was to be reached",
            };
            let order = if order == Order::PageLocal {
                "page-local"
            } else {
                "random"
            };
            println!(
                "{name:8} {order:>11} {:9.2} {:9.2} {ratio:7.3}{verdict}",
                middle(&ours),
                middle(&theirs)
            );
        }
    }
    Ok(())
}

/// Sweeps one after the other, the first third alone, the second with the other CPU adding, the last with it going
/// through memory.
fn sweeps(cpu: u32, other: Option<u32>) -> Outcome<()> {
    let count: usize = std::env::var("CACHEWISE_SWEEPS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(15);
    let topology = Topology::read("/sys".as_ref())?;
    let told: Vec<_> = topology.data_path(cpu).into_iter().cloned().collect();
    let options = TableOptions {
        cpu: Some(cpu),
        largest: None,
        pages: PageKind::Small,
        page: PageSize::new(rustix::param::page_size() as u32).ok_or("an odd page size")?,
        time: Duration::from_secs(3),
    };
    println!(
        "\n{count} sweeps of CPU {cpu}; sysfs says {} levels and memory",
        told.len()
    );
    let (mut right, mut slowest) = (0, Duration::ZERO);
    for sweep in 0..count {
        let load = [Load::None, Load::Adding, Load::Memory][sweep * 3 / count.max(1)];
        let found = beside(load, other, || Hierarchy::measure(&topology, &options))??;
        right += usize::from(found.found == told.len() + 1);
        slowest = slowest.max(found.took);
        let levels: Vec<String> = found
            .levels
            .iter()
            .map(|level| {
                let ns = level
                    .local
                    .map_or("?".into(), |local| format!("{:.2} ns", local.value));
                let size = level
                    .capacity
                    .map_or("-".into(), |size| Bytes(size.value as u64).to_string());
                format!("{} {size} {ns}", level.name)
            })
            .collect();
        println!(
            "{:2} {load:?}: {} levels in {:.1} s: {}",
            sweep + 1,
            found.found,
            found.took.as_secs_f64(),
            levels.join("; ")
        );
    }
    println!(
        "the number of levels was right in {right} of {count}; the slowest took {:.1} s",
        slowest.as_secs_f64()
    );
    Ok(())
}

/// Load on the other CPU during the measurement.
#[derive(Debug, Clone, Copy)]
enum Load {
    None,
    Adding,
    Memory,
}

fn beside<T>(load: Load, other: Option<u32>, go: impl FnOnce() -> T) -> Outcome<T> {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(other) = other {
            scope.spawn(move || {
                let _pinned = Pinned::to(other);
                let mut memory = vec![
                    1u64;
                    if matches!(load, Load::Memory) {
                        8 << 20
                    } else {
                        64
                    }
                ];
                while !stop.load(Ordering::Relaxed) && !matches!(load, Load::None) {
                    memory
                        .iter_mut()
                        .for_each(|word| *word = word.wrapping_mul(3));
                    std::hint::black_box(&mut memory);
                }
            });
        }
        let done = go();
        stop.store(true, Ordering::Relaxed);
        Ok(done)
    })
}
