//! Many small files, as a build has them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Goal, Limit, PAGE, Random, Work};
use crate::Outcome;
use crate::variant::Variant;

const SOURCE_FILES: usize = 2000;
const OUTPUT_FILES: usize = 200;

/// The file operations of a build on many small files, without the compiler: each file is stat'ed, opened and read as a
/// whole; every eighth is mapped instead; small results are written, renamed and removed.
pub struct ManyFiles {
    directory: PathBuf,
    sources: Vec<PathBuf>,
    contents: Vec<u8>,
}

impl ManyFiles {
    pub fn new(directory: &Path) -> Self {
        ManyFiles {
            directory: directory.join("tree"),
            sources: Vec::new(),
            contents: vec![b'x'; 64 << 10],
        }
    }
}

impl Work for ManyFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    fn operation(&self) -> &'static str {
        "small file"
    }

    fn goals(&self) -> &'static [Goal] {
        &[(Variant::Run, Limit::Ratio(1.02))]
    }

    fn prepare(&mut self) -> Outcome<()> {
        let mut random = Random(4);
        for i in 0..SOURCE_FILES {
            let directory = self.directory.join(format!("{:02}", i / 50));
            fs::create_dir_all(&directory)?;
            let path = directory.join(format!("{i:04}.rs"));
            // As many of 1-2 KiB as of 32-64 KiB.
            let least = 1024 << random.below(6);
            let size = least + random.below(least);
            fs::write(&path, &self.contents[..size as usize])?;
            self.sources.push(path);
        }
        fs::create_dir_all(self.directory.join("out"))?;
        // Dirty pages would be written back in the middle of a block.
        rustix::fs::syncfs(File::open(&self.directory)?)?;
        self.run(None)?;
        Ok(())
    }

    fn run(&mut self, _: Option<u64>) -> Outcome<u64> {
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut random = Random(5);
        let every = SOURCE_FILES / OUTPUT_FILES;
        for (i, path) in self.sources.iter().enumerate() {
            fs::metadata(path)?;
            let mut file = File::open(path)?;
            let size = file.metadata()?.len() as usize;
            if i % 8 == 0 {
                touch_mapped(&file, size)?;
            } else {
                buffer.clear();
                file.read_to_end(&mut buffer)?;
            }
            drop(file);
            if i % every == 0 {
                let temporary = self.directory.join("out/new");
                let size = 1024 + random.below(31 << 10) as usize;
                fs::write(&temporary, &self.contents[..size])?;
                fs::rename(&temporary, self.directory.join(format!("out/{i}.o")))?;
            }
        }
        for i in (0..self.sources.len()).step_by(every) {
            fs::remove_file(self.directory.join(format!("out/{i}.o")))?;
        }
        Ok(self.sources.len() as u64)
    }

    fn warms_up(&self) -> bool {
        false
    }

    fn pages(&self, operations: u64) -> u64 {
        operations
    }
}

/// Maps a file, touches each page of its first `size` bytes, and unmaps it.
pub fn touch_mapped(file: &File, size: usize) -> Outcome<()> {
    // SAFETY: a new mapping at an address of the kernel's choice, so nothing that exists is replaced. The
    // file belongs to this bench and keeps its size, so each byte read is backed by it; the pointer is not
    // used after the mapping is gone.
    unsafe {
        let start = mmap(
            ptr::null_mut(),
            size,
            ProtFlags::READ,
            MapFlags::PRIVATE,
            file,
            0,
        )?;
        for offset in (0..size).step_by(PAGE) {
            start.cast::<u8>().add(offset).read_volatile();
        }
        munmap(start, size)?;
    }
    Ok(())
}
