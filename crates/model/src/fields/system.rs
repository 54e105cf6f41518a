//! Numbers of the machine, or of a control group, as columns.

use std::time::Duration;

use crate::field::{Field, fields};
use crate::kind::Kind;
use crate::measured::{Count, Measured, NOT_APPLICABLE};
use crate::system::{System, each_number};
use crate::unit::Unit;
use crate::value::{Datum, Value};

macro_rules! columns {
    ($($name:ident, $id:literal, $header:literal, $unit:ident, $kind:ident, $help:literal;)+) => {
        pub(crate) const SYSTEM_FIELDS: [Field; System::IDS.len()] = [$(Field {
            id: $id,
            header: $header,
            also: &[],
            unit: Unit::$unit,
            kind: Kind::$kind,
            help: $help,
            get: |row| value(Unit::$unit, row.system.$name),
        },)+];
    };
}

each_number!(columns);

const MICROSECONDS: u64 = 1_000_000;

/// A number as the value of its field.
fn value(unit: Unit, number: Count) -> Value {
    match unit {
        Unit::Seconds => number.map(|time| Datum::Seconds(time as f64 / MICROSECONDS as f64)),
        unit => number.map(|number| Datum::of(unit, number)),
    }
}

/// Share of the interval lost waiting. The kernel adds time up a little late, so that a short
/// interval may get more than its length.
fn share(stall: Count, elapsed: Duration) -> Value {
    let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    if elapsed == 0 {
        return Measured::Missing(stall.missing().unwrap_or(NOT_APPLICABLE));
    }
    stall
        .map(|stall| stall.min(elapsed))
        .ratio_of(Measured::Exact(elapsed))
        .map(Datum::Ratio)
}

pub(crate) const PRESSURE_FIELDS: [Field; 5] = fields! {
    "psi_cpu_some_ratio", "CPU-SOME%", [], Ratio, Gauge,
        |row| share(row.system.psi_cpu_some_seconds, row.elapsed),
        "Share of the time in which some task waited for a CPU (PSI)";
    "psi_memory_some_ratio", "MEM-SOME%", [], Ratio, Gauge,
        |row| share(row.system.psi_memory_some_seconds, row.elapsed),
        "Share of the time in which some task waited for memory (PSI)";
    "psi_memory_full_ratio", "MEM-FULL%", [], Ratio, Gauge,
        |row| share(row.system.psi_memory_full_seconds, row.elapsed),
        "Share of the time in which all tasks waited for memory (PSI)";
    "psi_io_some_ratio", "IO-SOME%", [], Ratio, Gauge,
        |row| share(row.system.psi_io_some_seconds, row.elapsed),
        "Share of the time in which some task waited for I/O (PSI)";
    "psi_io_full_ratio", "IO-FULL%", [], Ratio, Gauge,
        |row| share(row.system.psi_io_full_seconds, row.elapsed),
        "Share of the time in which all tasks waited for I/O (PSI)";
};

#[cfg(test)]
mod tests {
    use cachewise_units::Ratio;

    use super::*;
    use crate::lookup::field;
    use crate::row::Row;

    #[test]
    fn pressure_is_a_share_of_the_interval() {
        let mut row = Row {
            elapsed: Duration::from_secs(2),
            ..Row::default()
        };
        let share = |row: &Row| field("psi_io_some_ratio").unwrap().of(row);
        assert_eq!(
            share(&row).missing(),
            Some(NOT_APPLICABLE),
            "none is not 0 %"
        );
        row.system.psi_io_some_seconds = Measured::Exact(500_000);
        assert_eq!(
            share(&row).known(),
            Some(Datum::Ratio(Ratio::of(1, 4).unwrap())),
            "half a second of two"
        );
        row.system.psi_io_some_seconds = Measured::Exact(9_000_000);
        assert_eq!(
            share(&row).known(),
            Some(Datum::Ratio(Ratio::of(1, 1).unwrap())),
            "never more than all of it"
        );
    }
}
