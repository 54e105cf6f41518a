//! How fast files may be read.

use cachewise_units::Bytes;

/// Parses bytes a second, such as `200M` or `200M/s`.
///
/// # Errors
/// Says what is wrong with the text; 0 is refused.
pub fn parse_rate(text: &str) -> Result<Bytes, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse::<Bytes>() {
        Ok(Bytes(0)) => Err("at this rate nothing would ever be read".into()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}
