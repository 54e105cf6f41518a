//! [`Tree`]: the files that are asked about, and lists of them.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Outcome;

/// Directories of 20 files of 1 to 16 pages, and their paths in two lists.
pub struct Tree {
    pub root: PathBuf,
    pub files: Vec<PathBuf>,
    /// A path a line.
    pub lines: PathBuf,
    /// A zero byte after each path.
    pub zeros: PathBuf,
}

impl Tree {
    pub fn make(root: &Path, directories: usize) -> Outcome<Tree> {
        const FILES: usize = 20;
        let content = vec![0xA5; 16 * cachewise_sys::page_size().get() as usize];
        let mut files = Vec::new();
        for number in 0..directories {
            let directory = root.join(format!("part-{}/directory-{number}", number / 10));
            fs::create_dir_all(&directory)?;
            for file in 0..FILES {
                let part = 1 + (number * 7 + file * 5) % 16;
                let path = directory.join(format!("file-{file}.data"));
                fs::write(&path, &content[..content.len() * part / 16 - 100])?;
                files.push(path);
            }
        }
        let list = |name: &str, end: u8| -> Outcome<PathBuf> {
            let path = root.with_extension(name);
            let mut text = Vec::new();
            for file in &files {
                text.extend_from_slice(file.as_os_str().as_bytes());
                text.push(end);
            }
            fs::write(&path, text)?;
            Ok(path)
        };
        Ok(Tree {
            lines: list("lines", b'\n')?,
            zeros: list("zeros", 0)?,
            root: root.to_owned(),
            files,
        })
    }

    /// Reads everything: a reclaimer may be at work.
    pub fn warm(&self) -> Outcome<()> {
        let mut buffer = Vec::new();
        for path in &self.files {
            buffer.clear();
            File::open(path)?.read_to_end(&mut buffer)?;
        }
        Ok(())
    }
}

/// Makes small files, a thousand to a directory.
pub fn many(root: &Path, files: usize) -> Outcome<PathBuf> {
    const A_DIRECTORY: usize = 1000;
    for number in 0..files {
        let directory = root.join(format!("{}", number / A_DIRECTORY));
        if number % A_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        fs::write(directory.join(format!("file number {number}")), b"content")?;
    }
    Ok(root.to_owned())
}
