//! Perf maps: names of code that a JIT compiler made, in `/tmp/perf-PID.map`.

use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cachewise_kstat::Kernel;
use cachewise_sys::open_quietly;

/// A larger one is not read.
const MAX_BYTES: u64 = 64 << 20;

/// The functions of a perf map, in the order of their addresses.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    functions: Vec<(Range<u64>, String)>,
    /// Inode number, length and time of its file.
    read: Option<(u64, u64, (i64, i64))>,
}

impl PerfMap {
    /// Reads the map of a process of this user where it has changed: in its own view while it runs, else in ours. A file of
    /// another user may be a link by which root would show a file that this user may not read.
    pub(crate) fn refresh(&mut self, kernel: &Kernel, pid: u32, user: u32) {
        let inner = kernel.innermost_pid(pid).unwrap_or(pid);
        let paths: [PathBuf; 2] = [
            kernel.root_of(pid).join(format!("tmp/perf-{inner}.map")),
            Path::new("/tmp").join(format!("perf-{pid}.map")),
        ];
        let open = |path: &PathBuf| {
            let file = open_quietly(path).ok()?;
            let found = file.metadata().ok()?;
            let is_map = found.is_file() && found.uid() == user && found.len() <= MAX_BYTES;
            is_map.then_some((file, found))
        };
        let Some((mut file, found)) = paths.iter().find_map(open) else {
            return;
        };
        let version = (
            found.ino(),
            found.len(),
            (found.mtime(), found.mtime_nsec()),
        );
        if self.read == Some(version) {
            return;
        }
        let mut text = Vec::new();
        if file.by_ref().take(MAX_BYTES).read_to_end(&mut text).is_ok() {
            *self = PerfMap::parse(&String::from_utf8_lossy(&text));
            self.read = Some(version);
        }
    }

    /// Lines of address and size, both hexadecimal, and a name that may have blanks.
    fn parse(text: &str) -> PerfMap {
        let parse_line = |line: &str| {
            let (start, rest) = line.split_once(' ')?;
            let (size, name) = rest.split_once(' ')?;
            let number = |digits: &str| {
                let digits = digits.strip_prefix("0x").unwrap_or(digits);
                u64::from_str_radix(digits, 16).ok()
            };
            let start = number(start)?;
            Some((start..start.checked_add(number(size)?)?, name.to_owned()))
        };
        let mut functions: Vec<_> = text.lines().filter_map(parse_line).collect();
        // Of code that took the place of other code the later line holds: sorting keeps their order.
        functions.sort_by_key(|(range, _)| range.start);
        PerfMap {
            functions,
            read: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// The function at an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|(range, _)| range.start <= address);
        let (range, name) = &self.functions[after.checked_sub(1)?];
        range.contains(&address).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_takes_the_latest_function_at_an_address() {
        let map = PerfMap::parse(
            "7f00 10 Lapp/Main;::read\n7f00 20 Lapp/Main;::read again\nnonsense\n0x8000 8 LazyCompile:*f /a b.js:3\n",
        );
        assert_eq!(
            map.find(0x7f08),
            Some("Lapp/Main;::read again"),
            "the later line"
        );
        assert_eq!(
            map.find(0x8007),
            Some("LazyCompile:*f /a b.js:3"),
            "with its blanks"
        );
        assert_eq!(map.find(0x8008), None, "behind its end");
        assert_eq!(map.find(0x10), None, "before the first");
    }
}
