//! One large file, read cold or warm, by turns or at random.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cachewise_sys::{cachestat, fadvise_dont_need, fadvise_random, sync_data};

use super::{Goal, Limit, PAGE, Random, Work};
use crate::variant::Variant;
use crate::{Outcome, PAUSE};

const LARGE: usize = 1 << 20;
const FILE_SIZE: usize = 256 << 20;

/// How the one large file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    WarmRandom,
    WarmLarge,
    WarmSequential,
    ColdSequential,
    ColdRandom,
}

pub struct LargeFile {
    pattern: Pattern,
    path: PathBuf,
    file: Option<File>,
    /// The pages in an order without repetition: a page is cold once.
    order: Vec<u32>,
    buffer: Vec<u8>,
}

impl LargeFile {
    pub fn new(pattern: Pattern, directory: &Path) -> Self {
        let path = directory.join("large");
        LargeFile {
            pattern,
            path,
            file: None,
            order: Vec::new(),
            buffer: vec![0; LARGE],
        }
    }

    fn chunk(&self) -> usize {
        match self.pattern {
            Pattern::WarmLarge => LARGE,
            Pattern::ColdSequential => 64 << 10,
            _ => PAGE,
        }
    }

    fn is_cold(&self) -> bool {
        matches!(self.pattern, Pattern::ColdSequential | Pattern::ColdRandom)
    }

    fn file(&self) -> Outcome<&File> {
        self.file
            .as_ref()
            .ok_or_else(|| "the file was not prepared".into())
    }
}

impl Work for LargeFile {
    fn name(&self) -> &'static str {
        match self.pattern {
            Pattern::WarmRandom => "warm-random-4k",
            Pattern::WarmLarge => "warm-sequential-1m",
            Pattern::WarmSequential => "warm-read-4k",
            Pattern::ColdSequential => "cold-sequential-64k",
            Pattern::ColdRandom => "cold-random-4k",
        }
    }

    fn operation(&self) -> &'static str {
        match self.pattern {
            Pattern::WarmRandom => "pread of 4 KiB",
            Pattern::WarmLarge => "pread of 1 MiB",
            Pattern::WarmSequential => "read of 4 KiB",
            Pattern::ColdSequential => "page, read by 16",
            Pattern::ColdRandom => "pread of 4 KiB",
        }
    }

    fn goals(&self) -> &'static [Goal] {
        match self.pattern {
            Pattern::WarmRandom => &[
                (Variant::Empty, Limit::Ratio(1.08)),
                (Variant::Stat, Limit::Ratio(1.12)),
                (Variant::Run, Limit::Ratio(1.20)),
            ],
            Pattern::WarmSequential => &[],
            _ => &[(Variant::Run, Limit::Ratio(1.03))],
        }
    }

    fn prepare(&mut self) -> Outcome<()> {
        if !self.path.exists() {
            let mut file = File::create(&self.path)?;
            let mut random = Random(1);
            for _ in 0..FILE_SIZE / LARGE {
                for word in self.buffer.chunks_exact_mut(8) {
                    word.copy_from_slice(&random.below(u64::MAX).to_ne_bytes());
                }
                file.write_all(&self.buffer)?;
            }
        }
        let file = File::open(&self.path)?;
        sync_data(file.as_fd())?;
        fadvise_dont_need(file.as_fd())?;
        if self.is_cold() {
            if self.pattern == Pattern::ColdRandom {
                fadvise_random(file.as_fd())?;
            }
            self.order = (0..(FILE_SIZE / PAGE) as u32).collect();
            let mut random = Random(2);
            for i in (1..self.order.len()).rev() {
                self.order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        self.file = Some(file);
        Ok(())
    }

    fn reset(&mut self) -> Outcome<()> {
        let file = self.file()?;
        let resident = || Ok::<_, cachewise_sys::Error>(cachestat(file.as_fd(), None)?.cached.0);
        let all = (FILE_SIZE / PAGE) as u64;
        if !self.is_cold() {
            // Another program may have dropped caches: from then on it is resident anew.
            if resident()? < all {
                let mut buffer = vec![0; LARGE];
                for offset in (0..FILE_SIZE).step_by(LARGE) {
                    file.read_exact_at(&mut buffer, offset as u64)?;
                }
            }
            return Ok(());
        }
        // Pages of readahead that are still being read cannot be evicted yet.
        for _ in 0..100 {
            fadvise_dont_need(file.as_fd())?;
            if resident()? == 0 {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("{} of the file's {all} pages do not go", resident()?).into())
    }

    fn run(&mut self, operations: Option<u64>) -> Outcome<u64> {
        let count = operations.unwrap_or(0);
        let chunk = self.chunk();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut file = self.file()?;
        match self.pattern {
            Pattern::WarmRandom => {
                let mut random = Random(3);
                for _ in 0..count {
                    let page = random.below((FILE_SIZE / PAGE) as u64);
                    file.read_exact_at(&mut buffer[..chunk], page * PAGE as u64)?;
                }
            }
            Pattern::WarmLarge => {
                for i in 0..count {
                    let offset = i % (FILE_SIZE / chunk) as u64 * chunk as u64;
                    file.read_exact_at(&mut buffer[..chunk], offset)?;
                }
            }
            Pattern::WarmSequential => {
                let reads = (FILE_SIZE / chunk) as u64;
                for i in 0..count {
                    if i % reads == 0 {
                        file.rewind()?;
                    }
                    file.read_exact(&mut buffer[..chunk])?;
                }
            }
            Pattern::ColdSequential => {
                let pages = (chunk / PAGE) as u64;
                for i in 0..(count / pages) {
                    file.read_exact_at(&mut buffer[..chunk], i * chunk as u64)?;
                }
            }
            Pattern::ColdRandom => {
                for page in &self.order[..count as usize] {
                    file.read_exact_at(&mut buffer[..chunk], u64::from(*page) * PAGE as u64)?;
                }
            }
        }
        self.buffer = buffer;
        Ok(count)
    }

    fn warms_up(&self) -> bool {
        !self.is_cold()
    }

    fn operations(&self) -> Option<u64> {
        Some(match self.pattern {
            Pattern::ColdSequential | Pattern::ColdRandom => (FILE_SIZE / PAGE) as u64,
            _ => u64::MAX,
        })
    }

    fn pages(&self, operations: u64) -> u64 {
        match self.pattern {
            Pattern::WarmLarge => operations * (LARGE / PAGE) as u64,
            _ => operations,
        }
    }
}
