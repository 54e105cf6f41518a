//! Command line and start time of a process.

use std::str::FromStr;
use std::time::Duration;

use crate::{Error, Kernel};

impl Kernel {
    /// Returns the current program and arguments of a process, which it may have changed. Empty for
    /// kernel threads and ended processes.
    ///
    /// Bytes that are not UTF-8 are replaced; escape the text before printing it on a terminal.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process.
    pub fn process_arguments(&self, pid: u32) -> Result<Vec<String>, Error> {
        let line = self.read(&self.process(pid, "cmdline"))?;
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        if line.is_empty() {
            return Ok(Vec::new());
        }
        let words = line.split(|byte| *byte == 0);
        Ok(words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect())
    }

    /// Returns the start time of a process since boot, suspend included, in steps of 10 ms: it
    /// distinguishes processes that had the same pid one after the other.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process.
    pub fn process_start(&self, pid: u32) -> Result<Duration, Error> {
        /// USER_HZ, which is 100 on every architecture that has BPF.
        const TICK_MILLISECONDS: u64 = 10;
        let ticks: u64 = self.stat_field(pid, 19, "no start time in it")?;
        Ok(Duration::from_millis(
            ticks.saturating_mul(TICK_MILLISECONDS),
        ))
    }

    /// Returns whether a process has ended and only waits for its parent to learn of it (a zombie).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process.
    pub fn process_has_ended(&self, pid: u32) -> Result<bool, Error> {
        let state: char = self.stat_field(pid, 0, "no state in it")?;
        Ok(matches!(state, 'Z' | 'X'))
    }

    /// Returns the id of the parent of a process; 0 if it has none here.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no such process.
    pub fn process_parent(&self, pid: u32) -> Result<u32, Error> {
        self.stat_field(pid, 1, "no parent in it")
    }

    /// A field of `/proc/PID/stat`, counted from the state, which is field 0.
    fn stat_field<T: FromStr>(&self, pid: u32, field: usize, lacks: &str) -> Result<T, Error> {
        let path = self.process(pid, "stat");
        let stat = self.text(&path)?;
        // The name before it may contain any character, brackets too.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
        fields
            .and_then(|fields| fields.split_ascii_whitespace().nth(field)?.parse().ok())
            .ok_or_else(|| Error::parse(&path, lacks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn process_arguments_and_start_are_read() {
        let fixture = Fixture::new();
        fixture.write("proc/7/cmdline", "dd\0if=two words\0\0bs=1M\0");
        fixture.write(
            "proc/7/stat",
            "7 (a) S (b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2 3\n",
        );
        // After 497 days the ticks exceed 32 bits.
        fixture.write(
            "proc/9/stat",
            "9 (late) S 1 9 9 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 5000000000 1 2 3\n",
        );
        fixture.write("proc/8/cmdline", "");
        fixture.write("proc/8/stat", "8 (kthread) S 2\n");
        let kernel = fixture.kernel();
        assert_eq!(
            kernel.process_arguments(7).unwrap(),
            ["dd", "if=two words", "", "bs=1M"],
            "word by word, an empty one too"
        );
        assert_eq!(
            kernel.process_start(7).unwrap(),
            Duration::from_millis(42_420),
            "whatever is in its name"
        );
        assert_eq!(
            kernel.process_start(9).unwrap(),
            Duration::from_secs(50_000_000),
            "on a machine that has run for long"
        );
        assert!(
            kernel.process_arguments(8).unwrap().is_empty(),
            "a thread of the kernel has none"
        );
        let error = kernel.process_start(8).unwrap_err().to_string();
        assert!(error.contains("start time"), "the missing field: {error}");
    }
}
