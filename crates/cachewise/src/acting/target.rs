//! Options of the commands that act on files.

use cachewise_model::Field;
use cachewise_units::{ByteRange, Bytes};
use clap::Args;

use crate::columns::fields;
use crate::options::{Columns, Output, Select, file_columns};

/// The files to act on, and the form of the output.
#[derive(Debug, Args)]
pub struct Target {
    /// Act only on this part of each file: OFFSET:LENGTH, in bytes or with a unit (1G:64M); without LENGTH, to its end.
    #[arg(long, value_name = "RANGE", value_parser = parse_range, allow_hyphen_values = true)]
    pub range: Option<ByteRange>,
    #[command(flatten)]
    pub select: Select,
    /// Report what would be done without doing it.
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// Maximum files to show, largest change first; 0 shows all [default: all named files, 20 of directories].
    #[arg(short = 'n', long, value_name = "N")]
    pub top: Option<usize>,
    /// Columns, comma-separated ids (resident_after_pages) or headings (AFTER-PG), in any case; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = file_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

impl Target {
    /// The part of each file that is meant.
    pub fn range(&self) -> ByteRange {
        self.range.unwrap_or(ByteRange::starting_at(0))
    }

    /// Columns of `--columns`, or the residency before and after.
    pub fn fields(&self) -> Vec<&'static Field> {
        const COLUMNS: [&str; 6] = [
            "file_size_bytes",
            "file_pages",
            "resident_before_pages",
            "resident_after_pages",
            "note",
            "path",
        ];
        match &self.columns {
            Some(columns) => columns.0.clone(),
            None => fields(&COLUMNS),
        }
    }
}

fn parse_range(text: &str) -> Result<ByteRange, String> {
    let (start, length) = text.split_once(':').unwrap_or((text, ""));
    let bytes = |text: &str| {
        text.parse::<Bytes>()
            .map(|bytes| bytes.0)
            .map_err(|error| error.to_string())
    };
    let start = bytes(start)?;
    let range = match length {
        "" => ByteRange::starting_at(start),
        length => ByteRange {
            start,
            len: bytes(length)?,
        },
    };
    if range.len == 0 && !length.is_empty() {
        return Err(format!(
            "invalid length 0: write {start}: for the part from there to the end"
        ));
    }
    // No offset of a file is larger than an i64.
    match start.checked_add(range.len) {
        Some(_) if start <= i64::MAX as u64 => Ok(range),
        _ => Err("the range ends beyond 2^63, the largest offset of a file".into()),
    }
}
