//! `cachewise tier trim`, as typed.

use cachewise_cli::arguments::{OUTPUT_WITHOUT_METRICS, Output};
use cachewise_cli::columns::SheetColumnsParser;
use cachewise_units::{Bytes, Period};
use cachewise_view::SheetColumns;
use clap::Args;

use super::CacheFlags;
use crate::commands::columns;

/// `cachewise tier trim`.
#[derive(Debug, Args)]
#[command(
    mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)),
    after_help = "trim lists the blocks of all nodes of a Redis Cluster, Valkey or Redis, by tenant (--tenant of the clients), with the memory \
    that they take and the longest time without a use. With --tenant, also as a variable or in the settings file, it counts and \
    removes the blocks of that tenant only, and shows no others. Without --unused and --limit it removes nothing. With --limit, blocks that \
    were not used for the longest time are removed until the others of each tenant fit; clients can write more until the next \
    call, so call it from a timer. A block that is removed while a client needs it is read from the origin again.\n\n\
    A read at a replica is a use. Servers with an LFU policy do not store when blocks were used, and memcached lists no keys.\n\n\
    Exit status: 0 done; 2 something could not be done, as where a node does not answer.\n\n\
    Examples:\n  \
    cachewise tier trim --engine redis-cluster://10.0.0.1:6379\n  \
    cachewise tier trim --engine redis-cluster://10.0.0.1:6379 --unused 168h --limit 20G --dry-run\n  \
    cachewise tier trim --engine redis-cluster://10.0.0.1:6379 --tenant team-a --limit 5G"
)]
pub struct Trim {
    /// Remove blocks that no client has used for this time.
    #[arg(long, value_name = "TIME")]
    pub unused: Option<Period>,
    /// Maximum memory for the blocks of each tenant.
    #[arg(long, value_name = "BYTES")]
    pub limit: Option<Bytes>,
    /// Report what would be removed, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub cache: CacheFlags,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::TRIMMED]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}
