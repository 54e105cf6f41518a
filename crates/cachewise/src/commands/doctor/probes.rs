//! The kernel, and every way to count that it may offer: each is tried.

use std::error::Error as _;

use cachewise_kstat::{Hierarchy, Kernel};
use cachewise_model::{Check, State};
use cachewise_probe::{BackEnd, Error, ErrorKind, Options, Probe, Way};
use cachewise_sys::{CounterKind, try_counter};

use crate::machine;
use cachewise_cli::output::explain_causes;

/// Features of the kernel that all counting needs.
pub fn kernel(kernel: &Kernel) -> Vec<Check> {
    const AREA: &str = "kernel";
    let mut checks = vec![
        Check::ok(AREA, "release", machine::release(kernel)),
        Check::ok(AREA, "page_size", cachewise_sys::page_size().to_string()),
    ];
    checks.push(cachestat());
    let btf = std::fs::metadata("/sys/kernel/btf/vmlinux");
    checks.push(match btf {
        Ok(found) => Check::ok(AREA, "btf", format!("{} KiB of types", found.len() / 1024)),
        Err(error) => Check::ok(AREA, "btf", format!("/sys/kernel/btf/vmlinux: {error}"))
            .is(State::Missing)
            .means("BPF programs cannot be adapted to this kernel, so all numbers are estimates")
            .by("a kernel built with CONFIG_DEBUG_INFO_BTF, as those of distributions are")
            .needed(),
    });
    checks.push(match kernel.cgroup_hierarchy() {
        Ok(Hierarchy::V2 { mount }) => Check::ok(
            AREA,
            "cgroups",
            format!("version 2, at {}", mount.display()),
        ),
        Ok(Hierarchy::V1Memory { mount }) => Check::ok(
            AREA,
            "cgroups",
            format!("version 1, at {}", mount.display()),
        )
        .is(State::Limited)
        .means("memory of control groups is reported, but not their pressure and reclaim")
        .by("boot with systemd.unified_cgroup_hierarchy=1 and cgroup_no_v1=all"),
        Ok(Hierarchy::None) => Check::ok(AREA, "cgroups", "none that accounts memory is mounted")
            .is(State::Missing)
            .means("no number is reported by control group")
            .by("mount -t cgroup2 none /sys/fs/cgroup"),
        Err(error) => Check::ok(AREA, "cgroups", error.to_string()).is(State::Missing),
    });
    let pressure = kernel.pressure(cachewise_kstat::Resource::Memory);
    checks.push(match pressure {
        Ok(Some(_)) => Check::ok(AREA, "psi", "/proc/pressure"),
        Ok(None) => Check::ok(AREA, "psi", "none")
            .is(State::Missing)
            .means("time lost to waiting for memory is unknown, so thrashing is not detected")
            .by("a kernel built with CONFIG_PSI; boot with psi=1"),
        Err(error) => Check::ok(AREA, "psi", error.to_string()).is(State::Missing),
    });
    checks
}

/// On a file of this program's own, which it may ask about.
fn cachestat() -> Check {
    let own = std::env::current_exe().ok();
    let asked = own.as_deref().map(cachewise_sys::resident);
    match asked {
        Some(Ok(_)) => Check::ok("kernel", "cachestat", "there"),
        Some(Err(error)) if error.kind() == cachewise_sys::ErrorKind::Denied => Check::ok(
            "kernel",
            "cachestat",
            "there, for files that this user owns or may write",
        )
        .is(State::Limited)
        .means("the residency of other users' files is `?`")
        .by("run it as root, or as a service with the ambient capability CAP_FOWNER"),
        Some(Err(error)) => Check::ok("kernel", "cachestat", error.to_string())
            .is(State::Missing)
            .means("residency is read by mincore(2), page by page, which takes longer")
            .by("Linux 6.5 or later"),
        None => Check::ok(
            "kernel",
            "cachestat",
            "not tried, /proc/self/exe cannot be read",
        )
        .is(State::Missing),
    }
}

/// The probe with its groups of programs, and other ways to count.
pub fn ways(attached: &Result<Probe, Error>, kernel: &Kernel) -> Vec<Check> {
    let (mut checks, back_end) = probe(attached, kernel);
    for way in Way::ALL {
        checks.push(hook(way));
    }
    checks.push(counter(
        CounterKind::Software,
        "perf_software",
        "nothing here needs it",
    ));
    let of_cpu = "the CPU caches cannot be observed; virtual machines often have no counters";
    checks.push(counter(CounterKind::Hardware, "perf_hardware", of_cpu));
    checks.push(counter(
        CounterKind::HardwareCache,
        "perf_hardware_cache",
        of_cpu,
    ));
    checks.extend(back_ends(back_end));
    checks
}

fn probe(attached: &Result<Probe, Error>, kernel: &Kernel) -> (Vec<Check>, BackEnd) {
    const AREA: &str = "probe";
    let probe = match attached {
        Ok(probe) => probe,
        Err(error) => {
            let step = match machine::kind_of(error) {
                _ if error.lacks_bpf() => machine::BPF,
                ErrorKind::Denied => machine::what_lets_in(),
                ErrorKind::Unsupported => "Linux 6.1 or later with BTF",
                _ => "CACHEWISE_BPF_LOG=1 cachewise doctor shows the kernel's message",
            };
            let why = explain_causes(error);
            let checks = vec![
                Check::ok(AREA, "probe", why)
                    .is(State::Missing)
                    .means("numbers are estimates from procfs, and none are by process or file")
                    .by(step)
                    .needed(),
            ];
            return (checks, BackEnd::Procfs);
        }
    };
    let back_end = probe.back_end();
    let attached = format!("loaded and attached, by {}", back_end.id());
    let loaded = if back_end == BackEnd::SysExit {
        Check::ok(AREA, "probe", attached)
            .is(State::Limited)
            .means(format!("not reported: {}", back_end.lacks()))
            .by("Linux 6.12, or a kernel that permits hooks on functions (fentry, kprobes)")
    } else {
        let exact = format!("{attached}: numbers are exact to the page");
        Check::ok(AREA, "probe", exact)
    };
    let mut checks = vec![loaded, memory(kernel)];
    checks.extend(probe.groups().map(|part| {
        let id = part.name.to_lowercase().replace("i/o", "io");
        let id = id.replace([' ', '-'], "_");
        match (part.missing, part.back_end) {
            (Some(reason), _) => Check::ok(AREA, id, "not attached")
                .is(State::Missing)
                .means(reason),
            (None, Some(by)) => Check::ok(AREA, id, format!("attached, by {}", by.id())),
            (None, None) => Check::ok(AREA, id, "not needed: no such file system is mounted"),
        }
    }));
    (checks, back_end)
}

/// Kernel memory of the attached probe.
fn memory(kernel: &Kernel) -> Check {
    const AREA: &str = "probe";
    const ID: &str = "kernel_memory";
    match kernel.bpf_memory() {
        Ok(memory) => Check::ok(
            AREA,
            ID,
            format!(
                "{} in {} maps and {} programs; {} more for each task that uses files",
                memory.bytes,
                memory.maps,
                memory.programs,
                Options::task_bytes()
            ),
        ),
        Err(error) => Check::ok(AREA, ID, error.to_string()).is(State::Missing),
    }
}

/// The numbers that each back-end counts, and the back-end in use for reads.
fn back_ends(used: BackEnd) -> impl Iterator<Item = Check> {
    let rank = |one: BackEnd| BackEnd::ALL.iter().position(|other| *other == one);
    BackEnd::ALL.into_iter().map(move |back_end| {
        let told = format!("reports {}", back_end.tells());
        let lacks = format!(
            "does not count: {}; costs {}",
            back_end.lacks(),
            back_end.cost()
        );
        let check = |head: &str| {
            Check::ok("back_ends", back_end.id(), format!("{head}: {told}")).means(&lacks)
        };
        if back_end == used {
            check("in use for reads")
        } else if rank(back_end) < rank(used) {
            check("not available")
                .is(State::Missing)
                .by(back_end.needs())
        } else {
            check("not needed for reads")
        }
    })
}

fn hook(way: Way) -> Check {
    let id = way.id();
    let error = match way.attempt() {
        Ok(()) => return Check::ok("probe", id, "a program loads and attaches"),
        Err(error) => error,
    };
    let is_used = matches!(way, Way::RawTracepoint | Way::TaskIterator);
    let step = match machine::kind_of(&error) {
        _ if error.lacks_bpf() => machine::BPF,
        ErrorKind::Denied => machine::what_lets_in(),
        _ => "Linux 6.1 or later with BTF",
    };
    // Which program was to be loaded is clear here.
    let why = match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    let check = Check::ok("probe", id, format!("refused: {why}"))
        .is(State::Missing)
        .means(if is_used {
            "the probe consists of these"
        } else {
            "the probe does not need it"
        });
    if is_used { check.by(step) } else { check }
}

fn counter(kind: CounterKind, id: &str, meaning: &str) -> Check {
    use cachewise_sys::ErrorKind::{Denied, NotFound, Unsupported};
    let error = match try_counter(kind) {
        Ok(()) => return Check::ok("probe", id, "counts"),
        Err(error) => error,
    };
    let check = Check::ok("probe", id, error.to_string())
        .is(State::Missing)
        .means(meaning);
    match error.kind() {
        Denied => check.by("sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON"),
        NotFound | Unsupported if kind != CounterKind::Software => {
            check.by("a physical machine, or a hypervisor that passes the counters through (vPMU)")
        }
        _ => check,
    }
}
