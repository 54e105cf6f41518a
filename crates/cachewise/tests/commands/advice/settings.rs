//! Writers that reach the limits of dirty memory, which are settings of the kernel.

use std::path::Path;

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
use crate::support::*;

/// Programs that write faster than a disk with 16 MiB/s does, until the kernel makes them wait.
fn dirty_backlog(program: &str, scenario: &str, burst: &str, smooth: &str) {
    let test = format!("advice::dirty_backlog of {program}");
    let scratch = Scratch::new();
    let Some(disk) = Mounted::ext4(&scratch, 128 * MIB, &["-O", "^has_journal"]) else {
        return;
    };
    let slow = disk.slow_down(16 * MIB).filter(|_| has(&[program], &test));
    let Some((_slow, _limits)) = slow.zip(DirtyLimits::lowered(48 * MIB, 64 * MIB)) else {
        return println!("skipped: {test}: no throttle of writeback, or no limits of dirty memory");
    };
    let from = scratch.file("from", 72 * MIB);
    let to = disk.path("to");
    let run = |script: &str| {
        let _ = std::fs::remove_file(&to);
        let report = report_of_shell(script, &[&from, &to, Path::new(WRITES)]);
        assert!(report.ended.status.success(), "{}", report.ended.err());
        report
    };
    let fault = Fault {
        scenario,
        // Both name the same cause: the backlog is sampled, and may be missed.
        rules: &["dirty_backlog", "dirty_throttling"],
        subject: Subject::Whole,
        figure: ("dirty_limit_bytes", 64 * MIB),
        fix: &["fdatasync every few MiB"],
        // The dirty memory is that of all programs; the waits are those of this one.
        amount: Amount::Time("waited_throttle_seconds"),
        factor: 2,
        warm: &[&from],
    };
    let finding = fault.check(|| run(burst), || run(smooth));
    let rules = finding["rules"].as_array().expect("a list");
    assert!(
        rules.iter().any(|rule| rule == "dirty_throttling"),
        "the waits are evidence: {finding}"
    );
}

/// Copies a file, and writes back after each part of as many MiB as the third argument says; 0 for never.
const WRITES: &str = "
import os, sys
source = open(sys.argv[1], 'rb', buffering=0)
file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
part, number = int(sys.argv[3]), 0
while data := source.read(1 << 20):
    os.write(file, data)
    number += 1
    if part and number % part == 0:
        os.fdatasync(file)
";

pub fn dirty_throttling() {
    dirty_backlog(
        "python3",
        "python copies to a slow disk with vm.dirty_bytes of 64 MiB",
        "python3 -c \"$3\" \"$1\" \"$2\" 0",
        "python3 -c \"$3\" \"$1\" \"$2\" 4",
    );
}

pub fn backlog_of_dd() {
    dirty_backlog(
        "dd",
        "dd to a slow disk with vm.dirty_bytes of 64 MiB",
        "dd if=\"$1\" of=\"$2\" bs=1M status=none",
        "dd if=\"$1\" of=\"$2\" bs=4M oflag=dsync status=none",
    );
}

pub fn backlog_of_tar() {
    dirty_backlog(
        "tar",
        "tar to a slow disk with vm.dirty_bytes of 64 MiB",
        "tar -cf \"$2\" -C / \"${1#/}\"",
        "tar -cf - -C / \"${1#/}\" | dd of=\"$2\" bs=4M iflag=fullblock oflag=dsync status=none",
    );
}
