//! Kernel memory for rows, checked before it is taken: the kernel does not reclaim it while a program runs.

use anyhow::{Result, bail};
use cachewise_kstat::Kernel;
use cachewise_probe::Options;
use cachewise_units::Bytes;

use cachewise_cli::output::tell;

/// More than this is reported.
const LARGE: Bytes = Bytes(64 << 20);

/// Reports tables that are large, and refuses those that leave too little to others.
pub fn check(options: &Options, kernel: &Kernel) -> Result<()> {
    let wanted = options.table_bytes();
    if wanted <= LARGE {
        return Ok(());
    }
    let rows = options.max_rows;
    if let Ok(memory) = kernel.meminfo()
        && let Some(available) = memory.available
        && wanted.0 > available.0 / 2
    {
        bail!(
            "--max-rows {rows}: the tables take {wanted} of kernel memory, more than half of the {available} that are \
             available; ask for fewer rows (default {})",
            Options::MAX_ROWS
        );
    }
    tell(&format!(
        "note: --max-rows {rows}: the tables take {wanted} of kernel memory"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use cachewise_probe::{Detail, Scope};

    use super::*;

    #[test]
    fn tables_beyond_half_of_the_available_memory_are_refused() {
        let machine = tempfile::tempdir().expect("a directory");
        let real = std::fs::read_to_string("/proc/meminfo").expect("every kernel has it");
        let available = |kib: u64| {
            let lines = real.lines().map(|line| match line.split_once(':') {
                Some(("MemAvailable", _)) => format!("MemAvailable: {kib} kB\n"),
                _ => format!("{line}\n"),
            });
            let text: String = lines.collect();
            std::fs::write(machine.path().join("meminfo"), text).expect("there is room");
            Kernel::with_roots(machine.path(), machine.path())
        };
        let mut options = Options::new(Scope::Children, Detail::Rows);
        options.max_rows = 1_000_000;
        let wanted = options.table_bytes().0 >> 10;
        let error = check(&options, &available(wanted)).expect_err("it is too much");
        assert!(error.to_string().contains("--max-rows 1000000"), "{error}");
        check(&options, &available(wanted * 3)).expect("less than half");
        options.max_rows = Options::MAX_ROWS;
        check(&options, &available(1)).expect("the default always runs");
    }
}
