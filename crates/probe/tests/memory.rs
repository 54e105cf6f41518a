//! Kernel memory of the tables: what the options promise, against what the kernel accounts.
//!
//! Alone in its program: descriptors of other probes would count too.

use cachewise_kstat::Kernel;
use cachewise_probe::{Detail, ErrorKind, Options, Probe, Scope};

/// The memory that the options promise, and that of the attached probe.
fn promised_and_taken(max_rows: u32, intervals: bool) -> Option<(u64, u64)> {
    let mut options = Options::new(Scope::System, Detail::Rows);
    options.max_rows = max_rows;
    options.intervals = intervals;
    match Probe::attach(&options) {
        Ok(_probe) => {
            let memory = Kernel::new().bpf_memory().expect("/proc is there");
            Some((options.table_bytes().0, memory.bytes.0))
        }
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            println!("skipped: kernel memory: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn tables_take_the_memory_that_the_options_promise() {
    for intervals in [false, true] {
        let few = promised_and_taken(1024, intervals);
        let many = promised_and_taken(131_072, intervals);
        let (Some(few), Some(many)) = (few, many) else {
            return;
        };
        let (promised, taken) = (many.0 - few.0, many.1 - few.1);
        // Kernels before 6.4 account neither the heads of entries nor buckets.
        assert!(
            taken <= promised * 21 / 20 && taken >= promised * 7 / 10,
            "promised {promised} more bytes, the kernel took {taken}"
        );
    }
    let nothing = Kernel::new().bpf_memory().expect("/proc is there");
    assert_eq!(
        (nothing.maps, nothing.programs),
        (0, 0),
        "nothing is held once the probes are gone"
    );
}
