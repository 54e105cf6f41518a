//! Numbers that benches are told: for all crates, by path.

/// A number from the environment, at least 1; `usual` where there is none.
///
/// # Errors
/// Names the variable that is no number: a bench that took another one would answer another question.
pub fn number(name: &str, usual: usize) -> Result<usize, String> {
    let Some(text) = std::env::var_os(name) else {
        return Ok(usual);
    };
    let number = text.to_str().and_then(|text| text.parse::<usize>().ok());
    let number = number.ok_or_else(|| format!("{name}: {text:?} is no whole number"))?;
    Ok(number.max(1))
}
