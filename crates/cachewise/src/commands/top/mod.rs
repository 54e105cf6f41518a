//! `top`: page-cache use by process, file, group or device, on a screen or in rows.
//!
//! # Layout
//! - `batch`: rows. `rows`: columns of a view's rows. `grouped`: rows summed up for metrics.
//! - `actions`: the screen's queries and operations on the machine.
//! - this file: the choice between both, and the watch options.

mod actions;
pub mod arguments;
mod batch;
mod grouped;
mod rows;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::Interval;
use cachewise_probe::{Detail, Options, Scope};
use cachewise_tui::{App, Scene, Settings, Setup, TerminalStyle};

use crate::machine::Followed;
use crate::options::Color;
use crate::selection::Selected;
use crate::watch::Watch;
use arguments::Top;
use cachewise_cli::output::{explain, has_utf8};

/// Shows a screen on a terminal, and rows otherwise.
pub fn top(arguments: Top) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let kind = arguments.view.kind();
    let fields = rows::fields(&arguments, kind)?;
    let is_batch = arguments.batch
        || !arguments.output.output.is_empty()
        || arguments.output.json
        || !std::io::stdout().is_terminal();
    if !is_batch {
        check_terminal("add -b for rows")?;
    }
    let selected = arguments.selection.select(&kernel)?;
    let followed = selected.followed()?;
    let options = selected.options(&kernel, Scope::System, Detail::Rows)?;
    match is_batch {
        true => batch::batch(&arguments, fields, followed, &options, kernel),
        false => screen(&arguments, selected, followed, &options, kernel),
    }
}

/// Refuses a terminal that cannot move its cursor.
pub fn check_terminal(instead: &str) -> Result<()> {
    let name = std::env::var("TERM").unwrap_or_default();
    if name.is_empty() || name == "dumb" {
        bail!(
            "cannot draw on a terminal of type {}: {instead}, or set TERM",
            if name.is_empty() {
                "(TERM is not set)"
            } else {
                "`dumb`"
            }
        );
    }
    Ok(())
}

fn screen(
    arguments: &Top,
    selected: Selected,
    followed: Option<Followed>,
    options: &Options,
    kernel: Kernel,
) -> Result<ExitCode> {
    let labels = arguments.labels.read()?;
    let watch = Watch::open(options, kernel.clone())?.labelled(labels);
    let name = selected.name.clone().unwrap_or_default();
    let app = App::new(Setup {
        scene: Scene::Live,
        look: look(arguments),
        source: Arc::clone(watch.source()),
        interval: arguments.pace().get(),
        readonly: arguments.readonly,
        view: arguments.view.kind(),
        filter: arguments.filter.clone(),
        sort: arguments.sort.map(|sort| sort.0.id),
        scope: selected.name,
        settings: settings(),
        recorded: None,
    });
    let source = Source {
        watch,
        followed: followed.map(|followed| (followed, name)),
        ended: None,
    };
    let options = cachewise_tui::LiveOptions {
        mouse: !arguments.no_mouse,
        count: arguments.count,
    };
    match cachewise_tui::live(app, source, actions::Actions::new(kernel), options) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error).context("cannot show a screen; -b writes rows instead"),
    }
}

/// The user's settings of the screen: `$XDG_CONFIG_HOME/cachewise/top.toml`, or that below `~/.config`.
pub fn settings() -> Settings {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    directory.map_or_else(Settings::default, |directory| {
        Settings::read(directory.join("cachewise/top.toml"))
    })
}

/// Capabilities of the terminal, from the environment.
pub fn look_of(color: Color, ascii: bool) -> TerminalStyle {
    TerminalStyle {
        ascii: ascii || !has_utf8(),
        color: match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()),
        },
    }
}

fn look(arguments: &Top) -> TerminalStyle {
    look_of(arguments.output.color, arguments.ascii)
}

/// The machine, or a process of it for as long as it runs.
struct Source {
    watch: Watch,
    followed: Option<(Followed, String)>,
    /// The processes that have ended: no more intervals follow.
    ended: Option<String>,
}

impl cachewise_tui::Source for Source {
    fn interval(&mut self) -> Result<Interval, String> {
        // Checked after the interval in which it ended, which contains its last activity.
        if let Some(name) = &self.ended {
            return Err(format!("{name} has ended; these are its last numbers"));
        }
        let ended = self.followed.take_if(|(followed, _)| followed.has_ended());
        self.ended = ended.map(|(_, name)| name);
        self.watch.interval().map_err(|error| explain(&error))
    }
}
