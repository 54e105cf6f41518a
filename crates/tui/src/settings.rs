//! [`Settings`]: the columns that the user has chosen, in a file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cachewise_model::{escaped, field};

use crate::view_kind::ViewKind;

/// Version of the file's format.
const VERSION: i64 = 1;

/// A larger file is not one of these.
const LARGEST: u64 = 64 << 10;

/// The ids of the chosen columns of views, without names.
pub type ChosenColumns = Vec<(ViewKind, Vec<&'static str>)>;

/// The user's choice of columns, and its file.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    path: Option<PathBuf>,
    columns: ChosenColumns,
    problem: Option<String>,
}

impl Settings {
    /// Reads a file. One that is not there has no choice; one with a fault has none either, and is never overwritten.
    #[must_use]
    pub fn read(path: PathBuf) -> Settings {
        let read = text_of(&path).and_then(|text| match text {
            Some(text) => parse(&text),
            None => Ok(Vec::new()),
        });
        let (columns, problem) = match read {
            Ok(columns) => (columns, None),
            Err(why) => (Vec::new(), Some(format!("{}: {why}", escaped(&path)))),
        };
        Settings {
            path: Some(path),
            columns,
            problem,
        }
    }

    /// The chosen columns; views without a choice are not among them.
    #[must_use]
    pub fn columns(&self) -> &ChosenColumns {
        &self.columns
    }

    /// The fault of the file, on one line.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Writes these columns, and returns the file. The file is replaced as a whole.
    ///
    /// # Errors
    /// The reason: no home directory, a file with a fault or of a newer version, a directory of another user, I/O.
    pub fn save(&self, columns: &ChosenColumns) -> Result<PathBuf, String> {
        let Some(path) = &self.path else {
            return Err("not saved: neither XDG_CONFIG_HOME nor HOME names a directory".into());
        };
        // It may have been written since.
        let current = Settings::read(path.clone());
        if let Some(problem) = current.problem.or_else(|| self.problem.clone()) {
            return Err(format!("not saved, the file stays as it is: {problem}"));
        }
        // A link stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let cannot = |why: String| format!("not saved: {}: {why}", escaped(&path));
        check_owner(&path).map_err(cannot)?;
        replace(&path, &text(columns)).map_err(|error| cannot(error.to_string()))?;
        Ok(path)
    }
}

/// The content of a regular file; `None` if there is none.
fn text_of(path: &Path) -> Result<Option<String>, String> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match (found.is_file(), found.len() > LARGEST) {
        (false, _) => Err("it is no regular file".into()),
        (true, true) => Err(format!("it has more than {LARGEST} bytes")),
        (true, false) => fs::read_to_string(path)
            .map(Some)
            .map_err(|error| error.to_string()),
    }
}

fn parse(text: &str) -> Result<ChosenColumns, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = 1 + text
            .bytes()
            .take(start)
            .filter(|byte| *byte == b'\n')
            .count();
        let what = error
            .message()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        format!("line {line}: {what}")
    })?;
    match table.get("version").map(toml::Value::as_integer) {
        Some(Some(VERSION)) => {}
        Some(Some(newer)) if newer > VERSION => {
            return Err(format!(
                "it is of a newer version of cachewise (format {newer}; this one reads {VERSION})"
            ));
        }
        _ => return Err(format!("it lacks `version = {VERSION}`")),
    }
    if let Some(other) = table
        .keys()
        .find(|key| !["version", "columns"].contains(&key.as_str()))
    {
        return Err(format!("unknown key {}", escaped(other)));
    }
    let columns = match table.get("columns") {
        None => return Ok(Vec::new()),
        Some(columns) => columns.as_table().ok_or("columns is no table")?,
    };
    columns
        .iter()
        .map(|(view, list)| of_view(view, list))
        .collect()
}

fn of_view(view: &str, list: &toml::Value) -> Result<(ViewKind, Vec<&'static str>), String> {
    let is_it = |kind: &ViewKind| kind.word() == view;
    let kind = ViewKind::ALL.into_iter().find(is_it);
    let kind = kind.ok_or_else(|| format!("columns.{}: no such view", escaped(view)))?;
    let list = list
        .as_array()
        .ok_or_else(|| format!("columns.{view} is no list"))?;
    let offered = kind.columns();
    let ids = list.iter().map(|name| {
        let name = name.as_str().unwrap_or_default();
        let id = field(name).map(|field| field.id);
        id.filter(|id| offered.iter().any(|column| column.field.id == *id))
            .ok_or_else(|| format!("columns.{view}: no column `{}`", escaped(name)))
    });
    Ok((kind, ids.collect::<Result<_, _>>()?))
}

fn text(columns: &ChosenColumns) -> String {
    let mut text = format!(
        "# Columns of cachewise top, written by F2 and W on its screen.\nversion = {VERSION}\n\n[columns]\n"
    );
    for (kind, ids) in columns {
        let ids: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        text += &format!("{} = [{}]\n", kind.word(), ids.join(", "));
    }
    text
}

/// Refuses to write into the directory of another user, as with `sudo` and the home directory of its caller.
fn check_owner(path: &Path) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    for directory in path.ancestors().skip(1) {
        match fs::metadata(directory) {
            Ok(found) if found.uid() == own => return Ok(()),
            Ok(_) => return Err(format!("{} belongs to another user", escaped(directory))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&new);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    let done = written.and_then(|()| fs::rename(&new, path));
    if done.is_err() {
        let _ = fs::remove_file(&new);
    }
    done
}
