//! Runs a program until it can be compared.

use crate::problem::{Context, Problem, Result};
use crate::program::{Kind, Program};
use crate::stand::Stand;
use crate::verdict::{Attempt, Verdict};
use crate::{alone, together};

/// How often a program is run again because the machine reclaimed pages of its files: then nothing tells what its
/// reads found. Only what the kernel itself reports as reclaimed is a reason.
const REPEATS: usize = 11;

/// How often in a row a program may lose events, which the probe itself reports: once more and it fails.
const LOSSES: usize = 4;

/// Runs a program and compares.
pub fn run(stand: &mut Stand, program: &Program) -> Result<Verdict> {
    let mut losses = 0;
    for repeats in 0..=REPEATS {
        stand.renew()?;
        let directory = stand.next_directory(program)?;
        std::fs::create_dir(&directory).context("make a directory for the program")?;
        let ran = match program.kind {
            Kind::Alone => alone::attempt(stand, program, &directory),
            _ => together::attempt(stand, program, &directory),
        };
        std::fs::remove_dir_all(&directory).context("remove the program's directory")?;
        match ran? {
            Attempt::Done(verdict) => {
                return Ok(Verdict {
                    repeats,
                    ..*verdict
                });
            }
            Attempt::Reclaimed | Attempt::Restarted | Attempt::Killed => losses = 0,
            Attempt::Lost => {
                losses += 1;
                if losses > LOSSES {
                    let mut verdict = Verdict::default();
                    verdict.find(
                        "program",
                        "losses in a row",
                        (0, LOSSES as u64),
                        losses as u64,
                    );
                    return Ok(Verdict { repeats, ..verdict });
                }
            }
        }
    }
    Err(Problem::new(format!(
        "the machine was in the way during each of {} attempts",
        REPEATS + 1
    )))
}
