//! [`directory_error`]: errors about the directory of the cache and the files in it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cachewise_sys::Distrust;

use crate::Error;

/// Returns the error for a failed operation on a file of the cache. A distrusted directory gets a remedy in its text.
pub(super) fn directory_error(path: PathBuf, operation: &'static str, error: io::Error) -> Error {
    let why = error
        .get_ref()
        .and_then(|why| why.downcast_ref::<Distrust>());
    let source = match why {
        Some(why) => io::Error::new(
            error.kind(),
            format!(
                "{why}; name a directory of your own that others cannot write to, or remove it after a look at \
                 where it came from"
            ),
        ),
        None => error,
    };
    Error::Directory {
        path,
        operation,
        source: Arc::new(source),
    }
}
