//! Extended attributes of the objects of a directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{DirectoryInner, statx_of};
use crate::Error;
use crate::origin::{Kind, Meta};

/// The longest value, and the longest list of names, that Linux has.
const LONGEST: usize = 64 << 10;

impl DirectoryInner {
    /// Returns the value of an attribute of the object in this state.
    pub(super) fn attribute(
        &self,
        path: &Path,
        expected: &Meta,
        name: &OsStr,
    ) -> Result<Option<Bytes>, Error> {
        let mut value = vec![0; LONGEST];
        let found = self.with_attributes(path, expected, |object| {
            rustix::fs::getxattr(object, name, value.as_mut_slice())
        })?;
        value.truncate(found.unwrap_or(0));
        Ok(found.map(|_| value.into()))
    }

    /// Returns the names of the attributes of the object in this state.
    pub(super) fn attributes(&self, path: &Path, expected: &Meta) -> Result<Vec<OsString>, Error> {
        let mut names = vec![0; LONGEST];
        let found = self.with_attributes(path, expected, |object| {
            rustix::fs::listxattr(object, names.as_mut_slice())
        })?;
        names.truncate(found.unwrap_or(0));
        let names = names.split(|byte| *byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(|name| OsString::from_vec(name.to_vec()))
            .collect())
    }

    /// Calls `query` with a path to the object; `None` if there is no such attribute. The attributes of a directory may be
    /// newer than the rest of its state.
    fn with_attributes<T>(
        &self,
        path: &Path,
        expected: &Meta,
        query: impl FnOnce(&str) -> Result<T, Errno>,
    ) -> Result<Option<T>, Error> {
        let file = self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        // Attributes of a descriptor of O_PATH are read by its name.
        let answer = query(&format!("/proc/self/fd/{}", file.as_raw_fd()));
        let found = self.meta(&statx_of(&file, path)?);
        if expected.kind != Kind::Directory || found.kind != Kind::Directory {
            let (now, then) = (found.version.as_str(), expected.version.as_str());
            // The version of a file on another file system than the root's ends with that one's identity.
            let rest = then.strip_prefix(now);
            let is_same = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
            if found.kind != expected.kind || !is_same {
                return Err(Error::Changed {
                    path: path.to_owned(),
                    what: "it was written or replaced",
                });
            }
        }
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(Error::of_origin(path, "read attributes", error.into())),
        }
    }
}
