//! The policy of eviction that is simulated: that of the running kernel, or a named one.

use anyhow::{Context, Result};
use cachewise_curve::Policy;
use cachewise_kstat::Kernel;
use clap::ValueEnum;

/// The first version with other rules of MGLRU.
const LATER: (u32, u32) = (6, 14);

/// The policy of eviction to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Evicts {
    /// The policy of the running kernel.
    Auto,
    /// Active and inactive lists.
    Lists,
    /// Generations of MGLRU, Linux 6.12; 6.1 to 6.13 are alike.
    Generations,
    /// Generations of MGLRU since Linux 6.14, not compared with a kernel.
    #[value(name = "generations-6.14")]
    LaterGenerations,
}

impl Evicts {
    /// Returns the policy to simulate.
    ///
    /// # Errors
    /// The running kernel's policy is wanted and cannot be read.
    pub fn policy(self, kernel: &Kernel) -> Result<Policy> {
        match self {
            Evicts::Auto => {
                const CANNOT: &str = "cannot read whether MGLRU is on; name a policy with --policy";
                let mglru = kernel.mglru().context(CANNOT)?;
                let release = kernel.release().context(CANNOT)?;
                Ok(running(mglru.map_or(0, |mglru| mglru.enabled), &release))
            }
            Evicts::Lists => Ok(Policy::Lists),
            Evicts::Generations => Ok(Policy::Generations),
            Evicts::LaterGenerations => Ok(Policy::LaterGenerations),
        }
    }
}

/// The policy of a kernel with these parts of MGLRU on. Bit 0 is eviction; the others are ways to find accessed pages.
fn running(mglru: u32, release: &str) -> Policy {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    if mglru & 1 == 0 {
        Policy::Lists
    } else if version.is_some_and(|version: (u32, u32)| version < LATER) {
        Policy::Generations
    } else {
        Policy::LaterGenerations
    }
}

/// The policy in machine formats.
pub fn id_of(policy: Policy) -> &'static str {
    match policy {
        Policy::Lists => "lists",
        Policy::Generations => "generations",
        Policy::LaterGenerations => "generations-6.14",
    }
}

/// The policy as the name of a curve.
pub fn name_of(policy: Policy) -> &'static str {
    match policy {
        Policy::Lists => "active and inactive lists",
        Policy::Generations => "generations (MGLRU)",
        Policy::LaterGenerations => "generations (MGLRU since Linux 6.14)",
    }
}

/// The policy as a note.
pub fn note_of(policy: Policy) -> &'static str {
    match policy {
        Policy::Lists => "eviction was simulated by active and inactive lists",
        Policy::Generations => "eviction was simulated by generations (MGLRU, rules of Linux 6.12)",
        Policy::LaterGenerations => {
            "eviction was simulated by generations (MGLRU, rules since Linux 6.14); that simulation was not compared with a kernel"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_is_that_of_the_running_kernel() {
        assert_eq!(running(0, "6.12.117"), Policy::Lists);
        assert_eq!(running(6, "6.12.117"), Policy::Lists, "bit 0 is off");
        for release in ["6.1.0-50-amd64", "6.12.117+deb12-cloud-amd64", "6.13-rc1"] {
            assert_eq!(running(7, release), Policy::Generations, "{release}");
        }
        for release in ["6.14.0", "6.18.44-fc-v657", "7.0-rc1"] {
            assert_eq!(running(7, release), Policy::LaterGenerations, "{release}");
        }
    }
}
