//! The data that is recorded at each tick.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Interval, Measured, Source, System};
use cachewise_units::PageSize;

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The counters since the sample before; pairs of process and file are not recorded.
    pub interval: Interval,
    /// The part of the interval during which the machine was suspended.
    pub suspended: Duration,
    /// Whether recording began with it. Set on reading.
    pub begins: bool,
    /// Whether samples before it could not be read. Set on reading.
    pub after_loss: bool,
}

impl Sample {
    /// A sample of a machine that did not sleep.
    #[must_use]
    pub fn from_interval(interval: Interval) -> Sample {
        Sample {
            interval,
            suspended: Duration::ZERO,
            begins: false,
            after_loss: false,
        }
    }
}

/// Returns an idle interval, for examples.
#[doc(hidden)]
#[must_use]
pub fn example() -> Interval {
    let source = Source {
        page_size: Some(PageSize::SMALLEST),
        ..Source::default()
    };
    Interval {
        elapsed: Duration::from_secs(1),
        system: System::default(),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        ..Interval::new(Arc::new(source), "2026-01-02T03:04:05.000Z".into())
    }
}
