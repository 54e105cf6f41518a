//! [`Mount`]: one line of `/proc/PID/mountinfo`.
//!
//! Parsed here because procfs-core reads lines as UTF-8, so that one invalid name makes it refuse
//! the whole file, and keeps the escapes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::Device;

/// A mount: a directory of a file system, and its mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// The id of this mount; reused after unmounting.
    pub id: u32,
    /// The id of the mount below it.
    pub parent: u32,
    /// The file system.
    pub dev: Device,
    /// The mounted directory, from the root of its file system.
    pub root: PathBuf,
    /// The mount point, from the root directory of the process.
    pub mount_point: PathBuf,
    /// The type of the file system, for example `ext4`.
    pub fs_type: String,
    /// The mount source, in the file system's own form: a device, `host:/share`, or any text.
    pub source: String,
    /// The options of the file system as a whole, separated by commas.
    pub options: String,
}

impl Mount {
    /// Parses a line without its newline:
    /// `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory`.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        // Split by single spaces: an empty source appears as two spaces in a row.
        let mut fields = line.split(|byte| *byte == b' ');
        let id = number(fields.next()?)?;
        let parent = number(fields.next()?)?;
        let dev = Device::parse(str::from_utf8(fields.next()?).ok()?)?;
        let root = path(fields.next()?);
        let mount_point = path(fields.next()?);
        let _mount_options = fields.next()?;
        // Any number of optional fields, then a dash.
        fields.by_ref().find(|field| *field == b"-")?;
        let fs_type = text(fields.next()?);
        let source = text(fields.next().unwrap_or_default());
        let options = text(fields.next().unwrap_or_default());
        Some(Self {
            id,
            parent,
            dev,
            root,
            mount_point,
            fs_type,
            source,
            options,
        })
    }

    /// Whether an option of the file system is set.
    #[must_use]
    pub fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }
}

fn number(field: &[u8]) -> Option<u32> {
    str::from_utf8(field).ok()?.parse().ok()
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Decodes the kernel's escapes: a backslash and three octal digits for characters that would break
/// a line.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match octal(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

fn octal(text: &[u8]) -> Option<u8> {
    match text {
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            Some(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parse_handles_any_number_of_optional_fields() {
        for optional in ["", "shared:9 ", "shared:9 master:1 propagate_from:2 "] {
            let line = format!("35 31 0:32 /a /b rw,relatime {optional}- cgroup cg rw,memory");
            let mount = Mount::parse(line.as_bytes()).unwrap();
            assert_eq!((mount.id, mount.parent), (35, 31), "numbers of {line}");
            assert_eq!(
                mount.dev,
                Device {
                    major: 0,
                    minor: 32
                },
                "device of {line}"
            );
            assert_eq!(mount.root, PathBuf::from("/a"), "root of {line}");
            assert_eq!(
                mount.mount_point,
                PathBuf::from("/b"),
                "mount point of {line}"
            );
            assert_eq!(
                (&*mount.fs_type, &*mount.source),
                ("cgroup", "cg"),
                "words of {line}"
            );
            assert!(mount.has_option("memory"), "option of {line}");
            assert!(!mount.has_option("mem"), "half an option is none");
        }
    }

    #[test]
    fn parse_keeps_an_empty_source() {
        let mount = Mount::parse(b"43 27 0:60 / /x rw - fuse  rw,allow_other").unwrap();
        assert_eq!(mount.source, "", "mounted from nothing");
        assert_eq!(
            mount.options, "rw,allow_other",
            "and the options stay options"
        );
    }

    #[test]
    fn parse_decodes_only_octal_escapes() {
        let bytes = |text: &[u8]| unescape(text);
        assert_eq!(
            bytes(br"a\040b\011c\012d\134e"),
            b"a b\tc\nd\\e",
            "the kernel's five"
        );
        assert_eq!(bytes(br"\043"), b"#", "and a # in a source");
        assert_eq!(bytes(br"\377"), [0xFF], "any byte");
        assert_eq!(bytes(br"\09\4001\04"), br"\09\4001\04", "not escapes");
        assert_eq!(
            bytes(br"\134040"),
            br"\040",
            "an escaped backslash starts no escape"
        );
    }

    #[test]
    fn parse_refuses_malformed_lines() {
        for line in [
            "",
            "35",
            "35 31 0:32 / /b rw",
            "x 31 0:32 / /b rw - t s o",
            "35 31 0 / / rw - t",
        ] {
            assert_eq!(
                Mount::parse(line.as_bytes()),
                None,
                "{line:?} is not a mount"
            );
        }
    }

    proptest! {
        #[test]
        fn parse_round_trips_any_name(name in prop::collection::vec(1..=255_u8, 0..40)) {
            let mut line = b"1 0 8:1 / /".to_vec();
            for byte in &name {
                match byte {
                    b' ' | b'\t' | b'\n' | b'\\' => line.extend(format!("\\{byte:03o}").bytes()),
                    _ => line.push(*byte),
                }
            }
            line.extend(b" rw - ext4 /dev/sda rw");
            let mount = Mount::parse(&line).unwrap();
            let mut expected = b"/".to_vec();
            expected.extend(&name);
            prop_assert_eq!(mount.mount_point.as_os_str(), OsStr::from_bytes(&expected), "unescaped");
        }

        #[test]
        fn parse_never_panics(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Mount::parse(&line);
        }
    }
}
