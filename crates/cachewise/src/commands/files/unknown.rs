//! Reasons for unknown residency, as the model has them.

use cachewise_model::Reason;
use cachewise_residency::Unknown;

/// The reason whose code is the library's name for it.
pub fn unknown_reason(why: Unknown) -> Reason {
    Reason::find(why.id()).unwrap_or(Reason::ResidencyUnknown)
}

#[cfg(test)]
mod tests {
    use cachewise_sys::FileKind;

    use super::*;

    #[test]
    fn every_unknown_residency_has_a_reason_with_its_words() {
        for why in [
            Unknown::NoSyscall,
            Unknown::Seccomp,
            Unknown::NoPermission,
            Unknown::Overlay,
            Unknown::DirectIo,
            Unknown::Fuse,
            Unknown::FuseNotOpened,
            Unknown::Dax,
            Unknown::HugePages,
            Unknown::NotAFile(FileKind::Directory),
            Unknown::MadeUp,
        ] {
            assert_eq!(unknown_reason(why).code(), why.id());
            assert_eq!(unknown_reason(why).words(), why.reason(), "{}", why.id());
        }
    }
}
