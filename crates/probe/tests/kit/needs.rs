//! Rights and kernel features that a comparison with the kernel's own word needs.

use std::fs;
use std::path::Path;

use crate::image;

/// Why nothing can be compared here; `None`: everything is there.
pub fn missing() -> Option<String> {
    /// By their numbers in linux/capability.h.
    const NEEDED: [(u32, &str); 3] = [
        (21, "CAP_SYS_ADMIN for loop mounts"),
        (38, "CAP_PERFMON"),
        (39, "CAP_BPF"),
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0);
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(number, _)| effective & (1 << number) == 0)
        .map(|(_, name)| *name)
        .collect();
    if !missing.is_empty() {
        return Some(format!("needs root ({})", missing.join(", ")));
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("needs BTF (CONFIG_DEBUG_INFO_BTF)".to_owned());
    }
    let no_loop = !image::has_cachestat() && std::env::var_os(image::DISKS).is_none();
    if no_loop {
        return Some(format!(
            "needs cachestat(2), Linux 6.5 or later, or RAM disks ({})",
            image::DISKS
        ));
    }
    None
}
