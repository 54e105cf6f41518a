//! [`markdown`]: the table of metrics as documentation.

use std::fmt::Write;

use cachewise_model::Kind;

use super::collector::Collector;
use super::table::FAMILIES;

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
            Some(collector) => format!("Collector `{collector}` (on request)"),
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
