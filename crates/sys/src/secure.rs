//! Rights that the program has and its caller has not.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Capabilities that a program with file capabilities keeps: none of these opens a file that the
/// caller could not open.
const KEPT: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Says whether this program runs with rights that its caller does not have (`AT_SECURE`): set-user-ID,
/// set-group-ID or file capabilities. Ambient capabilities, as of systemd and setpriv(1), are not among them.
#[must_use]
pub fn has_rights_of_its_own() -> bool {
    // SAFETY: getauxval reads a vector that the kernel gave this process, and touches no other memory.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Gives up, for this thread and those that it starts, every capability but those for loading probes and for
/// locking memory, so that files are opened with the caller's own rights.
///
/// # Errors
/// `EINVAL` or `EPERM` where the kernel refuses.
pub fn give_up_rights_over_files() -> Result<(), Errno> {
    let held = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & KEPT,
            permitted: held.permitted & KEPT,
            inheritable: held.inheritable & KEPT,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_only_the_rights_of_its_caller() {
        assert!(!has_rights_of_its_own(), "cargo is not set-user-ID");
    }

    #[test]
    fn rights_over_files_are_gone_afterwards() {
        // In a thread of its own: capabilities belong to threads.
        let left = std::thread::spawn(|| {
            give_up_rights_over_files().expect("giving up is always allowed");
            capabilities(None).expect("a thread may ask about itself")
        });
        let left = left.join().expect("the thread ends");
        assert!(
            KEPT.contains(left.effective) && KEPT.contains(left.permitted),
            "{left:?}"
        );
    }
}
