//! [`Zones`]: which nodes of a cluster are in the zone of this client.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::resp::RespReply;
use crate::Settings;
use crate::remote::zone::ZoneMap;
use crate::remote::{Address, NodeId, RemoteError};

/// The zones of nodes, as far as this client knows them.
#[derive(Debug)]
pub(super) struct Zones {
    /// The zone of this client, if it prefers one.
    own: Option<String>,
    by_settings: Option<ZoneMap>,
    /// `None` for a node without a zone.
    known: RwLock<HashMap<NodeId, Option<String>>>,
}

impl Zones {
    pub(super) fn new(cache: &Settings) -> Self {
        Self {
            own: cache.zone.clone(),
            by_settings: cache.zone_of.clone(),
            known: RwLock::default(),
        }
    }

    /// Notes a node of the topology; `told` is the zone that the topology has for it. The settings override that.
    pub(super) fn note(&self, node: NodeId, address: &Address, told: Option<&str>) {
        let by_settings = self.by_settings.as_ref();
        let zone = by_settings.and_then(|map| map.zone(&address.host)).or(told);
        if let (Some(_), Some(zone)) = (&self.own, zone) {
            self.learn(node, Some(zone.to_owned()));
        }
    }

    /// Says whether the zone of a node is still unknown.
    pub(super) fn lacks(&self, node: NodeId) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        self.own.is_some() && !known.contains_key(&node)
    }

    pub(super) fn learn(&self, node: NodeId, zone: Option<String>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(node, zone);
    }

    /// Says whether a node is in the zone of this client; all are for a client without a zone.
    pub(super) fn is_near(&self, node: NodeId) -> bool {
        let Some(own) = &self.own else {
            return true;
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&node)
            .is_some_and(|zone| zone.as_ref() == Some(own))
    }

    /// Returns a warning if no node is in the zone of this client.
    pub(super) fn warning(&self) -> Option<String> {
        let own = self.own.as_ref()?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut zones: Vec<&str> = known.values().flatten().map(String::as_str).collect();
        zones.sort_unstable();
        zones.dedup();
        let there_are = match zones.as_slice() {
            [] => "the nodes have no zones".to_owned(),
            zones => format!("there are {}", zones.join(", ")),
        };
        (!zones.contains(&own.as_str())).then(|| {
            format!(
                "no node is in zone {}, {there_are}: reads prefer no node; name zones with zone_of, or set availability-zone \
                 at each node (Valkey 8)",
                cachewise_units::escaped(own)
            )
        })
    }
}

/// Returns the zone in the reply to `INFO server`; `None` for a node without one, and for one that does not permit the
/// question.
pub(super) fn zone_of_info(reply: &RespReply) -> Result<Option<String>, RemoteError> {
    let info = match reply {
        RespReply::Value(Some(info)) => String::from_utf8_lossy(info),
        // A node that loads may tell later.
        RespReply::Error(why) if why.starts_with("NOPERM") => return Ok(None),
        RespReply::Error(why) => return Err(RemoteError::Refused(why.clone())),
        _ => return Err(RemoteError::Garbage("INFO is not answered by a value")),
    };
    let zone = info
        .lines()
        .find_map(|line| line.strip_prefix("availability_zone:"));
    Ok(zone
        .map(|zone| zone.trim().to_owned())
        .filter(|zone| !zone.is_empty()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn zone_of_a_node_is_that_of_its_settings() {
        let value =
            |text: &'static str| RespReply::Value(Some(Bytes::from_static(text.as_bytes())));
        let zone = |reply: RespReply| zone_of_info(&reply).expect("an answer");
        let info =
            "# Server\r\nvalkey_version:8.0.1\r\navailability_zone:eu-west-1b\r\nos:Linux\r\n";
        assert_eq!(zone(value(info)), Some("eu-west-1b".to_owned()));
        assert_eq!(zone(value("availability_zone:\r\n")), None, "not set");
        assert_eq!(zone(value("redis_version:7.0.15\r\n")), None, "Redis");
        let refused = RespReply::Error("NOPERM this user has no permissions".to_owned());
        assert_eq!(zone(refused), None);
        let loads = RespReply::Error("LOADING Redis is loading".to_owned());
        assert!(zone_of_info(&loads).is_err(), "asked again later");
    }
}
