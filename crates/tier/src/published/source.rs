//! [`Source`]: an origin as a walk reads it: a directory of this machine, or any other origin.

use std::path::Path;

use super::attributes::Attributes;
use super::error::PublishError;
use super::index::FileState;
use super::stat::Stat;
use crate::Kind;

/// An object, by one look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub kind: Kind,
    pub stat: Stat,
    /// Whether an access control list extends its permissions, of an object that is not read.
    pub has_acl: bool,
    /// The state by which a change is noticed.
    pub state: FileState,
    /// Whether every change from now on is another state.
    pub is_settled: bool,
}

/// Extended attributes of an object, and whether a list extends its permissions.
#[derive(Clone, Debug, Default)]
pub(super) struct Extended {
    pub attributes: Attributes,
    /// Whether an access control list extends the permissions, or may.
    pub has_acl: bool,
}

/// The outcome of reading a file.
#[derive(Debug)]
pub(super) enum FileRead {
    /// All bytes of one state.
    Whole(Found, Extended),
    /// It changed meanwhile.
    Changed,
    /// There is no such file any more.
    Vanished,
}

/// Says whether a file in this state is known, so that it is not read.
pub(super) type IsKnown<'k> = &'k dyn Fn(&FileState) -> bool;

/// An origin to publish. Names that vanish between two calls are `None`.
pub(super) trait Source {
    /// A directory that was entered.
    type Directory;

    /// Enters the origin itself.
    fn root(&mut self, is_known: IsKnown<'_>) -> Result<(Found, Self::Directory), PublishError>;

    /// Returns the names in a directory, sorted.
    fn names(
        &mut self,
        directory: &mut Self::Directory,
        path: &Path,
    ) -> Result<Vec<Vec<u8>>, PublishError>;

    /// Looks at an object.
    fn look(
        &mut self,
        directory: &mut Self::Directory,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<Found>, PublishError>;

    /// Enters a directory. The files in it that are not known are read next, in the order of their names.
    fn enter(
        &mut self,
        directory: &mut Self::Directory,
        name: &[u8],
        path: &Path,
        is_known: IsKnown<'_>,
    ) -> Result<Option<Self::Directory>, PublishError>;

    /// Returns the attributes of a directory that was entered.
    fn extended(
        &mut self,
        directory: &mut Self::Directory,
        path: &Path,
    ) -> Result<Extended, PublishError>;

    /// Returns the time of a directory whose origin has none: that of the newest file in it.
    fn modified(&self, directory: &Self::Directory) -> Option<(i64, u32)>;

    /// Returns the target of a symbolic link.
    fn target(
        &mut self,
        directory: &mut Self::Directory,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<Vec<u8>>, PublishError>;

    /// Reads a file, block by block. `times` is how often it was read before.
    fn read(
        &mut self,
        directory: &mut Self::Directory,
        name: &[u8],
        path: &Path,
        times: u32,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PublishError>,
    ) -> Result<FileRead, PublishError>;

    /// Checks that the origin is there still, where names have vanished.
    fn check(&mut self) -> Result<(), PublishError>;
}
