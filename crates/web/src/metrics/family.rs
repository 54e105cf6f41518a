//! A family: metrics of one name.

use std::fmt::Write;

use cachewise_model::{Kind, Unit};

use super::collector::Collector;
use super::table::FAMILIES;

/// Metrics of one name.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// After `cachewise_`, with the unit, without `_total`.
    pub name: &'static str,
    /// Who gives it; nobody in particular gives what is about the server itself.
    pub collector: Option<Collector>,
    /// What it is measured in, if its name says so.
    pub unit: Unit,
    /// Whether it grows.
    pub kind: Kind,
    /// One sentence; none where the field's own says it.
    pub help: Option<&'static str>,
    /// Its label.
    pub label: Option<&'static str>,
    /// What its series are.
    pub series: Series,
}

/// What the series of a family are.
#[derive(Debug, Clone, Copy)]
pub enum Series {
    /// Fields of the machine's row, each with the value of the label.
    Fields(&'static [(&'static str, &'static str)]),
    /// A field of the row of each device or control group; the label is its name.
    Each(&'static str),
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

    fn labels(&self) -> String {
        match (self.label, self.series) {
            (None, _) => String::new(),
            (Some("version"), _) => "`version`, `kernel`, `backend`".into(),
            (Some(_), _) if self.name == "collector_left_out" => "`collector`, `reason`".into(),
            (Some(label), Series::Fields(series)) => {
                let values: Vec<&str> = series.iter().map(|(value, _)| *value).collect();
                format!("`{label}`: {}", values.join(", "))
            }
            (Some(label), _) => format!("`{label}`"),
        }
    }
}

/// The table as a page of documentation has it.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    let groups = Collector::ALL.map(Some).into_iter().chain([None]);
    for collector in groups {
        let title = match collector {
            None => "Always".to_owned(),
            Some(collector) if Collector::DEFAULT.contains(&collector) => {
                format!("Collector `{collector}`")
            }
            Some(collector) => format!("Collector `{collector}` (asked for)"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "### {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|"
        );
        for family in FAMILIES
            .iter()
            .filter(|family| family.collector == collector)
        {
            let kind = match family.kind {
                Kind::Counter => "counter",
                _ => "gauge",
            };
            let help = family.help().replace('|', r"\|");
            let _ = writeln!(
                text,
                "| `{}` | {kind} | {} | {help} |",
                family.full_name(),
                family.labels()
            );
        }
        text.push('\n');
    }
    text
}
