//! Numbers of simulated memory sizes as columns.

use cachewise_units::Pages;

use crate::field::{Field, fields};
use crate::kind::Kind;
use crate::measured::{Measured, NOT_APPLICABLE};
use crate::reason::Reason;
use crate::row::Row;
use crate::unit::Unit;
use crate::value::{Datum, Value};

/// Bytes that devices deliver in a second; not offered for a row without time.
fn fetched_per_second(row: &Row) -> Value {
    let seconds = row.elapsed.as_secs_f64();
    let pages = row.sizing.fetched_pages;
    let Some(page) = row.page_size else {
        return match pages.missing() {
            Some(missing) => Measured::Missing(missing),
            None => Measured::not_offered(Reason::PageSizeUnknown),
        };
    };
    if row.sizing.requested_pages == Measured::Exact(0) {
        return Measured::not_offered(Reason::NothingRequested);
    }
    if seconds == 0.0 {
        return Measured::Missing(pages.missing().unwrap_or(NOT_APPLICABLE));
    }
    pages
        .map(|pages| (Pages(pages).bytes(page).0 as f64 / seconds).round() as u64)
        .bytes()
}

pub(crate) const SIZING_FIELDS: [Field; 15] = fields! {
    "size_policy", "POLICY", [], Text, Label,
        |row| row.sizing.policy.clone().map(Datum::Text),
        "Policy of eviction that is simulated: lists (active and inactive), generations (MGLRU), or generations-6.14 (MGLRU \
         since Linux 6.14)";
    "size_memory_bytes", "MEMORY", [], Bytes, Gauge,
        |row| row.sizing.memory_bytes.bytes(),
        "Memory limit that is simulated: page cache of files, and the other memory of the control group as it is";
    "size_page_cache_bytes", "CACHE-SIZE", ["CACHE"], Bytes, Gauge,
        |row| row.sizing.page_cache_bytes.bytes(),
        "Part of that memory that pages of files can have";
    "size_requested_pages", "SZ-REQUESTED", [], Pages, Gauge,
        |row| row.sizing.requested_pages.pages(),
        "Pages that reads and page faults requested";
    "size_missed_pages", "SZ-MISSED", [], Pages, Gauge,
        |row| row.sizing.missed_pages.pages(),
        "Requested pages that would not be in the page cache with that memory";
    "size_fetched_pages", "SZ-FETCHED", [], Pages, Gauge,
        |row| row.sizing.fetched_pages.pages(),
        "Pages that devices would deliver with that memory, readahead included";
    "size_miss_ratio", "MISS%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.missed_pages.ratio_of(row.sizing.requested_pages)),
        "Requested pages that would not be in the page cache with that memory, by requested pages";
    "size_fetched_ratio", "FETCH%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.fetched_pages.ratio_of(row.sizing.requested_pages)),
        "Pages that devices would deliver with that memory, readahead included, by requested pages; above 100 % if \
         readahead fetches in vain";
    "size_least_miss_ratio", "MISS-LEAST%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.missed_range[0].ratio_of(row.sizing.requested_pages)),
        "Least size_miss_ratio of the sizes nearby, where a few pages of room decide; absent elsewhere";
    "size_most_miss_ratio", "MISS-MOST%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.missed_range[1].ratio_of(row.sizing.requested_pages)),
        "Most size_miss_ratio of the sizes nearby, where a few pages of room decide; absent elsewhere";
    "size_least_fetched_ratio", "FETCH-LEAST%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.fetched_range[0].ratio_of(row.sizing.requested_pages)),
        "Least size_fetched_ratio of the sizes nearby, where a few pages of room decide; absent elsewhere";
    "size_most_fetched_ratio", "FETCH-MOST%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.fetched_range[1].ratio_of(row.sizing.requested_pages)),
        "Most size_fetched_ratio of the sizes nearby, where a few pages of room decide; absent elsewhere";
    "size_fetched_per_second_bytes", "FETCH/s", [], Bytes, Gauge,
        fetched_per_second,
        "Bytes that devices would deliver in a second with that memory, at the present speed of the program";
    "size_lost_seconds", "LOST-SEC", [], Seconds, Gauge,
        |row| Value::seconds(row.sizing.lost_seconds),
        "Seconds that tasks would wait for these pages, at the price of a page that was measured meanwhile";
    "size_lru_miss_ratio", "LRU-MISS%", [], Ratio, Gauge,
        |row| Value::ratio(row.sizing.lru_fetched_pages.ratio_of(row.sizing.requested_pages)),
        "Pages that devices would deliver under exact LRU without readahead, by requested pages, for comparison";
};
