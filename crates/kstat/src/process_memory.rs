//! Memory of a process that is not page cache of a file: anonymous and shared.

use std::ops::Range;

use cachewise_units::Bytes;

use crate::mapping::Mapping;
use crate::{Error, Kernel};

/// Paths of mappings of shared memory, which have an inode but no file on a disk.
const SHARED: [&[u8]; 4] = [b"/dev/zero", b"/SYSV", b"/memfd:", b"/dev/shm/"];
/// Ranges of the kernel, which have no pages of the process.
const KERNEL: [&[u8]; 4] = [b"[vvar", b"[vdso]", b"[vsyscall]", b"[uprobes]"];

impl Kernel {
    /// Returns the resident anonymous and shared memory of a process; 0 for a kernel thread.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process.
    pub fn own_memory(&self, pid: u32) -> Result<Bytes, Error> {
        let path = self.process(pid, "status");
        let text = self.text(&path)?;
        let mut sum = Bytes(0);
        for line in text.lines() {
            let rest = line
                .strip_prefix("RssAnon:")
                .or_else(|| line.strip_prefix("RssShmem:"));
            let Some(rest) = rest else { continue };
            let number = rest.split_ascii_whitespace().next();
            let number: u64 = number
                .and_then(|number| number.parse().ok())
                .ok_or_else(|| Error::parse(&path, line))?;
            sum = Bytes(sum.0.saturating_add(number.saturating_mul(1024)));
        }
        Ok(sum)
    }

    /// Returns the address ranges of a process that have anonymous or shared memory, the longest first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) if it belongs to another user.
    pub fn own_ranges(&self, pid: u32) -> Result<Vec<Range<u64>>, Error> {
        let path = self.process(pid, "maps");
        let text = self.read(&path)?;
        let mut ranges = Vec::new();
        for line in text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let Some(mapping) = Mapping::parse(line) else {
                return Err(Error::parse(&path, String::from_utf8_lossy(line)));
            };
            let begins = |with: &[u8]| mapping.path.starts_with(with);
            let is_own = match mapping.inode {
                0 => !KERNEL.into_iter().any(begins),
                _ => SHARED.into_iter().any(begins),
            };
            ranges.extend(mapping.range().filter(|_| is_own));
        }
        ranges.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_has_the_heap_and_no_files() {
        let kernel = Kernel::new();
        let pid = std::process::id();
        let memory = vec![1_u8; 8 << 20];
        let address = memory.as_ptr() as u64;
        let own = kernel.own_memory(pid).expect("our own process");
        assert!(own >= Bytes(8 << 20), "{own}");
        let ranges = kernel.own_ranges(pid).expect("our own process");
        assert!(
            ranges.iter().any(|range| range.contains(&address)),
            "the heap is in it"
        );
        let code = own_memory_has_the_heap_and_no_files as *const () as u64;
        assert!(
            !ranges.iter().any(|range| range.contains(&code)),
            "code is page cache of the program's file"
        );
    }
}
