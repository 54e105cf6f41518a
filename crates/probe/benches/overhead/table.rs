//! The table of the ratios, and how much others disturbed them.

use std::fmt::Write as _;

use crate::measurement::Measurement;
use crate::quantile::quantile;
use crate::variant::Variant;
use crate::work::Work;

pub const HEAD: &str = "\
| workload | variant | CPU on/off | quartiles | wall on/off | quartiles | CPU per operation | in the kernel | goal |
|---|---|---|---|---|---|---|---|---|
";

pub fn rows(work: &dyn Work, measured: &Measurement) -> String {
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
        let goal = work
            .goals()
            .iter()
            .find(|(variant, _)| *variant == ratios.variant);
        let added = off * (median(&ratios.cpu) - 1.0);
        let goal = goal.map_or_else(String::new, |(variant, goal)| match variant {
            Variant::Empty => format!("{goal:.2} elsewhere"),
            // Where the goal lies between the quartiles, the noise is larger than the distance.
            _ => {
                let met = if median(&ratios.cpu) <= *goal {
                    "met"
                } else {
                    "missed"
                };
                let (low, high) = (quantile(&ratios.cpu, 0.25), quantile(&ratios.cpu, 0.75));
                let doubt = if low <= *goal && *goal < high {
                    ", within the noise"
                } else {
                    ""
                };
                format!("{goal:.2} {met}{doubt}")
            }
        });
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
    text
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
