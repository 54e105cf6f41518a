//! Where output goes and how it looks.
//!
//! # Layout
//! - `target`: files, by their endings, and formats; `lost`: full disks and closed pipes
//! - `planted`, `planted_recording`: links, files and recordings of other users where output goes
//! - `terminal`: widths and colours; `names`: names of files and commands with special characters

mod lost;
mod names;
mod planted;
mod planted_recording;
mod target;
mod terminal;

use crate::support::{Trial, needs_root, plain};

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("target::missing_directory", target::missing_directory),
        plain("target::directory", target::directory),
        plain("target::mistyped_format", target::mistyped_format),
        plain(
            "target::a_file_for_each_format",
            target::a_file_for_each_format,
        ),
        plain(
            "target::several_at_once_hold_the_same_numbers",
            target::several_at_once_hold_the_same_numbers,
        ),
        plain(
            "target::every_command_refuses_two_on_one_stream",
            target::every_command_refuses_two_on_one_stream,
        ),
        plain("target::unknown_ending", target::unknown_ending),
        plain("full::report", lost::full_report),
        plain("full::standard_error", lost::full_standard_error),
        plain("full::rows", lost::full_rows),
        plain(
            "full::a_file_at_its_size_limit_is_an_error",
            lost::a_file_at_its_size_limit_is_an_error,
        ),
        plain(
            "pipe::the_report_has_no_reader",
            lost::the_report_has_no_reader,
        ),
        plain("pipe::interrupted_twice", lost::interrupted_twice),
        plain("width::of_a_terminal", terminal::width_of_a_terminal),
        plain("width::of_a_pipe", terminal::width_of_a_pipe),
        plain("terminal::first_steps", terminal::first_steps),
        plain("colour::asked_for", terminal::colour_asked_for),
        plain("colour::on_a_terminal", terminal::colour_on_a_terminal),
        plain("json::head", target::json_head),
        needs_root("planted::symbolic_links", planted::symbolic_links),
        needs_root("planted::hard_links", planted::hard_links),
        needs_root("planted::files", planted::files),
        needs_root(
            "planted::recording",
            planted_recording::record_appends_to_a_planted_recording_only_where_the_kernel_allows_it,
        ),
        plain("names::in_messages", names::names_in_messages),
        plain("names::of_the_command", names::name_of_the_command),
        needs_root("names::control_characters", names::control_characters),
        needs_root("names::not_utf8", names::not_utf8),
        needs_root("names::spaces_and_line_feeds", names::spaces_and_line_feeds),
        needs_root("names::deleted_file", names::deleted_file),
        needs_root(
            "names::many_deleted_files_keep_their_names",
            names::many_deleted_files_keep_their_names,
        ),
        needs_root("names::in_findings", names::in_findings),
    ]
}
