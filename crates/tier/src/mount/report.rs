//! [`MountReport`]: what `tier stat` shows of a mount.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::OperationRow;
use crate::Table;

/// Path of a mount's report, as JSON, in the mount. It is not listed; each lookup gives the report of that moment.
pub const REPORT: &str = ".cachewise/stat.json";

/// Directory below `.cachewise` whose names are those of the origin.
pub(super) const DROP: &str = "drop";

/// The name below `.cachewise/drop/PATH` whose lookup drops PATH; the file is the report of that, as JSON.
pub(super) const DROP_FILE: &str = "drop.json";

/// The counters of a mount since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountReport {
    /// The origin's name.
    pub origin: String,
    /// The mount point.
    pub directory: PathBuf,
    /// The process that serves it.
    pub pid: u32,
    /// Time since the mount, in seconds.
    pub uptime_seconds: f64,
    /// The counters of FUSE operations.
    pub operations: Vec<OperationRow>,
    /// Paths dropped because another machine requested it.
    #[serde(rename = "drops_heard_total", default)]
    pub drops_heard: u64,
    /// Messages to drop a path that were refused: not of this tenant, or damaged.
    #[serde(rename = "drops_forged_total", default)]
    pub drops_forged: u64,
    /// Number of times that a node of the engine accepted the subscription to these messages.
    #[serde(rename = "drop_subscriptions_total", default)]
    pub drops_listening: u64,
    /// The counters of its cache.
    pub cache: Table,
}
