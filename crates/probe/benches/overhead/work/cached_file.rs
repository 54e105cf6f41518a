//! A cached file that is written over, or mapped and touched.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cachewise_sys::sync_data;

use super::many_files::touch_mapped;
use super::{Goal, Limit, PAGE, Random, Work};
use crate::Outcome;
use crate::variant::Variant;

const PAGES: usize = 4096;

/// The use of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its pages are written over, at random.
    Write,
    /// It is mapped, each page is touched in turn, and it is unmapped.
    Touch,
}

pub struct CachedFile {
    access: Access,
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl CachedFile {
    pub fn new(access: Access, directory: &Path) -> Self {
        CachedFile {
            access,
            path: directory.join("cached"),
            file: None,
            buffer: vec![7; PAGE],
        }
    }
}

impl Work for CachedFile {
    fn name(&self) -> &'static str {
        match self.access {
            Access::Write => "write-4k",
            Access::Touch => "mapped-touch",
        }
    }

    fn operation(&self) -> &'static str {
        match self.access {
            Access::Write => "pwrite of 4 KiB",
            Access::Touch => "page touched",
        }
    }

    fn goals(&self) -> &'static [Goal] {
        match self.access {
            Access::Write => &[
                (Variant::Stat, Limit::Ratio(1.03)),
                (Variant::Run, Limit::Ratio(1.05)),
            ],
            Access::Touch => &[(Variant::Run, Limit::Ratio(1.03))],
        }
    }

    fn prepare(&mut self) -> Outcome<()> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&self.path)?;
        // A write of one page makes a folio of one: a fault maps no more than the 16 pages around it.
        for _ in 0..PAGES {
            file.write_all(&self.buffer)?;
        }
        sync_data(file.as_fd())?;
        self.file = Some(file);
        Ok(())
    }

    fn run(&mut self, operations: Option<u64>) -> Outcome<u64> {
        let count = operations.unwrap_or(0);
        let file = self.file.as_ref().ok_or("the file was not prepared")?;
        match self.access {
            Access::Write => {
                let mut random = Random(6);
                for _ in 0..count {
                    let page = random.below(PAGES as u64);
                    file.write_all_at(&self.buffer, page * PAGE as u64)?;
                }
            }
            Access::Touch => {
                let mut left = count as usize;
                while left > 0 {
                    let pages = left.min(PAGES);
                    touch_mapped(file, pages * PAGE)?;
                    left -= pages;
                }
            }
        }
        Ok(count)
    }

    fn operations(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    /// A fault maps the pages around it too.
    fn pages(&self, operations: u64) -> u64 {
        match self.access {
            Access::Write => operations,
            Access::Touch => operations / 16,
        }
    }
}
