//! A file that a process has open.

use std::path::PathBuf;

use cachewise_units::{ByteRange, Bytes};

/// Less memory of a process or of a file is not worth a comparison; as in the rule `cached_twice`.
pub const WORTH: Bytes = Bytes(16 << 20);

/// The whole of a file.
pub const WHOLE: ByteRange = ByteRange::starting_at(0);

/// A file that a process has open.
pub struct OpenFile {
    pub path: PathBuf,
    /// The path by which this program reaches it.
    pub link: PathBuf,
    /// In bytes.
    pub size: u64,
}
