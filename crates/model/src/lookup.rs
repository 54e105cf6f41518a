//! Look-up of fields by id or header, with suggestions for mistyped names.

use crate::field::Field;
use crate::fields::FIELDS;
use crate::row::Row;

/// Maximum number of suggestions.
const SUGGESTED: usize = 3;

/// Finds the columns of a comma-separated list for rows like `row`.
///
/// # Errors
/// Names the first unknown column, with the nearest ones, or the first that such rows do not have.
pub fn columns(list: &str, row: &Row) -> Result<Vec<&'static Field>, String> {
    list.split(',')
        .map(str::trim)
        .map(|name| match field(name) {
            Some(field) if field.is_of(row) => Ok(field),
            Some(_) => Err(misplaced_column(name, row)),
            None => Err(unknown_column(name, row)),
        })
        .collect()
}

/// Finds a field by id, header or alias, in any case.
#[must_use]
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS
        .iter()
        .find(|field| field.names().any(|known| known.eq_ignore_ascii_case(name)))
}

/// Names of at most three columns of rows like `row` that are nearest to a mistyped one.
#[must_use]
pub fn suggest(name: &str, row: &Row) -> Vec<String> {
    let typed = name.to_ascii_lowercase();
    let nearest = |field: &'static Field| {
        field
            .names()
            .map(str::to_ascii_lowercase)
            .filter_map(|known| Some((slips(&typed, &known)?, known)))
            .min()
            .map(|(slips, known)| {
                // A former name leads to the present one.
                let is_present = [field.id, field.header]
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(&known));
                (
                    slips,
                    if is_present {
                        known
                    } else {
                        field.id.to_owned()
                    },
                )
            })
    };
    let mut near: Vec<(usize, String)> = FIELDS
        .iter()
        .filter(|field| field.is_of(row))
        .filter_map(nearest)
        .collect();
    near.sort_by_key(|(slips, _)| *slips);
    near.into_iter()
        .take(SUGGESTED)
        .map(|(_, known)| known)
        .collect()
}

/// At most three of these names that a mistyped or incomplete one may stand for, the nearest first.
#[must_use]
pub fn nearest_names<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .filter_map(|name| Some((slips(&typed, &name.to_lowercase())?, name)))
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(SUGGESTED)
        .map(|(_, name)| name)
        .collect()
}

/// The number of typos by which a name differs from the typed one, both in lower case; `None` if it
/// is another name.
fn slips(typed: &str, known: &str) -> Option<usize> {
    let letters = typed.chars().count();
    // One typo in a short name, a third of a long one: beyond that a suggestion is a guess.
    let allowed = (letters / 3).max(1);
    let slips = strsim::osa_distance(typed, known);
    // Part of a name is not a typo: it gets the whole name.
    (slips <= allowed || letters >= 3 && known.contains(typed)).then_some(slips)
}

/// A list of suggestions as a question, with a space behind it; empty without any.
#[must_use]
pub fn did_you_mean(near: &[String]) -> String {
    match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!("did you mean {only}? "),
        Some((last, others)) => format!("did you mean {} or {last}? ", others.join(", ")),
    }
}

fn unknown_column(name: &str, row: &Row) -> String {
    let near: Vec<String> = suggest(name, row)
        .iter()
        .map(|near| format!("`{near}`"))
        .collect();
    let hint = did_you_mean(&near);
    format!(
        "no column `{}`; {hint}`cachewise columns` lists all",
        name.escape_debug()
    )
}

fn misplaced_column(name: &str, row: &Row) -> String {
    let name = name.escape_debug();
    if row.is_of_file() {
        return format!(
            "column `{name}` is not one of files and what is resident of them; `cachewise columns` lists \
             what such rows have"
        );
    }
    format!(
        "column `{name}` is of one file, process or control group, and these rows are of all together; \
         `run` reports on each, and `cachewise columns` lists what these rows have"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_found_by_id_header_and_alias_in_any_case() {
        for name in ["read_requested_pages", "REQUESTED", "total", "Total_Pages"] {
            assert_eq!(
                field(name).map(|f| f.id),
                Some("read_requested_pages"),
                "`{name}` is the total"
            );
        }
        for name in ["REUSE%", "reuse%", "reuse_ratio"] {
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
    fn columns_finds_all_or_names_the_unknown_one() {
        let ids = |list| {
            columns(list, &Row::of_system())
                .map(|found| found.iter().map(|f| f.id).collect::<Vec<_>>())
        };
        assert_eq!(
            ids("hits, REQUESTED"),
            Ok(vec!["read_hit_pages", "read_requested_pages"]),
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
    fn column_of_other_rows_is_refused() {
        for name in ["path", "PID", "cgroup", "exit", "size", "res-before", "cpu"] {
            let text = columns(name, &Row::of_system()).unwrap_err();
            assert!(
                text.contains(&format!("`{name}`")) && text.contains("`run`"),
                "{name} would be a column of nothing but -; it is said where it is: {text}"
            );
        }
    }

    #[test]
    fn typo_gets_suggestions_and_nonsense_does_not() {
        let near = |name| suggest(name, &Row::of_system()).join(" ");
        assert_eq!(near("hitz"), "hits hit%", "one letter off");
        assert_eq!(near("hist"), "hits", "two letters changed places");
        assert_eq!(
            near("read_page"),
            "read_requested_pages",
            "one letter short of its former name"
        );
        assert_eq!(near("miss"), "missed w-miss flt-miss", "half a name");
        assert_eq!(
            near("fault"),
            "faults w-fault refaults",
            "no more than three"
        );
        assert_eq!(near("pat"), "", "what such rows do not have is no help");
        assert_eq!(near("quux_frobnicate"), "", "nothing is near");
        let told = |name| columns(name, &Row::of_system()).unwrap_err();
        assert_eq!(
            told("hitz"),
            "no column `hitz`; did you mean `hits` or `hit%`? `cachewise columns` lists all",
            "the slip, the suggestion, the way to the choice"
        );
        assert_eq!(
            told("foo"),
            "no column `foo`; `cachewise columns` lists all",
            "no list that fills the screen"
        );
        assert!(
            told("fault").contains("`faults`, `w-fault` or `refaults`?"),
            "several are a choice"
        );
        assert!(
            told("\u{1b}[2J").contains("`\\u{1b}[2J`"),
            "typed escapes do not act"
        );
    }
}
