//! Capabilities and limits of this process, and how to raise them.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_model::{Check, State, shell_quoted};
use cachewise_units::Bytes;
use rustix::process::{Resource, getrlimit};

use crate::machine::{ENOUGH_FILES, effective_capabilities};

/// By their numbers in linux/capability.h, and what each is for.
const CAPABILITIES: [(u32, &str, &str); 5] = [
    (39, "cap_bpf", "the probe cannot be loaded"),
    (38, "cap_perfmon", "the probe cannot be loaded"),
    (
        3,
        "cap_fowner",
        "the residency of other users' files is unknown",
    ),
    (
        2,
        "cap_dac_read_search",
        "other users' directories cannot be walked, and the files of their processes cannot be listed",
    ),
    (
        14,
        "cap_ipc_lock",
        "files cannot be locked beyond the limit of locked memory",
    ),
];

/// Capabilities for counting. None of them opens a file of another user.
const TO_COUNT: &str = "cap_bpf,cap_perfmon";

/// Capabilities and limits.
pub fn checks(kernel: &Kernel) -> Vec<Check> {
    const AREA: &str = "rights";
    let mut checks = Vec::new();
    let Some(effective) = effective_capabilities() else {
        checks.push(Check::ok(AREA, "capabilities", "not in /proc/self/status").is(State::Missing));
        return checks;
    };
    for (number, name, meaning) in CAPABILITIES {
        // CAP_SYS_ADMIN had the first two in it before Linux 5.8, and still has.
        let is_there = effective & (1 << number) != 0 || number >= 38 && effective & (1 << 21) != 0;
        let check = Check::ok(AREA, name, if is_there { "held" } else { "not held" });
        checks.push(if is_there {
            check
        } else {
            check
                .is(State::Missing)
                .means(meaning)
                .by("run it as root, or see cachewise doctor --setcap")
        });
    }
    let unprivileged = kernel
        .setting("kernel.unprivileged_bpf_disabled")
        .ok()
        .flatten();
    if let Some(value) = unprivileged {
        checks.push(Check::ok(
            AREA,
            "unprivileged_bpf_disabled",
            format!("{value}: programs of this kind need capabilities either way"),
        ));
    }
    if let Some(value) = kernel.setting("kernel.perf_event_paranoid").ok().flatten() {
        checks.push(Check::ok(AREA, "perf_event_paranoid", value));
    }
    let amount =
        |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| Bytes(limit).to_string());
    let locked = getrlimit(Resource::Memlock);
    let check = Check::ok(AREA, "memlock_limit", amount(locked.current));
    checks.push(match locked.current {
        Some(limit) if limit < 64 << 20 && effective & (1 << 14) == 0 => check
            .is(State::Limited)
            .means("cachewise lock can lock at most this much memory")
            .by("ulimit -l unlimited; for a service LimitMEMLOCK=infinity"),
        _ => check,
    });
    let files = getrlimit(Resource::Nofile).current;
    let count = files.map_or("unlimited".to_owned(), |files| files.to_string());
    let check = Check::ok(AREA, "open_files_limit", count);
    checks.push(match files {
        Some(files) if files < ENOUGH_FILES => check
            .is(State::Limited)
            .means("the probe needs a descriptor for each program and map, and may not get all of them")
            .by(format!("ulimit -n {ENOUGH_FILES}")),
        _ => check,
    });
    checks
}

/// The line that lets the members of a group count. It is for the user to read and to run.
pub fn print_setcap() -> Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let own = shell_quoted(&own);
    let line = format!(
        "sudo chgrp adm {own} && sudo chmod 0750 {own} && sudo setcap {TO_COUNT}+ep {own}\n"
    );
    match std::io::stdout().write_all(line.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written
            .map(|()| ExitCode::SUCCESS)
            .context("cannot write to standard output"),
    }
}
