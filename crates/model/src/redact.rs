//! Command lines without their arguments, which may hold secrets.

/// Replaces the arguments of a command by their number; the program keeps its name.
pub fn redact_arguments(command: &mut Vec<String>) {
    match command.len().saturating_sub(1) {
        0 => {}
        1 => command[1] = "[1 argument redacted]".into(),
        count => command
            .splice(1.., [format!("[{count} arguments redacted]")])
            .for_each(drop),
    }
}

/// Whether the arguments of a command were replaced.
pub(crate) fn is_redacted(command: &[String]) -> bool {
    matches!(command, [_, words] if words.starts_with('[') && words.ends_with(" redacted]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_and_the_number_of_its_arguments_remain() {
        for (given, left) in [
            (&[][..], &[][..]),
            (&["ls"], &["ls"]),
            (&["mysql", "-psecret"], &["mysql", "[1 argument redacted]"]),
            (
                &["curl", "-H", "Authorization: x"],
                &["curl", "[2 arguments redacted]"],
            ),
        ] {
            let mut command: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
            redact_arguments(&mut command);
            assert_eq!(command, left, "{given:?}");
            assert_eq!(is_redacted(&command), given.len() > 1, "{given:?}");
            redact_arguments(&mut command);
            let words = left.len();
            assert_eq!(command.len(), words, "twice makes it no longer");
        }
    }
}
