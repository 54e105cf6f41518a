//! Code that a process has mapped.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::mapping::Mapping;
use crate::{Device, Error, Kernel};

/// A part of a file, or of memory without one, that a process has mapped as executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Where it begins in the file.
    pub offset: u64,
    /// Device and inode number of the file; `None`: memory without a file.
    pub identity: Option<(Device, u64)>,
    /// Its path in the process's view; the kernel's name for memory without a file, or empty.
    pub path: PathBuf,
    /// Paths by which this caller may reach the same file, the best first.
    pub links: [PathBuf; 2],
}

impl Kernel {
    /// Lists the code that a process has mapped, in the order of addresses.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) if it belongs to another user.
    ///
    /// # Cost
    /// Three system calls; the kernel holds the lock of the process's address space meanwhile.
    pub fn process_code(&self, pid: u32) -> Result<Vec<CodeMapping>, Error> {
        let path = self.process(pid, "maps");
        let text = self.read(&path)?;
        let lines = text.split(|&byte| byte == b'\n');
        let mut code = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let parsed = Mapping::parse(line).and_then(|mapping| Some((mapping.range()?, mapping)));
            let Some((addresses, mapping)) = parsed else {
                return Err(Error::parse(&path, String::from_utf8_lossy(line)));
            };
            if !mapping.executable {
                continue;
            }
            let name = PathBuf::from(OsString::from_vec(mapping.path));
            // The names of links have no leading zeros; those of mappings do.
            let link = format!("map_files/{:x}-{:x}", addresses.start, addresses.end);
            let below_root = name.strip_prefix("/").unwrap_or(&name);
            code.push(CodeMapping {
                addresses,
                offset: mapping.offset,
                identity: (mapping.inode != 0).then_some((mapping.device, mapping.inode)),
                links: [
                    self.process(pid, &link),
                    self.process(pid, "root").join(below_root),
                ],
                path: name,
            });
        }
        Ok(code)
    }

    /// The directory that a process sees as its root, as this caller reaches it.
    #[must_use]
    pub fn root_of(&self, pid: u32) -> PathBuf {
        self.process(pid, "root")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn process_code_has_the_program_at_the_address_of_its_functions() {
        let code = Kernel::new()
            .process_code(std::process::id())
            .expect("our own process");
        let here = process_code_has_the_program_at_the_address_of_its_functions as *const () as u64;
        let mapping = code
            .iter()
            .find(|mapping| mapping.addresses.contains(&here))
            .expect("code that runs is mapped");
        let program = std::fs::metadata("/proc/self/exe").expect("our program");
        let (_, inode) = mapping.identity.expect("it is in a file");
        assert_eq!(inode, program.ino(), "of our program");
    }
}
