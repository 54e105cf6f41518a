//! Limit of the speed at which files are read.

use cachewise_units::Bytes;

/// Parses bytes a second, such as `200M` or `200M/s`.
///
/// # Errors
/// The text is not a size, or is 0.
pub fn parse_rate(text: &str) -> Result<Bytes, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse::<Bytes>() {
        Ok(Bytes(0)) => Err("invalid rate 0: write at least 1 byte per second".into()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}
