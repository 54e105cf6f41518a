//! Where the code of processes is: from an address in one of them to a place in a file.
//!
//! The kernel reports mappings as they are made; it does not report unmapping, but a later mapping
//! replaces the old one.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::object::{Identity, Objects};
use crate::mapping::Mapping;

/// Processes at once, before those that have ended unseen are looked for.
const MANY_PROCESSES: usize = 4096;

/// Something that code is in, by its number in [`Objects`], and where in it.
pub(super) type Site = (Option<usize>, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    end: u64,
    /// Where in the file it begins.
    offset: u64,
    object: Option<usize>,
}

/// A process. One that was forked has its parent's code until it maps something itself.
#[derive(Debug, Clone, Default)]
struct Process {
    /// By where they begin.
    code: Arc<BTreeMap<u64, Piece>>,
    /// How many of its threads are there.
    threads: usize,
}

impl Process {
    fn map(&mut self, start: u64, piece: Piece) {
        let code = Arc::make_mut(&mut self.code);
        let before = code.range(..piece.end);
        let covered: Vec<(u64, Piece)> = before
            .rev()
            .take_while(|(_, old)| old.end > start)
            .map(|(at, old)| (*at, *old))
            .collect();
        for (at, old) in covered {
            code.remove(&at);
            // The parts outside of the new mapping stay.
            if at < start {
                code.insert(at, Piece { end: start, ..old });
            }
            if old.end > piece.end {
                let offset = old.offset.saturating_add(piece.end.saturating_sub(at));
                code.insert(piece.end, Piece { offset, ..old });
            }
        }
        code.insert(start, piece);
    }

    fn site(&self, address: u64) -> Site {
        let found = self.code.range(..=address).next_back();
        let found = found.filter(|(_, piece)| address < piece.end);
        found.map_or((None, address), |(start, piece)| {
            let offset = piece.offset.saturating_add(address - start);
            (piece.object, offset)
        })
    }
}

/// Mappings of all sampled processes.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    processes: HashMap<u32, Process>,
    pub(super) objects: Objects,
}

impl Spaces {
    /// Adds a running process, with its mappings and its number of threads.
    pub(super) fn running(&mut self, pid: u32, mappings: &[Mapping], threads: usize) {
        self.exec(pid);
        for one in mappings.iter().filter(|one| one.is_code) {
            let identity = Identity::Inode(one.inode);
            self.map(pid, one.start..one.end, one.offset, &one.path, identity);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads = threads;
        }
    }

    pub(super) fn map(
        &mut self,
        pid: u32,
        range: std::ops::Range<u64>,
        offset: u64,
        name: &Path,
        identity: Identity,
    ) {
        if range.is_empty() {
            return;
        }
        let object = self.objects.number(name, identity);
        let piece = Piece {
            end: range.end,
            offset,
            object,
        };
        self.process(pid).map(range.start, piece);
    }

    /// It is another program from here on.
    pub(super) fn exec(&mut self, pid: u32) {
        *self.process(pid) = Process {
            threads: 1,
            ..Process::default()
        };
    }

    /// A new process, or a new thread of one.
    pub(super) fn fork(&mut self, pid: u32, parent: u32) {
        if pid == parent {
            self.process(pid).threads += 1;
            return;
        }
        let code = self.processes.get(&parent);
        let code = code.map(|parent| Arc::clone(&parent.code));
        *self.process(pid) = Process {
            code: code.unwrap_or_default(),
            threads: 1,
        };
    }

    /// A thread of it has ended; with the last one it is gone.
    pub(super) fn exit(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads = process.threads.saturating_sub(1);
            if process.threads == 0 {
                self.processes.remove(&pid);
            }
        }
    }

    /// Returns the site of an address of a process.
    pub(super) fn site(&mut self, pid: u32, address: u64) -> Site {
        let Some(process) = self.processes.get(&pid) else {
            return (None, address);
        };
        let (object, offset) = process.site(address);
        if let Some(object) = object {
            self.objects.seen(object, pid);
        }
        (object, offset)
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        // The end of some was among what was lost.
        if self.processes.len() >= MANY_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes
                .retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
        }
        self.processes.entry(pid).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces() -> Spaces {
        let mut spaces = Spaces::default();
        spaces.exec(7);
        let file = |name| (Path::new(name), Identity::Inode(1));
        let (name, identity) = file("/bin/one");
        spaces.map(7, 0x1000..0x9000, 0x100, name, identity);
        spaces
    }

    #[test]
    fn an_address_is_a_place_in_a_file() {
        let mut spaces = spaces();
        assert_eq!(spaces.site(7, 0x1000), (Some(0), 0x100), "its beginning");
        assert_eq!(spaces.site(7, 0x8fff), (Some(0), 0x80ff), "its end");
        assert_eq!(spaces.site(7, 0x9000), (None, 0x9000), "beyond it");
        assert_eq!(spaces.site(7, 0xfff), (None, 0xfff), "before it");
        assert_eq!(spaces.site(8, 0x1000), (None, 0x1000), "nobody's");
    }

    #[test]
    fn later_mapping_replaces_the_earlier_one() {
        let mut spaces = spaces();
        let other = Path::new("/lib/other.so");
        spaces.map(7, 0x3000..0x4000, 0, other, Identity::Inode(2));
        assert_eq!(spaces.site(7, 0x2fff), (Some(0), 0x20ff), "before");
        assert_eq!(spaces.site(7, 0x3abc), (Some(1), 0xabc), "in it");
        assert_eq!(spaces.site(7, 0x4000), (Some(0), 0x3100), "after");
        spaces.map(7, 0..0x10000, 0, other, Identity::Inode(2));
        assert_eq!(spaces.site(7, 0x8000), (Some(1), 0x8000), "all covered");
        spaces.map(7, 5..5, 0, other, Identity::Inode(2));
        assert_eq!(spaces.site(7, 5), (Some(1), 5), "nothing covers nothing");
    }

    #[test]
    fn a_child_has_its_parents_code_until_it_is_another_program() {
        let mut spaces = spaces();
        spaces.fork(8, 7);
        assert_eq!(spaces.site(8, 0x1000), (Some(0), 0x100), "its parent's");
        spaces.map(8, 0x1000..0x2000, 0, Path::new("/x"), Identity::Inode(3));
        assert_eq!(spaces.site(8, 0x1000), (Some(1), 0), "its own");
        assert_eq!(spaces.site(7, 0x1000), (Some(0), 0x100), "not the parent's");
        spaces.exec(8);
        assert_eq!(spaces.site(8, 0x1000), (None, 0x1000), "nothing of before");
        spaces.fork(9, 12345);
        assert_eq!(spaces.site(9, 1), (None, 1), "of an unknown parent");
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let mut spaces = spaces();
        spaces.fork(7, 7);
        spaces.exit(7);
        assert_eq!(spaces.site(7, 0x1000), (Some(0), 0x100), "one is left");
        spaces.exit(7);
        assert_eq!(spaces.site(7, 0x1000), (None, 0x1000), "none is");
        spaces.exit(7);
        assert!(spaces.processes.is_empty(), "{spaces:?}");
    }

    #[test]
    fn processes_whose_end_was_lost_are_forgotten() {
        let mut spaces = Spaces::default();
        // Above the largest number of a process.
        for pid in 0..3 * MANY_PROCESSES as u32 {
            spaces.fork(0x7000_0000 + pid, 1);
        }
        assert!(
            spaces.processes.len() <= MANY_PROCESSES,
            "{} processes",
            spaces.processes.len()
        );
    }
}
