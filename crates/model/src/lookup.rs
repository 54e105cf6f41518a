//! From what a user typed to fields: by id, by header, and with a hint where it is neither.

use crate::field::{FIELDS, Field};

/// The columns of a table over time unless others are asked for: those of the case study, exact.
pub const STAT_COLUMNS: [&str; 11] = [
    "time",
    "read_pages",
    "read_miss_pages",
    "read_hit_pages",
    "reuse_ratio",
    "readahead_used_pages",
    "direct_bytes",
    "dirtied_pages",
    "evicted_pages",
    "buffers_bytes",
    "cached_bytes",
];

/// Finds the columns of a comma-separated list.
///
/// # Errors
/// [`unknown_column`]'s text for the first name that there is not.
pub fn columns(list: &str) -> Result<Vec<&'static Field>, String> {
    list.split(',')
        .map(str::trim)
        .map(|name| field(name).ok_or_else(|| unknown_column(name)))
        .collect()
}

/// Finds a field by id, header or other name, in any case.
#[must_use]
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS
        .iter()
        .find(|field| field.names().any(|known| known.eq_ignore_ascii_case(name)))
}

/// The known name nearest to a mistyped one, or `None` if nothing is near.
#[must_use]
pub fn suggest(name: &str) -> Option<String> {
    let typed = name.to_ascii_lowercase();
    // One slip for a short name, a third of a long one: beyond that a suggestion is a guess.
    let allowed = (typed.chars().count() / 3).max(1);
    FIELDS
        .iter()
        .flat_map(Field::names)
        .map(|known| known.to_ascii_lowercase())
        .map(|known| (distance(&typed, &known), known))
        .filter(|(slips, _)| *slips <= allowed)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, known)| known)
}

/// The error text for a column that does not exist, with the nearest name and all ids.
#[must_use]
pub fn unknown_column(name: &str) -> String {
    let hint = suggest(name)
        .map(|near| format!("did you mean `{near}`? "))
        .unwrap_or_default();
    let ids: Vec<&str> = FIELDS.iter().map(|field| field.id).collect();
    format!(
        "no column `{}`; {hint}columns: {}",
        name.escape_debug(),
        ids.join(", ")
    )
}

/// Levenshtein distance, in one row of the matrix.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_by_id_header_and_other_names_in_any_case() {
        for name in ["read_pages", "TOTAL", "total", "Total_Pages"] {
            assert_eq!(
                field(name).map(|f| f.id),
                Some("read_pages"),
                "`{name}` is the total"
            );
        }
        for name in ["HIT%", "hit%", "reuse_ratio"] {
            assert_eq!(
                field(name).map(|f| f.id),
                Some("reuse_ratio"),
                "`{name}` is the reuse"
            );
        }
        assert!(field("nonsense").is_none(), "what is no name finds nothing");
        assert!(field("").is_none(), "neither does an empty one");
    }

    #[test]
    fn the_default_columns_of_stat_are_the_case_studys() {
        let headers: Vec<&str> = STAT_COLUMNS
            .iter()
            .map(|id| field(id).map_or("", |field| field.header))
            .collect();
        assert_eq!(
            headers.join(" "),
            "TIME TOTAL MISSES HITS HIT% READAHEAD DIRECT DIRTIES EVICTED BUFFERS CACHED",
            "in their order"
        );
    }

    #[test]
    fn a_list_of_columns_is_found_or_the_slip_is_told() {
        let ids = |list| columns(list).map(|found| found.iter().map(|f| f.id).collect::<Vec<_>>());
        assert_eq!(
            ids("hits, TOTAL"),
            Ok(vec!["read_hit_pages", "read_pages"]),
            "in their order"
        );
        assert!(
            ids("hits,hitz").is_err_and(|text| text.contains("`hitz`")),
            "the wrong one is named"
        );
        assert!(
            ids("hits,,total").is_err_and(|text| text.contains("no column ``")),
            "nor an empty one"
        );
        assert!(ids("").is_err(), "an empty list is a slip too");
    }

    #[test]
    fn a_slip_gets_a_suggestion_and_nonsense_does_not() {
        assert_eq!(suggest("hitz").as_deref(), Some("hits"), "one letter off");
        assert_eq!(
            suggest("read_page").as_deref(),
            Some("read_pages"),
            "one letter short"
        );
        assert_eq!(suggest("quux_frobnicate"), None, "nothing is near");
        let text = unknown_column("hitz");
        assert!(
            text.starts_with("no column `hitz`; did you mean `hits`? columns: time, "),
            "the error names the slip, the suggestion and the choice: {text}"
        );
        assert!(
            unknown_column("\u{1b}[2J").contains("`\\u{1b}[2J`"),
            "typed escapes do not act"
        );
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3, "insertions count");
        assert_eq!(distance("kitten", "sitting"), 3, "the textbook pair");
    }
}
