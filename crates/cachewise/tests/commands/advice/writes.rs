//! Writers and memory: tasks that wait for storage without reading a file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kit::*;
use crate::support::*;

/// Writes 192 MiB, and writes back after each part of as many MiB as the second argument says; 0 for never.
const WRITES: &str = "
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
part = int(sys.argv[2])
for number in range(192):
    os.write(file, bytes(1 << 20))
    if part and (number + 1) % part == 0:
        os.fdatasync(file)
";

/// A writer that is faster than the device; with limits of dirty memory that a burst reaches.
pub fn dirty_throttling() {
    if !has(&["python3"], "advice::dirty_throttling") {
        return;
    }
    let Some(_limits) = DirtyLimits::lowered(8 * MIB, 16 * MIB) else {
        println!(
            "skipped: advice::dirty_throttling: the limits of dirty memory cannot be set here"
        );
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.path("file");
    let run = |part: &str| report_of_python(WRITES, &[file.as_os_str(), part.as_ref()]);
    let storm = run("0");
    let found = storm.findings("dirty_throttling");
    assert_eq!(found.len(), 1, "{}", storm.json["findings"]);
    assert!(
        step(found[0]).contains("fdatasync every few MiB"),
        "{}",
        found[0]
    );
    let waited = |report: &Report| {
        let seconds = &report.json["times"]["waited_throttle_seconds"];
        seconds.as_f64().expect("times are measured")
    };
    let smooth = run("4");
    assert_eq!(smooth.findings("dirty_throttling").len(), 0, "the fix");
    assert!(
        waited(&smooth) < waited(&storm),
        "{} and {} s",
        waited(&smooth),
        waited(&storm)
    );
}

/// Space for memory of programs on a file, given back when dropped.
struct Swap(PathBuf);

impl Swap {
    /// `None` where the kernel or the file system refuses it.
    fn on(file: &Path) -> Option<Swap> {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).ok()?;
        let command = |name: &str| {
            let mut command = Command::new(name);
            command
                .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
                .arg(file);
            let output = command.output();
            output.is_ok_and(|output| output.status.success())
        };
        let made = command("mkswap") && command("swapon");
        made.then(|| Swap(file.to_owned()))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let mut command = Command::new("swapoff");
        let command = command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
        let _ = command.arg(&self.0).status();
    }
}

/// Touches 64 MiB of its own memory page by page, each time in another order; the argument is not used.
const TOUCHES: &str = "
import random
size = 64 << 20
memory = bytearray(size)
places = list(range(0, size, 4096))
for number in range(ROUNDS):
    random.Random(number).shuffle(places)
    for place in places:
        memory[place] = number
";

/// A program whose own memory does not fit into its group.
pub fn swap_in_a_small_group() {
    let test = "advice::swap_in_a_small_group";
    let Some((group, limit_path)) = group_of(32 * MIB, test) else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("swap", 128 * MIB);
    let Some(_swap) = Swap::on(&file) else {
        println!("skipped: {test}: a file cannot be used as swap space here");
        return;
    };
    let run = |rounds: u32| {
        let script = TOUCHES.replace("ROUNDS", &rounds.to_string());
        report_in(&group, &script, &file)
    };
    let seconds = |report: &Report, id: &str| {
        let seconds = report.json["times"][id].as_f64();
        seconds.expect("times are measured")
    };
    // As many rounds as wait for a tenth of a second and of the run: devices differ.
    let small = [3, 6, 12].into_iter().find_map(|rounds| {
        let report = run(rounds);
        let waited = seconds(&report, "waited_swap_seconds");
        (waited >= (seconds(&report, "task_seconds") / 10.0).max(0.1)).then_some(report)
    });
    let Some(small) = small else {
        return println!("skipped: {test}: swapping takes less than a tenth of the run here");
    };
    let found = small.findings("swap_waits");
    assert_eq!(found.len(), 1, "{}", small.json["findings"]);
    let name = group.path().file_name().expect("it has a name");
    let name = Path::new("/").join(name);
    assert_eq!(
        (
            found[0]["subject_kind"].as_str(),
            found[0]["subject"].as_str()
        ),
        (Some("group"), name.to_str()),
        "the group has no room: {}",
        found[0]
    );
    assert!(
        step(found[0]).contains(&limit_path) && !step(found[0]).contains("swappiness"),
        "the limit to raise, and no setting of the machine: {}",
        found[0]
    );
    group.limit_memory(256 * MIB);
    let large = run(3);
    assert_eq!(large.findings("swap_waits").len(), 0, "the fix");
    let waited = seconds(&large, "waited_swap_seconds");
    assert!(
        waited < seconds(&small, "waited_swap_seconds"),
        "it waits less: {waited} s"
    );
}
