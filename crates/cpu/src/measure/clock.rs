//! Present duration of a core cycle: a chain of dependent additions executes one per cycle.
//!
//! The time stamp counter does not measure it: its rate is constant, whatever the core does.

use std::time::Instant;

/// Additions in a sample: about 25 us, so that it is rarely interrupted.
const CHAIN: u64 = 100_000;

/// Samples at a time: the fastest is the one that was not interrupted, as additions wait for nothing.
const SAMPLES: usize = 8;

/// Nanoseconds that a core cycle takes at present; the core's frequency changes, so it is measured beside what it
/// is to be used for. `None` where no chain is known for this architecture.
#[must_use]
pub fn cycle_ns() -> Option<f64> {
    if !is_known() {
        return None;
    }
    let samples = (0..SAMPLES).map(|_| {
        let begin = Instant::now();
        let done = additions(CHAIN);
        begin.elapsed().as_secs_f64() * 1e9 / done as f64
    });
    samples.min_by(f64::total_cmp).filter(|ns| *ns > 0.0)
}

const fn is_known() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// Executes about this number of dependent additions; returns their number.
fn additions(count: u64) -> u64 {
    const UNROLLED: u64 = 20;
    let rounds = count / UNROLLED;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: registers only; no memory is touched.
    unsafe {
        std::arch::asm!(
            "2:",
            // With another register: additions of constants are put together by some cores' renaming.
            ".rept 20", "add {sum}, {step}", ".endr",
            "dec {rounds}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            step = in(reg) 3u64,
            rounds = inout(reg) rounds.max(1) => _,
            options(nomem, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: registers only; no memory is touched.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 20", "add {sum}, {sum}, {step}", ".endr",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            sum = inout(reg) 0u64 => _,
            step = in(reg) 3u64,
            rounds = inout(reg) rounds.max(1) => _,
            options(nomem, nostack),
        );
    }
    rounds.max(1) * UNROLLED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_takes_what_a_core_can_take() {
        let Some(ns) = cycle_ns() else {
            assert!(!is_known(), "a chain that is known is timed");
            println!("skipped: clock: no chain of additions for this architecture");
            return;
        };
        // 100 MHz to 10 GHz; a debugger or an emulator may slow it down beyond that.
        assert!((0.1..10.0).contains(&ns), "{ns} ns is no core's cycle");
    }
}
