//! Code that does not fit into a cache.

use super::experiment::{Experiment, Outcome};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "code",
    about: "straight code of growing length, gone through again and again",
    why: "Instructions come through caches too: what does not fit into L1i and L2 is fetched as slowly as data. Where that is the table of branches that is full, it looks the same.",
    advice: "Keep hot paths short and together; inline what is small or called from one place only; put errors and rare cases out of line (#[cold]); PGO does so by itself.",
    run,
};

#[cfg(not(target_arch = "x86_64"))]
fn run() -> Result<Outcome, String> {
    Err("code is written at run time for x86-64 only".into())
}

#[cfg(target_arch = "x86_64")]
fn run() -> Result<Outcome, String> {
    on_x86::run()
}

#[cfg(target_arch = "x86_64")]
mod on_x86 {
    use std::ptr::null_mut;

    use cachewise_units::Bytes;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::super::experiment::Outcome;
    use super::super::rounds::{Rounds, seen, timed};

    const SIZES: [usize; 5] = [16 << 10, 128 << 10, 1 << 20, 8 << 20, 32 << 20];
    const ROUNDS: usize = 7;

    /// Bytes of code that run in a turn, the same for all sizes.
    const TOTAL: usize = 32 << 20;

    /// Does nothing, in eight bytes.
    const NOTHING: [u8; 8] = [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
    const RETURN: u8 = 0xc3;

    /// Code of a given size that does nothing and returns.
    struct Code {
        start: *mut u8,
        len: usize,
    }

    impl Code {
        fn new(size: usize) -> Result<Code, String> {
            let len = size + rustix::param::page_size();
            let fail = |what: &str, errno: rustix::io::Errno| {
                format!("cannot {what} for code of {}: {errno}", Bytes(size as u64))
            };
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping, which lives until `drop`.
            let start = unsafe { mmap_anonymous(null_mut(), len, protection, MapFlags::PRIVATE) };
            let start = start.map_err(|errno| fail("get memory", errno))?;
            let code = Code {
                start: start.cast(),
                len,
            };
            // SAFETY: the mapping just made, all of it, which nothing else refers to.
            let bytes = unsafe { std::slice::from_raw_parts_mut(code.start, len) };
            for place in bytes[..size].chunks_exact_mut(NOTHING.len()) {
                place.copy_from_slice(&NOTHING);
            }
            bytes[size] = RETURN;
            // Never writable and executable at a time: hardened systems refuse that.
            let executable = MprotectFlags::READ | MprotectFlags::EXEC;
            // SAFETY: as above; the memory is not written to from here on.
            unsafe { mprotect(start, len, executable) }
                .map_err(|errno| fail("make memory executable", errno))?;
            Ok(code)
        }

        fn go(&self, times: usize) {
            // SAFETY: the memory holds a function without arguments that changes nothing and returns.
            let function: extern "C" fn() = unsafe { std::mem::transmute(self.start) };
            for _ in 0..times {
                function();
            }
        }
    }

    impl Drop for Code {
        fn drop(&mut self) {
            // SAFETY: the mapping made in `new`, whose code no thread runs.
            let _ = unsafe { munmap(self.start.cast(), self.len) };
        }
    }

    pub(super) fn run() -> Result<Outcome, String> {
        let codes: Vec<Code> = SIZES
            .iter()
            .map(|size| Code::new(*size))
            .collect::<Result<_, _>>()?;
        let mut rounds = Rounds::new("64 bytes");
        for (code, size) in codes.iter().zip(SIZES) {
            rounds.case(format!("code of {}", Bytes(size as u64)), move || {
                timed(TOTAL / 64, || code.go(TOTAL / size))
            });
        }
        rounds.run(ROUNDS);
        let last = SIZES.len() - 1;
        let effects: Vec<_> = [
            rounds.ratio("code of 32 MiB against code of 16 KiB", last, 0),
            rounds.ratio("code of 128 KiB against code of 16 KiB", 1, 0),
        ]
        .into_iter()
        .flatten()
        .collect();
        Ok(Outcome {
            not_tried: Vec::new(),
            checks: vec![seen(
                &effects,
                0,
                1.5,
                "code is fetched ahead faster than it is run, or the cache holds it all",
            )],
            cases: rounds.cases(),
            effects,
        })
    }
}
