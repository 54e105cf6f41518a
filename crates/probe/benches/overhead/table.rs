//! The table of the ratios, and how much others disturbed them.

use std::fmt::Write as _;

use crate::measurement::{Measurement, Ratios};
use crate::quantile::quantile;
use crate::variant::Variant;
use crate::work::{Limit, Work};

pub const HEAD: &str = "\
| workload | variant | CPU on/off | quartiles | wall on/off | quartiles | CPU per operation | in the kernel | goal |
|---|---|---|---|---|---|---|---|---|
";

/// The rows of a kind of work, and how many goals are missed by more than the noise.
pub fn rows(work: &dyn Work, measured: &Measurement) -> (String, usize) {
    let mut missed = 0;
    let off = median(
        &measured
            .off
            .iter()
            .map(|sample| sample.cpu)
            .collect::<Vec<_>>(),
    );
    let wall = median(
        &measured
            .off
            .iter()
            .map(|sample| sample.wall)
            .collect::<Vec<_>>(),
    );
    let mut text = format!(
        "| {} | off | | | | | {} ({} wall), a {} | | |\n",
        work.name(),
        time(off),
        time(wall),
        work.operation(),
    );
    for ratios in &measured.ratios {
        let summary = |ratios: &[f64]| {
            let (low, high) = (quantile(ratios, 0.25), quantile(ratios, 0.75));
            format!("**{:.3}** | {low:.3}-{high:.3}", median(ratios))
        };
        let added = off * (median(&ratios.cpu) - 1.0);
        let goals = work.goals().iter();
        let goals: Vec<String> = goals
            .filter(|(variant, _)| *variant == ratios.variant)
            .map(|(_, limit)| {
                let (most, name) = match limit {
                    Limit::Ratio(most) => (*most, format!("{most:.2}")),
                    Limit::Nanoseconds(most) => (1.0 + most / off, format!("+{}", time(*most))),
                };
                let (verdict, is_missed) = judged(ratios, most);
                missed += usize::from(is_missed);
                format!("{name} {verdict}")
            })
            .collect();
        let goal = goals.join("; ");
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| | {} | {} | {} | {}{} | {} | {goal} |",
            ratios.variant.name(),
            summary(&ratios.cpu),
            summary(&ratios.wall),
            if added < 0.0 { "-" } else { "+" },
            time(added.abs()),
            kernel(median(&ratios.kernel)),
        );
    }
    (text, missed)
}

/// Whether the ratios keep a goal, in words; and if it is missed by more than the noise.
fn judged(ratios: &Ratios, most: f64) -> (&'static str, bool) {
    if ratios.variant == Variant::Empty {
        return ("elsewhere", false);
    }
    let (low, high) = (quantile(&ratios.cpu, 0.25), quantile(&ratios.cpu, 0.75));
    // Where the goal lies between the quartiles, the noise is larger than the distance.
    let is_doubtful = low <= most && most < high;
    match (median(&ratios.cpu) <= most, is_doubtful) {
        (true, false) => ("met", false),
        (true, true) => ("met, within the noise", false),
        (false, true) => ("missed, within the noise", false),
        (false, false) => ("missed", true),
    }
}

/// The time of `empty` is unknown: it holds no descriptor of its programs.
fn kernel(nanoseconds: f64) -> String {
    match nanoseconds {
        0.0 => "-".to_owned(),
        n => time(n),
    }
}

/// CPU time of other programs while a kind of work was measured.
pub fn disturbance(work: &str, measured: &Measurement) -> String {
    let (others, stolen) = (measured.others, measured.stolen);
    let (before, after) = &measured.load;
    let verdict = if others + stolen > 0.25 {
        "disturbed"
    } else {
        "quiet"
    };
    format!(
        "- {work}: {verdict} (others kept {others:.2} CPUs busy, {stolen:.2} were stolen; \
         load average {before} before, {after} after)\n"
    )
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 10e3 => format!("{n:.0} ns"),
        n if n < 10e6 => format!("{:.1} us", n / 1e3),
        n => format!("{:.1} ms", n / 1e6),
    }
}
