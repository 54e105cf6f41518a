//! [`Rounds`]: runs without a fix and with each, in alternating order.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cachewise_cli::output::tell;
use cachewise_control::{Group, Journal, Limits, Setting, SettingTarget};
use cachewise_kstat::Kernel;
use cachewise_residency::{ByteRange, EvictOptions, WarmOptions, evict, open_to_act, warm};
use cachewise_units::{Bytes, escaped};

use super::arguments::{StartState, Try};
use super::first_run::FirstRun;
use super::fix::{Action, Fix};
use super::interruption::Interruption;
use super::once::{Manner, Once, is_success, once};
use super::policy::TrialPolicy;
use crate::commands::guard::report_restored;
use crate::repeatable::prepare;

/// The finished runs of one arm.
#[derive(Debug, Default)]
pub struct Arm {
    /// The runs, in their order.
    pub runs: Vec<Once>,
    /// Bytes that `warm` read before the runs, and the seconds that it took, by run.
    pub warmed: Vec<(Bytes, f64)>,
}

/// Runs of all arms.
pub struct Rounds<'a> {
    pub arguments: &'a Try,
    pub kernel: &'a Kernel,
    pub first: &'a FirstRun,
    pub interruption: &'a Interruption,
    pub journal: Journal,
}

impl Rounds<'_> {
    /// Runs all rounds; the first arm has no fix. A round that an interruption cut short does not count.
    pub fn run(&mut self, mut each: impl FnMut(u64)) -> Result<Vec<Arm>> {
        let fixes: Vec<Option<&Fix>> = std::iter::once(None)
            .chain(self.arguments.fixes.iter().map(Some))
            .collect();
        let mut arms: Vec<Arm> = fixes.iter().map(|_| Arm::default()).collect();
        let mut done = 0;
        for round in 0..self.arguments.rounds {
            let mut order: Vec<usize> = (0..fixes.len()).collect();
            // Alternating directions cancel what changes steadily over time.
            if round % 2 == 1 {
                order.reverse();
            }
            for place in order {
                let fix = fixes.get(place).copied().flatten();
                let Some(arm) = arms.get_mut(place) else {
                    continue;
                };
                let Some(run) = self.arm(fix, arm)? else {
                    return Ok(cut(arms));
                };
                arm.runs.push(run);
                done += 1;
                each(done);
            }
        }
        Ok(arms)
    }

    /// One run with a fix, restored afterwards. `None`: it was interrupted.
    fn arm(&mut self, fix: Option<&Fix>, arm: &mut Arm) -> Result<Option<Once>> {
        self.prepare()?;
        let result = self.with(fix, arm);
        // Before the result is looked at: settings must not stay.
        let restored = self.journal.restore()?;
        if !restored.left.is_empty() || !restored.failed.is_empty() {
            report_restored(&restored);
        }
        if self.interruption.is_raised() {
            return Ok(None);
        }
        let run = result.with_context(|| match fix {
            Some(fix) => format!("cannot try {}", fix.name),
            None => "cannot run without a fix".to_owned(),
        })?;
        let exit = run.interval.run().exit;
        if !is_success(exit) && !self.arguments.ignore_failure {
            let name = fix.map_or("without a fix", |fix| fix.name.as_str());
            bail!(
                "the command failed in a later run ({exit}, {name}): add --prepare, or --ignore-failure"
            );
        }
        Ok(Some(run))
    }

    fn with(&mut self, fix: Option<&Fix>, arm: &mut Arm) -> Result<Once> {
        let traces = self.arguments.fixes.iter().any(Fix::is_traced);
        // All arms are traced alike, so that they compare.
        let mut manner = Manner {
            policy: traces.then(TrialPolicy::default),
            ..Manner::default()
        };
        let mut group = None;
        match fix.map(|fix| &fix.action) {
            None => {}
            Some(Action::Files(policy)) => manner.policy = Some(*policy),
            Some(Action::Readahead(size)) => self.set_readahead(*size)?,
            Some(Action::Memory(size)) => group = Some(self.group(*size)?),
            Some(Action::Shield(name)) => manner.shield = Some(name),
            Some(Action::Warm) => {
                let begin = Instant::now();
                let read = warm_all(self.first);
                arm.warmed.push((read, begin.elapsed().as_secs_f64()));
            }
        }
        manner.group = group.as_ref();
        let run = once(self.arguments, &manner, self.kernel, self.interruption);
        if let Some(group) = group {
            group.remove()?;
        }
        run
    }

    /// Restores what the command changed, and the state of its files.
    fn prepare(&self) -> Result<()> {
        if let Some(command) = &self.arguments.prepare {
            prepare(command)?;
        }
        match self.arguments.start {
            StartState::Cold => evict_all(self.first),
            StartState::Warm => {
                warm_all(self.first);
            }
        }
        Ok(())
    }

    fn set_readahead(&mut self, size: Bytes) -> Result<()> {
        let setting = Setting::find("read_ahead_kb")?;
        let value = setting.checked(&(size.0 >> 10).to_string())?;
        let mut missing = None;
        let mut is_set = false;
        for file in &self.first.files {
            let target = SettingTarget {
                kernel: self.kernel,
                file: Some(file),
            };
            match setting.path(target) {
                Ok(Some(path)) => {
                    self.journal.change(setting.name, &path, &value, &[])?;
                    is_set = true;
                }
                Ok(None) => {}
                Err(error) => missing = Some(error),
            }
        }
        match (is_set, missing) {
            (false, Some(error)) => Err(error.into()),
            (false, None) => bail!("the command read no file of a device"),
            (true, _) => Ok(()),
        }
    }

    fn group(&self, size: Bytes) -> Result<Group> {
        let group = Group::create(self.kernel, "try")?;
        group.limit(&Limits {
            max: Some(size),
            ..Limits::default()
        })?;
        Ok(group)
    }
}

/// Leaves out the runs of the last round if some arms have none of it.
fn cut(mut arms: Vec<Arm>) -> Vec<Arm> {
    let least = arms.iter().map(|arm| arm.runs.len()).min().unwrap_or(0);
    for arm in &mut arms {
        arm.runs.truncate(least);
        arm.warmed.truncate(least);
    }
    arms
}

/// Evicts the files; dirty pages are written first. Pages that others map stay.
fn evict_all(first: &FirstRun) {
    let options = EvictOptions {
        sync: true,
        holders: false,
    };
    for path in &first.files {
        let evicted = open_to_act(path)
            .and_then(|file| evict(&file, ByteRange::starting_at(0), &options).map(drop));
        if let Err(error) = evicted {
            complain(path, &error);
        }
    }
}

/// Prefetches the files; returns the bytes read.
fn warm_all(first: &FirstRun) -> Bytes {
    let mut read = Bytes(0);
    for path in &first.files {
        let warmed = open_to_act(path)
            .and_then(|file| warm(&file, &[ByteRange::starting_at(0)], &WarmOptions::default()));
        match warmed {
            Ok(warmed) => read = Bytes(read.0 + warmed.read.0),
            Err(error) => complain(path, &error),
        }
    }
    read
}

fn complain(path: &Path, error: &cachewise_residency::Error) {
    // A file that is gone since has no pages.
    if path.exists() {
        tell(&format!("note: {}: {error}", escaped(path)));
    }
}
