//! [`Pressure`]: time that tasks lost waiting for a resource.

use std::path::Path;
use std::time::Duration;

use crate::kernel::found;
use crate::{CgroupFiles, Error, ErrorKind, Kernel};

/// Resources that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Time on a CPU.
    Cpu,
    /// Memory: reclaim, refaults, swap.
    Memory,
    /// Block I/O.
    Io,
    /// CPU time of interrupts.
    Irq,
}

impl Resource {
    /// Returns its name in the kernel.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
            Self::Irq => "irq",
        }
    }
}

/// Time lost waiting for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some: Option<Stall>,
    /// Time in which all non-idle tasks waited.
    ///
    /// `None` for the CPU: it is undefined for the whole machine, and the kernel prints a
    /// meaningless 0.
    pub full: Option<Stall>,
}

/// Shares of time lost, over three windows, and the total.
///
/// # Units
/// The averages are ratios, 0 to 1; the kernel prints percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Share of the last 10 seconds.
    pub avg10: f64,
    /// Share of the last minute.
    pub avg60: f64,
    /// Share of the last five minutes.
    pub avg300: f64,
    /// Time lost since boot.
    pub total: Duration,
}

impl Kernel {
    /// Returns the pressure on a resource, or `None` if this kernel does not report it.
    ///
    /// # Errors
    /// Reading the file under `/proc/pressure` failed.
    ///
    /// # Kernel
    /// Since 4.20 (interrupts: 6.1), unless disabled by the build or by `psi=0`.
    pub fn pressure(&self, resource: Resource) -> Result<Option<Pressure>, Error> {
        let path = self.proc("pressure").join(resource.name());
        pressure_text(found(self.text(&path)), resource, &path)
    }
}

impl CgroupFiles {
    /// Returns the pressure on the group and its descendants; `None` if this kernel does not report
    /// it, or the group is gone.
    ///
    /// # Errors
    /// Reading the file failed.
    ///
    /// # Kernel
    /// Only groups of version 2.
    pub fn pressure(&mut self, resource: Resource) -> Result<Option<Pressure>, Error> {
        let name = match resource {
            Resource::Cpu => "cpu.pressure",
            Resource::Memory => "memory.pressure",
            Resource::Io => "io.pressure",
            Resource::Irq => "irq.pressure",
        };
        pressure_text(self.text(name), resource, &self.path(name))
    }
}

/// The text of a pressure file, if it exists and pressure is enabled.
fn pressure_text(
    text: Result<Option<String>, Error>,
    resource: Resource,
    path: &Path,
) -> Result<Option<Pressure>, Error> {
    let text = match text {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let stall = || parse(line).ok_or_else(|| Error::parse(path, format!("line {line:?}")));
        match line.split(' ').next() {
            Some("some") => pressure.some = Some(stall()?),
            Some("full") if resource != Resource::Cpu => pressure.full = Some(stall()?),
            _ => {}
        }
    }
    Ok(Some(pressure))
}

// Not with procfs-core: its 32-bit floats turn 6.14 into 6.139999866.
fn parse(line: &str) -> Option<Stall> {
    let value = |name: &str| {
        line.split(' ')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let share = |name| {
        value(name)?
            .parse::<f64>()
            .ok()
            .map(|percent| percent / 100.0)
    };
    Some(Stall {
        avg10: share("avg10")?,
        avg60: share("avg60")?,
        avg300: share("avg300")?,
        total: Duration::from_micros(value("total")?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Descriptors;
    use crate::fixture::{Fixture, captured};

    #[test]
    fn pressure_shares_are_ratios() {
        let fixture = Fixture::new();
        let text = "some avg10=6.14 avg60=1.60 avg300=0.56 total=6692873\n\
                    full avg10=100.00 avg60=0.00 avg300=0.00 total=1\n";
        fixture.write("proc/pressure/memory", text);
        let pressure = fixture
            .kernel()
            .pressure(Resource::Memory)
            .unwrap()
            .unwrap();
        let some = pressure.some.unwrap();
        assert!((some.avg10 - 0.0614).abs() < 1e-12, "6.14 %: {some:?}");
        assert_eq!(
            some.total,
            Duration::from_micros(6_692_873),
            "the kernel counts in us"
        );
        assert_eq!(pressure.full.unwrap().avg10, 1.0, "100 %");
    }

    #[test]
    fn pressure_full_of_cpu_is_none() {
        let kernel = captured("linux-6.18");
        let cpu = kernel.pressure(Resource::Cpu).unwrap().unwrap();
        assert!(cpu.some.is_some(), "tasks can wait for a CPU");
        assert_eq!(cpu.full, None, "but not all at once");
        assert_eq!(
            kernel.pressure(Resource::Irq).unwrap(),
            None,
            "not offered here"
        );
        assert!(
            kernel
                .pressure(Resource::Io)
                .unwrap()
                .unwrap()
                .full
                .is_some(),
            "for I/O all can"
        );
    }

    #[test]
    fn group_pressure_is_read() {
        let kernel = captured("linux-6.1");
        let mount = kernel.cgroup_hierarchy().unwrap();
        let group = mount.mount().unwrap().join("system.slice/db.service");
        let mut files = CgroupFiles::new(group, &Descriptors::new(8));
        let mut felt = |resource| files.pressure(resource).unwrap();
        let memory = felt(Resource::Memory).unwrap();
        assert_eq!(
            memory.full.unwrap().total,
            Duration::from_micros(48_114_201),
            "all its tasks waited"
        );
        assert!(felt(Resource::Io).is_some(), "for I/O as well");
        assert_eq!(felt(Resource::Irq), None, "not reported there");
    }

    #[test]
    fn pressure_refuses_invalid_text() {
        let fixture = Fixture::new();
        for text in [
            "some",
            "some avg10=x avg60=0 avg300=0 total=0",
            "some avg10=1.0",
        ] {
            fixture.write("proc/pressure/io", text);
            let error = fixture
                .kernel()
                .pressure(Resource::Io)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("pressure/io"),
                "{text:?} is not pressure: {error}"
            );
        }
    }
}
