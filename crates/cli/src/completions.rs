//! Completion scripts, with names in comma-separated lists.

use std::collections::BTreeSet;

use clap::Command;
use clap_complete::Shell;

/// The value name of arguments that are comma-separated lists.
const LIST: &str = "LIST";

/// The completion script of a program.
#[must_use]
pub fn script(shell: Shell, mut program: Command) -> Vec<u8> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    let mut text = match String::from_utf8(script) {
        Ok(text) => text,
        Err(error) => return error.into_bytes(),
    };
    for names in lists(&program) {
        text = with_list(shell, text, &names);
    }
    text.into_bytes()
}

/// The names that each list of a command and its subcommands may hold.
fn lists(command: &Command) -> BTreeSet<Vec<String>> {
    let mut lists: BTreeSet<Vec<String>> = command.get_subcommands().flat_map(lists).collect();
    for argument in command.get_arguments() {
        let names = argument.get_value_names().unwrap_or_default();
        if names.iter().all(|name| name.as_str() != LIST) {
            continue;
        }
        let values = argument.get_possible_values();
        let values: Vec<String> = values
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        if !values.is_empty() {
            lists.insert(values);
        }
    }
    lists
}

/// Completes the last name of a list, where the script of clap completes a single one.
fn with_list(shell: Shell, text: String, names: &[String]) -> String {
    let words = names.join(" ");
    match shell {
        Shell::Bash => text.replace(
            &format!("compgen -W \"{words}\" -- \"${{cur}}\""),
            &format!("compgen -P \"${{cur%\"${{cur##*,}}\"}}\" -W \"{words}\" -- \"${{cur##*,}}\""),
        ),
        // The space keeps _arguments from adding options of its own.
        Shell::Zsh => text.replace(
            &format!(":{LIST}:({words})"),
            &format!(":{LIST}: _sequence compadd - {words}"),
        ),
        Shell::Fish => {
            let each: Vec<String> = names.iter().map(|name| format!("{name}\\t''")).collect();
            text.replace(
                &format!("-a \"{}\"", each.join("\n")),
                &format!("-a \"(__fish_append , {words})\""),
            )
        }
        _ => text,
    }
}
