//! [`Kernel`]: the roots of `/proc` and `/sys`, and the simplest queries.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind};

/// Bytes of a first read: a page, as most files of `/proc` and `/sys` have less.
const FIRST_READ: usize = 4096;

/// A kernel, by the mount points of its `/proc` and `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    proc: PathBuf,
    sys: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel {
    /// The kernel of this machine, at `/proc` and `/sys`.
    #[must_use]
    pub fn new() -> Self {
        Self::with_roots("/proc", "/sys")
    }

    /// The kernel whose file systems are mounted elsewhere, for example a host's in a container.
    #[must_use]
    pub fn with_roots(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self {
            proc: proc.into(),
            sys: sys.into(),
        }
    }

    /// Returns the host name.
    ///
    /// # Errors
    /// Reading `/proc/sys/kernel/hostname` failed.
    pub fn hostname(&self) -> Result<String, Error> {
        self.line(&self.proc.join("sys/kernel/hostname"))
    }

    /// Returns the kernel release, for example `6.18.44`.
    ///
    /// # Errors
    /// Reading `/proc/sys/kernel/osrelease` failed.
    pub fn release(&self) -> Result<String, Error> {
        self.line(&self.proc.join("sys/kernel/osrelease"))
    }

    /// Returns a setting by its sysctl name (`vm.dirty_ratio`), or `None` if this kernel does not
    /// have it.
    ///
    /// A name may use slashes instead of dots, which `net/ipv4/conf/eth0.1/mtu` needs.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an impossible name, [`ErrorKind::Denied`] if this caller may not
    /// read the setting.
    pub fn setting(&self, name: &str) -> Result<Option<String>, Error> {
        let separator = if name.contains('/') { '/' } else { '.' };
        let mut path = self.proc.join("sys");
        for part in name.split(separator) {
            if matches!(part, "" | "." | "..") || part.contains('\0') {
                return Err(Error::Invalid {
                    name: name.to_owned(),
                    problem: "not the name of a setting; write it as in vm.dirty_ratio".to_owned(),
                });
            }
            path.push(part);
        }
        found(self.line(&path))
    }

    /// Returns the location of a path below this kernel's `/proc`.
    #[must_use]
    pub fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.proc.join(path)
    }

    /// Returns the location of a path below this kernel's `/sys`.
    #[must_use]
    pub fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sys.join(path)
    }

    /// Maps a path that the kernel reports under `/sys` to this kernel's `/sys`.
    pub(crate) fn rooted(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/sys") {
            Ok(rest) => self.sys.join(rest),
            Err(_) => path.to_owned(),
        }
    }

    /// The directory of this process.
    pub(crate) fn own(&self) -> PathBuf {
        self.proc.join("self")
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let read = || {
            // The kernel gives most of these files a size of 0. `fs::read` asks for it, and then begins with 32 bytes.
            let mut bytes = Vec::with_capacity(FIRST_READ);
            File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|source| Error::io("read", path, source))
    }

    pub(crate) fn text(&self, path: &Path) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.read(path)?).into_owned())
    }

    /// Reads a file with one value, without the final newline.
    pub(crate) fn line(&self, path: &Path) -> Result<String, Error> {
        let mut text = self.text(path)?;
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }
}

/// Turns "does not exist" into `None`, and keeps every other error.
pub(crate) fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error means that the object does not exist (any more).
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, captured};

    #[test]
    fn hostname_and_release_have_no_newline() {
        let kernel = captured("linux-6.18");
        assert_eq!(
            kernel.hostname().unwrap(),
            "vm",
            "the name of the machine captured"
        );
        assert!(
            kernel.release().unwrap().starts_with("6.18."),
            "and its kernel"
        );
    }

    #[test]
    fn setting_accepts_dots_and_slashes() {
        let kernel = captured("linux-6.18");
        let ratio = Some("20".to_owned());
        assert_eq!(
            kernel.setting("vm.dirty_ratio").unwrap(),
            ratio,
            "with dots"
        );
        assert_eq!(
            kernel.setting("vm/dirty_ratio").unwrap(),
            ratio,
            "with slashes"
        );
        assert_eq!(
            kernel.setting("vm.no_such").unwrap(),
            None,
            "not offered is not an error"
        );
        let reserve = kernel.setting("vm.lowmem_reserve_ratio").unwrap().unwrap();
        assert_eq!(
            reserve, "256\t256\t32\t0\t0",
            "several values stay as they are"
        );
    }

    #[test]
    fn setting_refuses_paths_outside_its_root() {
        let fixture = Fixture::new();
        fixture.write("proc/secret", "no setting");
        for name in [
            "",
            ".",
            "vm.",
            "../secret",
            "/secret",
            "vm/../../secret",
            "vm\0",
        ] {
            let error = fixture.kernel().setting(name).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Invalid,
                "{name:?} can name no setting: {error}"
            );
        }
    }
}
