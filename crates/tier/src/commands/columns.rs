//! The columns of the tables of `cachewise-tier`, by command.

use cachewise_view::SheetColumn;

/// `put`, `warm` and `verify`: a row is a file.
pub const FILES: [SheetColumn; 7] = [
    SheetColumn::new("path", "PATH", false, "File, relative to the origin"),
    SheetColumn::new("size_bytes", "SIZE", true, "Size of the file"),
    SheetColumn::new("blocks", "BLOCKS", true, "Number of blocks of the file"),
    SheetColumn::new(
        "failed_blocks",
        "FAILED",
        true,
        "Blocks that could not be read; those that were not stored are in fills and dropped_fills of the totals",
    ),
    SheetColumn::new(
        "different_blocks",
        "DIFFERENT",
        true,
        "Blocks in the cache that are damaged, or whose bytes differ from the origin's; only verify compares",
    ),
    SheetColumn::new(
        "missing_blocks",
        "MISSING",
        true,
        "Blocks that the cache does not have; only verify looks",
    ),
    SheetColumn::new("elapsed_seconds", "SECONDS", true, "Time for the file"),
];

/// The column of blocks that nodes stored, which `put` and `warm` show.
pub const WRITES: &str = "writes_total";

/// `stat`: a row for each operation of the kernel, each tier and each node.
pub const STAT: [SheetColumn; 20] = [
    SheetColumn::new(
        "of",
        "OF",
        false,
        "Kind of row: FUSE operation, tier, or node of the engine",
    ),
    SheetColumn::new("name", "NAME", false, "Name of the operation, tier or node"),
    SheetColumn::new("calls_total", "CALLS", true, "Number of requests"),
    SheetColumn::new(
        "hits_total",
        "BLOCK-HITS",
        true,
        "Requests for which it had the block",
    ),
    SheetColumn::new(
        "misses_total",
        "BLOCK-MISSES",
        true,
        "Requests for which it did not have the block",
    ),
    SheetColumn::new(
        "errors_total",
        "ERRORS",
        true,
        "Requests that failed or were not answered",
    ),
    SheetColumn::new(
        "corrupt_total",
        "CORRUPT",
        true,
        "Damaged blocks, which were discarded",
    ),
    SheetColumn::new("read_bytes_total", "BYTES", true, "Bytes that it returned"),
    SheetColumn::new("mean_seconds", "MEAN-TIME", true, "Mean response time"),
    SheetColumn::new("p50_seconds", "P50", true, "Median response time"),
    SheetColumn::new(
        "p99_seconds",
        "P99",
        true,
        "99th percentile of the response time",
    ),
    SheetColumn::new("max_seconds", "MAX", true, "Maximum response time"),
    SheetColumn::new(
        "hedges_total",
        "HEDGES",
        true,
        "Hedged requests to this node, because another was slow",
    ),
    SheetColumn::new(
        "deadline_misses_total",
        "LATE",
        true,
        "Requests to this node that exceeded the deadline",
    ),
    SheetColumn::new(
        "breaker",
        "BREAKER",
        false,
        "State of the circuit breaker: requests go to the node while it is closed",
    ),
    SheetColumn::new(
        "breaker_opened_total",
        "OPENED",
        true,
        "Number of times the breaker opened",
    )
    .if_chosen(),
    SheetColumn::new(
        "probes_total",
        "PROBES",
        true,
        "Requests that tested whether the node responds again",
    )
    .if_chosen(),
    SheetColumn::new(
        WRITES,
        "WRITES",
        true,
        "Blocks that this node stored for this process; CALLS has only requests for a block",
    )
    .if_chosen(),
    SheetColumn::new(
        "connections",
        "CONNECTIONS",
        true,
        "Open connections to the node",
    )
    .if_chosen(),
    SheetColumn::new(
        "origin_calls_total",
        "ORIGIN-CALLS",
        true,
        "Requests to the origin for an operation, without reads of blocks",
    )
    .if_chosen(),
];

/// `dev-cluster`: a row is a server.
pub const DEV_CLUSTER: [SheetColumn; 4] = [
    SheetColumn::new(
        "address",
        "ADDRESS",
        false,
        "Address on which the server listens",
    ),
    SheetColumn::new(
        "role",
        "ROLE",
        false,
        "Role at the start: master or replica",
    ),
    SheetColumn::new("of", "OF", false, "Master of a replica"),
    SheetColumn::new("pid", "PID", true, "Process ID of the server"),
];

/// `publish`: the one version.
pub const PUBLISHED: [SheetColumn; 14] = [
    SheetColumn::new("version", "VERSION", false, "Name and version"),
    SheetColumn::new(
        "serial",
        "SERIAL",
        true,
        "Number of the version: a newer one has a higher number",
    ),
    SheetColumn::new("files", "FILES", true, "Files of the version"),
    SheetColumn::new("directories", "DIRS", true, "Directories of the version"),
    SheetColumn::new("links", "LINKS", true, "Symbolic links of the version"),
    SheetColumn::new(
        "with_attributes",
        "XATTRS",
        true,
        "Files and directories with extended attributes",
    ),
    SheetColumn::new("size_bytes", "SIZE", true, "Bytes of the files"),
    SheetColumn::new(
        "read_files",
        "READ-FILES",
        true,
        "Files that were read; the others are as in the version before",
    ),
    SheetColumn::new(
        "read_bytes",
        "READ",
        true,
        "Bytes that were read from the origin",
    ),
    SheetColumn::new(
        "written_bytes",
        "WRITTEN",
        true,
        "Bytes that were written to the store",
    ),
    SheetColumn::new(
        "written_packs",
        "PACKS",
        true,
        "Packs that were written to the store",
    ),
    SheetColumn::new(
        "read_again",
        "READ-AGAIN",
        true,
        "Reads that were repeated because the file changed meanwhile",
    ),
    SheetColumn::new(
        "vanished",
        "VANISHED",
        true,
        "Names that were removed from the origin meanwhile",
    ),
    SheetColumn::new("elapsed_seconds", "SECONDS", true, "Time for the version"),
];

/// `diff`: a row is a name.
pub const DIFFERENCES: [SheetColumn; 4] = [
    SheetColumn::new(
        "change",
        "CHANGE",
        false,
        "added, removed, content or attributes",
    ),
    SheetColumn::new(
        "path",
        "PATH",
        false,
        "Name, relative to the root of the tree",
    ),
    SheetColumn::new("before_bytes", "BEFORE", true, "Size in the first version"),
    SheetColumn::new("after_bytes", "AFTER", true, "Size in the second version"),
];

/// `gc`: the one collection.
pub const COLLECTED: [SheetColumn; 7] = [
    SheetColumn::new(
        "removed_versions",
        "REMOVED",
        true,
        "Number of versions that were removed",
    ),
    SheetColumn::new(
        "kept_versions",
        "KEPT",
        true,
        "Number of versions that are left",
    ),
    SheetColumn::new(
        "removed_packs",
        "PACKS-REMOVED",
        true,
        "Packs that were removed",
    ),
    SheetColumn::new("removed_bytes", "REMOVED-BYTES", true, "Their bytes"),
    SheetColumn::new("kept_packs", "PACKS-KEPT", true, "Packs that are left"),
    SheetColumn::new("kept_bytes", "KEPT-BYTES", true, "Their bytes"),
    SheetColumn::new(
        "removed_names",
        "REMOVED-NAMES",
        false,
        "The versions that were removed, by name, oldest first",
    ),
];

/// `trim`: a row for each tenant of an engine.
pub const TRIMMED: [SheetColumn; 6] = [
    SheetColumn::new(
        "tenant",
        "TENANT",
        false,
        "Tenant; for blocks without one - in a table, and empty in CSV and JSON",
    ),
    SheetColumn::new(
        "blocks",
        "BLOCKS",
        true,
        "Blocks in the engine that are left",
    ),
    SheetColumn::new(
        "memory_bytes",
        "MEMORY",
        true,
        "Memory of the servers that they take; replicas take the same again",
    ),
    SheetColumn::new(
        "removed_blocks",
        "BLOCKS-REMOVED",
        true,
        "Blocks that were removed",
    ),
    SheetColumn::new("removed_bytes", "REMOVED-BYTES", true, "Their memory"),
    SheetColumn::new(
        "unused_seconds",
        "UNUSED",
        true,
        "Longest time for which one of the blocks that are left was not used",
    ),
];

/// `drop`: a row for each mount that has dropped a path itself.
pub const DROPPED: [SheetColumn; 7] = [
    SheetColumn::new("path", "PATH", false, "Path, relative to the origin"),
    SheetColumn::new("mount", "MOUNT", false, "Mount point"),
    SheetColumn::new(
        "dropped_names",
        "NAMES",
        true,
        "Names that the kernel has to look up again",
    ),
    SheetColumn::new(
        "dropped_blocks",
        "LOCAL-BLOCKS",
        true,
        "Blocks removed from memory and disk of the mount",
    ),
    SheetColumn::new(
        "engine_blocks",
        "ENGINE-BLOCKS",
        true,
        "Blocks removed from the engine",
    ),
    SheetColumn::new(
        "engine_failed_blocks",
        "ENGINE-FAILED",
        true,
        "Blocks that the engine did not remove in time",
    ),
    SheetColumn::new(
        "is_told",
        "NOTIFIED",
        false,
        "Whether the mounts on other machines were notified",
    ),
];
