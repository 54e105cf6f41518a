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
        "Number of files that the row sums";
    "unknown_files", "UNKNOWN", [], Count, Gauge,
        |row| row.residency.unknown_files.count(),
        "Number of these files that sums leave out, because their residency is unknown";
    "file_pages", "PAGES", [], Pages, Gauge,
        |row| row.residency.file_pages.pages(),
        "Pages of the file, the last one counted whole";
    "resident_pages", "RESIDENT", ["cached_pages"], Pages, Gauge,
        |row| row.residency.resident_pages.pages(),
        "Pages of the file in the page cache, pages being read included";
    "resident_bytes", "RES", [], Bytes, Gauge,
        |row| row.residency.resident_bytes.bytes(),
        "Bytes of the file in the page cache, in whole pages";
    "resident_ratio", "RES%", ["percent"], Ratio, Gauge,
        |row| Value::ratio(row.residency.ratio()),
        "Share of the file's pages that are in the page cache";
    "resident_dirty_pages", "DIRTY-PG", [], Pages, Gauge,
        |row| row.residency.dirty_pages.pages(),
        "Resident pages with changes that are not on the disk yet";
    "resident_writeback_pages", "WBACK-PG", [], Pages, Gauge,
        |row| row.residency.writeback_pages.pages(),
        "Resident pages under writeback";
    "shadow_pages", "EVICTED-PG", ["was_evicted_pages"], Pages, Gauge,
        |row| row.residency.evicted_pages.pages(),
        "Reclaimed pages that the kernel still remembers; it does not remember pages dropped on request";
    "recent_shadow_pages", "RECENT-PG", ["recently_evicted_pages"], Pages, Gauge,
        |row| row.residency.recently_evicted_pages.pages(),
        "Recently reclaimed pages: a read of them would be a refault, which shows that the cache is too small for them";
    "first_page", "FIRST", [], Id, Label,
        |row| row.residency.first_page.map(Datum::Id),
        "Index of the first page of a resident range in the file, from 0";
    "last_page", "LAST", [], Id, Label,
        |row| row.residency.last_page.map(Datum::Id),
        "Index of the last page of a resident range in the file";
    "offset", "OFFSET", [], Id, Label,
        |row| row.residency.offset.map(Datum::Id),
        "Offset of a range in the file, in bytes";
    "length", "LENGTH", [], Id, Label,
        |row| row.residency.length.map(Datum::Id),
        "Length of a range of a file, in bytes";
    "links", "LINKS", ["nlink"], Id, Label,
        |row| row.labels.links.map(Datum::Id),
        "Number of links to the file; 0: deleted, and freed when no process uses it any more";
    "histogram", "WHERE", [], Text, Label,
        |row| row.residency.histogram.clone().map(|parts| Datum::Text(parts.into_iter().map(shade).collect())),
        "Position of the resident pages in the file, from first to last page: blank none, full block all";
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
