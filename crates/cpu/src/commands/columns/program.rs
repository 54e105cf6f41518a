//! The columns of the commands that run a program.

use cachewise_view::SheetColumn;

/// `run`: a row is a cache.
pub const RUN: [SheetColumn; 4] = [
    SheetColumn::new("cache", "CACHE", false, "The cache, or branches"),
    SheetColumn::new("accesses", "ACCESSES", true, "Number of accesses"),
    SheetColumn::new("misses", "MISSES", true, "Number of misses"),
    SheetColumn::new("miss_ratio", "MISS%", true, "Misses over accesses"),
];

const SHARE: (&str, &str) = ("share_ratio", "SHARE");
const FUNCTION: SheetColumn = SheetColumn::new("function", "FUNCTION", false, "The function");
const FILE: SheetColumn = SheetColumn::new("file", "FILE", false, "The file").if_chosen();
const LINE: SheetColumn = SheetColumn::new("line", "LINE-NO", true, "The line").if_chosen();
const OBJECT: SheetColumn = SheetColumn::new("object", "OBJECT", false, "The program or library");

/// `run`: a row is a line of source.
pub const RUN_LINES: [SheetColumn; 9] = [
    SheetColumn::new(
        "misses",
        "MISSES",
        true,
        "Data accesses that missed the first level",
    ),
    SheetColumn::new(SHARE.0, SHARE.1, true, "Share of all misses of the program"),
    SheetColumn::new("reads", "READS", true, "Reads of data"),
    SheetColumn::new(
        "read_miss_ratio",
        "READ-MISS%",
        true,
        "Reads that missed the first level, over reads",
    ),
    SheetColumn::new(
        "wasted_bytes",
        "WASTED",
        true,
        "Bytes that were fetched into the first level and evicted unused",
    ),
    FUNCTION,
    FILE,
    LINE,
    OBJECT,
];

/// A row is a sampled line of source; the first column counts the event.
const fn sampled(first: SheetColumn) -> [SheetColumn; 7] {
    let samples = SheetColumn::new("samples", "SAMPLES", true, "Samples on the line");
    let share = SheetColumn::new(SHARE.0, SHARE.1, true, "Share of all samples");
    [first, samples, share, FUNCTION, FILE, LINE, OBJECT]
}

/// `run`: a row is a line of source with sampled events.
pub const RUN_COUNTED: [SheetColumn; 7] = sampled(SheetColumn::new(
    "events",
    "EVENTS",
    true,
    "Sampled events: samples times the period",
));

/// `run`: a row is a line of source with samples of CPU time.
pub const RUN_TIMED: [SheetColumn; 7] = sampled(SheetColumn::new(
    "cpu_seconds",
    "CPU TIME",
    true,
    "CPU time: samples times the period",
));

/// `sharing`: a row is a proof.
pub const SHARING: [SheetColumn; 6] = [
    SheetColumn::new("proof", "PROOF", false, "Method of the proof"),
    SheetColumn::new(
        "answer",
        "ANSWER",
        false,
        "Answer of the proof: found, mixed (with true sharing), not_found or unknown",
    ),
    SheetColumn::new(
        "ratio",
        "TIMES",
        true,
        "Ratio of CPU times: all CPUs over one; plain over padded heap, on all CPUs over on one",
    ),
    SheetColumn::new(
        "ratio_low",
        "TIMES FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "ratio_high",
        "TIMES TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new(
        "says",
        "WHICH SAYS",
        false,
        "Evidence, or the reason why the answer is unknown",
    ),
];

/// `sharing`: a row is a variant of the run.
pub const SHARING_RUNS: [SheetColumn; 9] = [
    SheetColumn::new("cpus", "CPUS", false, "One CPU, or all permitted ones"),
    SheetColumn::new(
        "heap",
        "HEAP",
        false,
        "Plain, or padded: each object in its own cache lines",
    ),
    SheetColumn::new(
        "cpu_seconds",
        "CPU TIME",
        true,
        "CPU time: median of the rounds",
    ),
    SheetColumn::new(
        "cpu_low_seconds",
        "CPU FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "cpu_high_seconds",
        "CPU TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new(
        "wall_seconds",
        "WALL TIME",
        true,
        "Time from start to end: median of the rounds",
    ),
    SheetColumn::new(
        "wall_low_seconds",
        "WALL FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "wall_high_seconds",
        "WALL TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new(
        "at_once",
        "AT ONCE",
        true,
        "Number of CPUs in use at the same time, on average",
    ),
];

/// `sharing`: a row is the accesses of a thread to bytes of a line.
pub const SHARING_TOUCHES: [SheetColumn; 8] = [
    SheetColumn::new(
        "line_address",
        "LINE",
        false,
        "The address of the line's first byte",
    ),
    SheetColumn::new(
        "offset",
        "BYTE",
        true,
        "Offset of the first byte in the line",
    ),
    SheetColumn::new("bytes", "BYTES", true, "Number of bytes"),
    SheetColumn::new("thread", "THREAD", true, "The thread's id"),
    SheetColumn::new("name", "THREAD-NAME", false, "The thread's name"),
    SheetColumn::new(
        "writes",
        "WRITES",
        true,
        "Number of observed writes, including accesses that read and write",
    ),
    SheetColumn::new(
        "reads",
        "READS",
        true,
        "Number of observed reads without a write",
    ),
    SheetColumn::new("by", "SEEN BY", false, "Proof that observed it"),
];

/// The tables of `run`.
pub const RUN_TABLES: [&[SheetColumn]; 4] = [&RUN, &RUN_LINES, &RUN_COUNTED, &RUN_TIMED];

/// The tables of `sharing`.
pub const SHARING_TABLES: [&[SheetColumn]; 3] = [&SHARING, &SHARING_RUNS, &SHARING_TOUCHES];
