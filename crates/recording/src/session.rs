//! A session: the recorder, the machine and the columns. It precedes the samples of one run.

use std::time::Duration;

use cachewise_model::{Backend, Source};
use cachewise_units::PageSize;
use serde::{Deserialize, Serialize};

use crate::columns::{self, TableLayout};
use crate::varint::Malformed;

/// One go of recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The machine's name.
    pub hostname: String,
    /// The kernel's release.
    pub kernel: String,
    /// The page size by which pages become bytes.
    pub page_size: u64,
    /// The version of the cachewise that recorded.
    pub cachewise: String,
    /// The requested time from sample to sample; zero if unknown.
    pub interval: Duration,
    /// The number of processes and of files kept by name; all others share one row each.
    pub top: u64,
    /// The command that was run meanwhile.
    pub command: Vec<String>,
    /// The watched part of the machine, in words; empty for the whole machine.
    pub scope: String,
    /// Numbers the goes of a recording, and is the same in all parts that one go fills.
    pub(crate) go: u64,
    backend: (String, bool, Vec<String>),
    /// Of each table, the names of its columns.
    tables: Vec<(String, Vec<String>)>,
}

/// More than any cachewise will have.
const MOST_TABLES: usize = 64;
const MOST_COLUMNS: usize = 1024;

impl Session {
    /// A session of this machine.
    #[must_use]
    pub fn new(source: &Source) -> Session {
        let Source {
            hostname,
            kernel,
            page_size,
            backend,
        } = source.clone();
        Session {
            hostname,
            kernel,
            page_size: page_size.map_or(0, |size| size.get()),
            cachewise: String::new(),
            interval: Duration::ZERO,
            top: 0,
            command: Vec::new(),
            scope: String::new(),
            go: 0,
            backend: (backend.name, backend.exact, backend.notes),
            tables: columns::written(),
        }
    }

    /// The machine, and how it was counted. It has no page size where the recording says one that no
    /// machine has.
    #[must_use]
    pub fn source(&self) -> Source {
        let (name, exact, notes) = self.backend.clone();
        let page_size = u32::try_from(self.page_size).ok().and_then(PageSize::new);
        Source {
            hostname: self.hostname.clone(),
            kernel: self.kernel.clone(),
            page_size,
            backend: Backend {
                name,
                exact,
                notes,
                ..Backend::default()
            },
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let bytes = postcard::to_allocvec(self).map_err(|error| error.to_string())?;
        out.extend_from_slice(&bytes);
        Ok(())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Session, Malformed> {
        // Ignores fields that a later version appends.
        let (session, _): (Session, _) = postcard::take_from_bytes(bytes)
            .map_err(|_| Malformed("what stands before the samples is not readable"))?;
        let too_many = session.tables.len() > MOST_TABLES
            || (session.tables.iter()).any(|(_, columns)| columns.len() > MOST_COLUMNS);
        if too_many {
            return Err(Malformed("too many columns"));
        }
        Ok(session)
    }

    /// The tables as they are in this session, in their order.
    pub(crate) fn tables(&self) -> Vec<TableLayout> {
        self.tables
            .iter()
            .map(|(name, columns)| TableLayout::found(name, columns))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_comes_back_and_garbage_does_not() {
        let source = Source {
            hostname: "box".into(),
            kernel: "6.18".into(),
            page_size: PageSize::new(4096),
            backend: Backend {
                name: "tracepoints".into(),
                exact: true,
                notes: vec!["a note".into()],
                ..Backend::default()
            },
        };
        let session = Session::new(&source);
        let mut bytes = Vec::new();
        session.put(&mut bytes).unwrap();
        bytes.extend_from_slice(b"of a later version");
        assert_eq!(
            Session::from_bytes(&bytes),
            Ok(session),
            "with more behind it"
        );
        assert_eq!(
            Session::from_bytes(&bytes).unwrap().source(),
            source,
            "and in it"
        );
        for cut in 0..40 {
            assert!(
                Session::from_bytes(&bytes[..cut]).is_err(),
                "{cut} bytes are none"
            );
        }
    }
}
