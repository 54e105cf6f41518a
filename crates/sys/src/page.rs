//! The size of this machine's pages.

use std::sync::OnceLock;

use cachewise_units::PageSize;

/// Returns the size of this machine's pages.
///
/// # Cost
/// Read once from the auxiliary vector, an atomic load afterwards; never a system call.
#[must_use]
pub fn page_size() -> PageSize {
    static SIZE: OnceLock<PageSize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        told(rustix::param::page_size())
            .expect("the kernel's page size is a power of two below 4 GiB")
    })
}

/// Returns the value of the auxiliary vector, if it is a valid page size.
fn told(bytes: usize) -> Option<PageSize> {
    u32::try_from(bytes).ok().and_then(PageSize::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_other_machines_are_taken_as_they_are() {
        // x86, Apple's and Arm's.
        for bytes in [4 << 10, 16 << 10, 64 << 10] {
            let size = told(bytes).expect("a power of two");
            assert_eq!(size.get(), bytes as u64, "to the byte");
            assert_eq!(1 << size.shift(), bytes, "and as a power of two");
        }
        for bytes in [0, 3 << 10, 1 << 40, usize::MAX] {
            assert_eq!(told(bytes), None, "{bytes} is the size of no page");
        }
    }

    #[test]
    fn agrees_with_getconf() {
        let output = std::process::Command::new("getconf")
            .arg("PAGESIZE")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            page_size().get().to_string(),
            text.trim(),
            "getconf asks libc"
        );
        assert_eq!(page_size(), page_size(), "asking again changes nothing");
    }
}
