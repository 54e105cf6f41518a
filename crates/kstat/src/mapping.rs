//! A line of `/proc/PID/maps`.

use std::ops::Range;

use crate::Device;

/// A line of `/proc/PID/maps`: addresses, rights, offset, device, inode, path.
pub(crate) struct Mapping {
    /// The range as `/proc/PID/map_files` names it.
    pub(crate) addresses: String,
    pub(crate) executable: bool,
    /// Offset in the file of the first byte that is mapped.
    pub(crate) offset: u64,
    pub(crate) device: Device,
    pub(crate) inode: u64,
    pub(crate) path: Vec<u8>,
}

impl Mapping {
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let start = rest.iter().position(|&byte| byte != b' ')?;
            let end = rest[start..]
                .iter()
                .position(|&byte| byte == b' ')
                .map_or(rest.len(), |length| start + length);
            let word = std::str::from_utf8(&rest[start..end]).ok()?;
            rest = &rest[end..];
            Some(word)
        };
        let addresses = word()?.to_owned();
        let rights = word()?;
        let executable = rights.contains('x');
        let offset = u64::from_str_radix(word()?, 16).ok()?;
        let (major, minor) = word()?.split_once(':')?;
        let device = Device {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
        };
        let inode = word()?.parse().ok()?;
        let start = rest.iter().position(|&byte| byte != b' ');
        Some(Self {
            addresses,
            executable,
            offset,
            device,
            inode,
            path: start.map_or_else(Vec::new, |start| unescaped(&rest[start..])),
        })
    }

    /// Its first address, and the one behind its last.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        let (start, end) = self.addresses.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(number(start)?..number(end)?)
    }
}

/// The kernel writes a newline in a path of `maps` as `\012`, and changes no other byte.
fn unescaped(path: &[u8]) -> Vec<u8> {
    const NEWLINE: &[u8] = br"\012";
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(NEWLINE) {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(rest[0]);
            rest = &rest[1..];
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_parses_a_line_of_maps() {
        let mapping = Mapping::parse(
            br"7f0a0000-7f0b0000 r-xp 00026000 fe:01 1837                       /opt/a b\012c (deleted)",
        )
        .expect("it is well formed");
        assert_eq!(
            mapping.addresses, "7f0a0000-7f0b0000",
            "as map_files has it"
        );
        assert!(mapping.executable, "by its rights");
        assert_eq!(mapping.offset, 0x26000, "hexadecimal");
        assert_eq!(
            mapping.range(),
            Some(0x7f0a_0000..0x7f0b_0000),
            "as numbers"
        );
        assert_eq!(
            (mapping.device.major, mapping.device.minor),
            (0xfe, 1),
            "hexadecimal"
        );
        assert_eq!(mapping.inode, 1837, "decimal");
        assert_eq!(
            mapping.path, b"/opt/a b\nc (deleted)",
            "the path keeps blanks and newlines"
        );
        let anonymous = Mapping::parse(b"7ffc-7ffd rw-p 00000000 00:00 0 ").expect("no path");
        assert!(anonymous.path.is_empty(), "memory without a file has none");
        assert!(Mapping::parse(b"7ffc-7ffd rw-p").is_none(), "a cut line");
    }
}
