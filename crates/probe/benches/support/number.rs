//! Numbers from the environment of benches: shared by all crates, by path.

/// A number from the environment, at least 1; `usual` if the variable is not set.
///
/// # Errors
/// Names the variable if it is not a number: a bench with another number would answer another question.
pub fn number(name: &str, usual: usize) -> Result<usize, String> {
    let Some(text) = std::env::var_os(name) else {
        return Ok(usual);
    };
    let number = text.to_str().and_then(|text| text.parse::<usize>().ok());
    let number = number.ok_or_else(|| format!("{name}: {text:?} is no whole number"))?;
    Ok(number.max(1))
}
