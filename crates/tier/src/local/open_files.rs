//! [`allow`]: as many open files as a disk has segments.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What else this process has open: connections, files of others.
const OTHERS: u64 = 512;

/// Has this process be allowed so many files more than what else it has open: foyer has each segment open, and the usual
/// limit is for 1,024 files. The limit is raised as far as any process may; never lowered. The error is for what that
/// is, where it is too little.
pub(super) fn allow(files: u64) -> Result<(), u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = files.saturating_add(OTHERS);
    let raised = match (current, maximum) {
        // None is no limit.
        (None, _) => return Ok(()),
        (Some(current), _) if current >= needed => return Ok(()),
        (_, Some(maximum)) => needed.min(maximum),
        (_, None) => needed,
    };
    let wanted = Rlimit {
        current: Some(raised),
        maximum,
    };
    // Some of the others is margin: it is the segments that have to be open.
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) if raised > files => Ok(()),
        Ok(()) => Err(raised),
        Err(_) => Err(current.unwrap_or(raised)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = getrlimit(Resource::Nofile);
        assert_eq!(allow(0), Ok(()));
        let after = getrlimit(Resource::Nofile);
        assert!(
            after.current >= before.current.min(Some(OTHERS)),
            "{after:?}"
        );
        if let Some(most) = before.maximum {
            assert_eq!(allow(most), Err(most), "so many there cannot be");
            assert_eq!(getrlimit(Resource::Nofile).current, Some(most));
        }
    }
}
