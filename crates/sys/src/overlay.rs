//! [`OverlayMount`]: the directories that an overlay consists of, and which of them has a file.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};

/// A mounted overlay. Its files have no pages of their own: these are those of a file in one of its layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayMount {
    /// Where it is mounted.
    point: PathBuf,
    /// The directory of the overlay that is seen there.
    root: PathBuf,
    /// Its layers, the upper one first.
    layers: Vec<PathBuf>,
    /// Layers of which the content alone is used.
    data: Vec<PathBuf>,
}

impl OverlayMount {
    /// Finds the mount that an open file or directory is on, in `/proc/self/mountinfo`; `None` where that is no overlay.
    ///
    /// # Kernel
    /// Since 5.8 (`STATX_MNT_ID`).
    #[must_use]
    pub fn of_fd(fd: BorrowedFd<'_>) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(fd, c"", flags, StatxFlags::MNT_ID).ok()?;
        let table = std::fs::read("/proc/self/mountinfo").ok()?;
        Self::parse(&table, found.stx_mnt_id)
    }

    /// The mount of this number.
    pub(crate) fn parse(mountinfo: &[u8], number: u64) -> Option<Self> {
        let line = mountinfo.split(|byte| *byte == b'\n').find(|line| {
            let first = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            str::from_utf8(first).is_ok_and(|first| first.parse() == Ok(number))
        })?;
        let mut fields = line.split(|byte| *byte == b' ');
        let mut path = |skipped| fields.nth(skipped).map(|field| path_of(&unescaped(field)));
        let (root, point) = (path(3)?, path(0)?);
        fields.by_ref().find(|field| *field == b"-")?;
        if fields.next()? != b"overlay" {
            return None;
        }
        let mut mount = Self {
            point,
            root,
            layers: Vec::new(),
            data: Vec::new(),
        };
        for option in parts(&unescaped(fields.next_back()?), b',') {
            let value = |name: &[u8]| Some(values(option.strip_prefix(name)?));
            if let Some(upper) = value(b"upperdir=") {
                mount.layers.splice(0..0, upper);
            } else if let Some(lower) = value(b"lowerdir=").or_else(|| value(b"lowerdir+=")) {
                mount.layers.extend(lower);
            } else if let Some(data) = value(b"datadir+=") {
                mount.data.extend(data);
            }
        }
        Some(mount)
    }

    /// All directories that it consists of.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().chain(&self.data).map(PathBuf::as_path)
    }

    /// Whether a path leads to any of its layers from here. From inside a container none does.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_dir())
    }

    /// Returns the device (major and minor number) and the inode of the file in a layer that has the pages of an open
    /// file on this mount; `None` where that file is not found: deleted, renamed without a copy (`redirect_dir`), or in
    /// a layer that no path leads to.
    ///
    /// # Cost
    /// Two system calls, one more for each layer above that of the file.
    #[must_use]
    pub fn real(&self, fd: BorrowedFd<'_>) -> Option<((u32, u32), u64)> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let below = path.strip_prefix(&self.point).ok()?;
        let inside = self.root.join(below);
        let inside = inside.strip_prefix("/").ok()?;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        let found = self
            .layers
            .iter()
            .find_map(|layer| rustix::fs::statx(CWD, layer.join(inside), flags, wanted).ok())?;
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        is_file.then_some(((found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
    }
}

fn values(text: &[u8]) -> Vec<PathBuf> {
    let parts = parts(text, b':').into_iter();
    let named = parts.filter(|part| !part.is_empty());
    named
        .map(|part| path_of(&without_backslashes(&part)))
        .collect()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Divides options at a byte that no backslash stands before.
fn parts(text: &[u8], at: u8) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let part = parts.len() - 1;
        match byte {
            b'\\' => {
                parts[part].push(byte);
                parts[part].extend(bytes.next());
            }
            byte if byte == at => parts.push(Vec::new()),
            byte => parts[part].push(byte),
        }
    }
    parts
}

fn without_backslashes(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.iter().copied();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => plain.extend(bytes.next()),
            byte => plain.push(byte),
        }
    }
    plain
}

/// Undoes the escapes of mountinfo: a backslash and three octal digits.
pub(crate) fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match rest {
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                more @ ..,
            ] => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = more;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_an_overlay_are_found_in_its_mount_options() {
        let table = br"28 1 254:0 / / rw - ext4 /dev/vda rw
97 28 0:44 / /merged rw shared:1 - overlay none rw,lowerdir=/a:/b\134:c::/d\040e,upperdir=/u,workdir=/w
98 28 0:45 /sub /more rw - overlay none rw,lowerdir+=/x,datadir+=/y
";
        let mount = OverlayMount::parse(table, 97).unwrap();
        assert_eq!(
            mount.layers,
            ["/u", "/a", "/b:c", "/d e"].map(PathBuf::from),
            "the upper one first; escaped colons and blanks are part of a name"
        );
        let mount = OverlayMount::parse(table, 98).unwrap();
        assert_eq!(mount.root, Path::new("/sub"), "a part of it");
        let all: Vec<_> = mount.directories().collect();
        assert_eq!(all, [Path::new("/x"), Path::new("/y")], "one by one");
        for number in [28, 5] {
            assert_eq!(OverlayMount::parse(table, number), None, "no overlay");
        }
    }
}
