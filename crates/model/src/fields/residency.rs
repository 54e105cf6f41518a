//! Residency as columns.

use cachewise_units::Ratio;

use crate::field::{Field, fields};
use crate::kind::Kind;
use crate::unit::Unit;
use crate::value::{Datum, Value};

/// A bucket by its share, in five steps from a space to a full block.
fn shade(ratio: Ratio) -> char {
    const STEPS: [char; 5] = [' ', '░', '▒', '▓', '█'];
    let part = ratio.get();
    if part >= 1.0 {
        return STEPS[4];
    }
    // A bucket with a resident page is never shown as empty, nor one with a missing page as full.
    let step = (part * 4.0).ceil().clamp(0.0, 3.0);
    STEPS[step as usize]
}

pub(crate) const RESIDENCY_FIELDS: [Field; 16] = fields! {
    "files", "FILES", [], Count, Gauge,
        |row| row.residency.files.count(),
        "How many files the row sums up";
    "unknown_files", "UNKNOWN", [], Count, Gauge,
        |row| row.residency.unknown_files.count(),
        "How many of those files are in no sum, as nobody tells what of them is resident";
    "file_pages", "PAGES", [], Pages, Gauge,
        |row| row.residency.file_pages.pages(),
        "Pages that the file has, the last one counted whole";
    "resident_pages", "RESIDENT", ["cached_pages"], Pages, Gauge,
        |row| row.residency.resident_pages.pages(),
        "Pages of the file that are in the page cache, those being read included";
    "resident_bytes", "RES", [], Bytes, Gauge,
        |row| row.residency.resident_bytes.bytes(),
        "What is in the page cache of the file, in whole pages";
    "resident_ratio", "RES%", ["percent"], Ratio, Gauge,
        |row| Value::ratio(row.residency.ratio()),
        "Part of the file's pages that are in the page cache";
    "resident_dirty_pages", "DIRTY-PG", [], Pages, Gauge,
        |row| row.residency.dirty_pages.pages(),
        "Resident pages that are newer than the disk";
    "resident_writeback_pages", "WBACK-PG", [], Pages, Gauge,
        |row| row.residency.writeback_pages.pages(),
        "Resident pages that are being written to the disk";
    "shadow_pages", "EVICTED-PG", ["was_evicted_pages"], Pages, Gauge,
        |row| row.residency.evicted_pages.pages(),
        "Pages that reclaim threw out and that the kernel still remembers; those dropped on purpose are not remembered";
    "recent_shadow_pages", "RECENT-PG", ["recently_evicted_pages"], Pages, Gauge,
        |row| row.residency.recently_evicted_pages.pages(),
        "Reclaimed pages that went so recently that reading them would be a refault: the cache is too small for them";
    "first_page", "FIRST", [], Id, Label,
        |row| row.residency.first_page.map(Datum::Id),
        "Index in the file of a resident range's first page, from 0";
    "last_page", "LAST", [], Id, Label,
        |row| row.residency.last_page.map(Datum::Id),
        "Index in the file of a resident range's last page";
    "offset", "OFFSET", [], Id, Label,
        |row| row.residency.offset.map(Datum::Id),
        "Where in the file a range begins, in bytes";
    "length", "LENGTH", [], Id, Label,
        |row| row.residency.length.map(Datum::Id),
        "How long a range of a file is, in bytes";
    "links", "LINKS", ["nlink"], Id, Label,
        |row| row.labels.links.map(Datum::Id),
        "Names that the file has; 0: deleted, and gone when nobody holds it any more";
    "histogram", "WHERE", [], Text, Label,
        |row| row.residency.histogram.clone().map(|parts| Datum::Text(parts.into_iter().map(shade).collect())),
        "Where in the file the resident pages are, from its first to its last page: blank none, full block all";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shade_shows_single_pages_and_holes() {
        let part = |hits| Ratio::of(hits, 1000).unwrap();
        assert_eq!(shade(part(0)), ' ', "nothing");
        assert_eq!(shade(part(1)), '░', "one page of a thousand is seen");
        assert_eq!(shade(part(999)), '▓', "and so is one that is missing");
        assert_eq!(shade(part(1000)), '█', "everything");
    }
}
