//! `man`: the manual's pages, from the same table as `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Commands for everybody.
const SECTION: &str = "1";
/// The day on which a command or an option changed last: the same for every build, so that builds are alike.
const DATE: &str = "2026-11-25";
/// How the examples begin, and the words on the exit status, in the text after a command's options.
const EXAMPLES: &str = "Examples:\n";
const STATUS: &str = "Exit status: ";

/// Prints the first page, or writes all of them.
///
/// # Errors
/// The directory or a page cannot be written.
pub fn man(program: Command, directory: Option<&Path>) -> Result<()> {
    let pages = pages(program)?;
    let Some(directory) = directory else {
        if let Some((_, first)) = pages.first() {
            io::stdout().write_all(first)?;
        }
        return Ok(());
    };
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for (name, page) in &pages {
        let path = directory.join(name);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The name of each page's file, and its text: first the program's, then each command's.
///
/// A command that leaves `--help` to another program has its pages there.
///
/// # Errors
/// Rendering fails.
pub fn pages(program: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut root = program.disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    let mut waiting = vec![(root, None)];
    while let Some((command, above)) = waiting.pop() {
        let name = name_of(&command);
        // The last one that is put there is the first one that comes off.
        let below: Vec<Command> = command.get_subcommands().cloned().collect();
        let below = below
            .into_iter()
            .rev()
            .filter(|one| !one.is_hide_set() && !one.is_disable_help_flag_set());
        waiting.extend(below.map(|one| (one, Some(name.clone()))));
        pages.push((
            format!("{name}.{SECTION}"),
            page(command, above.as_deref())?,
        ));
    }
    Ok(pages)
}

/// `cachewise-bench-matrix`.
fn name_of(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

fn page(command: Command, above: Option<&str>) -> Result<Vec<u8>> {
    let name = name_of(&command);
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let below: Vec<String> = command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .map(name_of)
        .collect();
    let has_options = command.get_arguments().any(|option| !option.is_hide_set());
    let man = Man::new(command)
        .section(SECTION)
        .date(DATE)
        .source(concat!("cachewise ", env!("CARGO_PKG_VERSION")))
        .manual("Caches, made visible");

    let mut page = Vec::new();
    man.render_title(&mut page)?;
    write(&mut page, "NAME", |roff| {
        // One line without a full stop: that is what `apropos` shows.
        let line = format!("{name} - {}", about.trim_end_matches('.'));
        roff.text([roman(line)]);
    })?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    write_paragraphs(&mut page, &after)?;
    if has_options {
        man.render_options_section(&mut page)?;
    }
    if !below.is_empty() {
        man.render_subcommands_section(&mut page)?;
    }
    for paragraph in after.split("\n\n") {
        if let Some(status) = paragraph.strip_prefix(STATUS) {
            write(&mut page, "EXIT STATUS", |roff| {
                roff.text([roman(status)]);
            })?;
        } else if let Some(examples) = paragraph.strip_prefix(EXAMPLES) {
            write(&mut page, "EXAMPLES", |roff| {
                roff.control("nf", []);
                for line in examples.lines() {
                    roff.text([roman(line.trim())]);
                }
                roff.control("fi", []);
            })?;
        }
    }
    write(&mut page, "SEE ALSO", |roff| {
        let mut others: Vec<&str> = above.into_iter().collect();
        others.extend(below.iter().map(String::as_str));
        if others.is_empty() {
            others.push("proc");
        }
        let mut words = Vec::new();
        for (index, other) in others.into_iter().enumerate() {
            let section = if other == "proc" { "5" } else { SECTION };
            words.push(roman(if index == 0 { "" } else { ", " }));
            words.push(bold(other));
            words.push(roman(format!("({section})")));
        }
        roff.text(words);
    })?;
    Ok(page)
}

/// Text after the options that is neither examples nor the exit status belongs to the description.
fn write_paragraphs(page: &mut Vec<u8>, after: &str) -> io::Result<()> {
    let mut roff = Roff::new();
    for paragraph in after.split("\n\n") {
        if !paragraph.is_empty()
            && !paragraph.starts_with(STATUS)
            && !paragraph.starts_with(EXAMPLES)
        {
            roff.control("PP", []);
            roff.text([roman(paragraph)]);
        }
    }
    roff.to_writer(page)
}

fn write(page: &mut Vec<u8>, heading: &str, fill: impl FnOnce(&mut Roff)) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    fill(&mut roff);
    roff.to_writer(page)
}
