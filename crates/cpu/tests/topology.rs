//! Machines as sysfs shows them, made of files: big ones, hybrid ones, those that hide things.

use std::fs;
use std::path::Path;

use cachewise_cpu::{CpuList, Error, Topology, TopologyPart, Tree};
use cachewise_units::Bytes;
use tempfile::TempDir;

/// A directory that is as `/sys` is.
struct Sys(TempDir);

impl Sys {
    fn new(online: &str) -> Sys {
        let sys = Sys(tempfile::tempdir().expect("there is a place for it"));
        sys.file("devices/system/cpu/online", online);
        sys
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("it is ours");
        fs::write(path, format!("{text}\n")).expect("it is ours");
    }

    fn cpu(&self, id: u32, package: &str, core: &str) {
        let topology = format!("devices/system/cpu/cpu{id}/topology");
        self.file(&format!("{topology}/physical_package_id"), package);
        self.file(&format!("{topology}/core_cpus_list"), core);
    }

    fn cache(&self, cpu: u32, index: u32, level: u32, kind: &str, size: &str, shared: &str) {
        let directory = format!("devices/system/cpu/cpu{cpu}/cache/index{index}");
        for (name, text) in [
            ("level", level.to_string().as_str()),
            ("type", kind),
            ("size", size),
            ("shared_cpu_list", shared),
            ("coherency_line_size", "64"),
            ("ways_of_associativity", "8"),
            ("number_of_sets", "64"),
        ] {
            self.file(&format!("{directory}/{name}"), text);
        }
    }

    fn read(&self) -> Topology {
        Topology::read(self.root()).expect("it has CPUs")
    }
}

/// Two cores of two threads, L1 and L2 a core, one L3, two nodes.
fn desktop() -> Sys {
    let sys = Sys::new("0-3");
    for cpu in 0..4 {
        let core = if cpu < 2 { "0-1" } else { "2-3" };
        sys.cpu(cpu, "0", core);
        sys.cache(cpu, 0, 1, "Data", "48K", core);
        sys.cache(cpu, 1, 1, "Instruction", "32K", core);
        sys.cache(cpu, 2, 2, "Unified", "1024K", core);
        sys.cache(cpu, 3, 3, "Unified", "32768K", "0-3");
    }
    sys.file("devices/system/node/online", "0-1");
    for (node, cpus) in [(0, "0-3"), (1, "")] {
        let directory = format!("devices/system/node/node{node}");
        sys.file(&format!("{directory}/cpulist"), cpus);
        let memory = format!("Node {node} MemTotal:       1024 kB");
        sys.file(&format!("{directory}/meminfo"), &memory);
    }
    sys
}

/// The way down, always the first inside.
fn first_path(tree: &Tree) -> Vec<String> {
    let name = match &tree.place {
        TopologyPart::Machine => "machine".to_owned(),
        TopologyPart::Node(id, _) => format!("node {id}"),
        TopologyPart::Package(id) => format!("package {id}"),
        TopologyPart::Caches(caches) => {
            let names: Vec<String> = caches.iter().map(|cache| cache.name()).collect();
            names.join("+")
        }
        TopologyPart::Core(_) => format!("core {}", tree.cpus),
    };
    let inside = tree.inside.first().map(first_path).unwrap_or_default();
    [vec![name], inside].concat()
}

#[test]
fn shared_caches_are_listed_once() {
    let topology = desktop().read();
    let names: Vec<String> = topology.caches.iter().map(|cache| cache.name()).collect();
    assert_eq!(
        names,
        ["L1d", "L1d", "L1i", "L1i", "L2", "L2", "L3"],
        "one of each core, one of all"
    );
    let last = topology.caches.last().unwrap();
    assert_eq!(last.size, Some(Bytes(32 << 20)), "the kernel writes KiB");
    assert_eq!(last.cpus, CpuList::new(0..4), "shared by four threads");
    assert_eq!(topology.cores_of(&last.cpus), 2, "which are two cores");
    assert_eq!(topology.data_path(2).len(), 3, "L1d, L2, L3 and no L1i");
    assert_eq!(topology.notes, [""; 0], "nothing is missing");
}

#[test]
fn the_tree_goes_from_the_machine_to_the_core() {
    let tree = desktop().read().tree();
    assert_eq!(
        first_path(&tree),
        [
            "machine",
            "node 0",
            "package 0",
            "L3",
            "L2",
            "L1d+L1i",
            "core 0-1"
        ],
        "what is nearer is inside"
    );
    let memory_only = tree.inside.last().unwrap();
    assert_eq!(
        memory_only.place,
        TopologyPart::Node(1, Some(Bytes(1 << 20))),
        "a node without CPUs is there too, at the end"
    );
}

#[test]
fn two_caches_of_a_level_beside_each_other() {
    // Four cores in two complexes in one package and one node: the L3 is neither's.
    let sys = Sys::new("0-3");
    for cpu in 0..4u32 {
        sys.cpu(cpu, "0", &cpu.to_string());
        sys.cache(
            cpu,
            0,
            3,
            "Unified",
            "16384K",
            if cpu < 2 { "0-1" } else { "2-3" },
        );
    }
    let tree = sys.read().tree();
    let package = &tree.inside[0];
    assert_eq!(package.inside.len(), 2, "two L3s: {package:?}");
    assert_eq!(package.inside[1].inside.len(), 2, "with two cores each");
}

#[test]
fn a_container_that_hides_the_caches_still_has_cores() {
    let sys = Sys::new("0,2");
    sys.cpu(0, "0", "0");
    let topology = sys.read();
    assert!(topology.caches.is_empty(), "nobody tells of any");
    assert_eq!(topology.cpus.len(), 2, "the CPUs are known");
    assert_eq!(
        topology.cpus[1].core,
        CpuList::new([2]),
        "each a core of its own"
    );
    assert_eq!(topology.cpus[1].package, None, "not told is not 0");
    assert!(
        topology.notes[0].contains("0,2") && topology.notes[0].contains("cpu table"),
        "which CPUs, and what helps: {:?}",
        topology.notes
    );
    assert_eq!(
        first_path(&topology.tree()),
        ["machine", "package 0", "core 0"],
        "a tree all the same"
    );
}

#[test]
fn kinds_of_cores_are_told_where_there_are_several() {
    let sys = Sys::new("0-2");
    for cpu in 0..3 {
        sys.cpu(cpu, "0", &cpu.to_string());
    }
    assert_eq!(sys.read().cpus[0].kind, None, "all alike");
    sys.file("devices/cpu_core/cpus", "0-1");
    sys.file("devices/cpu_atom/cpus", "2");
    let kinds: Vec<_> = sys
        .read()
        .cpus
        .into_iter()
        .map(|cpu| cpu.kind.unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["performance", "performance", "efficient"],
        "Intel's way to tell"
    );

    let sys = Sys::new("0-1");
    for (cpu, capacity) in [(0, "1024"), (1, "512")] {
        sys.file(
            &format!("devices/system/cpu/cpu{cpu}/cpu_capacity"),
            capacity,
        );
    }
    let kinds: Vec<_> = sys
        .read()
        .cpus
        .into_iter()
        .map(|cpu| cpu.kind.unwrap())
        .collect();
    assert_eq!(kinds, ["capacity 1024", "capacity 512"], "Arm's");
    sys.file("devices/system/cpu/cpu1/cpu_capacity", "1024");
    assert_eq!(sys.read().cpus[1].kind, None, "alike again");
}

#[test]
fn broken_files_are_unknown_and_not_zero() {
    let sys = Sys::new("0");
    sys.cpu(0, "-1", "7");
    sys.cache(0, 0, 1, "Data", "0K", "nonsense");
    sys.file(
        "devices/system/cpu/cpu0/cache/index0/ways_of_associativity",
        "0",
    );
    sys.cache(0, 1, 2, "Mystery", "1M", "0");
    let topology = sys.read();
    assert_eq!(
        topology.cpus[0].package, None,
        "-1 is the firmware's `don't know`"
    );
    assert_eq!(
        topology.cpus[0].core,
        CpuList::new([0]),
        "a core has its own thread"
    );
    let [cache] = &topology.caches[..] else {
        panic!(
            "what is of no known type is left out: {:?}",
            topology.caches
        );
    };
    assert_eq!((cache.size, cache.ways), (None, None), "0 is not known");
    assert_eq!(cache.cpus, CpuList::new([0]), "at least its own CPU");
    assert!(
        topology.notes[0].contains("have no size"),
        "{:?}",
        topology.notes
    );
}

#[test]
fn a_directory_that_is_no_sys_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let error = Topology::read(empty.path()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    for text in ["", "x-y"] {
        let error = Topology::read(Sys::new(text).root())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("list of CPUs") && error.contains("online"),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn this_machine_can_be_read() {
    let topology = Topology::read("/sys".as_ref()).unwrap();
    assert_eq!(topology.cpus.len(), topology.online.len(), "one each");
    let tree = topology.tree();
    assert_eq!(tree.cpus, topology.online, "the machine has all");
    for cache in &topology.caches {
        assert!(
            topology.online.has_all(&cache.cpus),
            "{cache} is of CPUs that are online"
        );
    }
}
