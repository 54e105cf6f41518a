//! Nesting of machine, nodes, packages, caches, cores and threads.
//!
//! Nothing is assumed about the order: a node may be part of a package or the other way round, and an L3 may be
//! shared by half of either. A place stands in the smallest one that has all of its CPUs.

use cachewise_units::Bytes;

use super::{Cache, Topology};
use crate::CpuList;

/// Something with CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyPart {
    /// All of it.
    Machine,
    /// A NUMA node and its memory.
    Node(u32, Option<Bytes>),
    /// A package, or socket.
    Package(u32),
    /// Caches of the same level and CPUs: data and instructions.
    Caches(Vec<Cache>),
    /// A core, and its kind where there are several.
    Core(Option<String>),
}

/// A place, with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its kind.
    pub place: TopologyPart,
    /// The CPUs of it.
    pub cpus: CpuList,
    /// The parts inside.
    pub inside: Vec<Tree>,
}

impl Tree {
    fn new(place: TopologyPart, cpus: CpuList) -> Tree {
        Tree {
            place,
            cpus,
            inside: Vec::new(),
        }
    }

    /// Puts it as deep as it belongs. `self` has all of its CPUs.
    fn take(&mut self, place: Tree) {
        let room = self
            .inside
            .iter_mut()
            // A part without CPUs lies directly in the machine.
            .find(|inside| !place.cpus.is_empty() && inside.cpus.has_all(&place.cpus));
        match room {
            Some(inside) => inside.take(place),
            None => self.inside.push(place),
        }
    }

    fn sort(&mut self) {
        // Memory without CPUs comes last.
        self.inside
            .sort_by_key(|tree| tree.cpus.first().unwrap_or(u32::MAX));
        self.inside.iter_mut().for_each(Tree::sort);
    }
}

impl Topology {
    /// Returns the nesting of nodes, packages, caches and cores.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let mut places = Vec::new();
        for node in &self.nodes {
            places.push(Tree::new(
                TopologyPart::Node(node.id, node.memory),
                node.cpus.clone(),
            ));
        }
        let mut packages: Vec<u32> = self.cpus.iter().filter_map(|cpu| cpu.package).collect();
        packages.sort_unstable();
        packages.dedup();
        for package in packages {
            let cpus = self.cpus.iter().filter(|cpu| cpu.package == Some(package));
            let cpus = CpuList::new(cpus.map(|cpu| cpu.id));
            places.push(Tree::new(TopologyPart::Package(package), cpus));
        }
        // From the farthest to the nearest, so that of those with the same CPUs the nearer one is inside.
        let levels = self.caches.chunk_by(|one, other| one.level == other.level);
        let levels: Vec<&[Cache]> = levels.collect();
        for level in levels.into_iter().rev() {
            let mut seen: Vec<&CpuList> = Vec::new();
            for cache in level {
                if seen.contains(&&cache.cpus) {
                    continue;
                }
                seen.push(&cache.cpus);
                let same = level.iter().filter(|other| other.cpus == cache.cpus);
                places.push(Tree::new(
                    TopologyPart::Caches(same.cloned().collect()),
                    cache.cpus.clone(),
                ));
            }
        }
        let mut cores: Vec<&CpuList> = Vec::new();
        for cpu in &self.cpus {
            if !cores.contains(&&cpu.core) {
                cores.push(&cpu.core);
                places.push(Tree::new(
                    TopologyPart::Core(cpu.kind.clone()),
                    cpu.core.clone(),
                ));
            }
        }
        // Stable: of the same size, the order above holds.
        places.sort_by_key(|place| std::cmp::Reverse(place.cpus.len()));
        let mut machine = Tree::new(TopologyPart::Machine, self.online.clone());
        for place in places {
            machine.take(place);
        }
        machine.sort();
        machine
    }
}
