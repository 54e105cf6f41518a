//! [`Kernel`]: where the kernel is asked, and the simplest answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind};

/// A kernel to be asked, by the places where its `/proc` and `/sys` are mounted.
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
    /// Asks this machine, at `/proc` and `/sys`.
    #[must_use]
    pub fn new() -> Self {
        Self::with_roots("/proc", "/sys")
    }

    /// Asks the kernel whose file systems are mounted elsewhere, as a host's in a container.
    #[must_use]
    pub fn with_roots(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self {
            proc: proc.into(),
            sys: sys.into(),
        }
    }

    /// Returns the name of the host.
    ///
    /// # Errors
    /// What reading `/proc/sys/kernel/hostname` says.
    pub fn hostname(&self) -> Result<String, Error> {
        self.line(&self.proc.join("sys/kernel/hostname"))
    }

    /// Returns the release of the kernel, such as `6.18.44`.
    ///
    /// # Errors
    /// What reading `/proc/sys/kernel/osrelease` says.
    pub fn release(&self) -> Result<String, Error> {
        self.line(&self.proc.join("sys/kernel/osrelease"))
    }

    /// Returns a setting by the name `sysctl` has for it (`vm.dirty_ratio`), or `None` where this
    /// kernel has none of that name.
    ///
    /// A name may be written with slashes instead, as one must for `net/ipv4/conf/eth0.1/mtu`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what cannot be a name, [`ErrorKind::Denied`] where the setting
    /// is not shown to this caller.
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

    /// Returns where a path below `/proc` is, of the kernel that is asked.
    #[must_use]
    pub fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.proc.join(path)
    }

    /// Returns where a path below `/sys` is, of the kernel that is asked.
    #[must_use]
    pub fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.sys.join(path)
    }

    /// Finds a path that the kernel gives under `/sys` where this kernel's `/sys` is.
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
        fs::read(path).map_err(|source| Error::io("read", path, source))
    }

    pub(crate) fn text(&self, path: &Path) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.read(path)?).into_owned())
    }

    /// Reads a file of one value, without the newline at its end.
    pub(crate) fn line(&self, path: &Path) -> Result<String, Error> {
        let mut text = self.text(path)?;
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }
}

/// Turns "there is none" into `None`, and leaves every other failure one.
pub(crate) fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says whether a failure means that there is nothing (any more).
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, captured};

    #[test]
    fn host_and_release_come_without_newline() {
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
    fn settings_are_read_by_either_name() {
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
    fn settings_stay_below_their_root() {
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
