//! `cachewise serve`: what it counts, who may ask, what clients can do to it, and the page in a real browser.
//!
//! # Layout
//! - `site`: a server of our own; `http`: requests to it, well-formed or not
//! - `counted`: metrics and JSON against what was read; promtool, and a real Prometheus
//! - `queries`: those of dashboards and alerts; `prometheus`: a real one
//! - `agreement`: `top -b` and `record` beside it, on the same load
//! - `evictions`: evicted pages by process, also of recordings
//! - `blind`: without the probe, what is not known is not 0
//! - `access`: the token that a server makes, the cookie for it, the Unix socket, the packaged service
//! - `losses`: counts that are lost, on every face of `serve`, recordings and `top -b`
//! - `refused`: tokens, names of files, garbage, too many and too slow clients, ports that are taken
//! - `settings`: settings files and environment variables
//! - `browser`, `page`, `chromium`: the page
//! - `written`: what docs/ and dashboards/ say of all that

mod access;
mod agreement;
mod blind;
mod browser;
pub mod chromium;
mod counted;
mod evictions;
mod http;
mod losses;
pub mod page;
mod prometheus;
mod queries;
mod refused;
mod settings;
pub mod site;
mod written;

pub use counted::name_of;

use crate::support::{Trial, trials};

/// The tests.
pub fn trials() -> Vec<Trial> {
    trials![
        plain written::metrics,
        plain written::reasons,
        plain written::eviction_causes,
        plain written::openapi,
        plain written::dashboards,
        plain written::rules,
        plain written::findings,
        plain counted::promtool,
        plain counted::formats,
        plain counted::collectors,
        plain counted::filesets,
        plain counted::json_is_as_described,
        needs_root counted::by_group_to_the_page,
        needs_root agreement::to_the_page,
        needs_root evictions::every_face_names_the_stream_and_its_victim,
        needs_root counted::by_prometheus,
        needs_root queries::all_have_answers_under_load,
        plain counted::before_the_first_tick,
        plain blind::metrics,
        plain blind::lists,
        plain blind::events,
        plain access::made_token_is_shown_once_and_needed,
        plain access::cookie_replaces_the_token_until_the_server_ends,
        plain access::public_metrics_open_that_page_alone,
        plain access::journal_gets_no_token,
        plain access::socket_is_for_its_group,
        plain access::packaged_service_makes_a_private_token_and_needs_it,
        plain refused::token,
        plain refused::other_hosts,
        plain refused::garbage,
        plain refused::port_taken,
        plain refused::arguments,
        plain refused::many_connections,
        plain refused::slow_clients,
        plain refused::slow_readers,
        plain refused::many_streams,
        plain refused::ends_at_once,
        plain settings::flag_overrides_environment_overrides_file,
        plain settings::wrong_settings_are_refused_with_their_source,
        needs_root refused::names,
        needs_root losses::of_serve,
        needs_root losses::of_recordings,
        needs_root losses::of_top,
        plain browser::without_scripts,
        plain browser::script_formats_numbers_as_the_server,
        needs_root browser::journey,
        plain page::state_is_in_the_address,
        plain page::imported_modules_are_served,
        plain page::suspension_is_marked,
        plain page::csv_button_saves_the_shown_rows,
        needs_root page::keyboard_alone_suffices,
        needs_root page::every_width_fits_and_is_accessible,
        needs_root page::subjects_show_files_and_readers,
        plain page::restart_leaves_a_gap_and_tabs_are_apart,
    ]
}
