//! [`NamesOfGroups`]: names of control groups for the rows of their processes.

use std::collections::HashMap;

use crate::group_names::GroupNames;
use crate::measured::Missing;
use crate::parts::{CgroupRow, ProcessRow};
use crate::reason::Reason;
use crate::row::Row;

/// Names of control groups by path.
#[derive(Debug)]
pub struct NamesOfGroups<'a>(HashMap<&'a str, &'a GroupNames>);

impl<'a> NamesOfGroups<'a> {
    /// The names of these groups.
    #[must_use]
    pub fn of(groups: &'a [CgroupRow]) -> NamesOfGroups<'a> {
        let known = groups.iter().filter_map(|group| {
            let path = group.path.as_ref().known()?;
            Some((path.as_str(), &group.names))
        });
        NamesOfGroups(known.collect())
    }

    /// The name that people use for the group of this path.
    #[must_use]
    pub fn shown(&self, path: &str) -> Option<String> {
        self.0.get(path)?.shown().known()
    }

    /// A process as a row, with the names of its group.
    #[must_use]
    pub fn row(&self, process: &ProcessRow) -> Row {
        const UNKNOWN: Missing = Missing::Unknown(Reason::NotReported);
        let mut row = process.row();
        let group = process.cgroup.as_ref();
        row.labels.group = match group.known().and_then(|path| self.0.get(path.as_str())) {
            Some(names) => (*names).clone(),
            None => GroupNames::all_missing(group.missing().unwrap_or(UNKNOWN)),
        };
        row
    }
}
