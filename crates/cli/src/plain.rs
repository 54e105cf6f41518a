//! [`plain`]: reasons of the standard library and of clap in the words of this project.

/// Returns the reason why a value is refused, in plain words. Reasons of the project's own parsers stay as they are.
#[must_use]
pub fn plain(reason: &str) -> String {
    let fixed = match reason {
        "invalid digit found in string" => "not a whole number",
        "cannot parse integer from empty string" | "cannot parse float from empty string" => {
            "empty: write a number"
        }
        "number too large to fit in target type" => "the number is too large",
        "number too small to fit in target type" => "the number is too small",
        "invalid float literal" => "not a number",
        "provided string was not `true` or `false`" => "not true or false",
        other => return bounds(other).unwrap_or_else(|| other.to_owned()),
    };
    fixed.to_owned()
}

/// Returns `VALUE is not in FIRST..=LAST` of clap in words.
fn bounds(reason: &str) -> Option<String> {
    let (value, range) = reason.split_once(" is not in ")?;
    let (first, last) = range.split_once("..")?;
    let last = last.strip_prefix('=').unwrap_or(last);
    let (first, last): (i128, i128) = (first.parse().ok()?, last.parse().ok()?);
    // The last number of a type is no bound that a user has to know.
    Some(match last >= i64::MAX.into() {
        true => format!("{value} is too small: the minimum is {first}"),
        false => format!("{value} is not from {first} to {last}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_other_libraries_become_plain() {
        let whole = |text: &str| plain(&text.parse::<u16>().unwrap_err().to_string());
        assert_eq!(whole("x"), "not a whole number");
        assert_eq!(whole("-1"), "not a whole number");
        assert_eq!(whole(""), "empty: write a number");
        assert_eq!(whole("70000"), "the number is too large");
        let real = |text: &str| plain(&text.parse::<f64>().unwrap_err().to_string());
        assert_eq!(real("x"), "not a number");
        assert_eq!(real(""), "empty: write a number");
        let switch = "x".parse::<bool>().unwrap_err().to_string();
        assert_eq!(plain(&switch), "not true or false");
        let clap = |range: clap::builder::RangedU64ValueParser<u64>, value: &str| {
            let command = clap::Command::new("test")
                .no_binary_name(true)
                .arg(clap::Arg::new("n").value_parser(range));
            let error = command.try_get_matches_from([value]).unwrap_err();
            plain(
                &std::error::Error::source(&error)
                    .expect("a reason")
                    .to_string(),
            )
        };
        let from_one = || clap::value_parser!(u64).range(1..);
        assert_eq!(clap(from_one(), "0"), "0 is too small: the minimum is 1");
        let up_to_nine = || clap::value_parser!(u64).range(1..=9);
        assert_eq!(clap(up_to_nine(), "10"), "10 is not from 1 to 9");
        assert_eq!(plain("\"1x\" is not a ratio"), "\"1x\" is not a ratio");
    }
}
