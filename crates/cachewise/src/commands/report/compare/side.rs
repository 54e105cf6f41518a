//! [`Side`]: the reports before or after a change, from one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use cachewise_recording::{Range, Reader, Sample, summarize};
use cachewise_units::escaped;
use cachewise_view::{Format, SummaryOptions, write_summary};
use serde_json::Value as Json;

use super::document::{ARM, Document, Subject, TOTALS, Values};
use crate::comparison::Figure;

/// The reports of one file.
#[derive(Debug)]
pub struct Side {
    /// The file.
    pub name: String,
    /// Its reports: repeats of one measurement.
    documents: Vec<Document>,
}

impl Side {
    /// Reads a recording, or JSON documents one after the other.
    ///
    /// # Errors
    /// Names the file, and why it cannot be compared.
    pub fn read(path: &Path) -> Result<Side> {
        let name = escaped(path).into_owned();
        let bytes = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        let documents = match first {
            Some(b'{' | b'[') => of_json(&bytes),
            _ => of_recording(path).map(|document| vec![document]),
        };
        let documents = documents.with_context(|| format!("cannot compare {name}"))?;
        let sizes: BTreeSet<u64> = documents
            .iter()
            .map(|document| document.page_size)
            .collect();
        if sizes.len() > 1 {
            bail!("cannot compare {name}: its reports are of machines with different page sizes");
        }
        Ok(Side { name, documents })
    }

    /// Number of reports.
    pub fn count(&self) -> usize {
        self.documents.len()
    }

    /// The page size of its machine.
    pub fn page_size(&self) -> u64 {
        self.documents
            .first()
            .map_or(0, |document| document.page_size)
    }

    /// The command of its first report.
    pub fn command(&self) -> &[String] {
        self.documents
            .first()
            .map_or(&[], |document| &document.command)
    }

    /// Whether it is of `bench matrix`.
    pub fn is_matrix(&self) -> bool {
        let mut subjects = self
            .documents
            .iter()
            .flat_map(|document| document.subjects.keys());
        subjects.any(|(kind, _)| *kind == ARM)
    }

    /// The subjects of all its reports.
    pub fn subjects(&self) -> BTreeSet<&Subject> {
        let documents = self.documents.iter();
        documents
            .flat_map(|document| document.subjects.keys())
            .collect()
    }

    /// The figures of a subject in its reports.
    pub fn figures(&self, subject: &Subject) -> BTreeSet<&Figure> {
        let values = self
            .documents
            .iter()
            .filter_map(|document| document.subjects.get(subject));
        values.flat_map(BTreeMap::keys).collect()
    }

    /// The values of a figure; `None` if one is unknown. A file or process that a report does not have was not used: 0.
    pub fn values(&self, subject: &Subject, figure: &Figure) -> Option<Vec<f64>> {
        let mut values = Vec::new();
        for document in &self.documents {
            let known: Option<&Values> = document.subjects.get(subject);
            match (known.and_then(|values| values.get(figure)), subject.0) {
                (Some(known), _) => values.extend(known.as_ref()?),
                (None, TOTALS | ARM) => return None,
                (None, _) => values.push(0.0),
            }
        }
        (!values.is_empty()).then_some(values)
    }
}

fn of_json(bytes: &[u8]) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for json in serde_json::Deserializer::from_slice(bytes).into_iter::<Json>() {
        let json = json.context("it is not complete JSON")?;
        documents.push(Document::of(&json).map_err(|reason| anyhow!(reason))?);
    }
    Ok(documents)
}

fn of_recording(path: &Path) -> Result<Document> {
    let mut reader = Reader::open(path)?;
    let nothing = |_: &mut Sample, _: Option<&_>| Ok::<(), anyhow::Error>(());
    let summary = summarize(&mut reader, Range::default(), nothing)?;
    let summary = summary.context("it has no sample that could be read")?;
    if let Some(problem) = summary.problems.first() {
        bail!("{problem}");
    }
    // Its document has the same names as that of a run.
    let mut text = Vec::new();
    write_summary(
        &mut text,
        Format::JsonLines,
        &summary,
        &SummaryOptions::default(),
    )?;
    let json = serde_json::from_slice(&text).context("its summary is no JSON")?;
    Document::of(&json).map_err(|reason| anyhow!(reason))
}
