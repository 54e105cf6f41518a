//! Limit of a control group on CPU time, reported if it disturbed a measurement.

use cachewise_kstat::{CpuQuota, Kernel};
use cachewise_units::escaped;

/// The limit before something is measured.
pub struct Quota(Option<CpuQuota>);

impl Quota {
    /// The present limit; none if it cannot be read.
    pub fn now() -> Quota {
        Quota(Kernel::new().cpu_quota().ok().flatten())
    }

    /// A note if the group was throttled since, or if the kernel does not count throttling.
    pub fn note(&self) -> Option<String> {
        note(self.0.as_ref()?, Quota::now().0.as_ref())
    }
}

fn note(before: &CpuQuota, after: Option<&CpuQuota>) -> Option<String> {
    let stopped = before
        .throttled
        .zip(after.and_then(|after| after.throttled));
    let times = match stopped {
        Some((before, after)) if after <= before => return None,
        Some((before, after)) => format!("stopped it in {} periods meanwhile", after - before),
        None => "may have stopped it meanwhile".to_owned(),
    };
    Some(format!(
        "a limit of {:.2} CPUs ({}) {times}: figures include these pauses",
        before.cpus,
        escaped(&before.path)
    ))
}
