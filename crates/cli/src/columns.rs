//! `--columns`: lists of columns, with their names for completions of the shell.

use std::ffi::OsStr;

use cachewise_model::{did_you_mean, nearest_names};
use cachewise_view::{SheetColumn, SheetColumns};
use clap::builder::{PossibleValue, TypedValueParser};

/// A parser of names of columns; completions of the shell list the ids.
#[derive(Debug, Clone)]
pub struct ColumnsParser<T: 'static> {
    /// Parses what was typed.
    pub parse: fn(&str) -> Result<T, String>,
    /// The ids that may be typed.
    pub ids: fn() -> Vec<&'static str>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for ColumnsParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        TypedValueParser::parse_ref(&self.parse, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.ids)().into_iter().map(PossibleValue::new)))
    }
}

/// The parser of `--columns` of a command with these tables.
#[derive(Debug, Clone, Copy)]
pub struct SheetColumnsParser(pub &'static [&'static [SheetColumn]]);

impl SheetColumnsParser {
    /// Parses a comma-separated list.
    ///
    /// # Errors
    /// Names the first unknown column, the nearest ones, and all that there are.
    pub fn parse(self, list: &str) -> Result<SheetColumns, String> {
        SheetColumns::find(list, self.0).map_err(|name| {
            let all = self.columns();
            let names = all.iter().flat_map(|column| [column.id, column.header]);
            let near = nearest_names(&name, names);
            let near: Vec<String> = near.iter().map(|near| format!("`{near}`")).collect();
            format!(
                "no column `{}`; {}the columns are {}",
                name.escape_debug(),
                did_you_mean(&near),
                all.iter()
                    .map(|column| column.id)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        })
    }

    /// The columns, each once.
    fn columns(self) -> Vec<&'static SheetColumn> {
        let mut all: Vec<&SheetColumn> = Vec::new();
        for column in self.0.iter().copied().flatten() {
            if all.iter().all(|known| known.id != column.id) {
                all.push(column);
            }
        }
        all
    }
}

impl TypedValueParser for SheetColumnsParser {
    type Value = SheetColumns;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<SheetColumns, clap::Error> {
        let parser = *self;
        let parse = move |list: &str| parser.parse(list);
        TypedValueParser::parse_ref(&parse, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let columns = self.columns().into_iter();
        Some(Box::new(
            columns.map(|column| PossibleValue::new(column.id)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLES: [&[SheetColumn]; 2] = [
        &[SheetColumn::new("size_bytes", "SIZE", true, "The size")],
        &[
            SheetColumn::new("size_bytes", "SIZE", true, "The size"),
            SheetColumn::new("name", "NAME", false, "The name"),
        ],
    ];

    #[test]
    fn unknown_column_gets_the_nearest_and_the_list() {
        let parser = SheetColumnsParser(&TABLES);
        assert!(parser.parse("name,Size").is_ok(), "ids and headers");
        assert_eq!(
            parser.parse("name,sise").unwrap_err(),
            "no column `sise`; did you mean `SIZE`? the columns are size_bytes, name"
        );
    }

    #[test]
    fn completions_have_each_id_once() {
        let parser = SheetColumnsParser(&TABLES);
        let values = TypedValueParser::possible_values(&parser);
        let names: Vec<String> = values
            .expect("they are listed")
            .map(|value| value.get_name().to_owned())
            .collect();
        assert_eq!(names, ["size_bytes", "name"]);
    }
}
