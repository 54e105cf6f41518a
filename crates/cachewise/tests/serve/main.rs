//! `cachewise serve`: what it counts, who may ask, what clients can do to it, and the page in a real browser.
//!
//! # Layout
//! - `site`: a server of our own; `http`: requests to it, well-formed or not
//! - `counted`: metrics and JSON against what was read; promtool, and a real Prometheus
//! - `agreement`: `top -b` and `record` beside it, on the same load
//! - `blind`: without the probe, what is not known is not 0
//! - `refused`: tokens, names of files, garbage, too many and too slow clients, ports that are taken
//! - `browser`, `chromium`: the page
//! - `written`: what docs/ and dashboards/ say of all that

#[path = "../support/mod.rs"]
mod support;

mod agreement;
mod blind;
mod browser;
mod chromium;
mod counted;
mod http;
mod refused;
mod site;
mod written;

use std::process::ExitCode;

use support::{run, trials};

fn main() -> ExitCode {
    run(
        "exact counters of `serve`, and its live page",
        trials![
            plain written::metrics,
            plain written::openapi,
            plain written::dashboards,
            plain written::rules,
            plain counted::promtool,
            plain counted::formats,
            plain counted::collectors,
            plain counted::filesets,
            plain counted::json_is_as_described,
            needs_root counted::by_group_to_the_page,
            needs_root agreement::to_the_page,
            needs_root counted::by_prometheus,
            plain counted::before_the_first_tick,
            plain blind::metrics,
            plain blind::lists,
            plain blind::events,
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
            needs_root refused::names,
            plain browser::without_scripts,
            needs_root browser::journey,
        ],
    )
}
