//! Which node has a block: how evenly, and what moves when nodes come and go.

use super::random::{hash, mix};

/// How many slots a Redis Cluster has.
const SLOTS: usize = 16_384;

/// How many blocks a file has.
const BLOCKS: usize = 100;

/// Files, where what is looked at is an average.
const MANY: usize = 1_000;

/// A way of placing keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Redis Cluster: CRC16 of the key gives a slot; slots in even, contiguous ranges.
    Slots,
    /// The same after `redis-cli --cluster rebalance`: a new node takes an even share from each of the others.
    SlotsMoved,
    /// Each node gives each key a score, and the highest has it.
    Rendezvous,
    /// The hash's remainder: for comparison.
    Modulo,
}

/// The input of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// `file7/block3.bin`, as it is.
    Plain,
    /// Its hash, as hexadecimal digits.
    Hashed,
}

/// The slot of a key, as the client of Redis Cluster computes it.
pub fn slot(key: &[u8]) -> usize {
    usize::from(cachewise_tier::simulation::slot_of(key))
}

/// Returns the node of a slot when all nodes have contiguous ranges of equal size.
pub fn node_of_slot(slot: usize, nodes: usize) -> usize {
    // The inverse of `node * SLOTS / nodes`, which is where a node's range begins.
    (((slot + 1) * nodes) - 1) / SLOTS
}

/// The node of the highest score, and that of the second.
pub fn rendezvous(key: u64, nodes: impl Iterator<Item = usize>) -> (usize, usize) {
    let mut best = [(0, usize::MAX); 2];
    for node in nodes {
        let score = mix(key ^ mix(node as u64 + 1));
        if score >= best[0].0 {
            best = [(score, node), best[0]];
        } else if score >= best[1].0 {
            best[1] = (score, node);
        }
    }
    (best[0].1, best[1].1)
}

fn keys(files: usize, names: Names) -> impl Iterator<Item = String> {
    let all = (0..files).flat_map(|file| (0..BLOCKS).map(move |block| (file, block)));
    all.map(move |(file, block)| {
        let plain = format!("file{file}/block{block}.bin");
        match names {
            Names::Plain => plain,
            Names::Hashed => format!("{:016x}{:016x}", hash(&plain), mix(hash(&plain))),
        }
    })
}

fn node(placement: Placement, key: &str, nodes: usize) -> usize {
    match placement {
        Placement::Slots => node_of_slot(slot(key.as_bytes()), nodes),
        Placement::SlotsMoved => slot_moved(slot(key.as_bytes()), nodes),
        Placement::Rendezvous => rendezvous(hash(key), 0..nodes).0,
        Placement::Modulo => (hash(key) % nodes as u64) as usize,
    }
}

/// Where a slot is after node by node has joined a single one and taken its share from all.
///
/// Returns the node of a slot after each new node took an equal share from all others, which moves
/// the fewest slots.
fn slot_moved(slot: usize, nodes: usize) -> usize {
    (2..=nodes).fold(0, |owner, joined| {
        let takes = mix((slot * 100_003 + joined) as u64).is_multiple_of(joined as u64);
        if takes { joined - 1 } else { owner }
    })
}

/// The least and the greatest share that a node has of the keys, over the mean.
pub fn evenness(placement: Placement, names: Names, files: usize, nodes: usize) -> (f64, f64) {
    let mut counts = vec![0u64; nodes];
    for key in keys(files, names) {
        counts[node(placement, &key, nodes)] += 1;
    }
    let mean = (files * BLOCKS) as f64 / nodes as f64;
    let least = counts.iter().min().copied().unwrap_or(0);
    let most = counts.iter().max().copied().unwrap_or(0);
    (least as f64 / mean, most as f64 / mean)
}

/// The share of keys that have another node when one joins.
pub fn moved_by_growing(placement: Placement, nodes: usize) -> f64 {
    moved(|key| {
        let (before, after) = (node(placement, key, nodes), node(placement, key, nodes + 1));
        before != after
    })
}

/// The share of keys that have another node when the first leaves.
pub fn moved_by_shrinking(placement: Placement, nodes: usize) -> f64 {
    moved(|key| match placement {
        Placement::Rendezvous => {
            rendezvous(hash(key), 0..nodes).0 != rendezvous(hash(key), 1..nodes).0
        }
        _ => node(placement, key, nodes) != node(placement, key, nodes - 1),
    })
}

fn moved(has_moved: impl Fn(&str) -> bool) -> f64 {
    let count = keys(MANY, Names::Hashed)
        .filter(|key| has_moved(key))
        .count();
    count as f64 / (MANY * BLOCKS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_sum_is_that_of_redis() {
        // The check value of the specification, and what `CLUSTER KEYSLOT` says.
        assert_eq!(slot(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot(b"foo"), 12_182);
    }

    #[test]
    fn ranges_are_those_that_are_dealt_out() {
        for nodes in [1, 3, 5, 7, 1_000] {
            for node in 0..nodes {
                let (first, end) = (node * SLOTS / nodes, (node + 1) * SLOTS / nodes);
                assert_eq!(node_of_slot(first, nodes), node, "first of {node}/{nodes}");
                assert_eq!(node_of_slot(end - 1, nodes), node, "last of {node}/{nodes}");
            }
        }
    }
}
