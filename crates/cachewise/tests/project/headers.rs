//! One meaning for each column name, over the tables of all programs.
//!
//! Tables of the page cache have the model's fields as columns; their names are unique there. Other tables declare columns
//! of their own in the sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cachewise_model::FIELDS;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Declared {
    /// The name of its table: the file and the constant, or `fields`.
    table: String,
    program: String,
    id: String,
    header: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The first two texts in quotes.
fn two_texts(text: &str) -> Option<(String, String)> {
    let mut texts = text.split('"').skip(1).step_by(2);
    Some((texts.next()?.to_owned(), texts.next()?.to_owned()))
}

/// The columns that a file declares, with the number of the table in the file.
fn declared(path: &Path, text: &str) -> Vec<Declared> {
    let code = text.split("\nmod tests {").next().unwrap_or(text);
    let relative = path.strip_prefix(root().join("crates")).unwrap_or(path);
    let owner = relative.iter().next().expect("a crate").to_string_lossy();
    let program = match &*owner {
        "cpu" | "tier" => owner.into_owned(),
        _ => "cachewise".to_owned(),
    };
    let mut columns = Vec::new();
    for (number, table) in code.split("[SheetColumn;").enumerate() {
        for column in table.split("SheetColumn::new(").skip(1) {
            // Some are named by a constant.
            if !column.trim_start().starts_with('"') {
                continue;
            }
            let (id, header) = two_texts(column).expect("an id and a header");
            columns.push(Declared {
                table: format!("{}, table {number}", relative.display()),
                program: program.clone(),
                id,
                header,
            });
        }
    }
    columns
}

fn all() -> Vec<Declared> {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    files.retain(|path| path.iter().any(|part| part == "src"));
    let mut columns: Vec<Declared> = FIELDS
        .iter()
        .map(|field| Declared {
            table: "fields".into(),
            program: "cachewise".into(),
            id: field.id.into(),
            header: field.header.into(),
        })
        .collect();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        columns.extend(declared(&path, &text));
    }
    // Columns without a header are of machine formats only.
    columns.retain(|column| !column.header.is_empty());
    columns
}

/// The unit that an id ends with; bare numbers and names have none.
fn unit(id: &str) -> &str {
    let id = id.trim_end_matches("_total");
    let last = id.rsplit('_').next().unwrap_or(id);
    match last {
        "pages" | "bytes" | "seconds" | "ratio" | "factor" => last,
        _ => "",
    }
}

#[test]
fn a_header_has_one_unit_in_all_tables() {
    let columns = all();
    assert!(
        columns
            .iter()
            .filter(|column| column.table != "fields")
            .count()
            > 60,
        "the declarations of sheets are found: {}",
        columns.len()
    );
    let mut known: BTreeMap<&str, &Declared> = BTreeMap::new();
    for column in &columns {
        let first = known.entry(&column.header).or_insert(column);
        assert_eq!(
            unit(&first.id),
            unit(&column.id),
            "{} has two units: {first:?} and {column:?}",
            column.header
        );
    }
}

#[test]
fn a_header_stands_for_one_field_in_a_program() {
    let columns = all();
    let mut known: BTreeMap<(&str, &str), &Declared> = BTreeMap::new();
    for column in &columns {
        let place = (column.program.as_str(), column.header.as_str());
        let first = known.entry(place).or_insert(column);
        let (first_id, id) = [&first.id, &column.id]
            .map(|id| id.trim_end_matches("_total"))
            .into();
        // The pages and bytes of a row of another kind: of a stack, of a whole file.
        let same_amount = unit(id) == id && first_id.ends_with(&format!("_{id}"));
        assert!(
            first_id == id || same_amount,
            "{} stands for {first:?} and {column:?}",
            column.header
        );
    }
}

#[test]
fn a_table_has_each_header_once() {
    let mut seen: Vec<(String, String)> = Vec::new();
    for column in all() {
        let place = (column.table, column.header);
        assert!(!seen.contains(&place), "twice in one table: {place:?}");
        seen.push(place);
    }
}

/// The format specifications with a precision, as `{value:.3}`, of a text.
fn precisions(code: &str) -> Vec<&str> {
    let open = code.match_indices(":.").filter_map(|(at, _)| {
        let rest = &code[at + 2..];
        let end = rest.find('}').filter(|end| *end < 8)?;
        let spec = &rest[..end];
        spec.starts_with(|first: char| first.is_ascii_digit())
            .then(|| &code[at..at + 2 + end])
    });
    open.collect()
}

#[test]
fn no_table_formats_numbers_by_its_own() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let crates = root().join("crates");
    // The crate `view` has the formatter.
    files.retain(|path| {
        path.iter().any(|part| part == "src") && !path.starts_with(crates.join("view"))
    });
    let mut tables = 0;
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text.split("\nmod tests {").next().unwrap_or(&text);
        if !code.contains("SheetCell::") {
            continue;
        }
        tables += 1;
        assert_eq!(
            precisions(code),
            [""; 0],
            "{}: cells are made by SheetCell::count, bytes, seconds, latency, ratio, factor, or with the texts of \
             cachewise_view",
            path.display()
        );
    }
    assert!(tables > 10, "the tables are found: {tables}");
}
