//! The line of `cachewise try` that verifies the fix of a finding.

use cachewise_units::{Bytes, shell_quoted};

use crate::finding::Finding;
use crate::interval::Interval;
use crate::measured::Count;
use crate::redact::is_redacted;

/// Twice the memory of a limit, as `cachewise try` takes it.
pub(super) fn more_memory(limit: Count) -> Option<String> {
    const MIB: u64 = 1 << 20;
    let Bytes(size) = Bytes(limit.known()?.saturating_mul(2));
    Some(match size % MIB {
        0 => format!("memory={}M", size / MIB),
        _ => format!("memory={size}"),
    })
}

/// How to verify a fix: with the line that tries it, for a run whose fix can be tried, or as the rule says.
pub(super) fn verify(finding: &Finding, rule: &'static str, interval: &Interval) -> String {
    let (Some(fix), Some(run)) = (&finding.trial, interval.run.as_deref()) else {
        return rule.to_owned();
    };
    let expected = rule.split_once(": ").map_or(rule, |(_, expected)| expected);
    let words: Vec<String> = match run.command.as_slice() {
        [] => vec!["COMMAND".to_owned()],
        command if is_redacted(command) => vec!["COMMAND".to_owned()],
        command => command
            .iter()
            .map(|word| shell_quoted(word.as_ref()))
            .collect(),
    };
    format!(
        "{expected} with: cachewise try {fix} -- {}",
        words.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;
    use crate::measured::Measured;
    use crate::redact::redact_arguments;

    #[test]
    fn line_has_the_command_quoted_for_a_shell() {
        let finding = Finding {
            trial: Some("warm".to_owned()),
            ..Finding::default()
        };
        let mut interval = sample::run();
        interval.run_mut().command = vec!["cat".into(), "a b".into()];
        let of = |interval: &Interval| verify(&finding, "run it again: cold pages fall", interval);
        assert_eq!(
            of(&interval),
            "cold pages fall with: cachewise try warm -- cat 'a b'"
        );
        redact_arguments(&mut interval.run_mut().command);
        let placeholder = "cold pages fall with: cachewise try warm -- COMMAND";
        assert_eq!(of(&interval), placeholder, "secrets stay out");
        interval.run_mut().command.clear();
        assert_eq!(of(&interval), placeholder, "a followed process");
        interval.run = None;
        assert_eq!(of(&interval), "run it again: cold pages fall", "a machine");
    }

    #[test]
    fn memory_is_twice_the_limit() {
        let of = |limit| more_memory(Measured::Exact(limit));
        assert_eq!(of(120 << 20).as_deref(), Some("memory=240M"));
        assert_eq!(of(4096).as_deref(), Some("memory=8192"));
        assert_eq!(
            more_memory(Measured::not_offered(crate::Reason::NoLimitReached)),
            None
        );
    }
}
