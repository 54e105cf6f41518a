//! [`MemlockLimit`]: the refusal of more locked memory.

use cachewise_units::Bytes;

/// Why no more may be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "mlock: {wanted} more than the {locked} that this process has locked are not allowed: RLIMIT_MEMLOCK is {limit}; \
     {}, LimitMEMLOCK={} for a systemd unit, a memlock line in /etc/security/limits.conf for logins, or run with \
     CAP_IPC_LOCK",
    shell(self), (*wanted + *locked).0
)]
pub struct MemlockLimit {
    /// The bytes that were to be locked, in whole pages.
    pub wanted: Bytes,
    /// The bytes that the process has locked already.
    pub locked: Bytes,
    /// The soft limit.
    pub limit: Bytes,
    /// The hard limit, up to which everybody may raise the soft one; `None` for no limit.
    pub hard: Option<Bytes>,
}

fn shell(error: &MemlockLimit) -> String {
    let kibibytes = (error.wanted + error.locked).0.div_ceil(1 << 10);
    let may_raise = error
        .hard
        .is_none_or(|hard| hard >= error.wanted + error.locked);
    match may_raise {
        true => format!("set `ulimit -l {kibibytes}` before"),
        false => format!(
            "set `ulimit -l {kibibytes}` before, as root, for the hard limit is too small as well"
        ),
    }
}
