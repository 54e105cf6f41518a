//! Predicted miss ratios against those of real memory groups.
//!
//! Each load reads single pages of a file at random (POSIX_FADV_RANDOM), in a memory group of each size; the second half
//! of its reads counts. `cargo bench -p cachewise-curve --bench groups [LOAD...]`, as root, with the version 1 memory
//! hierarchy or version 2. A difference may also be the machine's: a proactive reclaimer evicts pages of groups too.

mod load;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachewise_curve::{Access, Estimator, Kind};
use cachewise_units::{PageSize, Pages};
use load::{LOADS, Load};

const PAGE: u64 = 4096;
const FILE_PAGES: u64 = 200 << 8;
const READS: u64 = 400_000;
const SEED: u64 = 11;
/// Runs of each load in each size: with loops, no two are alike.
const RUNS: u32 = 3;
/// Sizes, in percent of the file.
const PERCENT: [u64; 4] = [25, 50, 75, 100];

/// Pages that each CPU may keep charged in advance: MEMCG_CHARGE_BATCH.
const STOCK: u64 = 64;

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
    if let [how, group, file, name] = &arguments[..]
        && how == "--child"
    {
        fs::write(
            format!("{group}/cgroup.procs"),
            std::process::id().to_string(),
        )?;
        let load = Load::named(name).ok_or("no load of that name")?;
        println!("{}", really(load, file, Path::new(group))?.to_text());
        return Ok(());
    }
    let folder =
        tempfile::tempdir_in(std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or("/var/tmp".into()))?;
    let file = folder.path().join("file");
    let mut out = File::create(&file)?;
    for page in 0..FILE_PAGES {
        out.write_all(&[page as u8; PAGE as usize])?;
    }
    out.sync_all()?;
    println!(
        "{:<14} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "load", "memory", "really", "spread", "curve", "error", "LRU", "error"
    );
    let cpus = std::thread::available_parallelism()?.get() as u64;
    for load in LOADS {
        if !arguments.is_empty() && !arguments.iter().any(|name| name == load.name) {
            continue;
        }
        for percent in PERCENT {
            let size = FILE_PAGES * percent / 100;
            let (mut sum, mut most, mut least, mut other) = (0.0, 0.0_f64, 1.0_f64, 0);
            for _ in 0..RUNS {
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
            let really = sum / f64::from(RUNS);
            let reserve = other.div_ceil(PAGE) + STOCK * cpus / 2;
            let (curve, lru) = predicted(load, size - reserve);
            println!(
                "{:<14} {:>4} MiB {really:>8.4} {:>8.4} {curve:>8.4} {:>+8.4} {lru:>8.4} {:>+8.4}",
                load.name,
                size >> 8,
                most - least,
                curve - really,
                lru - really
            );
        }
    }
    Ok(())
}

/// Simulates a load in a memory of that size; returns the miss ratios of the kernel's lists and of LRU.
fn predicted(load: Load, size: u64) -> (f64, f64) {
    let page_size = PageSize::new(PAGE as u32).expect("a power of two");
    let mut estimator = Estimator::new(page_size, Estimator::MAX_PAGES);
    estimator.memory(Pages(size));
    for (number, page) in (0..READS).zip(load.pages(FILE_PAGES, SEED)) {
        if number == READS / 2 {
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

fn really(load: Load, file: &str, group: &Path) -> std::io::Result<Really> {
    let file = File::open(file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    let mut buffer = [0; PAGE as usize];
    let mut before = 0;
    let mut other = 0;
    for (number, page) in (0..READS).zip(load.pages(FILE_PAGES, SEED)) {
        if number == READS / 2 {
            before = read_bytes()?;
            other = other_bytes(group)?;
        }
        file.read_exact_at(&mut buffer, page * PAGE)?;
    }
    let missed = (read_bytes()? - before) / PAGE;
    Ok(Really {
        miss_ratio: missed as f64 / (READS - READS / 2) as f64,
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

fn read_bytes() -> std::io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| std::io::Error::other("no read_bytes"))
}
