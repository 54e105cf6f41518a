//! A control group's limit on CPU time, where it was in the way of measuring.

use cachewise_kstat::{CpuQuota, Kernel};
use cachewise_units::escaped;

/// The limit before something is measured.
pub struct Quota(Option<CpuQuota>);

impl Quota {
    /// As it is now. What cannot be read limits nothing that is known.
    pub fn now() -> Quota {
        Quota(Kernel::new().cpu_quota().ok().flatten())
    }

    /// What there is to say if the group was stopped since, or if nobody counts whether it was.
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
        "a limit of {:.2} CPUs ({}) {times}: figures are not those of a machine that runs on",
        before.cpus,
        escaped(&before.path)
    ))
}
