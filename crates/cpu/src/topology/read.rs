//! From a directory that is as `/sys` is.

use std::fs;
use std::io;
use std::path::Path;

use cachewise_units::Bytes;

use super::{Cache, CacheKind, Cpu, Node, Topology};
use crate::measure::pin::allowed;
use crate::{CpuList, Error};

/// More caches than this no CPU has; the loop ends at the first that is missing.
const MOST_CACHES: u32 = 32;

/// Intel lists the CPUs of each kind of core as a device of the counters.
const KINDS: [(&str, &str); 3] = [
    ("cpu_core", "performance"),
    ("cpu_atom", "efficient"),
    ("cpu_lowpower", "low power"),
];

impl Topology {
    /// Reads the topology; `root` is `/sys`, or a directory with its layout.
    ///
    /// # Errors
    /// The list of online CPUs is missing; everything else that is missing becomes a note. With `/sys` itself that is a
    /// note too: then the CPUs are those that this thread may use.
    pub fn read(root: &Path) -> Result<Topology, Error> {
        let system = root.join("devices/system/cpu");
        let path = system.join("online");
        let mut notes = Vec::new();
        let online: CpuList = match fs::read_to_string(&path) {
            Ok(text) => text.parse().map_err(|_| not_cpus(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && root == Path::new("/sys") => {
                notes.push(format!(
                    "{} is not there, so CPUs are those that this process may use, and nothing is known of how they \
                     belong together",
                    path.display()
                ));
                allowed()?
            }
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        if online.is_empty() {
            return Err(not_cpus(&path));
        }
        let kinds = kinds(root, &system, &online);
        let mut cpus = Vec::with_capacity(online.len());
        let mut caches: Vec<Cache> = Vec::new();
        let mut blind = Vec::new();
        for id in online.iter() {
            let of_cpu = system.join(format!("cpu{id}"));
            cpus.push(cpu(&of_cpu, id, &kinds));
            let found = caches_of(&of_cpu, id);
            if found.is_empty() {
                blind.push(id);
            }
            for cache in found {
                if !caches.contains(&cache) {
                    caches.push(cache);
                }
            }
        }
        caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
        if !blind.is_empty() {
            notes.push(format!(
                "no cache information for CPU {} under {}: containers and some virtual machines hide it; \
                 `cachewise cpu table` measures them",
                CpuList::new(blind),
                system.display()
            ));
        }
        if caches.iter().any(|cache| cache.size.is_none()) {
            notes.push("some caches have no size: the firmware does not report it".into());
        }
        Ok(Topology {
            nodes: nodes(root, &online),
            online,
            cpus,
            caches,
            notes,
        })
    }
}

fn not_cpus(path: &Path) -> Error {
    Error::NoCpus {
        path: path.to_owned(),
        advice: "expected a list such as 0-3: check that the directory has the layout of /sys",
    }
}

/// A file's one value; nothing if it is not there or is something else.
fn value<T: std::str::FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn cpu(directory: &Path, id: u32, kinds: &[(CpuList, String)]) -> Cpu {
    let topology = directory.join("topology");
    // Kernels before 5.3 have only the second name.
    let siblings = ["core_cpus_list", "thread_siblings_list"];
    let core = siblings
        .iter()
        .find_map(|name| value::<CpuList>(&topology.join(name)))
        .filter(|core| core.has(id));
    let kind = kinds.iter().find(|(cpus, _)| cpus.has(id));
    Cpu {
        id,
        // -1 where the firmware does not say.
        package: value(&topology.join("physical_package_id")),
        core: core.unwrap_or_else(|| CpuList::new([id])),
        kind: kind.map(|(_, name)| name.clone()),
    }
}

fn caches_of(directory: &Path, cpu: u32) -> Vec<Cache> {
    let mut caches = Vec::new();
    for index in 0..MOST_CACHES {
        let directory = directory.join(format!("cache/index{index}"));
        if !directory.is_dir() {
            break;
        }
        // Without these it is not known what cache it is.
        let Some(level) = value::<u32>(&directory.join("level")) else {
            continue;
        };
        let kind = match value::<String>(&directory.join("type")).as_deref() {
            Some("Data") => CacheKind::Data,
            Some("Instruction") => CacheKind::Instruction,
            Some("Unified") => CacheKind::Unified,
            _ => continue,
        };
        let shared = value::<CpuList>(&directory.join("shared_cpu_list"));
        let count = |name: &str| value::<u32>(&directory.join(name)).filter(|count| *count > 0);
        caches.push(Cache {
            level,
            kind,
            size: value::<String>(&directory.join("size")).and_then(|text| size(&text)),
            line: count("coherency_line_size").map(|line| Bytes(line.into())),
            ways: count("ways_of_associativity"),
            sets: count("number_of_sets"),
            cpus: shared
                .filter(|shared| shared.has(cpu))
                .unwrap_or_else(|| CpuList::new([cpu])),
        });
    }
    caches
}

/// `48K`: the kernel writes KiB, and 0K where it does not know.
fn size(text: &str) -> Option<Bytes> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => (text, 1),
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (bytes > 0).then_some(Bytes(bytes))
}

/// Which CPUs are of which kind; nothing where all are alike.
fn kinds(root: &Path, system: &Path, online: &CpuList) -> Vec<(CpuList, String)> {
    let mut kinds: Vec<(CpuList, String)> = KINDS
        .iter()
        .filter_map(|(device, name)| {
            let cpus = value::<CpuList>(&root.join("devices").join(device).join("cpus"))?;
            Some((cpus, (*name).to_owned()))
        })
        .collect();
    if kinds.is_empty() {
        // Arm: how much work one does, the strongest being 1024.
        let mut strengths: Vec<(u32, Vec<u32>)> = Vec::new();
        for id in online.iter() {
            let path = system.join(format!("cpu{id}/cpu_capacity"));
            let Some(strength) = value::<u32>(&path) else {
                return Vec::new();
            };
            match strengths.iter_mut().find(|(known, _)| *known == strength) {
                Some((_, cpus)) => cpus.push(id),
                None => strengths.push((strength, vec![id])),
            }
        }
        kinds = strengths
            .into_iter()
            .map(|(strength, cpus)| (CpuList::new(cpus), format!("capacity {strength}")))
            .collect();
    }
    if kinds.len() < 2 {
        kinds.clear();
    }
    kinds
}

fn nodes(root: &Path, online: &CpuList) -> Vec<Node> {
    let directory = root.join("devices/system/node");
    let Some(ids) = value::<CpuList>(&directory.join("online")) else {
        return Vec::new();
    };
    ids.iter()
        .map(|id| {
            let node = directory.join(format!("node{id}"));
            let cpus = value::<CpuList>(&node.join("cpulist")).unwrap_or_default();
            Node {
                id,
                cpus: cpus.and(online),
                memory: memory(&node.join("meminfo")).ok().flatten(),
            }
        })
        .collect()
}

/// From `Node 0 MemTotal:       24684084 kB`.
fn memory(path: &Path) -> io::Result<Option<Bytes>> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().find(|line| line.contains("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().nth_back(1)?.parse::<u64>().ok());
    Ok(kib.and_then(|kib| kib.checked_mul(1 << 10)).map(Bytes))
}
