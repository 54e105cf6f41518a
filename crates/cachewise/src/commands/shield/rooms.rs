//! Pages that could stay in memory at most, for a program.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cachewise_kstat::Kernel;
use cachewise_sys::page_size;
use cachewise_units::Pages;

/// Limits are read again after this time: a program may move to another group.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// Programs whose limits are remembered, at most.
const KNOWN: usize = 1024;

/// The limits of programs.
#[derive(Debug)]
pub struct Rooms {
    kernel: Kernel,
    known: HashMap<u32, (Instant, Pages)>,
}

impl Rooms {
    /// Knows of none so far.
    pub fn new(kernel: Kernel) -> Rooms {
        Rooms {
            kernel,
            known: HashMap::new(),
        }
    }

    /// The lower one of all memory and the limit of the program's control group.
    pub fn of(&mut self, pid: Option<u32>) -> Pages {
        let pid = pid.unwrap_or_else(std::process::id);
        let known = self.known.get(&pid);
        if let Some((_, room)) = known.filter(|(read, _)| read.elapsed() < READ_AGAIN) {
            return *room;
        }
        let room = self.read(pid);
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(pid, (Instant::now(), room));
        room
    }

    fn read(&self, pid: u32) -> Pages {
        let total = self.kernel.meminfo().map(|memory| memory.total);
        let group = self.kernel.cgroup_of(pid).ok().flatten();
        let limit = group.and_then(|group| self.kernel.memory_limit(&group).ok().flatten());
        let bytes = match (total, limit) {
            (Ok(total), Some(limit)) => total.min(limit.bytes),
            (Ok(total), None) => total,
            // Nothing is known: any page that comes back could have stayed.
            (Err(_), limit) => limit.map_or(cachewise_units::Bytes(u64::MAX), |limit| limit.bytes),
        };
        Pages(bytes.0 / page_size().get())
    }
}
