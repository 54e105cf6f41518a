//! Numbers for people.

/// A number with thousands separators.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its noun, in the plural unless it is 1: `1 row`, `1,234 processes`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let end = match noun {
        _ if number == 1 => "",
        noun if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{end}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouped_separates_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text, "{number} in groups of three");
        }
    }

    #[test]
    fn nouns_follow_their_number() {
        for (number, noun, text) in [
            (0, "row", "0 rows"),
            (1, "row", "1 row"),
            (1_234, "process", "1,234 processes"),
            (1, "access", "1 access"),
        ] {
            assert_eq!(counted(number, noun), text);
        }
    }
}
