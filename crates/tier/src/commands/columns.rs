//! The columns of the tables of `cachewise-tier`, by command.

use cachewise_view::SheetColumn;

/// `put`, `warm` and `verify`: a row is a file.
pub const FILES: [SheetColumn; 6] = [
    SheetColumn::new("path", "PATH", false, "File, relative to the origin"),
    SheetColumn::new("size_bytes", "SIZE", true, "Size of the file"),
    SheetColumn::new("blocks", "BLOCKS", true, "Number of blocks of the file"),
    SheetColumn::new(
        "failed_blocks",
        "FAILED",
        true,
        "Blocks that could not be read or stored",
    ),
    SheetColumn::new(
        "different_blocks",
        "DIFFERENT",
        true,
        "Blocks whose bytes in the cache and at the origin differ; only verify compares",
    ),
    SheetColumn::new("elapsed_seconds", "SECONDS", true, "Time for the file"),
];

/// `stat`: a row for each operation of the kernel, each tier and each node.
pub const STAT: [SheetColumn; 19] = [
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
