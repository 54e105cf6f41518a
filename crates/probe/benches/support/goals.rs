//! How a bench ends that counts missed goals.

use std::error::Error;
use std::process::ExitCode;

/// Runs a bench that returns how many goals are missed. With `--check` among the arguments, a missed goal is a failure.
pub fn ended(name: &str, bench: impl FnOnce() -> Result<usize, Box<dyn Error>>) -> ExitCode {
    let check = std::env::args().any(|argument| argument == "--check");
    match bench() {
        Ok(missed) if check && missed > 0 => {
            eprintln!("{name}: {missed} goals are missed");
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
