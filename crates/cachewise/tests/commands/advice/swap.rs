//! Memory of programs that is swapped out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
use crate::support::*;

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
    let Some((group, limit)) = group_of(32 * MIB, test) else {
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
    // As many rounds as wait long: devices differ.
    let rounds = [3, 6, 12]
        .into_iter()
        .find(|rounds| is_long(&run(*rounds), "waited_swap_seconds"));
    let Some(rounds) = rounds else {
        return println!("skipped: {test}: swapping takes less than a fifth of the run here");
    };
    let fault = Fault {
        scenario: "python touches 64 MiB in a group of 32 MiB with swap",
        // It waits for its pages and for their room: both name the group's limit.
        rules: &["swap_waits", "direct_reclaim"],
        subject: Subject::Group(&group),
        figure: ("memory_limit_reached", 10),
        fix: &[&limit],
        amount: Amount::Time("waited_swap_seconds"),
        factor: 1,
        warm: &[],
    };
    let large = || {
        group.limit_memory(256 * MIB);
        run(rounds)
    };
    let finding = fault.check(|| run(rounds), large);
    let rules = finding["rules"].as_array().expect("a list");
    assert!(rules.iter().any(|rule| rule == "swap_waits"), "{finding}");
    assert!(
        !step(&finding).contains("swappiness"),
        "the limit to raise, and no setting of the machine: {finding}"
    );
}
