//! Settings of the kernel, restored at the end.

use std::fs;

/// A setting below `/proc/sys`, restored when dropped.
pub struct Sysctl(&'static str, String);

impl Sysctl {
    /// Sets it; nothing where it cannot be written, or is not there.
    pub fn set(path: &'static str, value: &str) -> Option<Sysctl> {
        let before = fs::read_to_string(path).ok()?;
        fs::write(path, value).ok()?;
        Some(Sysctl(path, before))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}
