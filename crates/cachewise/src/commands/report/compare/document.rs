//! [`Document`]: the numbers of one report, as its JSON has them.

use std::collections::BTreeMap;

use cachewise_model::{Kind, SCHEMA_VERSION, field};
use serde_json::{Map, Value as Json};

use crate::comparison::Figure;

/// Kind and name of a subject.
pub type Subject = (&'static str, String);

/// The values of a subject by figure; `None` for an unknown one.
pub type Values = BTreeMap<Figure, Option<Vec<f64>>>;

/// The numbers of one report.
#[derive(Debug, Default)]
pub struct Document {
    /// The command that was measured.
    pub command: Vec<String>,
    /// The page size of its machine.
    pub page_size: u64,
    /// Its subjects.
    pub subjects: BTreeMap<Subject, Values>,
}

/// Kinds of subjects.
pub const TOTALS: &str = "totals";
pub const FILE: &str = "file";
pub const PROCESS: &str = "process";
pub const ARM: &str = "arm";

/// The figure that orders files and processes.
pub const ORDER: &str = "fetched_bytes";

impl Document {
    /// Reads a report of `run`, `report` or `bench matrix`.
    ///
    /// # Errors
    /// Says why it is none, or of which version.
    pub fn of(json: &Json) -> Result<Document, String> {
        let other = "it is JSON, but no report of `cachewise run`, `report` or `bench matrix`";
        let object = json.as_object().ok_or(other)?;
        let version = object
            .get("schema_version")
            .and_then(Json::as_u64)
            .ok_or(other)?;
        if version != u64::from(SCHEMA_VERSION) {
            return Err(format!(
                "it has schema version {version}, and this cachewise reads version {SCHEMA_VERSION}: write it again with the \
                 same version of cachewise"
            ));
        }
        let page_size = object.get("page_size_bytes").and_then(Json::as_u64);
        let mut document = Document {
            command: words(object.get("command")),
            page_size: page_size.ok_or("it does not say its page size")?,
            ..Document::default()
        };
        match (object.get("totals"), object.get("samples")) {
            (Some(Json::Object(totals)), _) => document.add_report(totals, object),
            (None, Some(Json::Array(samples))) if object.contains_key("comparisons") => {
                document.add_matrix(samples);
            }
            _ => return Err(other.to_owned()),
        }
        Ok(document)
    }

    fn add_report(&mut self, totals: &Map<String, Json>, report: &Map<String, Json>) {
        self.add((TOTALS, String::new()), totals, |_| true);
        let rows = |id: &str| {
            report
                .get(id)
                .and_then(Json::as_array)
                .into_iter()
                .flatten()
        };
        // Other figures of several rows with one name do not add up.
        let adds_up = |kind| kind == Kind::Counter;
        for row in rows("files").filter_map(Json::as_object) {
            self.add((FILE, file_name(row)), row, adds_up);
        }
        for row in rows("processes").filter_map(Json::as_object) {
            let name = text(row, "command").unwrap_or("?").to_owned();
            self.add((PROCESS, name), row, adds_up);
        }
    }

    /// Adds the figures of a row to its subject.
    fn add(&mut self, subject: Subject, row: &Map<String, Json>, wanted: impl Fn(Kind) -> bool) {
        let values = self.subjects.entry(subject).or_default();
        for (id, value) in row {
            let Some(field) = field(id).filter(|field| field.id == id) else {
                continue;
            };
            if field.kind == Kind::Label || !wanted(field.kind) {
                continue;
            }
            let known = values
                .entry(Figure::new(field.id, field.unit))
                .or_insert_with(|| Some(vec![0.0]));
            *known = match (known.as_deref(), value.as_f64()) {
                (Some([sum]), Some(value)) => Some(vec![sum + value]),
                _ => None,
            };
        }
    }

    fn add_matrix(&mut self, samples: &[Json]) {
        for sample in samples.iter().filter_map(Json::as_object) {
            let of = |id| text(sample, id).unwrap_or("?");
            let values = sample.get("values").and_then(Json::as_array);
            let values: Vec<f64> = values
                .into_iter()
                .flatten()
                .filter_map(Json::as_f64)
                .collect();
            let figure = Figure {
                id: of("measure").to_owned(),
                unit: "",
            };
            let name = format!("{} with {}", of("workload"), of("arm"));
            let known = self.subjects.entry((ARM, name)).or_default();
            known.insert(figure, Some(values));
        }
    }
}

fn text<'a>(row: &'a Map<String, Json>, id: &str) -> Option<&'a str> {
    row.get(id).and_then(Json::as_str)
}

fn file_name(row: &Map<String, Json>) -> String {
    match (text(row, "path"), text(row, "device"), row.get("inode")) {
        (Some(path), ..) => path.to_owned(),
        (None, Some(device), Some(inode)) => format!("inode {inode} of device {device}"),
        _ => "?".to_owned(),
    }
}

fn words(json: Option<&Json>) -> Vec<String> {
    let words = json.and_then(Json::as_array).into_iter().flatten();
    words.filter_map(Json::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figure(id: &str) -> Figure {
        let field = field(id).unwrap();
        Figure::new(field.id, field.unit)
    }

    #[test]
    fn rows_of_one_name_add_up_and_unknown_values_stay_unknown() {
        let report = json!({
            "schema_version": 1, "page_size_bytes": 4096, "command": ["make"],
            "totals": { "fetched_bytes": 30, "reuse_ratio": 0.5, "evicted_pages": null, "exit_status": "0" },
            "files": [{ "path": "/a", "fetched_bytes": 10, "file_size_bytes": 99 }],
            "processes": [
                { "command": "cc1", "fetched_bytes": 10, "refault_pages": 1 },
                { "command": "cc1", "fetched_bytes": 20, "refault_pages": null },
            ],
        });
        let document = Document::of(&report).unwrap();
        let of = |kind, name: &str, id| {
            document.subjects[&(kind, name.to_owned())]
                .get(&figure(id))
                .cloned()
        };
        assert_eq!(of(TOTALS, "", "fetched_bytes"), Some(Some(vec![30.0])));
        assert_eq!(of(TOTALS, "", "reuse_ratio"), Some(Some(vec![0.5])));
        assert_eq!(of(TOTALS, "", "evicted_pages"), Some(None), "not 0");
        assert_eq!(of(TOTALS, "", "exit_status"), None, "a name");
        assert_eq!(of(FILE, "/a", "fetched_bytes"), Some(Some(vec![10.0])));
        assert_eq!(of(FILE, "/a", "file_size_bytes"), None, "a gauge");
        assert_eq!(of(PROCESS, "cc1", "fetched_bytes"), Some(Some(vec![30.0])));
        assert_eq!(of(PROCESS, "cc1", "refault_pages"), Some(None));
    }

    #[test]
    fn matrix_has_the_values_of_all_repeats() {
        let matrix = json!({
            "schema_version": 1, "page_size_bytes": 4096, "comparisons": [],
            "samples": [{ "workload": "w", "arm": "a", "measure": "useful_bytes_per_second", "values": [1.0, 2.0] }],
        });
        let document = Document::of(&matrix).unwrap();
        let values = &document.subjects[&(ARM, "w with a".to_owned())];
        assert_eq!(values.values().next(), Some(&Some(vec![1.0, 2.0])));
    }

    #[test]
    fn other_documents_are_refused() {
        for (json, part) in [
            (json!([1]), "no report"),
            (json!({ "a": 1 }), "no report"),
            (
                json!({ "schema_version": 1, "page_size_bytes": 4096 }),
                "no report",
            ),
            (json!({ "schema_version": 7 }), "schema version 7"),
            (json!({ "schema_version": 1, "totals": {} }), "page size"),
        ] {
            let error = Document::of(&json).unwrap_err();
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
