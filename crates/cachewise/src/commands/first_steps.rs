//! `cachewise` without arguments on a terminal: the questions that it answers, and the command for what this machine does now.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_kstat::{Kernel, Resource};
use cachewise_view::share;

/// A question, the command that answers it, and whether it needs root.
struct Step {
    question: &'static str,
    command: &'static str,
    needs_root: bool,
}

const STEPS: [Step; 6] = [
    Step {
        question: "Does my program wait for the disk?",
        command: "cachewise run -- COMMAND",
        needs_root: true,
    },
    Step {
        question: "How much memory does it need?",
        command: "cachewise size -- COMMAND",
        needs_root: true,
    },
    Step {
        question: "Which programs miss the cache now?",
        command: "cachewise top",
        needs_root: true,
    },
    Step {
        question: "What is wrong on this machine?",
        command: "cachewise doctor",
        needs_root: true,
    },
    Step {
        question: "What happened last night?",
        command: "cachewise record FILE",
        needs_root: true,
    },
    Step {
        question: "Which of my files are in memory?",
        command: "cachewise files PATH",
        needs_root: false,
    },
];

/// Share of the last ten seconds in which tasks waited, from which the wait is worth a look.
const NOTABLE: f64 = 0.05;

/// Whether these are the arguments of a person who asks for the first steps: none, on a terminal.
pub fn are_wanted(arguments: usize) -> bool {
    arguments <= 1 && io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Prints the first steps.
///
/// # Errors
/// The output cannot be written.
pub fn run() -> Result<ExitCode> {
    let is_root = rustix::process::geteuid().is_root();
    let text = text(is_root, &Kernel::new());
    io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn text(is_root: bool, kernel: &Kernel) -> String {
    let mut text =
        "cachewise measures how programs use the page cache, to the page.\n\n".to_owned();
    for step in &STEPS {
        let command = with_rights(step.command, step.needs_root, is_root);
        let _ = writeln!(text, "  {:36}{command}", step.question);
    }
    let some = |resource| {
        let pressure = kernel.pressure(resource).ok().flatten()?;
        Some(pressure.some?.avg10)
    };
    let now = now(some(Resource::Memory), some(Resource::Io), is_root);
    let _ = writeln!(text, "\nNow: {now}");
    text += "All commands: cachewise --help\n";
    text
}

fn with_rights(command: &str, needs_root: bool, is_root: bool) -> String {
    match needs_root && !is_root {
        true => format!("sudo {command}"),
        false => command.to_owned(),
    }
}

/// The wait of tasks in the last ten seconds, as shares of the time, and the command to look at it.
fn now(memory: Option<f64>, io: Option<f64>, is_root: bool) -> String {
    let (Some(memory), Some(io)) = (memory, io) else {
        return "unknown, as this kernel has no pressure stall information (PSI)".to_owned();
    };
    if memory >= NOTABLE {
        let command = with_rights("cachewise doctor", true, is_root);
        return format!(
            "tasks waited for memory in {} of the last 10 s: {command}",
            share(memory)
        );
    }
    if io >= NOTABLE {
        let command = with_rights("cachewise top", true, is_root);
        return format!(
            "tasks waited for storage in {} of the last 10 s: {command}",
            share(io)
        );
    }
    format!(
        "tasks hardly wait for storage ({}) or memory ({}) on this machine",
        share(io),
        share(memory)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestion_is_that_of_what_tasks_wait_for() {
        for (memory, io, is_root, expected) in [
            (
                Some(0.25),
                Some(0.5),
                true,
                "tasks waited for memory in 25.0 % of the last 10 s: cachewise doctor",
            ),
            (
                Some(0.01),
                Some(0.5),
                false,
                "tasks waited for storage in 50.0 % of the last 10 s: sudo cachewise top",
            ),
            (
                Some(0.0),
                Some(0.01),
                true,
                "tasks hardly wait for storage (1.0 %) or memory (0.0 %) on this machine",
            ),
            (
                None,
                Some(0.5),
                true,
                "unknown, as this kernel has no pressure stall information (PSI)",
            ),
        ] {
            assert_eq!(now(memory, io, is_root), expected);
        }
    }

    #[test]
    fn first_steps_have_few_lines_that_fit_a_terminal() {
        for is_root in [true, false] {
            let text = text(is_root, &Kernel::new());
            assert!(text.lines().count() <= 12, "{text}");
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
            assert_eq!(text.contains("sudo"), !is_root, "{text}");
        }
    }
}
