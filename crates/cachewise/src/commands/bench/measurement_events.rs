//! Receivers of a measurement's events, and the parts that all of them share.

use anyhow::{Context, Result};
use cachewise_bench::{Event, Summary, Workload};
use cachewise_units::Bytes;

/// Receiver of a measurement's events.
pub trait MeasurementEvents {
    /// A workload is about to start.
    fn begin(&mut self, workload: &Workload) -> Result<()>;
    /// An event of the running workload.
    fn event(&mut self, workload: &Workload, event: &Event<'_>) -> Result<()>;
    /// The workload has ended.
    fn end(&mut self, summary: &Summary) -> Result<()>;
    /// All workloads have ended.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Mebibytes, as cache-bench prints them.
pub fn mebibytes(bytes: Bytes) -> f64 {
    const MIB: f64 = 1_048_576.0;
    bytes.0 as f64 / MIB
}

/// Adds the output's name to a write error.
pub fn cannot_write<T>(result: std::io::Result<T>, name: &str) -> Result<T> {
    result.with_context(|| format!("cannot write to {name}"))
}
