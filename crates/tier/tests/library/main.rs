//! The block cache as a library: origins, tiers, nodes and their faults. One program, as each of its own takes seconds to
//! link.

mod copies;
mod dev_cluster;
mod directory_origin;
mod http_origin;
mod identity;
mod lease_renewal;
mod leases;
mod local_disk;
mod network_origin;
mod origin_outage;
mod redis_cluster;
mod scale;
mod sealed;
mod single_nodes;
#[path = "../support/mod.rs"]
mod support;
mod trim;
mod upgrades;
