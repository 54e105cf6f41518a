//! The memory that holds for what is watched: its limit, and the part of it that pages of files can have.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cachewise_kstat::{Cgroup, CgroupFiles, Hierarchy, Kernel};
use cachewise_units::{Bytes, PageSize, Pages, escaped};

/// Memory with its limit.
pub struct SimulatedMemory {
    kernel: Kernel,
    /// A control group, with the directory whose files say how much memory it uses; `None`: the machine.
    group: Option<(Hierarchy, CgroupFiles)>,
    /// The name of the group, or of the machine.
    pub name: String,
    /// The limit, and its name.
    pub limit: Option<(Bytes, String)>,
    /// The most memory so far that was not of pages of files.
    other: Option<Bytes>,
    /// The least, since programs have run.
    least: Option<Bytes>,
}

/// Pages that each CPU may keep charged to a group in advance: MEMCG_CHARGE_BATCH.
const STOCK: u64 = 64;

impl SimulatedMemory {
    /// That of a control group: the tightest limit of it and those above; without a limit that of the machine.
    pub fn of_group(kernel: &Kernel, group: Option<&Cgroup>) -> Result<SimulatedMemory> {
        let hierarchy = kernel
            .cgroup_hierarchy()
            .context("cannot read control groups")?;
        let limit = match group {
            Some(group) => kernel
                .memory_limit(group)
                .context("cannot read the memory limit")?,
            None => None,
        };
        let mut room = SimulatedMemory::of_machine(kernel)?;
        let directory: Option<PathBuf> = match (&limit, group) {
            (Some(limit), _) => limit.path.parent().map(Path::to_owned),
            (None, Some(group)) if group.name != "/" => Some(group.path.clone()),
            (None, _) => None,
        };
        let Some(directory) = directory else {
            return Ok(room);
        };
        if let Some(limit) = limit {
            let path = limit.path.display();
            room.limit = Some((limit.bytes, format!("limit in {path}")));
        }
        room.name = format!("control group {}", escaped(&directory));
        room.group = Some((hierarchy, CgroupFiles::once(directory)));
        Ok(room)
    }

    /// That of the whole machine.
    pub fn of_machine(kernel: &Kernel) -> Result<SimulatedMemory> {
        let memory = kernel
            .meminfo()
            .context("cannot read the state of memory")?;
        Ok(SimulatedMemory {
            kernel: kernel.clone(),
            group: None,
            name: "this machine".into(),
            limit: Some((memory.total, "memory of this machine".into())),
            other: None,
            least: None,
        })
    }

    /// Looks again how much memory is not of pages of files.
    pub fn refresh(&mut self) {
        let other = match &mut self.group {
            Some((hierarchy, files)) => files.memory(hierarchy).ok().flatten().and_then(|memory| {
                let files = memory.active_file? + memory.inactive_file?;
                Some(Bytes(memory.used?.0.saturating_sub(files.0)))
            }),
            None => self.kernel.meminfo().ok().and_then(|memory| {
                let files = memory.active_file? + memory.inactive_file?;
                Some(Bytes(
                    memory.total.0.saturating_sub(memory.free.0 + files.0),
                ))
            }),
        };
        self.other = self.other.max(other);
        self.least = match (self.least, other) {
            (Some(least), Some(other)) => Some(least.min(other)),
            (least, other) => least.or(other),
        };
    }

    /// Pages by which the room for pages of files may differ from that of [`SimulatedMemory::cache_in`]: the rest of the memory has
    /// changed by as much, and each CPU keeps pages in advance.
    pub fn unsure(&self, page: PageSize) -> Pages {
        let (Some(most), Some(least)) = (self.other, self.least) else {
            return Pages(0);
        };
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        Pages((most.0 - least.0) / Pages(1).bytes(page).0 + STOCK * cpus)
    }

    /// Memory that is not of pages of files; `None`: unknown. That of a group includes the pages that each CPU keeps charged
    /// in advance (MEMCG_CHARGE_BATCH): the kernel counts them as used.
    pub fn other(&self) -> Option<Bytes> {
        self.other
    }

    /// Pages of files that fit into so much memory beside the rest of it.
    pub fn cache_in(&self, memory: Bytes, page: PageSize) -> Pages {
        let other = self.other.unwrap_or_default();
        Pages(memory.0.saturating_sub(other.0) / Pages(1).bytes(page).0)
    }
}
