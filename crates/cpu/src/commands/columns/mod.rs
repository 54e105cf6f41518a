//! The columns of the tables of `cachewise-cpu`, by command.

mod program;

use cachewise_view::SheetColumn;

pub use program::{
    RUN, RUN_COUNTED, RUN_LINES, RUN_TABLES, RUN_TIMED, SHARING, SHARING_RUNS, SHARING_TABLES,
    SHARING_TOUCHES,
};

/// `topology`: a row is a cache. Tables show the tree unless columns are chosen.
pub const TOPOLOGY: [SheetColumn; 10] = [
    SheetColumn::new("name", "LEVEL", false, "The cache's name: L1d, L1i, L2"),
    SheetColumn::new(
        "level",
        "LEVEL-NO",
        true,
        "Level of the cache; 1 is nearest to the core",
    ),
    SheetColumn::new(
        "kind",
        "KIND",
        false,
        "Contents: data, instruction or unified",
    ),
    SheetColumn::new("size_bytes", "SIZE", true, "Size of the cache, from sysfs"),
    SheetColumn::new("line_bytes", "LINE-SIZE", true, "Size of a cache line"),
    SheetColumn::new("ways", "WAYS", true, "Associativity: number of ways"),
    SheetColumn::new("sets", "SETS", true, "Number of sets"),
    SheetColumn::new("cpus", "CPUS", false, "The CPUs that share it"),
    SheetColumn::new(
        "threads",
        "THREADS",
        true,
        "Number of hardware threads that share it",
    ),
    SheetColumn::new("cores", "CORES", true, "Number of cores that share it"),
];

/// `table`: a row is a level, or a step in the cost of address translation.
pub const TABLE: [SheetColumn; 22] = [
    SheetColumn::new(
        "name",
        "LEVEL",
        false,
        "The level: a cache by its name, memory, or dTLB: a step of address translation",
    ),
    SheetColumn::new(
        "told_size_bytes",
        "SYSFS",
        true,
        "Size of the cache, from sysfs",
    ),
    SheetColumn::new(
        "line_bytes",
        "LINE-SIZE",
        true,
        "Size of a cache line, from sysfs",
    ),
    SheetColumn::new(
        "ways",
        "WAYS",
        true,
        "Associativity: number of ways, from sysfs",
    ),
    SheetColumn::new(
        "cores",
        "CORES",
        true,
        "Number of cores that share it, from sysfs",
    ),
    SheetColumn::new(
        "threads",
        "THREADS",
        true,
        "Number of hardware threads that share it, from sysfs",
    ),
    SheetColumn::new(
        "size_bytes",
        "MEASURED",
        true,
        "Measured size: where latency is half-way up to the next level; of dTLB: the memory that its pages cover",
    ),
    SheetColumn::new(
        "size_low_bytes",
        "MEASURED-FROM",
        true,
        "Minimum of the measured size over rounds",
    ).if_chosen(),
    SheetColumn::new(
        "size_high_bytes",
        "MEASURED-TO",
        true,
        "Maximum of the measured size over rounds",
    ).if_chosen(),
    SheetColumn::new(
        "size_trust",
        "SIZE-TRUST",
        false,
        "How far rounds agree on it: good, fair, contended",
    ).if_chosen(),
    SheetColumn::new(
        "local_seconds",
        "PAGE-LOCAL",
        true,
        "Latency of a dependent load, page by page; of dTLB: additional latency of a load beyond it",
    ),
    SheetColumn::new("local_low_seconds", "LOCAL-FROM", true, "The lower end of the rounds").if_chosen(),
    SheetColumn::new(
        "local_high_seconds",
        "LOCAL-TO",
        true,
        "The upper end of the rounds",
    ).if_chosen(),
    SheetColumn::new("local_cycles", "LOCAL-CYC", true, "The same in core cycles"),
    SheetColumn::new(
        "local_trust",
        "LOCAL-TRUST",
        false,
        "How far rounds agree on it: good, fair, contended",
    ).if_chosen(),
    SheetColumn::new(
        "random_seconds",
        "RANDOM",
        true,
        "Latency of a dependent load in random order",
    ),
    SheetColumn::new(
        "random_low_seconds",
        "RANDOM-FROM",
        true,
        "The lower end of the rounds",
    ).if_chosen(),
    SheetColumn::new(
        "random_high_seconds",
        "RANDOM-TO",
        true,
        "The upper end of the rounds",
    ).if_chosen(),
    SheetColumn::new(
        "random_cycles",
        "RANDOM-CYC",
        true,
        "The same in core cycles",
    ),
    SheetColumn::new(
        "random_trust",
        "RANDOM-TRUST",
        false,
        "How far rounds agree on it: good, fair, contended",
    ).if_chosen(),
    SheetColumn::new(
        "measured_pages",
        "MEASURED-PG",
        true,
        "Of dTLB: maximum number of pages below the step",
    ).if_chosen(),
    SheetColumn::new(
        "read_at",
        "READ-AT",
        false,
        "Source of the latency: found (a level of the curve), told (at the sizes of sysfs) or not_reached (beyond the largest size)",
    ).if_chosen(),
];

/// `lab`: a row is a case of an experiment.
pub const LAB: [SheetColumn; 7] = [
    SheetColumn::new("experiment", "EXPERIMENT", false, "Name of the experiment").if_chosen(),
    SheetColumn::new("case", "CASE", false, "Description of the case"),
    SheetColumn::new(
        "control",
        "CONTROL",
        false,
        "Whether the case is a control, which separates the cause from others",
    )
    .if_chosen(),
    SheetColumn::new(
        "each_seconds",
        "EACH",
        true,
        "Time per unit: median of the rounds",
    ),
    SheetColumn::new(
        "each_low_seconds",
        "EACH FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "each_high_seconds",
        "EACH TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new("unit", "WORK", false, "Unit of work"),
];

/// The columns of each command's rows, for the list of all columns.
pub const SHEETS: [(&str, &[SheetColumn]); 10] = [
    ("cpu topology", &TOPOLOGY),
    ("cpu table", &TABLE),
    ("cpu lab", &LAB),
    ("cpu run", &RUN),
    ("cpu run, by line, simulated", &RUN_LINES),
    ("cpu run, by line, sampled", &RUN_COUNTED),
    ("cpu run, by line, sampled by time", &RUN_TIMED),
    ("cpu sharing", &SHARING),
    ("cpu sharing, runs", &SHARING_RUNS),
    ("cpu sharing, accesses by thread", &SHARING_TOUCHES),
];
