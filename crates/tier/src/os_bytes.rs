//! Names and paths from bytes that came from elsewhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Returns a path of plain names alone, relative to an origin; `None` for any other.
pub(crate) fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(bytes));
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let is_whole = !bytes.contains(&0) && path.components().all(is_plain);
    is_whole.then(|| path.components().collect())
}
