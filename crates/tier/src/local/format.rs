//! The version of the format of a directory of blocks, in a file beside the segments.

use std::io::{self, Read, Write};
use std::path::Path;

use cachewise_sys::PrivateDirectory;

use super::directory_error::directory_error;
use crate::Error;

/// The file with the version. Version 1 had none at first, so that a directory without it has version 1.
const NAME: &str = "format";

/// Text of the file before the number.
const HEAD: &str = "cachewise blocks ";

/// The version that this program reads and writes: the layout of the segments (crate `foyer`), the header of a block
/// and the form of its key. Raise it with each of them; a directory of a lower version is then read or emptied.
const VERSION: u32 = 1;

/// Maximum length of the file in bytes.
const LONGEST: u64 = 64;

/// Checks the version of the blocks in `directory`, and writes it where there is none. Nothing is changed in a
/// directory of another version.
pub(super) fn check_format(path: &Path, directory: &PrivateDirectory) -> Result<(), Error> {
    let failed = |error| directory_error(path.join(NAME), "open", error);
    let mut file = directory.file(NAME).map_err(failed)?;
    let mut found = Vec::new();
    (&mut file)
        .take(LONGEST)
        .read_to_end(&mut found)
        .map_err(failed)?;
    // A process that was killed before it wrote leaves an empty file.
    if found.is_empty() {
        // On a full disk it stays empty, which says the same.
        let _ = writeln!(file, "{HEAD}{VERSION}");
        return Ok(());
    }
    version_of(&found)
        .and_then(|version| match version {
            VERSION => Ok(()),
            _ => Err(format!(
                "its blocks have format {version}, of a newer cachewise, and this one reads format {VERSION}"
            )),
        })
        .map_err(|why| {
            let advice = "use the newer cachewise, name another directory, or remove that one: it is a cache";
            failed(io::Error::other(format!("{why}; {advice}")))
        })
}

/// Returns the version in the content of the file.
fn version_of(content: &[u8]) -> Result<u32, String> {
    let text = std::str::from_utf8(content).ok();
    let number = text.and_then(|text| text.strip_prefix(HEAD)?.strip_suffix('\n'));
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("it is not \"{HEAD}{VERSION}\", and not of a known cachewise"))
}
