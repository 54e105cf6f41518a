//! The metrics of `shield`: at its end, and in files that are replaced while it runs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cachewise_cli::output::{explain, tell, write_whole};
use cachewise_model::{Kind, Unit};
use cachewise_units::{Period, escaped};
use cachewise_view::{Exposition, MetricNumber};

use super::outcome::Figures;

/// The pages by fate, and the cost. Files have no series: their number has no bound.
pub fn exposition(
    figures: &Figures,
    fates: impl IntoIterator<Item = (&'static str, u64)>,
) -> Result<String> {
    let mut exposition = Exposition::default();
    exposition.page_size(cachewise_sys::page_size());
    let fates = fates
        .into_iter()
        .map(|(id, pages)| (vec![("fate", id.to_owned())], MetricNumber::Whole(pages)));
    let pages = (Unit::Pages, Kind::Gauge);
    let help = "Pages that the shielded programs inserted, by what became of them";
    exposition.add("shield_pages", help, pages, None, fates.collect());
    let one = |number| vec![(Vec::new(), MetricNumber::Whole(number))];
    let totals = &figures.totals;
    for (id, help, number) in [
        (
            "shield_resident_pages",
            "Pages resident that can still be dropped",
            figures.resident.0,
        ),
        (
            "shield_most_resident_pages",
            "Most pages resident at once that could still be dropped",
            figures.most_resident.0,
        ),
        (
            "shield_needed_by_others_pages",
            "Dropped pages that other processes read again",
            totals.needed.0,
        ),
        (
            "shield_returned_pages",
            "Dropped pages that the shielded programs read again",
            totals.returned.0,
        ),
    ] {
        exposition.add(id, help, pages, None, one(number));
    }
    let seconds = |time: Duration| vec![(Vec::new(), MetricNumber::Fraction(time.as_secs_f64()))];
    let kind = (Unit::Seconds, Kind::Gauge);
    let help = "CPU time of the shield";
    exposition.add("shield_cpu_seconds", help, kind, None, seconds(figures.cpu));
    let help = "CPU time of its calls that drop pages, of which later ones are sampled";
    let advice = seconds(figures.advice.cpu());
    exposition.add("shield_advice_cpu_seconds", help, kind, None, advice);
    Ok(exposition.text()?)
}

/// Files of metrics that are replaced at an interval.
#[derive(Debug)]
pub struct Live {
    paths: Vec<PathBuf>,
    interval: Duration,
    due: Instant,
    has_failed: bool,
}

impl Live {
    /// These files; `None` without an interval.
    pub fn new(paths: Vec<PathBuf>, interval: Option<Period>) -> Option<Live> {
        Some(Live {
            paths,
            interval: interval?.get(),
            due: Instant::now(),
            has_failed: false,
        })
    }

    /// Replaces the files if it is time to. Of an error the first is reported, and the shield goes on.
    pub fn write(&mut self, figures: &Figures) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + self.interval;
        match self.replace(figures) {
            Ok(()) => self.has_failed = false,
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                tell(&explain(&error));
            }
            Err(_) => {}
        }
    }

    /// Why pages are kept is decided at the end only.
    fn replace(&self, figures: &Figures) -> Result<()> {
        let totals = &figures.totals;
        let fates = [
            ("inserted", totals.inserted),
            ("dropped", totals.dropped),
            ("reclaimed", totals.left),
            ("no_stream", totals.no_stream()),
            ("fuse", totals.never_open),
            ("untracked", totals.untracked),
        ];
        let text = exposition(figures, fates.map(|(id, pages)| (id, pages.0)))?;
        for path in &self.paths {
            write_whole(path, text.as_bytes())
                .with_context(|| format!("cannot write metrics to {}", escaped(path)))?;
        }
        Ok(())
    }
}
