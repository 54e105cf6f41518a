//! [`SlotMap`]: the node of each slot, from `CLUSTER SLOTS`.

use super::resp::RespReply;
use super::slot::SLOTS;
use crate::remote::{Address, NodeId, RemoteError};

/// Which node has which slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotMap {
    /// The master first, then its replicas.
    shards: Vec<Vec<NodeId>>,
    /// For each slot the number of its shard.
    of_slot: Vec<Option<u16>>,
}

/// A range of slots, and its nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    first: u16,
    last: u16,
    /// The master first, then its replicas.
    nodes: Vec<SlotNode>,
}

/// A node of a range.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotNode {
    pub(super) address: Address,
    /// The availability zone, which nodes know of each other in Valkey 9.1.
    pub(super) zone: Option<String>,
}

impl SlotMap {
    /// Makes it of ranges; `number` gives each node its number.
    pub(super) fn new(ranges: &[SlotRange], mut number: impl FnMut(&SlotNode) -> NodeId) -> Self {
        let mut topology = Self {
            shards: Vec::new(),
            of_slot: vec![None; usize::from(SLOTS)],
        };
        for range in ranges {
            let nodes: Vec<NodeId> = range.nodes.iter().map(&mut number).collect();
            let known = topology.shards.iter().position(|shard| *shard == nodes);
            let shard = known.unwrap_or_else(|| {
                topology.shards.push(nodes);
                topology.shards.len() - 1
            });
            // There are not more shards than slots.
            let shard = u16::try_from(shard).ok();
            for slot in range.first..=range.last {
                if let Some(of_slot) = topology.of_slot.get_mut(usize::from(slot)) {
                    *of_slot = shard;
                }
            }
        }
        topology
    }

    /// Returns the nodes of a slot, the master first; none where no node serves it.
    pub(super) fn nodes(&self, slot: u16) -> &[NodeId] {
        self.of_slot
            .get(usize::from(slot))
            .copied()
            .flatten()
            .and_then(|shard| self.shards.get(usize::from(shard)))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the number of slots without a node.
    pub(super) fn unserved(&self) -> usize {
        let served = self.of_slot.iter().flatten().count();
        usize::from(SLOTS).saturating_sub(served)
    }
}

/// Returns the nodes of each shard, the primary first.
pub(super) fn shards(ranges: Vec<SlotRange>) -> Vec<Vec<Address>> {
    let nodes = |range: SlotRange| range.nodes.into_iter().map(|node| node.address).collect();
    let mut shards: Vec<Vec<Address>> = ranges.into_iter().map(nodes).collect();
    shards.sort();
    shards.dedup();
    shards
}

/// Parses the reply to `CLUSTER SLOTS`. An empty host in it means `asked`, the node that replied.
pub(super) fn ranges(reply: RespReply, asked: &Address) -> Result<Vec<SlotRange>, RemoteError> {
    let garbage = || RemoteError::Garbage("CLUSTER SLOTS of a form that is not known");
    match reply {
        RespReply::List(ranges) => ranges
            .into_iter()
            .map(|range| one(range, asked).ok_or_else(garbage))
            .collect(),
        RespReply::Error(why) => Err(RemoteError::Refused(why)),
        _ => Err(garbage()),
    }
}

fn one(range: RespReply, asked: &Address) -> Option<SlotRange> {
    let RespReply::List(members) = range else {
        return None;
    };
    let mut members = members.into_iter();
    let mut slot = || match members.next()? {
        RespReply::Number(number) => u16::try_from(number).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    };
    let (first, last) = (slot()?, slot()?);
    let nodes = members
        .map(|node| slot_node(node, asked))
        .collect::<Option<Vec<_>>>()?;
    (first <= last && !nodes.is_empty()).then_some(SlotRange { first, last, nodes })
}

fn slot_node(node: RespReply, asked: &Address) -> Option<SlotNode> {
    let RespReply::List(members) = node else {
        return None;
    };
    let host = match members.first()? {
        RespReply::Value(None) => asked.host.clone(),
        RespReply::Value(Some(host)) if host.is_empty() || host.as_ref() == b"?" => {
            asked.host.clone()
        }
        RespReply::Value(Some(host)) => String::from_utf8(host.to_vec()).ok()?,
        _ => return None,
    };
    let port = match members.get(1)? {
        RespReply::Number(port) => u16::try_from(*port).ok().filter(|port| *port != 0)?,
        _ => return None,
    };
    let zone = match members.get(3) {
        Some(RespReply::List(names_and_values)) => zone_of(names_and_values),
        _ => None,
    };
    let address = Address { host, port };
    Some(SlotNode { address, zone })
}

/// Returns the zone in what a node adds to its address: names and values in turn.
fn zone_of(names_and_values: &[RespReply]) -> Option<String> {
    names_and_values
        .as_chunks()
        .0
        .iter()
        .find_map(|pair| match pair {
            [RespReply::Value(Some(name)), RespReply::Value(Some(zone))]
                if name.as_ref() == b"availability-zone" && !zone.is_empty() =>
            {
                String::from_utf8(zone.to_vec()).ok()
            }
            _ => None,
        })
}

/// A redirection from a node that does not serve the slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// `MOVED`: the slot has a new node.
    Moved(Address),
    /// `ASK`: this command only, as the slot is migrating.
    Ask(Address),
}

/// Understands `MOVED 3999 10.0.0.1:6381` and `ASK ...`; `None` is another error.
pub(super) fn redirect(error: &str, asked: &Address) -> Option<Redirect> {
    let mut words = error.split_whitespace();
    let kind: fn(Address) -> Redirect = match words.next()? {
        "MOVED" => Redirect::Moved,
        "ASK" => Redirect::Ask,
        _ => return None,
    };
    let (_slot, place) = (words.next()?, words.next()?);
    let (host, port) = place.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() || host == "?" {
        asked.host.clone()
    } else {
        host.to_owned()
    };
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some(kind(Address { host, port }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address {
            host: host.to_owned(),
            port,
        }
    }

    fn node(host: Option<&'static str>, port: i64) -> RespReply {
        let host = host.map(|host| Bytes::from_static(host.as_bytes()));
        RespReply::List(vec![RespReply::Value(host), RespReply::Number(port)])
    }

    fn numbers(first: i64, last: i64, nodes: Vec<RespReply>) -> RespReply {
        let mut members = vec![RespReply::Number(first), RespReply::Number(last)];
        members.extend(nodes);
        RespReply::List(members)
    }

    #[test]
    fn slots_go_to_their_master_and_its_replicas() {
        let reply = RespReply::List(vec![
            numbers(0, 99, vec![node(Some("a"), 1), node(Some("b"), 2)]),
            numbers(100, 16_382, vec![node(None, 3)]),
            numbers(200, 210, vec![node(Some("a"), 1), node(Some("b"), 2)]),
        ]);
        let ranges = ranges(reply, &at("asked", 9)).expect("it is well-formed");
        let mut known: Vec<Address> = Vec::new();
        let topology = SlotMap::new(&ranges, |node| {
            let number = known.iter().position(|known| *known == node.address);
            let number = number.unwrap_or_else(|| {
                known.push(node.address.clone());
                known.len() - 1
            });
            NodeId(u32::try_from(number).expect("there are three"))
        });
        assert_eq!(topology.nodes(99), [NodeId(0), NodeId(1)]);
        assert_eq!(topology.nodes(205), [NodeId(0), NodeId(1)]);
        assert_eq!(topology.nodes(100), [NodeId(2)]);
        assert_eq!(known[2], at("asked", 3), "who has no name is who was asked");
        assert_eq!(topology.nodes(16_383), [], "nobody serves the last one");
        assert_eq!(topology.unserved(), 1);
    }

    #[test]
    fn zones_of_nodes_are_in_what_they_add_to_their_address() {
        let value =
            |text: &'static str| RespReply::Value(Some(Bytes::from_static(text.as_bytes())));
        // As Valkey 9.1 replies: host, port, ID, then names and values.
        let node = |added: &[&'static str]| {
            let added = added.iter().map(|text| value(text)).collect();
            let members = [value("a"), RespReply::Number(1), value("id")];
            RespReply::List([members.to_vec(), vec![RespReply::List(added)]].concat())
        };
        for (added, zone) in [
            (vec![], None),
            (vec!["hostname", "a.example.org"], None),
            (vec!["hostname", "h", "availability-zone", "z"], Some("z")),
            (vec!["availability-zone"], None),
        ] {
            let node = slot_node(node(&added), &at("asked", 9)).expect("a node");
            assert_eq!(node.zone.as_deref(), zone, "{added:?}");
        }
    }

    #[test]
    fn a_reply_of_another_form_is_refused() {
        for reply in [
            RespReply::Number(1),
            RespReply::List(vec![RespReply::Number(1)]),
            RespReply::List(vec![numbers(0, 1, vec![])]),
            RespReply::List(vec![numbers(0, 16_384, vec![node(Some("a"), 1)])]),
            RespReply::List(vec![numbers(5, 4, vec![node(Some("a"), 1)])]),
            RespReply::List(vec![numbers(0, 1, vec![node(Some("a"), 0)])]),
            RespReply::List(vec![numbers(0, 1, vec![node(Some("a"), 70_000)])]),
        ] {
            assert!(ranges(reply.clone(), &at("a", 1)).is_err(), "{reply:?}");
        }
    }

    #[test]
    fn redirections_are_followed_to_where_they_point() {
        let asked = at("asked", 9);
        assert_eq!(
            redirect("MOVED 3999 10.0.0.1:6381", &asked),
            Some(Redirect::Moved(at("10.0.0.1", 6381)))
        );
        assert_eq!(
            redirect("ASK 3999 ::1:6381", &asked),
            Some(Redirect::Ask(at("::1", 6381)))
        );
        assert_eq!(
            redirect("MOVED 3999 :6381", &asked),
            Some(Redirect::Moved(at("asked", 6381)))
        );
        for error in [
            "MOVED",
            "MOVED 1 a",
            "MOVED 1 a:x",
            "CLUSTERDOWN The cluster is down",
        ] {
            assert_eq!(redirect(error, &asked), None, "{error}");
        }
    }
}
