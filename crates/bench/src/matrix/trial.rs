//! [`execute`]: does one run under the settings of its arm, and puts these back.

use std::sync::atomic::AtomicBool;

use cachewise_control::{Journal, Place, Restored, Setting, Target};
use cachewise_kstat::Kernel;

use super::contention::Begun;
use super::{Done, Plan, Trial};
use crate::{Error, Event, run};

/// Sets what the arm sets, runs the workload, and puts the settings back, whatever came of it. Gives what the run gave,
/// and what became of the settings.
///
/// # Errors
/// What setting and running say.
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
    let target = Target {
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
            .filter(|(setting, _)| setting.place != Place::Group)
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
    // Before anything is said of the run: what was set is not to stay.
    let restored = journal.restore()?;
    let (summary, contention) = result?;
    let done = Done {
        trial: trial.clone(),
        contention,
        summary,
    };
    Ok((done, restored))
}
