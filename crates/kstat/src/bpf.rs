//! Kernel memory and CPU time of the BPF maps and programs that this process holds.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cachewise_units::Bytes;

use crate::kernel::is_gone;
use crate::{Error, Kernel};

/// Kernel memory and CPU time of BPF, as the kernel accounts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BpfMemory {
    /// Its size. Storage that a map has for each task is not in it.
    pub bytes: Bytes,
    /// Number of maps.
    pub maps: usize,
    /// Number of programs.
    pub programs: usize,
    /// CPU time of the programs while the setting kernel.bpf_stats_enabled was 1.
    pub run_time: Duration,
}

impl Kernel {
    /// Returns the kernel memory of the maps and programs to which this process has descriptors.
    ///
    /// Before Linux 6.4 the kernel accounts the entries of a map without its buckets.
    ///
    /// # Errors
    /// If `/proc/self` cannot be read.
    ///
    /// # Cost
    /// A system call for each descriptor, three more for each that is BPF's.
    pub fn bpf_memory(&self) -> Result<BpfMemory, Error> {
        let own = self.own();
        let directory = own.join("fd");
        let cannot = |source| Error::io("list", &directory, source);
        let mut memory = BpfMemory::default();
        let mut seen: HashSet<String> = HashSet::new();
        for entry in fs::read_dir(&directory).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let id = match fs::read_link(entry.path()) {
                Ok(target) if target == Path::new("anon_inode:bpf-map") => "map_id",
                Ok(target) if target == Path::new("anon_inode:bpf-prog") => "prog_id",
                Ok(_) => continue,
                // Another thread has closed it.
                Err(error) if is_gone(&error) => continue,
                Err(source) => return Err(Error::io("read the link", &entry.path(), source)),
            };
            let path = own.join("fdinfo").join(entry.file_name());
            let text = self.text(&path)?;
            let field = |name: &str| {
                let mut lines = text.lines().filter_map(|line| line.split_once(':'));
                lines
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.trim())
            };
            // A map has a descriptor for each object that shares it.
            let number = field(id).unwrap_or_default();
            if !seen.insert(format!("{id} {number}")) {
                continue;
            }
            let bytes = field("memlock").and_then(|bytes| bytes.parse::<u64>().ok());
            let Some(bytes) = bytes else {
                return Err(Error::parse(&path, text.clone()));
            };
            memory.bytes.0 = memory.bytes.0.saturating_add(bytes);
            match id {
                "map_id" => memory.maps += 1,
                _ => {
                    memory.programs += 1;
                    let time = field("run_time_ns").and_then(|time| time.parse().ok());
                    memory.run_time += Duration::from_nanos(time.unwrap_or_default());
                }
            }
        }
        Ok(memory)
    }
}

impl Kernel {
    /// Returns the resident memory of this process.
    ///
    /// # Errors
    /// If `/proc/self/status` cannot be read.
    pub fn resident_memory(&self) -> Result<Bytes, Error> {
        let path = self.own().join("status");
        let text = self.text(&path)?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = lines.next().and_then(|rest| rest.trim().split(' ').next());
        match kibibytes.and_then(|number| number.parse::<u64>().ok()) {
            Some(kibibytes) => Ok(Bytes(kibibytes << 10)),
            None => Err(Error::parse(&path, text.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn each_map_and_program_counts_once() {
        let fixture = Fixture::new();
        let descriptor = |number: u32, target: &str, info: &str| {
            fixture.link(&format!("proc/self/fd/{number}"), target);
            fixture.write(&format!("proc/self/fdinfo/{number}"), info);
        };
        let map =
            "pos:\t0\nmap_type:\t1\nmax_entries:\t8\nmemlock:\t4096\nmap_id:\t7\nfrozen:\t0\n";
        descriptor(0, "/dev/null", "pos:\t0\n");
        descriptor(3, "anon_inode:bpf-map", map);
        descriptor(4, "anon_inode:bpf-map", map);
        descriptor(
            5,
            "anon_inode:bpf-map",
            &map.replace("map_id:\t7", "map_id:\t8"),
        );
        descriptor(
            6,
            "anon_inode:bpf-prog",
            "prog_type:\t17\nmemlock:\t8192\nprog_id:\t7\nrun_time_ns:\t1500\nrun_cnt:\t3\n",
        );
        descriptor(7, "anon_inode:[eventpoll]", "pos:\t0\n");
        let memory = fixture.kernel().bpf_memory().expect("all can be read");
        let expected = BpfMemory {
            bytes: Bytes(4096 * 2 + 8192),
            maps: 2,
            programs: 1,
            run_time: Duration::from_nanos(1500),
        };
        assert_eq!(memory, expected, "by their ids");
    }
}
