//! Programs that are attached during a block.

use cachewise_probe::bare::Bare;
use cachewise_probe::{Detail, Options, Probe, Scope};

use crate::Outcome;
use crate::machine::Clock;

/// Programs that are attached during a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Off,
    Empty,
    Stat,
    Run,
    Rows,
}

pub const VARIANTS: [Variant; 4] = [Variant::Empty, Variant::Stat, Variant::Run, Variant::Rows];

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::Off => "off",
            Variant::Empty => "empty",
            Variant::Stat => "stat",
            Variant::Run => "run",
            Variant::Rows => "rows",
        }
    }

    pub fn attach(self, clock: Clock) -> Outcome<Attached> {
        let probe = |scope, detail| {
            Probe::attach(&Options {
                times: true,
                ..Options::new(scope, detail)
            })
            .map(Box::new)
        };
        Ok(match self {
            Variant::Off => Attached::Nothing,
            Variant::Empty => Attached::Empty {
                _held: Bare::attach()?,
            },
            Variant::Stat => Attached::Probe(probe(Scope::System, Detail::Totals)?),
            Variant::Run => {
                let scope = match clock {
                    Clock::Thread => Scope::Process(std::process::id()),
                    Clock::Children => Scope::Children,
                };
                Attached::Probe(probe(scope, Detail::Rows)?)
            }
            Variant::Rows => {
                let options = Options {
                    intervals: true,
                    times: true,
                    ..Options::new(Scope::System, Detail::Rows)
                };
                Attached::Probe(Box::new(Probe::attach(&options)?))
            }
        })
    }
}

pub enum Attached {
    Nothing,
    Empty { _held: Bare },
    Probe(Box<Probe>),
}
