//! [`Change`]: a figure of two samples of runs, for `try` and `report --compare`.

use cachewise_bench::matrix::{Compared, stats};
use cachewise_model::{Datum, Unit};
use cachewise_view::{Sheet, SheetCell, SheetColumn, figure};
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

/// A number as it is compared; `None` for names.
pub fn number(datum: &Datum) -> Option<f64> {
    match datum {
        Datum::Count(number) | Datum::Id(number) => Some(*number as f64),
        Datum::Pages(pages) => Some(pages.0 as f64),
        Datum::Bytes(bytes) => Some(bytes.0 as f64),
        Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => Some(*number),
        Datum::Ratio(ratio) => Some(ratio.get()),
        Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => None,
    }
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
            Some(value) if self.unit == "seconds" => format!("{} s", figure(unit, value)),
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
            Some(factor) if factor > 0.0 && factor < 0.095 => format!("x{factor:.3}"),
            Some(factor) => format!("x{factor:.2}"),
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

/// Columns of changes in CSV.
static COLUMNS: [SheetColumn; 14] = [
    SheetColumn::new("kind", "", false, "Kind of the subject"),
    SheetColumn::new("name", "", false, "The subject"),
    SheetColumn::new("field", "", false, "The compared figure"),
    SheetColumn::new("unit", "", false, "Its unit"),
    SheetColumn::new("old_runs", "", true, "Number of runs before"),
    SheetColumn::new("new_runs", "", true, "Number of runs after"),
    SheetColumn::new("old_mean", "", true, "Mean of the runs before"),
    SheetColumn::new("new_mean", "", true, "Mean of the runs after"),
    SheetColumn::new(
        "change_ratio",
        "",
        true,
        "Change of the mean, relative to that before",
    ),
    SheetColumn::new(
        "low_ratio",
        "",
        true,
        "Lower end of the 95 % interval of the change",
    ),
    SheetColumn::new(
        "high_ratio",
        "",
        true,
        "Upper end of the 95 % interval of the change",
    ),
    SheetColumn::new(
        "p_adjusted",
        "",
        true,
        "Chance of this difference if there is none",
    ),
    SheetColumn::new(
        "is_significant",
        "",
        false,
        "Whether the difference is significant",
    ),
    SheetColumn::new("verdict", "", false, "The verdict in words"),
];

/// The changes as CSV.
pub fn csv(changes: &[Change]) -> std::io::Result<String> {
    let mut sheet = Sheet::new(&COLUMNS);
    for change in changes {
        let compared = &change.compared;
        let interval = compared.interval_ratio;
        let real = |value: Option<f64>| SheetCell::number(json!(value), "");
        sheet.rows.push(vec![
            SheetCell::text(change.kind),
            SheetCell::text(change.name.clone()),
            SheetCell::text(change.figure.id.clone()),
            SheetCell::text(change.figure.unit),
            SheetCell::number(change.old.len(), ""),
            SheetCell::number(change.new.len(), ""),
            real(stats::mean(&change.old)),
            real(stats::mean(&change.new)),
            real(compared.change_ratio),
            real(interval.map(|(low, _)| low)),
            real(interval.map(|(_, high)| high)),
            real(compared.p_adjusted),
            SheetCell::number(compared.is_significant, ""),
            SheetCell::text(compared.verdict.clone()),
        ]);
    }
    sheet.csv()
}
