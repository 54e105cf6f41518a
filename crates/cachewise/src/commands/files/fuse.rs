//! FUSE files, which are not opened to read their residency: their pages by a census, which opens no file.

use cachewise_model::Reason;
use std::collections::HashMap;
use std::sync::OnceLock;

use cachewise_probe::census::{Census, Options};
use cachewise_residency::{Counts, Inode, Unknown};
use cachewise_sys::page_size;
use cachewise_units::Pages;

/// Device and inode number.
type Identity = ((u32, u32), u64);

/// Pages of files that were not opened. The census is taken at the first request.
#[derive(Default)]
pub struct NotOpened(OnceLock<Option<Taken>>);

struct Taken {
    /// `None` where two inodes have one number, which some servers give.
    pages: HashMap<Identity, Option<Pages>>,
    /// Whether every inode with pages is in it.
    is_complete: bool,
}

impl NotOpened {
    /// Counts what is resident of a file.
    ///
    /// An inode that is not in a complete census has no pages. Pages that a server keeps in a file below (passthrough) are
    /// those of that file.
    pub fn counts(&self, inode: &Inode) -> Result<Counts, Reason> {
        let taken = self.0.get_or_init(Taken::now).as_ref();
        let taken = taken.ok_or(Reason::FuseNotOpened)?;
        let cached = match taken.pages.get(&(inode.device, inode.number)) {
            Some(pages) => pages.ok_or(Reason::FuseInodeTwice)?,
            None if taken.is_complete => Pages::ZERO,
            None => return Err(Reason::FuseCensusPartial),
        };
        Ok(Counts {
            total: inode.size.pages_ceil(page_size()).max(cached),
            cached,
            states: None,
        })
    }
}

impl Taken {
    /// None where the census is refused.
    fn now() -> Option<Taken> {
        let options = Options {
            names: false,
            ..Options::default()
        };
        let mut pages: HashMap<Identity, Option<Pages>> = HashMap::new();
        let mut census = Census::open().ok()?;
        let summary = census.stream(&options, |inode| {
            if inode.file_system.starts_with("fuse") || &*inode.file_system == "virtiofs" {
                let identity = ((inode.id.major, inode.id.minor), inode.id.inode);
                let found = pages.entry(identity);
                found
                    .and_modify(|pages| *pages = None)
                    .or_insert(Some(inode.pages));
            }
        });
        Some(Taken {
            pages,
            is_complete: !summary.ok()?.is_partial(),
        })
    }
}

/// Whether a file was not opened because that can drop its pages.
pub fn is_not_opened(error: &cachewise_residency::Error) -> bool {
    error.unknown() == Some(Unknown::FuseNotOpened)
}
