//! The ways to count, best first, and what each can tell: the one place where that stands. `doctor` prints it,
//! and docs/kernels.md has it (a test compares).

/// A way to count. The back-end of a probe is that of its reads; other groups of programs may need another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackEnd {
    /// The page cache's own tracepoints.
    Tracepoints,
    /// Entry and return of its functions, by ftrace's trampolines.
    Fentry,
    /// The same by breakpoints, or ftrace.
    Kprobes,
    /// The end of each system call.
    SysExit,
    /// No program at all: the kernel's own accounts in /proc.
    Procfs,
}

impl BackEnd {
    /// All of them, in the order in which they are tried.
    pub const ALL: [BackEnd; 5] = [
        BackEnd::Tracepoints,
        BackEnd::Fentry,
        BackEnd::Kprobes,
        BackEnd::SysExit,
        BackEnd::Procfs,
    ];

    /// Its name in outputs.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            BackEnd::Tracepoints => "tracepoints",
            BackEnd::Fentry => "fentry",
            BackEnd::Kprobes => "kprobes",
            BackEnd::SysExit => "sys_exit",
            BackEnd::Procfs => "procfs",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|back_end| back_end.id() == name)
    }

    /// Requirements of the kernel and the caller.
    #[must_use]
    pub const fn needs(self) -> &'static str {
        match self {
            BackEnd::Tracepoints => "Linux 6.12, BTF, CAP_BPF and CAP_PERFMON",
            BackEnd::Fentry => "Linux 6.1, BTF, ftrace with BPF trampolines, the same capabilities",
            BackEnd::Kprobes => "Linux 6.1, BTF, CONFIG_KPROBES, the same capabilities",
            BackEnd::SysExit => "Linux 6.1, BTF, the same capabilities",
            BackEnd::Procfs => "nothing",
        }
    }

    /// Text for users: the numbers that it counts.
    #[must_use]
    pub const fn tells(self) -> &'static str {
        match self {
            BackEnd::Tracepoints | BackEnd::Fentry | BackEnd::Kprobes => {
                "everything, exact to the page: reads, faults, writes, direct I/O, by process and file"
            }
            BackEnd::SysExit => {
                "reads by system calls, exact to the page, by process and file; writes and direct I/O \
                 where their tracepoints are"
            }
            BackEnd::Procfs => {
                "estimates, marked ~: bytes and calls of a process, bytes from devices"
            }
        }
    }

    /// Text for users: the numbers that it does not count.
    #[must_use]
    pub const fn lacks(self) -> &'static str {
        match self {
            BackEnd::Tracepoints => {
                "before 6.18, without fentry or kprobes: concurrent io_uring reads of one file (estimates)"
            }
            BackEnd::Fentry => "direct I/O on files before 6.6, without kprobes",
            BackEnd::Kprobes => {
                "ends of calls, if more than two per CPU (at least 10) sleep at once; reported as lost"
            }
            BackEnd::SysExit => {
                "faults on mapped files; reads by libaio, of 32-bit programs and on overlayfs; direct reads \
                 that fall back to the cache; copy_file_range that shares blocks counts as a read"
            }
            BackEnd::Procfs => {
                "hits and misses; anything by file; mapped files; which reads bypassed the cache"
            }
        }
    }

    /// Its cost to the watched programs, as text for users.
    #[must_use]
    pub const fn cost(self) -> &'static str {
        match self {
            BackEnd::Tracepoints => "about 0.1 us a read",
            BackEnd::Fentry => "about 1.3 times what tracepoints cost",
            BackEnd::Kprobes => "about twice what tracepoints cost",
            BackEnd::SysExit => "about 0.1 us for each system call of the whole machine",
            BackEnd::Procfs => "nothing",
        }
    }

    /// Returns whether its counts are exact.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        !matches!(self, BackEnd::Procfs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernels.md");
        let text = std::fs::read_to_string(page).expect("the page is part of the repository");
        for back_end in BackEnd::ALL {
            let row = format!(
                "| `{}` | {} | {} | {} | {} |",
                back_end.id(),
                back_end.needs(),
                back_end.tells(),
                back_end.lacks(),
                back_end.cost()
            );
            assert!(
                text.contains(&row),
                "docs/kernels.md is to have the line\n{row}"
            );
        }
    }

    #[test]
    fn names_lead_back() {
        for back_end in BackEnd::ALL {
            assert_eq!(BackEnd::named(back_end.id()), Some(back_end));
        }
        assert_eq!(BackEnd::named("ebpf"), None, "no such name");
    }
}
