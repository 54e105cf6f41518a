//! The processes that evicted files, from a recording.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use cachewise_model::{Eviction, FileNumber};
use cachewise_recording::{Range, Reader, summarize};
use cachewise_view::culprit_text;

/// The evictions of each file over the time of a recording, those of the most pages first.
#[derive(Debug, Default)]
pub struct Culprits(HashMap<FileNumber, Vec<Eviction>>);

impl Culprits {
    /// Reads a recording.
    pub fn read(recording: &Path) -> Result<Culprits> {
        let mut reader = Reader::open(recording)?;
        let each = |_: &mut _, _: Option<&_>| Ok::<(), anyhow::Error>(());
        let Some(summary) = summarize(&mut reader, Range::default(), each)? else {
            return Ok(Culprits::default());
        };
        let mut culprits: HashMap<FileNumber, Vec<Eviction>> = HashMap::new();
        for eviction in summary.total.evictions {
            let file = summary.total.files.get(eviction.file);
            if let Some(number) = file.and_then(|file| file.number.clone()) {
                culprits.entry(number).or_default().push(eviction);
            }
        }
        for evictions in culprits.values_mut() {
            evictions.sort_by_key(|eviction| Reverse(eviction.pages));
        }
        Ok(Culprits(culprits))
    }

    /// The process that evicted most pages of a file, and the cause: `evicted by tar, 4242 (group limit)`.
    pub fn of(&self, device: (u32, u32), inode: u64) -> Option<String> {
        let number = FileNumber {
            device: format!("{}:{}", device.0, device.1),
            inode,
        };
        let first = self.0.get(&number)?.first()?;
        Some(format!("evicted by {}", culprit_text(first)))
    }
}
