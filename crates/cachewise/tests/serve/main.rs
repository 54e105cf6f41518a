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

use support::{needs_root, plain, run};

fn main() -> ExitCode {
    run(
        "exact counters of `serve`, and its live page",
        vec![
            plain("written::metrics", written::metrics),
            plain("written::openapi", written::openapi),
            plain("written::dashboards", written::dashboards),
            plain("written::rules", written::rules),
            plain("counted::promtool", counted::promtool),
            plain("counted::formats", counted::formats),
            plain("counted::collectors", counted::collectors),
            plain("counted::filesets", counted::filesets),
            plain(
                "counted::json_is_as_described",
                counted::json_is_as_described,
            ),
            needs_root(
                "counted::by_group_to_the_page",
                counted::by_group_to_the_page,
            ),
            needs_root("agreement::to_the_page", agreement::to_the_page),
            needs_root("counted::by_prometheus", counted::by_prometheus),
            plain(
                "counted::before_the_first_tick",
                counted::before_the_first_tick,
            ),
            plain("blind::metrics", blind::metrics),
            plain("blind::lists", blind::lists),
            plain("blind::events", blind::events),
            plain("refused::token", refused::token),
            plain("refused::other_hosts", refused::other_hosts),
            plain("refused::garbage", refused::garbage),
            plain("refused::port_taken", refused::port_taken),
            plain("refused::arguments", refused::arguments),
            plain("refused::many_connections", refused::many_connections),
            plain("refused::slow_client", refused::slow_client),
            plain("refused::slow_readers", refused::slow_readers),
            plain("refused::slow_head", refused::slow_head),
            plain("refused::many_streams", refused::many_streams),
            plain("refused::ends_at_once", refused::ends_at_once),
            needs_root("refused::names", refused::names),
            plain("browser::without_scripts", browser::without_scripts),
            needs_root("browser::journey", browser::journey),
        ],
    )
}
