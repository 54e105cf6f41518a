//! A family: metrics of one name.

use cachewise_model::{EvictionCause, Kind, Unit};

use super::collector::Collector;

/// Metrics of one name.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// After `cachewise_`, with the unit, without `_total`.
    pub name: &'static str,
    /// Its collector; none for metrics about the server itself.
    pub collector: Option<Collector>,
    /// Its unit, if the name ends with one.
    pub unit: Unit,
    /// Whether it grows.
    pub kind: Kind,
    /// One sentence; none where the field's own says it.
    pub help: Option<&'static str>,
    /// Its label.
    pub label: Option<&'static str>,
    /// The source of its series.
    pub series: Series,
}

/// The source of the series of a family.
#[derive(Debug, Clone, Copy)]
pub enum Series {
    /// Fields of the machine's row, each with the value of the label.
    Fields(&'static [(&'static str, &'static str)]),
    /// A field of the row of each device or control group; the label is its name.
    Each(&'static str),
    /// Evicted pages of the machine by cause; the label is the cause.
    Causes,
    /// Pages that processes of a control group evicted, by the group and the cause.
    Culprits,
    /// 1 for each control group, with these label fields of its row as labels.
    Names(&'static [&'static str]),
    /// Made by the server.
    Own,
}

impl Family {
    /// Its name as Prometheus shows it.
    #[must_use]
    pub fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter {
            "_total"
        } else {
            ""
        };
        format!("cachewise_{}{total}", self.name)
    }

    /// Its one sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        let of_field = || match self.series {
            Series::Fields([(_, id)]) => cachewise_model::field(id).map(|field| field.help),
            _ => None,
        };
        self.help.or_else(of_field).unwrap_or("Not explained")
    }

    pub(super) fn labels(&self) -> String {
        match (self.label, self.series) {
            (None, _) => String::new(),
            (Some("version"), _) => "`version`, `kernel`, `backend`".into(),
            (Some(_), _) if self.name == "collector_left_out" => {
                "`collector`, `reason`, `reason_code`".into()
            }
            (Some(label), Series::Fields(series)) => {
                let values: Vec<&str> = series.iter().map(|(value, _)| *value).collect();
                format!("`{label}`: {}", values.join(", "))
            }
            (Some(label), Series::Causes) => causes(label, |_| true),
            (Some(label), Series::Culprits) => {
                format!("`{label}`, {}", causes("cause", EvictionCause::has_culprit))
            }
            (Some(label), Series::Names(fields)) => {
                let labels = std::iter::once(&label).chain(fields);
                let labels: Vec<String> = labels.map(|label| format!("`{label}`")).collect();
                labels.join(", ")
            }
            (Some(label), _) => format!("`{label}`"),
        }
    }
}

/// The label of causes with its values.
fn causes(label: &str, select: fn(EvictionCause) -> bool) -> String {
    let causes = EvictionCause::ALL.iter().filter(|cause| select(**cause));
    let causes: Vec<&str> = causes.map(|cause| cause.id()).collect();
    format!("`{label}`: {}", causes.join(", "))
}

pub(super) const fn field(
    collector: Collector,
    kind: Kind,
    name: &'static str,
    unit: Unit,
    series: &'static [(&'static str, &'static str)],
) -> Family {
    Family {
        name,
        collector: Some(collector),
        unit,
        kind,
        help: None,
        label: None,
        series: Series::Fields(series),
    }
}

pub(super) const fn pages(
    name: &'static str,
    series: &'static [(&'static str, &'static str)],
) -> Family {
    field(
        Collector::PageCache,
        Kind::Counter,
        name,
        Unit::Count,
        series,
    )
}

pub(super) const fn by(label: &'static str, help: &'static str, family: Family) -> Family {
    Family {
        help: Some(help),
        label: Some(label),
        ..family
    }
}

pub(super) const fn each(
    collector: Collector,
    kind: Kind,
    label: &'static str,
    name: &'static str,
    unit: Unit,
    id: &'static str,
    help: &'static str,
) -> Family {
    Family {
        name,
        collector: Some(collector),
        unit,
        kind,
        help: Some(help),
        label: Some(label),
        series: Series::Each(id),
    }
}

pub(super) const fn own(
    collector: Option<Collector>,
    label: Option<&'static str>,
    name: &'static str,
    unit: Unit,
    help: &'static str,
) -> Family {
    Family {
        name,
        collector,
        unit,
        kind: Kind::Gauge,
        help: Some(help),
        label,
        series: Series::Own,
    }
}
