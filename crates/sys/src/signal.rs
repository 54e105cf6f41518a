//! Dispositions of signals.

/// Returns whether this process ignores a signal, as it may have inherited; `false` for a number without a signal.
///
/// # Cost
/// One system call.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, for which zeros are valid.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: Without a new disposition the call only writes the present one to `found`.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut found) } != 0;
    !failed && found.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_ignored_as_the_kernel_shows_it() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        assert!(is_ignored(libc::SIGPIPE), "Rust ignores it at the start");
        // The C library keeps 32 and 33 to itself.
        for signal in (1..=31).chain(34..=64) {
            let is_shown = mask >> (signal - 1) & 1 == 1;
            assert_eq!(is_ignored(signal), is_shown, "signal {signal}");
        }
        assert!(!is_ignored(0) && !is_ignored(1000));
    }
}
