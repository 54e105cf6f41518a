//! `--ncdu`: the export format of ncdu, version 1 (<https://dev.yorhel.nl/ncdu/jsonfmt>), in which apparent
//! size is the file's and disk usage what of it is resident.
//!
//! A directory is a list that begins with itself, so files have to be sorted by their directories first:
//! this one output takes memory for each file.

use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cachewise_residency::{Walk, WalkItem};
use cachewise_sys::page_size;
use cachewise_units::escaped;

use super::counting::Answer;
use super::fuse::NotOpened;
use super::plan::{counts_of, skipped};
use super::show::Show;

/// A file as ncdu wants it.
pub struct Sized {
    pub path: PathBuf,
    pub size: u64,
    /// In bytes of whole pages.
    pub resident: u64,
    /// Its residency is not known.
    pub unknown: bool,
}

/// Walks a directory and writes it.
pub fn show(walk: Walk, roots: &[PathBuf], show: &mut Show) -> Result<Answer> {
    let [root] = roots else {
        bail!("--ncdu needs exactly one directory: name one PATH");
    };
    if !root.is_dir() {
        bail!("--ncdu needs a directory, and {} is not one", escaped(root));
    }
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let mut files = Vec::new();
    let mut counting = show.count();
    let not_opened = NotOpened::default();
    walk.run(|met| {
        match met {
            WalkItem::File(entry) => {
                let counts = counts_of(&entry, &not_opened);
                counting.add(entry.size.0, counts);
                files.push(Sized {
                    path: absolute(entry.path()),
                    size: entry.size.0,
                    resident: counts.map_or(0, |counts| counts.cached.bytes(page_size()).0),
                    unknown: counts.is_err(),
                });
            }
            WalkItem::Skipped(error) => skipped(roots, error, &mut counting),
        }
        ControlFlow::Continue(())
    });
    counting.all_came();
    show.raw(|out| write(out, &absolute(root.clone()), files))?;
    Ok(counting.finish())
}

/// Writes files below `root` as ncdu's nested lists.
pub fn write(out: &mut dyn Write, root: &Path, mut files: Vec<Sized>) -> std::io::Result<()> {
    // Path compares name by name, so that what is in a directory stands together.
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    write!(
        out,
        "[1,2,{{\"progname\":\"cachewise\",\"progver\":\"{}\",\"timestamp\":{}}},\n[",
        env!("CARGO_PKG_VERSION"),
        jiff::Timestamp::now().as_second()
    )?;
    directory(out, root.as_os_str())?;
    let mut open: Vec<&OsStr> = Vec::new();
    for file in &files {
        let Ok(below) = file.path.strip_prefix(root) else {
            continue;
        };
        let mut names: Vec<&OsStr> = below.iter().collect();
        let Some(name) = names.pop() else { continue };
        let shared = open
            .iter()
            .zip(&names)
            .take_while(|(one, other)| one == other)
            .count();
        while open.len() > shared {
            open.pop();
            out.write_all(b"]")?;
        }
        for directory_name in &names[shared..] {
            out.write_all(b",\n[")?;
            directory(out, directory_name)?;
            open.push(directory_name);
        }
        out.write_all(b",\n{\"name\":")?;
        string(out, name)?;
        write!(out, ",\"asize\":{},\"dsize\":{}", file.size, file.resident)?;
        if file.unknown {
            // ncdu marks it: its usage is not known.
            out.write_all(b",\"read_error\":true")?;
        }
        out.write_all(b"}")?;
    }
    for _ in open {
        out.write_all(b"]")?;
    }
    out.write_all(b"]]\n")
}

fn directory(out: &mut dyn Write, name: &OsStr) -> std::io::Result<()> {
    out.write_all(b"{\"name\":")?;
    string(out, name)?;
    out.write_all(b"}")
}

/// A name as a JSON string. Bytes that are not UTF-8 stay as they are: so ncdu writes and reads them.
fn string(out: &mut dyn Write, name: &OsStr) -> std::io::Result<()> {
    out.write_all(b"\"")?;
    for &byte in name.as_bytes() {
        match byte {
            b'"' | b'\\' => out.write_all(&[b'\\', byte])?,
            0..0x20 | 0x7f => write!(out, "\\u{byte:04x}")?,
            _ => out.write_all(&[byte])?,
        }
    }
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64, resident: u64) -> Sized {
        Sized {
            path: path.into(),
            size,
            resident,
            unknown: false,
        }
    }

    #[test]
    fn directories_are_nested_lists() {
        let files = vec![
            file("/r/b/two", 2, 4096),
            file("/r/a.txt", 1, 0),
            file("/r/b/c/\"three\"\n", 3, 8192),
            file("/r/b/one", 1, 4096),
            file("/r/b-side", 9, 0),
        ];
        let mut out = Vec::new();
        write(&mut out, Path::new("/r"), files).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
        let leaf = |name: &str, asize: u64, dsize: u64| serde_json::json!({"name": name, "asize": asize, "dsize": dsize});
        let dir = |name: &str| serde_json::json!({ "name": name });
        assert_eq!(
            json[3],
            serde_json::json!([
                dir("/r"),
                leaf("a.txt", 1, 0),
                [
                    dir("b"),
                    [dir("c"), leaf("\"three\"\n", 3, 8192)],
                    leaf("one", 1, 4096),
                    leaf("two", 2, 4096),
                ],
                leaf("b-side", 9, 0),
            ]),
            "each directory once, with what is in it"
        );
        assert_eq!(json[2]["progname"], "cachewise", "and who wrote it");
    }

    #[test]
    fn an_empty_directory_is_well_formed() {
        let mut out = Vec::new();
        write(&mut out, Path::new("/r"), Vec::new()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
        assert_eq!(
            json[3],
            serde_json::json!([{"name": "/r"}]),
            "a list of itself"
        );
    }
}
