//! [`allow_open_files`]: how many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to at most this number, within the hard limit (`RLIMIT_NOFILE`),
/// and returns the new limit; `u64::MAX` means no limit. Never lowers it: the usual soft limit of
/// 1,024 is meant for programs that use select(2). Child processes inherit the limit.
#[must_use]
pub fn allow_open_files(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let now = current.unwrap_or(u64::MAX);
    let most = wanted.min(maximum.unwrap_or(u64::MAX));
    if most <= now {
        return now;
    }
    let raised = Rlimit {
        current: (most < u64::MAX).then_some(most),
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be_and_never_lowered() {
        let limit = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let before = limit();
        assert_eq!(allow_open_files(0), before);
        assert_eq!(limit(), before, "not lowered");
        let most = getrlimit(Resource::Nofile).maximum;
        assert_eq!(allow_open_files(u64::MAX), limit());
        if let Some(most) = most {
            assert_eq!(limit(), most, "the hard limit");
        }
    }
}
