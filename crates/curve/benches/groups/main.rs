//! Predicted miss ratios against those of real memory groups.
//!
//! Each load reads single pages of a file at random (POSIX_FADV_RANDOM), in a memory group of each size; the second half
//! of its reads counts. `cargo bench -p cachewise-curve --bench groups [LOAD...]`, as root, with the version 1 memory
//! hierarchy or version 2. A difference may also be the machine's: a proactive reclaimer evicts pages of groups too.
//!
//! The policy is that of the running kernel: generations where `/sys/kernel/mm/lru_gen/enabled` has bit 0.
//! CACHEWISE_BENCH_MIB, CACHEWISE_BENCH_READS and CACHEWISE_BENCH_RUNS make the file, the loads and their number smaller;
//! with CACHEWISE_BENCH_POINTS an error of more points than that fails.

mod load;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachewise_curve::{Access, Estimator, Kind, Policy};
use cachewise_units::{PageSize, Pages};
use load::{LOADS, Load};

const PAGE: u64 = 4096;
const SEED: u64 = 11;
/// Sizes, in percent of the file.
const PERCENT: [u64; 4] = [25, 50, 75, 100];

/// Pages that each CPU may keep charged in advance: MEMCG_CHARGE_BATCH.
const STOCK: u64 = 64;

/// The extent of the bench.
#[derive(Debug, Clone, Copy)]
struct Extent {
    file_pages: u64,
    reads: u64,
    /// Runs of each load in each size: with loops, no two are alike.
    runs: u64,
    /// Largest allowed error, in points.
    points: u64,
}

impl Extent {
    /// From the environment, which the children have too.
    fn of_environment() -> Result<Extent, Box<dyn std::error::Error>> {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text.parse().map_err(|error| format!("{name}: {error}")),
            Err(_) => Ok(default),
        };
        Ok(Extent {
            file_pages: number("CACHEWISE_BENCH_MIB", 200)? << 8,
            reads: number("CACHEWISE_BENCH_READS", 400_000)?,
            runs: number("CACHEWISE_BENCH_RUNS", 3)?,
            points: number("CACHEWISE_BENCH_POINTS", 100)?,
        })
    }
}

/// The policy of the running kernel, by the rules of Linux 6.12.
fn policy() -> Policy {
    let enabled = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    let bits = u32::from_str_radix(enabled.trim().trim_start_matches("0x"), 16);
    match bits {
        Ok(bits) if bits & 1 != 0 => Policy::Generations,
        _ => Policy::Lists,
    }
}

/// A memory group of one's own, removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> std::io::Result<Group> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (root, limit) = if v1.is_dir() {
            (v1, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let group = Group(root.join(format!("cachewise-bench-size-{}", std::process::id())));
        fs::create_dir(&group.0)?;
        fs::write(group.0.join(limit), bytes.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The child has ended; a group without tasks can be removed.
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let extent = Extent::of_environment()?;
    if let [how, group, file, name] = &arguments[..]
        && how == "--child"
    {
        fs::write(
            format!("{group}/cgroup.procs"),
            std::process::id().to_string(),
        )?;
        let load = Load::named(name).ok_or("no load of that name")?;
        println!(
            "{}",
            really(load, extent, file, Path::new(group))?.to_text()
        );
        return Ok(());
    }
    let folder =
        tempfile::tempdir_in(std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or("/var/tmp".into()))?;
    let file = folder.path().join("file");
    let mut out = File::create(&file)?;
    for page in 0..extent.file_pages {
        out.write_all(&[page as u8; PAGE as usize])?;
    }
    out.sync_all()?;
    let policy = policy();
    println!("simulated: {policy:?}");
    println!(
        "{:<14} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "load", "memory", "really", "spread", "curve", "error", "LRU", "error"
    );
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let mut largest_error = 0.0_f64;
    for load in LOADS {
        if !arguments.is_empty() && !arguments.iter().any(|name| name == load.name) {
            continue;
        }
        for percent in PERCENT {
            let size = extent.file_pages * percent / 100;
            let (mut sum, mut most, mut least, mut other) = (0.0, 0.0_f64, 1.0_f64, 0);
            for _ in 0..extent.runs {
                rustix::fs::fadvise(&out, 0, None, rustix::fs::Advice::DontNeed)?;
                let group = Group::new(size * PAGE)?;
                let child = Command::new(std::env::current_exe()?)
                    .args([
                        "--child".as_ref(),
                        group.0.as_os_str(),
                        file.as_os_str(),
                        load.name.as_ref(),
                    ])
                    .output()?;
                let text = String::from_utf8_lossy(&child.stdout);
                let really = Really::of_text(&text)
                    .ok_or_else(|| String::from_utf8_lossy(&child.stderr).into_owned())?;
                sum += really.miss_ratio;
                most = most.max(really.miss_ratio);
                least = least.min(really.miss_ratio);
                other = really.other_bytes;
            }
            let really = sum / extent.runs as f64;
            let reserve = other.div_ceil(PAGE) + STOCK * cpus / 2;
            let (curve, lru) = predicted(load, extent, policy, size - reserve);
            println!(
                "{:<14} {:>4} MiB {really:>8.4} {:>8.4} {curve:>8.4} {:>+8.4} {lru:>8.4} {:>+8.4}",
                load.name,
                size >> 8,
                most - least,
                curve - really,
                lru - really
            );
            largest_error = largest_error.max((curve - really).abs() * 100.0);
        }
    }
    println!("largest error: {largest_error:.1} points");
    if largest_error > extent.points as f64 {
        return Err(format!("the error is more than {} points", extent.points).into());
    }
    Ok(())
}

/// Simulates a load in a memory of that size; returns the miss ratios of the policy and of LRU.
fn predicted(load: Load, extent: Extent, policy: Policy, size: u64) -> (f64, f64) {
    let page_size = PageSize::new(PAGE as u32).expect("a power of two");
    let mut estimator = Estimator::with_policy(page_size, Estimator::MAX_PAGES, policy);
    estimator.memory(Pages(size));
    for (number, page) in (0..extent.reads).zip(load.pages(extent.file_pages, SEED)) {
        if number == extent.reads / 2 {
            estimator.start();
        }
        estimator.access(&Access {
            file: 1,
            first: page,
            pages: 1,
            kind: Kind::Read,
            reader: None,
        });
    }
    let curve = estimator.curve(None);
    let given = curve.points.iter().find(|point| point.is_given);
    let ratios = given.and_then(|point| point.miss_ratio.zip(point.lru_miss_ratio));
    ratios.expect("the load reads pages")
}

/// A load as it ran.
struct Really {
    miss_ratio: f64,
    /// Bytes of the group that are no pages of files.
    other_bytes: u64,
}

impl Really {
    fn to_text(&self) -> String {
        format!("{} {}", self.miss_ratio, self.other_bytes)
    }

    fn of_text(text: &str) -> Option<Really> {
        let mut words = text.split_whitespace();
        Some(Really {
            miss_ratio: words.next()?.parse().ok()?,
            other_bytes: words.next()?.parse().ok()?,
        })
    }
}

fn really(load: Load, extent: Extent, file: &str, group: &Path) -> std::io::Result<Really> {
    let file = File::open(file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    let mut buffer = [0; PAGE as usize];
    let mut before = 0;
    let mut other = 0;
    for (number, page) in (0..extent.reads).zip(load.pages(extent.file_pages, SEED)) {
        if number == extent.reads / 2 {
            before = read_bytes(group)?;
            other = other_bytes(group)?;
        }
        file.read_exact_at(&mut buffer, page * PAGE)?;
    }
    let missed = (read_bytes(group)? - before) / PAGE;
    Ok(Really {
        miss_ratio: missed as f64 / (extent.reads - extent.reads / 2) as f64,
        other_bytes: other,
    })
}

/// Memory of programs and of the kernel.
fn other_bytes(group: &Path) -> std::io::Result<u64> {
    let stat = fs::read_to_string(group.join("memory.stat"))?;
    let field = |name: &str| {
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        let mut found = lines.filter(|(field, _)| *field == name);
        found
            .next()
            .and_then(|(_, bytes)| bytes.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let kernel = fs::read_to_string(group.join("memory.kmem.usage_in_bytes"));
    let kernel = kernel.ok().and_then(|text| text.trim().parse().ok());
    Ok(field("rss") + field("anon") + kernel.unwrap_or_else(|| field("kernel")))
}

/// Bytes that devices have delivered to the group; where it has no counts of them, to its process.
fn read_bytes(group: &Path) -> std::io::Result<u64> {
    if let Ok(text) = fs::read_to_string(group.join("io.stat")) {
        let words = text.split_whitespace();
        let bytes = words.filter_map(|word| word.strip_prefix("rbytes=")?.parse::<u64>().ok());
        return Ok(bytes.sum());
    }
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| std::io::Error::other("no read_bytes"))
}
