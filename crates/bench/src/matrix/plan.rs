//! [`Plan`]: a matrix file, checked, and its trials in their order.

use std::collections::BTreeMap;
use std::fmt;

use cachewise_control::{Setting, SettingLocation};
use cachewise_kstat::{ErrorKind, Hierarchy, Kernel};
use cachewise_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::target::Target;
use crate::{Error, Workload};

/// Fewer repeats cannot show noise.
pub const LEAST_REPEATS: u32 = 5;

/// The arm that changes nothing, added if the file has none.
pub const AS_IT_IS: &str = "as it is";

/// A matrix file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "least")]
    repeats: u32,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    arm: Vec<WrittenArm>,
    #[serde(default)]
    workload: BTreeMap<String, Workload>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenArm {
    name: String,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Switch(bool),
    Number(i64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(switch) => write!(f, "{switch}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

const fn least() -> u32 {
    LEAST_REPEATS
}

const fn one() -> u64 {
    1
}

/// A combination of settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Settings by name, in the kernel's form.
    pub settings: BTreeMap<String, String>,
}

/// A plan: every arm with every workload, `repeats` times. The first arm is the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Number of repeats.
    pub repeats: u32,
    /// Determines the order and, with the number of the repeat, the offsets.
    pub seed: u64,
    /// The arms.
    pub arms: Vec<Arm>,
    /// The workloads by name.
    pub workloads: BTreeMap<String, Workload>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trial {
    /// The repeat, from 0 on.
    pub repeat: u32,
    /// The name of the workload.
    pub workload: String,
    /// The name of the arm.
    pub arm: String,
}

/// An arm that this machine does not support.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub arm: String,
    /// The reason.
    pub reason: String,
}

impl Plan {
    /// Parses a file in TOML.
    ///
    /// # Errors
    /// [`Error::Matrix`], with the line of a syntax error or unknown key, or the name of an
    /// impossible value.
    pub fn parse(text: &str) -> Result<Plan, Error> {
        let wrong = |problem: String| Error::Matrix { problem };
        let written: Written =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        if !(LEAST_REPEATS..=1000).contains(&written.repeats) {
            return Err(wrong(format!(
                "repeats = {}: at least {LEAST_REPEATS} are needed to separate a difference from noise, and at most 1000",
                written.repeats
            )));
        }
        if written.workload.is_empty() {
            return Err(wrong(
                "no workload: write a table [workload.NAME] with file and bytes or seconds"
                    .to_owned(),
            ));
        }
        let mut arms = written
            .arm
            .into_iter()
            .map(|arm| {
                let settings = arm.settings.iter().map(|(name, value)| {
                    let checked = Setting::find(name)?.checked(&value.to_string())?;
                    Ok((name.clone(), checked))
                });
                let settings = settings.collect::<Result<_, cachewise_control::Error>>();
                let settings =
                    settings.map_err(|error| wrong(format!("arm {:?}: {error}", arm.name)))?;
                Ok(Arm {
                    name: arm.name,
                    settings,
                })
            })
            .collect::<Result<Vec<Arm>, Error>>()?;
        if arms.is_empty() {
            return Err(wrong(
                "no arm: write [[arm]] with a name and settings = { \"vm.swappiness\" = 10 }"
                    .to_owned(),
            ));
        }
        if arms.iter().all(|arm| !arm.settings.is_empty())
            && arms.iter().all(|arm| arm.name != AS_IT_IS)
        {
            let settings = BTreeMap::new();
            arms.insert(
                0,
                Arm {
                    name: AS_IT_IS.to_owned(),
                    settings,
                },
            );
        }
        for (index, arm) in arms.iter().enumerate() {
            if arms[..index].iter().any(|other| other.name == arm.name) {
                return Err(wrong(format!("two arms are called {:?}", arm.name)));
            }
        }
        if arms.len() < 2 {
            return Err(wrong(
                "one arm alone can be compared with nothing: add a second".to_owned(),
            ));
        }
        let mut plan = Plan {
            repeats: written.repeats,
            seed: written.seed,
            arms,
            workloads: written.workload,
        };
        plan.workloads.values_mut().for_each(Workload::upgrade);
        for (name, workload) in &plan.workloads {
            for arm in &plan.arms {
                let checked = plan
                    .workload(arm, name, 0)
                    .map_or(Ok(()), |workload| workload.check());
                checked.map_err(|error| {
                    wrong(format!(
                        "workload {name:?} with arm {:?}: {error}",
                        arm.name
                    ))
                })?;
            }
            if workload.fill == crate::Fill::AsFound && workload.size.is_none() {
                return Err(wrong(format!(
                    "workload {name:?}: fill = \"as-found\": every run would find the state that the previous one left; write \
                     fill = \"cold\", \"sequential\" or \"random\""
                )));
            }
        }
        Ok(plan)
    }

    /// The trials in their order: in each repeat every combination once, in random order, so that
    /// drift over time does not look like the effect of a setting.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        let mut random = Random::new(self.seed, 1);
        let mut trials = Vec::new();
        for repeat in 0..self.repeats {
            let mut round = Vec::new();
            for workload in self.workloads.keys() {
                for arm in &self.arms {
                    let (workload, arm) = (workload.clone(), arm.name.clone());
                    round.push(Trial {
                        repeat,
                        workload,
                        arm,
                    });
                }
            }
            for last in (1..round.len()).rev() {
                round.swap(last, random.below(last as u64 + 1) as usize);
            }
            trials.append(&mut round);
        }
        trials
    }

    /// The arm with this name.
    #[must_use]
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// A workload under an arm: with the arm's limits, and offsets that all arms share in a repeat.
    #[must_use]
    pub fn workload(&self, arm: &Arm, name: &str, repeat: u32) -> Option<Workload> {
        let mut workload = self.workloads.get(name)?.clone();
        workload.seed = workload
            .seed
            .wrapping_add(self.seed)
            .wrapping_add(u64::from(repeat));
        let size = |name: &str| {
            arm.settings
                .get(name)
                .and_then(|value| value.parse().ok())
                .map(Bytes)
        };
        workload.memory_max = size("memory.max").or(workload.memory_max);
        workload.swap_max = size("memory.swap.max").or(workload.swap_max);
        workload.memory_high = size("memory.high").or(workload.memory_high);
        let swappiness = arm.settings.get("memory.swappiness");
        let swappiness = swappiness.and_then(|value| value.parse().ok());
        workload.swappiness = swappiness.or(workload.swappiness);
        Some(workload)
    }

    /// Checks that files without `size` exist: before any change, and not hours later.
    ///
    /// # Errors
    /// The label of a run, with the workload's name.
    pub fn check_files(&self) -> Result<(), Error> {
        for (name, workload) in &self.workloads {
            if workload.size.is_some() && !workload.file.exists() {
                continue;
            }
            Target::check(workload).map_err(|error| Error::Matrix {
                problem: format!("workload {name:?}: {error}"),
            })?;
        }
        Ok(())
    }

    /// Finds the arms that this machine does not support, by reading only.
    ///
    /// # Errors
    /// Reading failed for a reason other than a missing setting.
    pub fn skipped(&self, kernel: &Kernel) -> Result<Vec<Skipped>, Error> {
        let mut skipped = Vec::new();
        let hierarchy = kernel.cgroup_hierarchy()?;
        for arm in &self.arms {
            for name in arm.settings.keys() {
                let setting = Setting::find(name)?;
                let reason = match setting.place {
                    SettingLocation::Group => match hierarchy {
                        Hierarchy::V1Memory { .. } => None,
                        Hierarchy::None => Some("no memory controller is mounted".to_owned()),
                        _ if name == "memory.swappiness" => Some(
                            "control groups of version 2 have none of their own: set vm.swappiness"
                                .to_owned(),
                        ),
                        _ => None,
                    },
                    _ => self.absent(setting, kernel)?,
                };
                if let Some(reason) = reason {
                    let arm = arm.name.clone();
                    skipped.push(Skipped {
                        arm,
                        reason: format!("{name}: {reason}"),
                    });
                    break;
                }
            }
        }
        Ok(skipped)
    }

    fn absent(&self, setting: &Setting, kernel: &Kernel) -> Result<Option<String>, Error> {
        for workload in self.workloads.values() {
            // A missing file will be on the device of its directory.
            let there = workload.file.ancestors().find(|path| path.exists());
            match setting.path(cachewise_control::SettingTarget {
                kernel,
                file: there,
            }) {
                Ok(_) => {}
                Err(cachewise_control::Error::Unsupported { reason, .. }) => {
                    return Ok(Some(reason));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Ok(Some(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = r#"
repeats = 6
seed = 7

[[arm]]
name = "little"
settings = { "vm.swappiness" = 10, "transparent_hugepage.enabled" = "never" }

[[arm]]
name = "limited"
settings = { "memory.max" = "64M" }

[workload.random]
file = "/data"
bytes = "1G"
chunk = "4K"
fill = "cold"

[workload.mapped]
file = "/data"
time = 5
engine = "mmap-copy"
fill = "sequential"
"#;

    #[test]
    fn trials_combine_all_arms_and_workloads_in_random_order() {
        let plan = Plan::parse(USUAL).unwrap();
        let names: Vec<&str> = plan.arms.iter().map(|arm| &*arm.name).collect();
        assert_eq!(
            names,
            [AS_IT_IS, "little", "limited"],
            "with one that changes nothing"
        );
        let trials = plan.trials();
        assert_eq!(trials.len(), 3 * 2 * 6, "all of them");
        for round in trials.chunks(6) {
            let mut seen: Vec<_> = round
                .iter()
                .map(|trial| (&trial.arm, &trial.workload))
                .collect();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 6, "each once in a repeat: {round:?}");
        }
        assert_ne!(
            trials[..6]
                .iter()
                .map(|t| (&t.arm, &t.workload))
                .collect::<Vec<_>>(),
            trials[6..12]
                .iter()
                .map(|t| (&t.arm, &t.workload))
                .collect::<Vec<_>>(),
            "not in the same order"
        );
        assert_eq!(trials, plan.trials(), "the seed decides it");
        let first = plan.workload(&plan.arms[0], "random", 2).unwrap();
        let other = plan.workload(&plan.arms[2], "random", 2).unwrap();
        assert_eq!(first.seed, other.seed, "arms read the same places");
        assert_ne!(
            first.seed,
            plan.workload(&plan.arms[0], "random", 3).unwrap().seed,
            "repeats have others"
        );
        assert_eq!(
            other.memory_max,
            Some(Bytes(64 << 20)),
            "a limit goes to the workload"
        );
    }

    #[test]
    fn parse_error_names_the_line() {
        for (from, to, why) in [
            ("repeats = 6", "repeat = 6", "line 2"),
            ("repeats = 6", "repeats = 4", "at least 5"),
            ("repeats = 6", "repeats = -1", "line 2"),
            ("chunk = \"4K\"", "chnuk = \"4K\"", "unknown field `chnuk`"),
            ("chunk = \"4K\"", "chunk = \"4KB\"", "4KiB"),
            ("chunk = \"4K\"", "chunk = 0", "chunk"),
            (
                "\"vm.swappiness\" = 10",
                "\"vm.swappiness\" = 201",
                "from 0 to 200",
            ),
            (
                "\"vm.swappiness\" = 10",
                "\"vm.swapiness\" = 10",
                "did you mean vm.swappiness",
            ),
            ("= \"never\"", "= \"often\"", "always, madvise, never"),
            ("name = \"limited\"", "name = \"little\"", "two arms"),
            ("fill = \"cold\"", "", "as-found"),
            ("file = \"/data\"\nbytes", "bytes", "file"),
            ("repeats = 6", "repeats = ", "line 2"),
        ] {
            assert!(USUAL.contains(from), "{from:?} is in the text");
            let text = USUAL.replacen(from, to, 1);
            let error = Plan::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{to:?}: {error}");
        }
        let unknown = USUAL.replace("chunk = \"4K\"", "chnuk = \"4K\"");
        let error = Plan::parse(&unknown).unwrap_err().to_string();
        assert!(error.contains("line 16"), "the line: {error}");
        let error = Plan::parse("").unwrap_err().to_string();
        assert!(error.contains("no workload"), "an empty file: {error}");
        let alone =
            "[[arm]]\nname = \"a\"\n[workload.w]\nfile = \"/x\"\nbytes = 1\nfill = \"cold\"\n";
        let error = Plan::parse(alone).unwrap_err().to_string();
        assert!(error.contains("compared with nothing"), "{error}");
    }

    #[test]
    fn keys_of_older_versions_are_aliases() {
        let with = |lines: &str| {
            let text = USUAL.replace("time = 5\n", lines);
            Plan::parse(&text).map(|plan| plan.workloads["mapped"].clone())
        };
        let new = "seconds = 5\nwarm_up = 1\nmemory_max = \"64M\"\nmemory_high = \"32M\"\nswap_max = 0\n\
            compress_pct = 5\nunaligned = true\nno_latency = true\n\
            bloat = { size = \"8M\", as_read = true, touch = 5, oom_score_adj = 3 }\n";
        let old = "time = 5\nwarm-up = 1\nmemory-max = \"64M\"\nmemory-high = \"32M\"\nswap-max = 0\n\
            compress-pct = 5\naligned = false\nlatency = false\n\
            bloat = { size = \"8M\", as-read = true, touch-pct = 5, oom-score-adj = 3 }\n";
        assert_eq!(with(old).unwrap(), with(new).unwrap());
        let usual = with("seconds = 5\n").unwrap();
        assert_eq!(
            with("time = 5\naligned = true\nlatency = true\n").unwrap(),
            usual
        );
        for (twice, why) in [
            ("seconds = 5\ntime = 5\n", "duplicate field `seconds`"),
            ("seconds = 5\nseconds = 6\n", "duplicate key"),
        ] {
            let error = with(twice).unwrap_err().to_string();
            assert!(error.contains(why), "{twice}: {error}");
        }
    }

    #[test]
    fn unsupported_arm_is_skipped_with_reason() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sys/vm")).unwrap();
        std::fs::write(root.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
        let groups = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/self/mountinfo"), groups).unwrap();
        let kernel = Kernel::with_roots(root.path().join("proc"), root.path().join("sys"));
        let of_group = USUAL.replace("\"64M\"", "\"64M\", \"memory.swappiness\" = 1");
        let skipped = Plan::parse(&of_group).unwrap().skipped(&kernel).unwrap();
        let reason = &skipped[1].reason;
        assert!(reason.contains("version 2 have none"), "{skipped:?}");
        let skipped = Plan::parse(USUAL).unwrap().skipped(&kernel).unwrap();
        assert_eq!(skipped.len(), 1, "{skipped:?}");
        assert_eq!(skipped[0].arm, "little", "{skipped:?}");
        assert!(
            skipped[0].reason.contains("CONFIG_TRANSPARENT_HUGEPAGE"),
            "{skipped:?}"
        );
    }
}
