//! [`Findings`]: the findings of the last minute.

use cachewise_model::{Blind, Finding};
use cachewise_view::findings_json;
use serde_json::{Map, Value as Json};

/// The findings that the rules derive from the last minute.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    pub(crate) made: Vec<Finding>,
    pub(crate) blind: Option<Blind>,
}

impl Findings {
    /// As members of a document.
    pub(crate) fn members(&self) -> Map<String, Json> {
        findings_json(&self.made, self.blind.as_ref())
    }
}
