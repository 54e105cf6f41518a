//! Runs of a load in a memory group: as it is, watched by `cachewise size`, and counted.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Outcome;
use crate::group::{Charged, Group};
use crate::loads::Load;

/// Joins the group `$1`, runs a command, and writes the account of its input and output to the file `$2`.
const IN_GROUP: &str = r#"
echo $$ >"$1/cgroup.procs"
account=$2
shift 2
"$@"
status=$?
cat /proc/$$/io >"$account"
exit $status
"#;

/// Ratios by requested pages; `size` predicts them and a run in a group has them.
#[derive(Debug, Clone, Copy)]
pub struct Ratios {
    /// Requested pages that were not resident.
    pub missed: f64,
    /// Pages that devices delivered.
    pub fetched: f64,
}

/// The prediction of `size` for a limit.
#[derive(Debug, Clone, Copy)]
pub struct Predicted {
    pub ratios: Ratios,
    /// Fetched under plain LRU.
    pub lru: f64,
}

/// A run of a load.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    pub ratios: Ratios,
    /// Pages that the block layer read for the load, by the kernel's account of its tasks; metadata included.
    pub kernel: f64,
}

/// Runs a load in a group without limit; returns the memory that it takes.
pub fn charged(load: &Load, folder: &Path) -> Outcome<Charged> {
    load.evict()?;
    let group = Group::new(None)?;
    let watch = group.watch();
    let mut command = in_group(load, &group, folder)?;
    run(Command::new(command.remove(0)).args(command))?;
    watch.finish()
}

/// Runs a load in a group without limit under `size`; returns what that says about each limit.
pub fn predicted(load: &Load, limits: &[u64], folder: &Path) -> Outcome<Vec<Predicted>> {
    load.evict()?;
    let group = Group::new(None)?;
    let json = curve_of(folder);
    let mut size = Command::new(env!("CARGO_BIN_EXE_cachewise"));
    size.arg("size").arg("--cgroup").arg(&group.path);
    if std::env::var_os("CACHEWISE_SIZE_SAMPLED").is_none() {
        size.arg("--full-sample");
    }
    for limit in limits {
        size.arg("--memory").arg(limit.to_string());
    }
    if let Some(svg) = plot_of(load) {
        size.arg("--svg").arg(svg);
    }
    let mut output = OsString::from("json=");
    output.push(&json);
    let watcher = size.arg("-o").arg(output).stderr(Stdio::null()).spawn()?;
    let mut watcher = Watcher(watcher);
    watcher.wait_until_it_watches()?;
    let mut command = in_group(load, &group, folder)?;
    run(Command::new(command.remove(0)).args(command))?;
    let status = watcher.finish()?;
    let document: Value = serde_json::from_slice(&fs::read(&json)?)?;
    if document["lost"]
        .as_array()
        .is_some_and(|lost| !lost.is_empty())
    {
        eprintln!("{}: {status}, lost: {}", load.name, document["lost"]);
    }
    let rows = document["rows"].as_array().ok_or("no rows")?;
    let row_of = |limit: &u64| {
        // The limit is that of a whole number of pages beside the other memory.
        let distance = |row: &&Value| {
            row["size_memory_bytes"]
                .as_u64()
                .map(|bytes| bytes.abs_diff(*limit))
        };
        let row = rows.iter().min_by_key(distance).ok_or("no rows")?;
        let number = |field: &str| row[field].as_f64().ok_or_else(|| format!("no {field}"));
        Ok(Predicted {
            ratios: Ratios {
                missed: number("size_miss_ratio")?,
                fetched: number("size_fetched_ratio")?,
            },
            lru: number("size_lru_miss_ratio")?,
        })
    };
    limits.iter().map(row_of).collect()
}

/// Runs a load in a group with a limit, and counts.
pub fn counted(load: &Load, limit: u64, folder: &Path) -> Outcome<Counted> {
    load.evict()?;
    let group = Group::new(Some(limit))?;
    let json = folder.join("run.json");
    let mut output = OsString::from("json=");
    output.push(&json);
    let mut counting = Command::new(env!("CARGO_BIN_EXE_cachewise"));
    counting.arg("run").arg("-o").arg(output).arg("--");
    run(counting.args(in_group(load, &group, folder)?))?;
    let document: Value = serde_json::from_slice(&fs::read(&json)?)?;
    let sum = |fields: &[&str]| -> Outcome<f64> {
        let number = |field: &&str| {
            document["totals"][field]
                .as_f64()
                .ok_or_else(|| format!("no {field}"))
        };
        Ok(fields.iter().map(number).sum::<Result<f64, String>>()?)
    };
    let requested = sum(&["read_requested_pages", "fault_requests"])?;
    let missed = sum(&["read_missed_pages", "fault_miss_pages"])?;
    let ahead = sum(&["readahead_pages", "prefetch_pages", "fault_readahead_pages"])?;
    let account = fs::read_to_string(account(folder))?;
    let mut lines = account.lines();
    let read = lines.find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<f64>().ok());
    Ok(Counted {
        ratios: Ratios {
            missed: missed / requested,
            fetched: (missed + ahead) / requested,
        },
        kernel: read.ok_or("no read_bytes")? / 4096.0 / requested,
    })
}

/// The file of the plot of a load, if plots were requested.
pub fn plot_of(load: &Load) -> Option<PathBuf> {
    let folder = std::env::var_os("CACHEWISE_PLOT_DIR")?;
    Some(Path::new(&folder).join(format!("{}.svg", load.name)))
}

/// The file of the last predicted curve.
pub fn curve_of(folder: &Path) -> PathBuf {
    folder.join("size.json")
}

fn account(folder: &Path) -> PathBuf {
    folder.join("account")
}

fn in_group(load: &Load, group: &Group, folder: &Path) -> Outcome<Vec<OsString>> {
    let mut words = ["sh", "-c", IN_GROUP, "group"].map(OsString::from).to_vec();
    words.extend([
        group.path.clone().into_os_string(),
        account(folder).into_os_string(),
    ]);
    words.extend(load.command()?);
    Ok(words)
}

fn run(command: &mut Command) -> Outcome<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

/// `cachewise size`, killed when dropped.
struct Watcher(Child);

impl Watcher {
    /// The thread that simulates starts when the probe is attached.
    fn wait_until_it_watches(&mut self) -> Outcome<()> {
        let threads = format!("/proc/{}/task", self.0.id());
        while self.0.try_wait()?.is_none() {
            let is_there = fs::read_dir(&threads)?.flatten().any(|thread| {
                fs::read_to_string(thread.path().join("comm"))
                    .is_ok_and(|name| name.trim() == "simulate")
            });
            if is_there {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("size ended early".into())
    }

    fn finish(mut self) -> Outcome<std::process::ExitStatus> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        Ok(self.0.wait()?)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
