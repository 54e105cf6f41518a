//! Settings of the kernel, restored at the end.

use std::fs;
use std::path::Path;

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

/// Limits of dirty memory as they were, restored when dropped.
pub struct DirtyLimits([(&'static str, String); 4]);

impl DirtyLimits {
    const PLACE: &str = "/proc/sys/vm";

    /// Lowers them. Writing bytes clears the ratios, and the other way round.
    pub fn lowered(background: u64, limit: u64) -> Option<DirtyLimits> {
        let names = [
            "dirty_ratio",
            "dirty_background_ratio",
            "dirty_bytes",
            "dirty_background_bytes",
        ];
        let read = |name| fs::read_to_string(Path::new(Self::PLACE).join(name)).ok();
        let mut kept = Vec::new();
        for name in names {
            kept.push((name, read(name)?));
        }
        let kept = DirtyLimits(kept.try_into().ok()?);
        let write =
            |name, bytes: u64| fs::write(Path::new(Self::PLACE).join(name), bytes.to_string());
        write("dirty_background_bytes", background).ok()?;
        write("dirty_bytes", limit).ok()?;
        Some(kept)
    }
}

impl Drop for DirtyLimits {
    fn drop(&mut self) {
        for (name, value) in self.0.iter().filter(|(_, value)| value.trim() != "0") {
            // A limit that cannot be put back would be seen by the next test that looks at it.
            let _ = fs::write(Path::new(Self::PLACE).join(name), value);
        }
    }
}
