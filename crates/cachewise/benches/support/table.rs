//! The end of a bench: its table on standard output, and in the file that `CACHEWISE_TABLE` names.

use std::process::ExitCode;

/// Prints the table, or the error under the name of the bench.
pub fn finish(bench: &str, table: crate::Outcome<String>) -> ExitCode {
    match table {
        Ok(table) => {
            println!("{table}");
            if let Some(path) = std::env::var_os("CACHEWISE_TABLE")
                && let Err(error) = std::fs::write(&path, table)
            {
                eprintln!("cannot write {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{bench}: {error}");
            ExitCode::FAILURE
        }
    }
}
