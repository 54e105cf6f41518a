//! [`read`]: a file with a secret, which no other user can access.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cachewise_units::{Bytes, escaped, shell_quoted};
use zeroize::Zeroizing;

use crate::Error;

/// Returns the content of the file of a setting. The mode of the file grants no access to others, and access of its group only
/// for reading a file of root. `what` is the content, for errors.
///
/// # Errors
/// [`Error::Setting`] for a file that cannot be read, that others can access, that is longer than `most`, or that is no file.
pub(crate) fn read(
    setting: &'static str,
    path: &Path,
    what: &str,
    most: Bytes,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let wrong = |why: String| Error::Setting {
        setting,
        why: format!("{}: {why}", escaped(path)),
    };
    let failed = |error: std::io::Error| wrong(error.to_string());
    let file = cachewise_sys::open_input(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.mode() & 0o777;
    let permitted = if metadata.uid() == 0 { 0o740 } else { 0o700 };
    if mode & !permitted != 0 {
        return Err(wrong(format!(
            "mode {mode:04o} lets other users access the {what}: chmod 600 {}",
            shell_quoted(path)
        )));
    }
    let bytes = cachewise_sys::read_input(file, most).map_err(failed)?;
    Ok(Zeroizing::new(bytes))
}
