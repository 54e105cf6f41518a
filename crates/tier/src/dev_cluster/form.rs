//! From single nodes to a cluster: they meet, share the slots, and replicas choose their masters.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::DevClusterError;
use super::node::Role;
use super::server::RedisServer;
use super::until::Until;
use super::wire;

/// Number of slots of a Redis Cluster.
const SLOTS: usize = 16_384;

/// The node timeout until all nodes know the replicas. Nodes spread this by heartbeats, of which
/// they send at least two in this time.
const WHILE_FORMING: Duration = Duration::from_secs(2);

/// Makes one cluster of servers that know nothing of each other.
pub fn form(
    servers: &[(RedisServer, Role)],
    node_timeout: Duration,
    until: &Until,
) -> Result<(), DevClusterError> {
    let masters: Vec<RedisServer> = servers
        .iter()
        .filter(|(_, role)| *role == Role::Master)
        .map(|(server, _)| *server)
        .collect();
    for (place, server) in masters.iter().enumerate() {
        let slots = share(place, masters.len());
        let (low, high) = (slots.start().to_string(), slots.end().to_string());
        tell(*server, &["CLUSTER", "ADDSLOTSRANGE", &low, &high])?;
    }
    for (place, (server, _)) in servers.iter().enumerate() {
        // Distinct epochs from the start, or nodes spend time on resolving conflicts.
        let epoch = place.saturating_add(1).to_string();
        tell(*server, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
    }
    // Each pair, for by hearsay it takes many seconds until all know each other.
    for (place, (server, _)) in servers.iter().enumerate() {
        for (other, _) in servers.iter().skip(place + 1) {
            let (port, bus_port) = (other.port.to_string(), other.bus_port.to_string());
            let host = other.address().ip().to_string();
            tell(*server, &["CLUSTER", "MEET", &host, &port, &bus_port])?;
        }
    }
    for (server, _) in servers {
        let what = format!("the node on port {} knows all others", server.port);
        until.there(&what, || {
            let nodes = tell(*server, &["CLUSTER", "NODES"])?;
            // Until they have shaken hands, a node goes by another name.
            let known = nodes.lines().filter(|line| !line.contains("handshake"));
            Ok((known.count() == servers.len()).then_some(()))
        })?;
    }
    // Only after all have met: a node that does not answer within the timeout is forgotten.
    set_node_timeout(servers, WHILE_FORMING.min(node_timeout))?;
    for (server, role) in servers {
        let Role::ReplicaOf(place) = role else {
            continue;
        };
        let Some(master) = masters.get(*place) else {
            continue;
        };
        let id = tell(*master, &["CLUSTER", "MYID"])?;
        tell(*server, &["CLUSTER", "REPLICATE", &id])?;
    }
    for (server, role) in servers {
        let what = format!(
            "the cluster is whole as the node on port {} sees it",
            server.port
        );
        until.there(&what, || {
            let info = tell(*server, &["CLUSTER", "INFO"])?;
            let all = SLOTS.to_string();
            if has(&info, "cluster_state", "ok").is_none()
                || has(&info, "cluster_slots_ok", &all).is_none()
            {
                return Ok(None);
            }
            // Clients learn of replicas by what each node knows of the others.
            let nodes = tell(*server, &["CLUSTER", "NODES"])?;
            let replicas = servers.len().saturating_sub(masters.len());
            let known = nodes.lines().filter(|line| line.contains("slave")).count();
            if known != replicas || nodes.contains("handshake") {
                return Ok(None);
            }
            if matches!(role, Role::Master) {
                return Ok(Some(()));
            }
            let info = tell(*server, &["INFO", "replication"])?;
            Ok(has(&info, "master_link_status", "up"))
        })?;
    }
    // A node lists replicas for clients when it knows by heartbeats what they have copied: seconds later.
    let has_replicas = servers.len() > masters.len();
    for server in masters.iter().filter(|_| has_replicas) {
        let what = format!(
            "the node on port {} lists all replicas in CLUSTER SLOTS",
            server.port
        );
        until.there(&what, || {
            let slots = tell(*server, &["CLUSTER", "SLOTS"])?;
            let host = server.address().ip().to_string();
            let listed = slots.lines().filter(|line| *line == host).count();
            Ok((listed == servers.len()).then_some(()))
        })?;
    }
    set_node_timeout(servers, node_timeout)
}

fn set_node_timeout(
    servers: &[(RedisServer, Role)],
    timeout: Duration,
) -> Result<(), DevClusterError> {
    let timeout = timeout.as_millis().to_string();
    for (server, _) in servers {
        tell(
            *server,
            &["CONFIG", "SET", "cluster-node-timeout", &timeout],
        )?;
    }
    Ok(())
}

/// Returns the slot range of master number `place` out of `masters`; the sizes differ by one at
/// most.
fn share(place: usize, masters: usize) -> RangeInclusive<usize> {
    let low = place * SLOTS / masters;
    let end = (place + 1) * SLOTS / masters;
    low..=end.saturating_sub(1)
}

/// `Some` if a line of `INFO` has this value for the key.
fn has(info: &str, key: &str, value: &str) -> Option<()> {
    let mut lines = info.lines().filter_map(|line| line.trim().split_once(':'));
    lines
        .any(|(name, is)| name == key && is == value)
        .then_some(())
}

/// Sends a command that must not be refused.
fn tell(server: RedisServer, command: &[&str]) -> Result<String, DevClusterError> {
    let problem = match wire::ask(server.address(), command) {
        Ok(Ok(text)) => return Ok(text),
        Ok(Err(refused)) => refused,
        Err(error) => error.to_string(),
    };
    Err(DevClusterError::Answer {
        address: server.address().to_string(),
        command: command.join(" "),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_are_shared_out_once() {
        for masters in [1, 3, 5, 7, 100] {
            let mut next = 0;
            for place in 0..masters {
                let slots = share(place, masters);
                assert_eq!(*slots.start(), next, "no gap, {masters} masters");
                let size = slots.end() + 1 - slots.start();
                assert!(size.abs_diff(SLOTS / masters) <= 1, "even: {slots:?}");
                next = slots.end() + 1;
            }
            assert_eq!(next, SLOTS, "all of them, {masters} masters");
        }
    }

    #[test]
    fn info_is_read_by_whole_names() {
        let info = "cluster_state:ok\r\ncluster_slots_ok:16384\r\n";
        assert!(has(info, "cluster_state", "ok").is_some());
        assert!(has(info, "state", "ok").is_none(), "not the end of a name");
        assert!(
            has(info, "cluster_slots_ok", "16").is_none(),
            "not the head of a value"
        );
    }
}
