//! [`execute`]: runs one trial under the settings of its arm, and restores them.

use std::sync::atomic::AtomicBool;

use cachewise_control::{Journal, Restored, Setting, SettingLocation, SettingTarget};
use cachewise_kstat::Kernel;

use super::contention::Begun;
use super::{Done, Plan, Trial};
use crate::{Error, Event, run};

/// Applies the arm's settings, runs the workload, and restores the settings in every case. Returns
/// the results, and the outcome of the restoring.
///
/// # Errors
/// A setting or the run failed.
pub fn execute(
    plan: &Plan,
    trial: &Trial,
    kernel: &Kernel,
    journal: &mut Journal,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<(Done, Restored), Error> {
    let unknown = || Error::Matrix {
        problem: format!("no arm {:?} or no workload {:?}", trial.arm, trial.workload),
    };
    let arm = plan.arm(&trial.arm).ok_or_else(unknown)?;
    let workload = plan
        .workload(arm, &trial.workload, trial.repeat)
        .ok_or_else(unknown)?;
    let there = workload.file.ancestors().find(|path| path.exists());
    let target = SettingTarget {
        kernel,
        file: there,
    };
    let settings = arm
        .settings
        .iter()
        .map(|(name, value)| Ok((Setting::find(name)?, value)));
    let settings: Vec<_> = settings.collect::<Result<_, Error>>()?;
    let mut set = || {
        for (setting, value) in settings
            .iter()
            .filter(|(setting, _)| setting.place != SettingLocation::Group)
        {
            if let Some(path) = setting.path(target)? {
                journal.change(setting.name, &path, value, &setting.paths_beside(target))?;
            }
        }
        Ok::<_, Error>(())
    };
    let result = set().and_then(|()| {
        let begun = Begun::now(kernel);
        let summary = run(&workload, watch, cancel)?;
        Ok((summary, begun.end(kernel)))
    });
    // Before the run's result is checked: settings must not stay.
    let restored = journal.restore()?;
    let (summary, contention) = result?;
    let done = Done {
        trial: trial.clone(),
        contention,
        summary,
    };
    Ok((done, restored))
}
