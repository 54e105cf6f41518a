//! The file in which `lock --follow` keeps what is locked, for its next start: paths, each ended by a zero
//! byte, for they may hold anything else.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cachewise_units::escaped;

/// The file, and what was written to it last.
pub struct Dump {
    path: PathBuf,
    written: Option<Vec<u8>>,
}

impl Dump {
    /// Reads the paths of a dump; none if the file does not exist.
    ///
    /// Another file is an error: it would be overwritten.
    pub fn open(path: &Path) -> Result<(Dump, Vec<PathBuf>)> {
        let shown = escaped(path);
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            bail!("the dump {shown} is not a regular file: name another file");
        }
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the dump {shown}"));
            }
        };
        let Some(paths) = parse(&bytes) else {
            bail!(
                "{shown} is not a dump of `lock --follow` and would be overwritten: name another file, or remove it"
            );
        };
        let dump = Dump {
            path: path.to_owned(),
            written: None,
        };
        Ok((dump, paths))
    }

    /// Whether it could be written so far.
    pub fn is_kept(&self) -> bool {
        self.written.is_some()
    }

    /// Writes these paths, unless they are what was written last.
    pub fn keep<'a>(&mut self, paths: impl Iterator<Item = &'a Path>) -> Result<()> {
        let mut paths: Vec<&Path> = paths.collect();
        paths.sort_unstable();
        paths.dedup();
        let mut bytes = Vec::new();
        for path in paths {
            bytes.extend_from_slice(path.as_os_str().as_bytes());
            bytes.push(0);
        }
        if self.written.as_ref() != Some(&bytes) {
            replace(&self.path, &bytes)
                .with_context(|| format!("cannot write the dump {}", escaped(&self.path)))?;
            self.written = Some(bytes);
        }
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let paths = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    paths
        .map(|path| {
            path.starts_with(b"/")
                .then(|| OsStr::from_bytes(path).into())
        })
        .collect()
}

/// Replaces a file atomically: a reader finds the old or the new content.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".cachewise-")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(directory)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    };
    // The kind of error, without the name of the temporary file.
    write()
        .map(|_| ())
        .map_err(|error: std::io::Error| error.kind().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_a_dump_is_an_error() {
        assert_eq!(parse(b""), Some(Vec::new()), "an empty file is one");
        assert_eq!(
            parse(b"/a\n\xff\0/b c\0"),
            Some(vec![OsStr::from_bytes(b"/a\n\xff").into(), "/b c".into()]),
            "paths may hold anything"
        );
        for other in [&b"/a"[..], b"root:x:0:0\n", b"/a\0b\0", b"\0", b"/a\0\0"] {
            assert_eq!(parse(other), None, "{other:?} is none");
        }
    }
}
