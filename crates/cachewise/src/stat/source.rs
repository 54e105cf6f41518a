//! Where the rows of `stat` come from.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Device, Kernel};
use cachewise_model::{Count, Counter, Ledger, Measured, Missing, System};
use cachewise_probe::options::{CgroupFilter, WantedFile};
use cachewise_probe::{Detail, Options, Probe, Scope};
use cachewise_units::escaped;

use crate::cli::Stat;
use crate::machine;
use crate::output::tell;
use crate::run::account::lost;

const BY_VMSTAT: &str = "the machine's vmstat";
const NEEDS_PROBE: Missing = Missing::NotOffered("only the probe can count it");

/// What was counted up to one moment.
#[derive(Clone)]
pub struct Sample {
    pub time: String,
    pub ledger: Ledger,
    pub system: System,
    pub device_read: Count,
    pub device_written: Count,
}

/// The probe, or vmstat where there is none.
pub struct Source {
    probe: Option<Probe>,
    whole_system: bool,
    lost_told: u64,
}

impl Source {
    /// Opens it, and tells the user if it is only the second best.
    pub fn open(arguments: &Stat, kernel: &Kernel) -> Result<Source> {
        let whole_system =
            arguments.pid.is_none() && arguments.cgroup.is_none() && arguments.file.is_empty();
        let options = options(arguments, kernel)?;
        let probe = match Probe::attach(&options) {
            Ok(probe) => {
                for note in probe.notes() {
                    tell(&format!("note: {note}"));
                }
                Some(probe)
            }
            Err(error) if whole_system => {
                tell(&format!("note: {}", machine::why_estimates(error)));
                None
            }
            Err(error) => {
                return Err(error)
                    .context("a part of the system can be watched with the probe only");
            }
        };
        Ok(Source {
            probe,
            whole_system,
            lost_told: 0,
        })
    }

    /// What was counted up to now.
    pub fn sample(&mut self, kernel: &Kernel) -> Result<Sample> {
        let time = machine::timestamp();
        let vmstat = kernel
            .vmstat()
            .context("cannot read the machine's counters")?;
        let system = machine::system(kernel, &vmstat)?;
        let count = |number: Option<u64>| match number {
            Some(number) if self.whole_system => Measured::Exact(number),
            Some(_) => Measured::not_offered("it is counted for the whole machine only"),
            None => Measured::not_offered("this kernel does not count it"),
        };
        let device_read = count(vmstat.pgpgin.map(|bytes| bytes.0));
        let device_written = count(vmstat.pgpgout.map(|bytes| bytes.0));
        let refaults = vmstat.workingset_refault_file;
        let ledger = match &mut self.probe {
            Some(probe) => {
                let snapshot = probe.snapshot().context("cannot read what was counted")?;
                let lost = lost(&snapshot);
                let count: u64 = lost.iter().map(|lost| lost.count).sum();
                if count > self.lost_told {
                    self.lost_told = count;
                    for lost in lost {
                        tell(&format!(
                            "incomplete, {}: {} {}",
                            lost.id, lost.count, lost.meaning
                        ));
                    }
                }
                let mut ledger = snapshot.total;
                if let Some(pages) = refaults.filter(|_| self.whole_system) {
                    ledger.set_estimated(Counter::RefaultPages, pages.0, BY_VMSTAT);
                }
                ledger
            }
            None => {
                let mut ledger = Ledger::all_missing(NEEDS_PROBE);
                for (counter, pages) in [
                    (Counter::DirtiedPages, vmstat.nr_dirtied),
                    (Counter::EvictedReclaimPages, vmstat.pgsteal),
                    (Counter::RefaultPages, refaults),
                ] {
                    if let Some(pages) = pages {
                        ledger.set_estimated(counter, pages.0, BY_VMSTAT);
                    }
                }
                ledger
            }
        };
        Ok(Sample {
            time,
            ledger,
            system,
            device_read,
            device_written,
        })
    }
}

fn options(arguments: &Stat, kernel: &Kernel) -> Result<Options> {
    let scope = arguments.pid.map_or(Scope::System, Scope::Process);
    let mut options = Options::new(scope, Detail::Totals);
    options.cgroup_v1 = machine::uses_cgroup_v1(kernel);
    if let Some(path) = &arguments.cgroup {
        let cgroup = kernel
            .resolve_cgroup(path)
            .context("cannot watch a control group")?;
        let Some(level) = cgroup.level else {
            bail!(
                "the depth of control group {} cannot be known from inside a cgroup namespace",
                cgroup.name
            );
        };
        options.cgroup = Some(CgroupFilter {
            id: cgroup.id,
            level,
        });
    }
    options.files = arguments
        .file
        .iter()
        .map(|path| wanted(path))
        .collect::<Result<_>>()?;
    Ok(options)
}

fn wanted(path: &Path) -> Result<WantedFile> {
    let stat = path
        .metadata()
        .with_context(|| format!("cannot watch the file {}", escaped(path)))?;
    if is_on_overlay(path) {
        bail!(
            "{} is on an overlay, and its pages belong to the file in the layer below: name that one",
            escaped(path)
        );
    }
    let kind = stat.file_type();
    let (device, inode) = if kind.is_block_device() {
        (stat.rdev(), 0)
    } else if kind.is_file() {
        (stat.dev(), stat.ino())
    } else {
        bail!(
            "{} is neither a file nor a block device: nothing of it is in the page cache",
            escaped(path)
        );
    };
    let Device { major, minor } = Device::from_stat(device);
    Ok(WantedFile {
        major,
        minor,
        inode,
    })
}

fn is_on_overlay(path: &Path) -> bool {
    const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type as u64 == OVERLAYFS_SUPER_MAGIC)
}
