//! Queries of several commands to the machine.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
pub use cachewise_cli::followed::Followed;
pub use cachewise_cli::host::{hostname, timestamp};
use cachewise_cli::output::explain;
use cachewise_kstat::{Hierarchy, Kernel, Resource as Pressed, Stall, VmStat};
use cachewise_model::{Backend, Count, Measured, Missing, Reason, Source, System};
use cachewise_probe::{Error, ErrorKind, Probe};
use cachewise_units::{Bytes, Pages, escaped};
use rustix::process::{Resource, getrlimit};

/// Fewer open files than this and the probe, which has a descriptor for each program, table and hook,
/// may not get all of them.
pub const ENOUGH_FILES: u64 = 128;

/// Requirement that is missing if the kernel does not know bpf(2).
pub const BPF: &str =
    "a kernel with bpf(2) (CONFIG_BPF_SYSCALL), and a seccomp profile that allows it";

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// The back end of a probe, with the kernel memory that it takes.
pub fn backend(probe: &Probe, kernel: &Kernel) -> Backend {
    Backend {
        name: probe.back_end().id().into(),
        exact: probe.back_end().is_exact(),
        notes: probe.notes().into_iter().map(str::to_owned).collect(),
        kernel_memory_bytes: kernel_memory(kernel),
    }
}

/// The estimates of procfs, and why there is nothing better.
pub fn estimates(note: String) -> Backend {
    Backend {
        name: "procfs".into(),
        exact: false,
        notes: vec![note],
        ..Backend::default()
    }
}

/// Kernel memory of this process's maps and programs.
pub fn kernel_memory(kernel: &Kernel) -> Count {
    match kernel.bpf_memory() {
        Ok(memory) => Measured::Exact(memory.bytes.0),
        Err(_) => Measured::unknown(Reason::FdinfoNotRead),
    }
}

/// CPU time of this process's programs in the kernel; unknown where the kernel does not measure it.
pub fn kernel_seconds(kernel: &Kernel) -> Measured<f64> {
    let is_measured = kernel.setting("kernel.bpf_stats_enabled");
    if !is_measured.is_ok_and(|setting| setting.is_some_and(|value| value.trim() == "1")) {
        return Measured::not_offered(Reason::NotMeasured);
    }
    match kernel.bpf_memory() {
        Ok(held) => Measured::Exact(held.run_time.as_secs_f64()),
        Err(_) => Measured::unknown(Reason::FdinfoNotRead),
    }
}

/// Note on estimates: the reason, and how to get exact numbers.
pub fn why_estimates(error: Error) -> String {
    format!(
        "these are estimates from procfs, because {}",
        why_inexact(error)
    )
}

/// Why programs cannot be loaded into the kernel, and how to get exact numbers: for commands that go on without.
pub fn why_inexact(error: Error) -> String {
    let (why, way_out) = cause_and_fix(error);
    format!("{why}; for exact numbers {way_out}")
}

/// Why programs cannot be loaded into the kernel, and what to do about it.
pub fn why_no_probe(error: Error) -> String {
    let (why, way_out) = cause_and_fix(error);
    format!("{why}; {way_out}")
}

fn cause_and_fix(error: Error) -> (String, String) {
    let files = getrlimit(Resource::Nofile)
        .current
        .filter(|limit| *limit < ENOUGH_FILES);
    let way_out = match (files, kind_of(&error)) {
        (Some(limit), kind) if kind != ErrorKind::Denied => {
            format!("allow more open files than {limit} (ulimit -n {ENOUGH_FILES})")
        }
        _ if error.lacks_bpf() => format!("it needs {BPF}"),
        _ if error.lacks_memory() => more_memory(),
        (_, ErrorKind::Denied) => what_lets_in().into(),
        (_, ErrorKind::Unsupported) => {
            "use Linux 6.1 or later with BTF; CACHEWISE_BPF_LOG=1 shows the kernel's message".into()
        }
        _ => "set CACHEWISE_BPF_LOG=1 to see the kernel's message".into(),
    };
    let why = match missing_capabilities() {
        Some(missing) if kind_of(&error) == ErrorKind::Denied => lack_of(missing),
        _ => explain(&anyhow::Error::from(error)),
    };
    (why, way_out)
}

/// The fix if there is no memory for the probe's tables, which are charged to the control group of this process.
fn more_memory() -> String {
    let kernel = Kernel::new();
    let own = kernel.cgroup_of(std::process::id()).ok().flatten();
    let limit = own.and_then(|group| kernel.memory_limit(&group).ok().flatten());
    match limit {
        Some(limit) => format!(
            "start it outside of this control group, and only the command in the group, or raise {} (now {}): the tables \
             are charged to the group of cachewise; a smaller --max-rows takes less",
            escaped(&limit.path),
            limit.bytes
        ),
        None => "free some memory; a smaller --max-rows takes less".into(),
    }
}

/// The capabilities that this process lacks to load the probe's programs; `None`: it has them, or is not able to look.
fn missing_capabilities() -> Option<&'static str> {
    let held = effective_capabilities().filter(|_| !may_load_programs())?;
    Some(match (held & CAP_BPF != 0, held & CAP_PERFMON != 0) {
        (true, _) => "CAP_PERFMON",
        (false, true) => "CAP_BPF",
        (false, false) => "CAP_BPF and CAP_PERFMON",
    })
}

fn lack_of(capabilities: &str) -> String {
    format!("this process does not have {capabilities}")
}

/// Fails where this process certainly cannot load the probe's programs, before anything is changed for it.
///
/// # Errors
/// Names the capabilities that are missing, and who has them.
pub fn check_capabilities() -> anyhow::Result<()> {
    match missing_capabilities() {
        Some(missing) => anyhow::bail!("{}; {}", lack_of(missing), what_lets_in()),
        None => Ok(()),
    }
}

/// The kind of a failure for the user: without capabilities, or locked down, a kernel returns "invalid" for calls that it
/// would permit to root.
pub fn kind_of(error: &Error) -> ErrorKind {
    match error {
        Error::KernelTypes { .. } => error.kind(),
        _ if error.kind() == ErrorKind::Unsupported
            && (is_locked_down() || !may_load_programs()) =>
        {
            ErrorKind::Denied
        }
        _ => error.kind(),
    }
}

/// The fix if the kernel does not permit BPF programs.
pub fn what_lets_in() -> &'static str {
    // The mapping of the initial user namespace: all ids, to themselves.
    let uids = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let in_namespace = !uids.is_empty() && !uids.split_whitespace().eq(["0", "0", "4294967295"]);
    if is_locked_down() {
        "boot without lockdown=confidentiality, which forbids programs to read kernel memory; lockdown=integrity is fine"
    } else if in_namespace {
        "run it as root outside of this user namespace, whose capabilities do not count for this"
    } else if may_load_programs() && has_seccomp_filter() {
        "allow bpf(2) and perf_event_open(2) in the seccomp profile of this container or service: the capabilities are \
         there"
    } else if may_load_programs() {
        "set CACHEWISE_BPF_LOG=1 to see the kernel's message: the capabilities are there"
    } else {
        "run it as root, or with CAP_BPF and CAP_PERFMON (cachewise doctor --setcap)"
    }
}

/// Whether no program may read the kernel's memory.
fn is_locked_down() -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    read("/sys/kernel/security/lockdown").contains("[confidentiality]")
        || read("/proc/cmdline").contains("lockdown=confidentiality")
}

/// Whether system calls of this process go through a filter.
fn has_seccomp_filter() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.strip_prefix("Seccomp:").map(str::trim) == Some("2"))
}

/// Whether this process has the capabilities to load the probe's programs.
fn may_load_programs() -> bool {
    const BOTH: u64 = CAP_BPF | CAP_PERFMON;
    effective_capabilities().is_some_and(|held| held & BOTH == BOTH || held & CAP_SYS_ADMIN != 0)
}

/// A process by its number, and its name where that can be read.
pub fn named(pid: u32) -> String {
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(name) => format!(
            "{pid} ({})",
            escaped(OsStr::from_bytes(name.trim_ascii_end()))
        ),
        Err(_) => pid.to_string(),
    }
}

/// Text: the users who may read /proc of a process, by the kernel's rule for tracing. Root without the capabilities of
/// the process may not.
pub fn who_may_look(pid: u32) -> String {
    match rustix::process::geteuid().is_root() {
        true => format!(
            "even root needs the capabilities that process {pid} has (CapPrm of /proc/{pid}/status), or CAP_SYS_PTRACE; \
             `capsh --print` shows yours"
        ),
        false => "ask as its owner or as root".to_owned(),
    }
}

/// Whether control groups are named by the version 1 memory hierarchy.
pub fn uses_cgroup_v1(kernel: &Kernel) -> bool {
    matches!(kernel.cgroup_hierarchy(), Ok(Hierarchy::V1Memory { .. }))
}

/// The release of its kernel.
pub fn release(kernel: &Kernel) -> String {
    kernel.release().unwrap_or_else(|_| "?".into())
}

/// The machine, and how it is counted.
pub fn source(kernel: &Kernel, backend: Backend) -> Source {
    Source {
        hostname: hostname(kernel),
        kernel: release(kernel),
        page_size: Some(cachewise_sys::page_size()),
        backend,
    }
}

/// The state of the machine, as far as it can be read, and what has happened to its memory since boot.
pub fn system(kernel: &Kernel, vmstat: &VmStat) -> Result<System> {
    const NOT_TOLD: Missing = Missing::NotOffered(Reason::NotToldApart);
    const OF_A_GROUP: Missing = Missing::NotOffered(Reason::GroupsOnly);
    let memory = kernel
        .meminfo()
        .context("cannot read the state of memory")?;
    let count = |number: Option<u64>| number.map_or(Measured::Missing(NOT_TOLD), Measured::Exact);
    let bytes = |number: Option<Bytes>| count(number.map(|bytes| bytes.0));
    let pages = |number: Option<Pages>| count(number.map(|pages| pages.0));
    let page = cachewise_sys::page_size();
    let in_bytes = |number: Option<Pages>| bytes(number.map(|pages| pages.bytes(page)));
    let mut system = System {
        memory_total_bytes: Measured::Exact(memory.total.0),
        memory_used_bytes: Measured::Missing(OF_A_GROUP),
        memory_limit_bytes: Measured::Missing(OF_A_GROUP),
        memory_limit_reached: Measured::Missing(OF_A_GROUP),
        free_bytes: Measured::Exact(memory.free.0),
        available_bytes: bytes(memory.available),
        buffers_bytes: Measured::Exact(memory.buffers.0),
        cached_bytes: Measured::Exact(memory.cached.0),
        dirty_bytes: Measured::Exact(memory.dirty.0),
        writeback_bytes: Measured::Exact(memory.writeback.0),
        active_file_bytes: bytes(memory.active_file),
        inactive_file_bytes: bytes(memory.inactive_file),
        mapped_bytes: Measured::Exact(memory.mapped.0),
        shmem_bytes: bytes(memory.shmem),
        anon_bytes: bytes(memory.anon),
        mlocked_bytes: bytes(memory.mlocked),
        unevictable_bytes: bytes(memory.unevictable),
        slab_reclaimable_bytes: bytes(memory.slab_reclaimable),
        swap_total_bytes: Measured::Exact(memory.swap_total.0),
        swap_used_bytes: Measured::Exact(memory.swap_total.0.saturating_sub(memory.swap_free.0)),
        page_faults: count(vmstat.pgfault),
        major_faults: count(vmstat.pgmajfault),
        file_refault_pages: pages(vmstat.workingset_refault_file),
        anon_refault_pages: pages(vmstat.workingset_refault_anon),
        scanned_pages: pages(vmstat.pgscan),
        reclaimed_pages: pages(vmstat.pgsteal),
        swap_in_pages: pages(vmstat.pswpin),
        swap_out_pages: pages(vmstat.pswpout),
        written_back_pages: pages(vmstat.nr_written),
        oom_kills: count(vmstat.oom_kill),
        dirty_limit_bytes: in_bytes(vmstat.dirty_threshold),
        dirty_background_bytes: in_bytes(vmstat.dirty_background_threshold),
        ..System::default()
    };
    for (resource, some, full) in [
        (Pressed::Cpu, &mut system.psi_cpu_some_seconds, None),
        (
            Pressed::Memory,
            &mut system.psi_memory_some_seconds,
            Some(&mut system.psi_memory_full_seconds),
        ),
        (
            Pressed::Io,
            &mut system.psi_io_some_seconds,
            Some(&mut system.psi_io_full_seconds),
        ),
    ] {
        let pressure = kernel.pressure(resource).ok().flatten();
        *some = stalled(pressure.and_then(|pressure| pressure.some));
        if let Some(full) = full {
            *full = stalled(pressure.and_then(|pressure| pressure.full));
        }
    }
    Ok(system)
}

/// The time lost to waiting so far, in microseconds.
pub fn stalled(stall: Option<Stall>) -> Count {
    stall.map_or(Measured::not_offered(Reason::NoPressure), |stall| {
        Measured::Exact(u64::try_from(stall.total.as_micros()).unwrap_or(u64::MAX))
    })
}

/// The effective capabilities of this process, a bit for each.
pub fn effective_capabilities() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}
