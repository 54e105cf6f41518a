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
        u32::try_from(rustix::param::page_size())
            .ok()
            .and_then(PageSize::new)
            .expect("the kernel's page size is a power of two below 4 GiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
