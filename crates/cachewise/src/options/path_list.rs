//! Paths from a list: options of every command that acts on files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cachewise_units::escaped;
use clap::Args;

/// The file that has more paths.
#[derive(Debug, Clone, Args)]
pub struct PathList {
    /// Also take paths from FILE, one per line; `-` is standard input. With -0 a zero byte ends each, as `find -print0` writes them.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
}

/// The file that has more paths, and how they end.
#[derive(Debug, Clone, Args)]
pub struct SeparatedPathList {
    #[command(flatten)]
    pub list: PathList,
    /// Paths of --files-from end with a zero byte instead of a newline.
    #[arg(short = '0', long, requires = "files_from")]
    pub null: bool,
}

impl SeparatedPathList {
    /// Adds the paths of the list.
    ///
    /// # Errors
    /// Those of [`PathList::add_to`].
    pub fn add_to(&self, paths: &mut Vec<PathBuf>) -> Result<()> {
        self.list.add_to(paths, self.null)
    }
}

impl PathList {
    /// Adds the paths of the list to those of the command line. Empty lines are skipped. It waits for standard input,
    /// so it is called before signals are caught.
    ///
    /// # Errors
    /// If the list cannot be read, or neither has a path.
    pub fn add_to(&self, paths: &mut Vec<PathBuf>, is_null: bool) -> Result<()> {
        let Some(name) = &self.files_from else {
            return Ok(());
        };
        let (text, shown) = read(name)?;
        let end = if is_null { 0 } else { b'\n' };
        if !is_null && text.contains(&0) {
            bail!(
                "{shown} has zero bytes, which no path has: add -0 if they end the paths, as those of `find -print0`"
            );
        }
        let listed = text.split(|byte| *byte == end);
        paths.extend(
            listed
                .filter(|path| !path.is_empty())
                .map(|path| PathBuf::from(OsStr::from_bytes(path))),
        );
        if paths.is_empty() {
            bail!("{shown} has no path: nothing was done");
        }
        Ok(())
    }
}

fn read(name: &Path) -> Result<(Vec<u8>, String)> {
    let mut text = Vec::new();
    if name == Path::new("-") {
        let shown = "the list on standard input".to_owned();
        stdin()
            .lock()
            .read_to_end(&mut text)
            .with_context(|| format!("cannot read {shown}"))?;
        return Ok((text, shown));
    }
    let shown = format!("the list {}", escaped(name));
    File::open(name)
        .and_then(|mut file| file.read_to_end(&mut text))
        .with_context(|| format!("cannot read {shown}, which --files-from names"))?;
    Ok((text, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &[u8], is_null: bool) -> Result<Vec<PathBuf>> {
        let directory = tempfile::tempdir()?;
        let name = directory.path().join("list");
        std::fs::write(&name, text)?;
        let list = PathList {
            files_from: Some(name),
        };
        let mut paths = Vec::new();
        list.add_to(&mut paths, is_null)?;
        Ok(paths)
    }

    #[test]
    fn paths_are_bytes_and_empty_lines_are_skipped() {
        let expected = ["a b", "./-c"].map(PathBuf::from);
        assert_eq!(paths(b"a b\n\n./-c", false).expect("a list"), expected);
        assert_eq!(paths(b"a b\0./-c\0", true).expect("a list"), expected);
        let odd = OsStr::from_bytes(b"\xff\n");
        assert_eq!(paths(b"\xff\n\0", true).expect("a list"), [Path::new(odd)]);
    }

    #[test]
    fn lists_without_paths_or_with_the_other_end_are_refused() {
        for (text, is_null, part) in [
            (&b""[..], false, "has no path"),
            (b"\n\n", false, "has no path"),
            (b"\0", true, "has no path"),
            (b"a\0b\0", false, "add -0"),
        ] {
            let error = paths(text, is_null).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
