//! [`Change`]: a figure of two samples of runs, for `try` and `report --compare`.

use cachewise_bench::matrix::{Compared, stats};
use cachewise_model::{Missing, Reason, Unit};
use cachewise_view::{Sheet, SheetCell, SheetColumn, figure, seconds, share};
use serde_json::{Value as Json, json};

/// A figure with its unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    /// Its name in machine formats.
    pub id: String,
    /// The name of its unit; empty for bare numbers.
    pub unit: &'static str,
}

/// A figure of two samples of runs.
#[derive(Debug, Clone)]
pub struct Change {
    /// Kind of the subject: `fix`, `totals`, `file`, `process`, `arm`.
    pub kind: &'static str,
    /// The subject; empty for the totals.
    pub name: String,
    /// The figure.
    pub figure: Figure,
    /// Its values in the runs before.
    pub old: Vec<f64>,
    /// Its values in the runs after.
    pub new: Vec<f64>,
    /// The comparison of both.
    pub compared: Compared,
}

/// Pairs of samples of a figure, by kind and name of their subjects.
pub type Pairs = Vec<(&'static str, String, Vec<f64>, Vec<f64>)>;

/// Compares the samples of one figure.
pub fn changes(figure: &Figure, pairs: Pairs, seed: u64) -> Vec<Change> {
    let values: Vec<(&[f64], &[f64])> = pairs
        .iter()
        .map(|(_, _, old, new)| (old.as_slice(), new.as_slice()))
        .collect();
    let compared = Compared::all(&values, seed);
    let changes = pairs.into_iter().zip(compared);
    let changes = changes.map(|((kind, name, old, new), compared)| Change {
        kind,
        name,
        figure: figure.clone(),
        old,
        new,
        compared,
    });
    changes.collect()
}

impl Figure {
    /// A figure in a unit.
    pub fn new(id: impl Into<String>, unit: Unit) -> Figure {
        Figure {
            id: id.into(),
            unit: unit.name().unwrap_or_default(),
        }
    }

    /// Its name for people.
    pub fn words(&self) -> String {
        self.id.replace('_', " ")
    }

    fn text(&self, value: Option<f64>) -> String {
        let unit = match self.unit {
            "bytes" => Unit::Bytes,
            "seconds" => Unit::Seconds,
            "ratio" => Unit::Ratio,
            "factor" => Unit::Factor,
            _ => Unit::Count,
        };
        match value {
            Some(value) if self.unit == "seconds" => seconds(value),
            Some(value) => figure(unit, value),
            None => "-".to_owned(),
        }
    }
}

impl Change {
    /// The mean before, for people.
    pub fn old_text(&self) -> String {
        self.figure.text(stats::mean(&self.old))
    }

    /// The mean after, for people.
    pub fn new_text(&self) -> String {
        self.figure.text(stats::mean(&self.new))
    }

    /// The mean after as a multiple of that before, for people.
    pub fn factor_text(&self) -> String {
        match self.compared.change_ratio.map(|change| change + 1.0) {
            None => "-".to_owned(),
            // With two digits after the point a small factor would have one that counts.
            Some(factor) if factor > 0.0 && factor < 0.095 => {
                format!("x{}", figure(Unit::Seconds, factor))
            }
            Some(factor) => format!("x{}", figure(Unit::Factor, factor)),
        }
    }

    /// Whether any run has another value than the first one.
    pub fn is_different(&self) -> bool {
        let first = self.old.first();
        self.old
            .iter()
            .chain(&self.new)
            .any(|value| Some(value) != first)
    }

    /// As a member of a document.
    pub fn json(&self) -> Json {
        let interval = self.compared.interval_ratio;
        json!({
            "kind": self.kind,
            "name": self.name,
            "field": self.figure.id,
            "unit": self.figure.unit,
            "old": { "values": self.old, "mean": stats::mean(&self.old) },
            "new": { "values": self.new, "mean": stats::mean(&self.new) },
            "change_ratio": self.compared.change_ratio,
            "interval_ratio": interval.map(|(low, high)| [low, high]),
            "p": self.compared.p,
            "p_adjusted": self.compared.p_adjusted,
            "is_significant": self.compared.is_significant,
            "verdict": self.compared.verdict,
        })
    }
}

const NAME: &str = "name";
const OLD_MEAN: &str = "old_mean";
const NEW_MEAN: &str = "new_mean";

/// Columns of changes; `subject`, `old` and `new` are the headers of the command's own words.
pub const fn columns(
    subject: &'static str,
    old: &'static str,
    new: &'static str,
) -> [SheetColumn; 15] {
    [
        SheetColumn::new("kind", "KIND", false, "Kind of the subject").if_chosen(),
        SheetColumn::new(NAME, subject, false, "The subject"),
        SheetColumn::new("field", "FIGURE", false, "The compared figure"),
        SheetColumn::new("unit", "UNIT", false, "Its unit").if_chosen(),
        SheetColumn::new("old_runs", "OLD-RUNS", true, "Number of runs before").if_chosen(),
        SheetColumn::new("new_runs", "NEW-RUNS", true, "Number of runs after").if_chosen(),
        SheetColumn::new(OLD_MEAN, old, true, "Mean of the runs before"),
        SheetColumn::new(NEW_MEAN, new, true, "Mean of the runs after"),
        SheetColumn::new(
            "change_ratio",
            "CHANGE%",
            true,
            "Change of the mean, relative to that before",
        )
        .if_chosen(),
        SheetColumn::new(
            "low_ratio",
            "CHANGE-FROM",
            true,
            "Lower end of the 95 % interval of the change",
        )
        .if_chosen(),
        SheetColumn::new(
            "high_ratio",
            "CHANGE-TO",
            true,
            "Upper end of the 95 % interval of the change",
        )
        .if_chosen(),
        SheetColumn::new(
            "p_adjusted",
            "P",
            true,
            "Chance of this difference if there is none",
        )
        .if_chosen(),
        SheetColumn::new(
            "is_significant",
            "SIGNIFICANT",
            false,
            "Whether the difference is significant",
        )
        .if_chosen(),
        SheetColumn::new("verdict", "CHANGE", false, "The verdict in words"),
        SheetColumn::new(
            "change_factor",
            "RATIO",
            true,
            "Mean after as a multiple of that before",
        ),
    ]
}

const NOT_KNOWN: Missing = Missing::NotOffered(Reason::NothingCompared);

/// A row for each change, with columns of [`columns`].
pub fn sheet<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    columns: &'static [SheetColumn],
) -> Sheet {
    let mut sheet = Sheet::new(columns);
    for change in changes {
        let compared = &change.compared;
        let interval = compared.interval_ratio;
        let real = |value: Option<f64>, text: fn(f64) -> String| {
            SheetCell::or_missing(value, NOT_KNOWN, |value| {
                SheetCell::with_text(value, text(value))
            })
        };
        let mean = |values: &[f64], text: String| {
            let mean = stats::mean(values);
            SheetCell::or_missing(mean, NOT_KNOWN, |mean| SheetCell::with_text(mean, text))
        };
        let factor = compared.change_ratio.map(|change| change + 1.0);
        sheet.rows.push(vec![
            SheetCell::text(change.kind),
            SheetCell::text(change.name.clone()),
            SheetCell::with_text(change.figure.id.clone(), change.figure.words()),
            SheetCell::text(change.figure.unit),
            SheetCell::count(change.old.len() as u64),
            SheetCell::count(change.new.len() as u64),
            mean(&change.old, change.old_text()),
            mean(&change.new, change.new_text()),
            real(compared.change_ratio, signed_share),
            real(interval.map(|(low, _)| low), signed_share),
            real(interval.map(|(_, high)| high), signed_share),
            real(compared.p_adjusted, |p| figure(Unit::Seconds, p)),
            SheetCell::flag(compared.is_significant),
            SheetCell::text(compared.verdict.clone()),
            SheetCell::or_missing(factor, NOT_KNOWN, |factor| {
                SheetCell::with_text(factor, change.factor_text())
            }),
        ]);
    }
    sheet
}

/// A change in percent, with its sign.
fn signed_share(ratio: f64) -> String {
    let sign = if ratio > 0.0 { "+" } else { "" };
    format!("{sign}{}", share(ratio))
}
