//! Extended attributes of an origin: those of users, capabilities of programs, and access control lists.

use std::ffi::{OsStr, OsString};
use std::sync::PoisonError;

use bytes::Bytes;
use fuser::{Errno, ReplyXattr};

use super::inodes::{Content, Inode};
use super::operations::Operation;
use super::shared::MountShared;
use crate::published::attributes::is_data;
use crate::{Error, File};

/// The list that decides who may access an object.
const ACCESS: &str = "system.posix_acl_access";

/// Names that are shown as they are. Others mean something to the origin's file system only, or to root.
fn is_shown(name: &OsStr) -> bool {
    is_data(name.as_encoded_bytes()) || name == ACCESS || name == "system.posix_acl_default"
}

/// The object of the origin that an inode stands for.
fn object(inode: &Inode) -> Option<File> {
    match &inode.content {
        Content::File(file) => Some(file.clone()),
        Content::Directory { known, .. } => {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            Some(known.file.clone())
        }
        Content::Own { .. } | Content::Drop { .. } => None,
    }
}

/// Returns the object to ask the origin about; `None` if that is not needed to know that it has no such attribute.
pub(super) fn to_ask(inode: &Inode, name: &OsStr) -> Option<File> {
    let file = object(inode).filter(|_| is_shown(name))?;
    // The kernel requests the list of each object of which it has to check the permissions.
    (name != ACCESS || file.meta().has_acl).then_some(file)
}

impl MountShared {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// An object that seemed to have an access control list, and shows none, has an unknown one.
    pub(super) async fn attribute(
        &self,
        file: &File,
        name: &OsStr,
    ) -> Result<Option<Bytes>, Error> {
        self.asks_origin(Operation::Getxattr);
        let value = self.cache.attribute(file, name).await?;
        // By its list the object gave less than its permission bits show without it.
        if value.is_none() && name == ACCESS {
            return Err(Error::of_origin(
                file.path(),
                "read the access control list",
                std::io::ErrorKind::PermissionDenied.into(),
            ));
        }
        Ok(value)
    }

    /// Returns the names of the attributes that are shown, each with a zero after it.
    pub(super) async fn attribute_names(&self, inode: &Inode) -> Result<Vec<u8>, Error> {
        let Some(file) = object(inode) else {
            return Ok(Vec::new());
        };
        self.asks_origin(Operation::Getxattr);
        let names = self.cache.attributes(&file).await?;
        let shown = names.iter().filter(|name| is_shown(name));
        Ok(shown.flat_map(with_zero).collect())
    }
}

fn with_zero(name: &OsString) -> impl Iterator<Item = u8> {
    let bytes = name.as_encoded_bytes().iter().copied();
    bytes.chain(std::iter::once(0))
}

/// Answers with a value, or with its size where the size is requested.
pub(super) fn answer(value: &[u8], size: u32, reply: ReplyXattr) {
    let Ok(len) = u32::try_from(value.len()) else {
        return reply.error(Errno::E2BIG);
    };
    match size {
        0 => reply.size(len),
        size if size < len => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_mean_something_elsewhere_are_not_shown() {
        for (name, expected) in [
            ("user.", true),
            ("user.mime_type", true),
            ("security.capability", true),
            (ACCESS, true),
            ("security.selinux", false),
            ("trusted.overlay.opaque", false),
            ("system.nfs4_acl", false),
            ("username", false),
        ] {
            assert_eq!(is_shown(OsStr::new(name)), expected, "{name}");
        }
    }
}
