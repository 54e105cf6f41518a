//! [`Setup`]: the initial state of a view.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::Source;

use crate::action::Scene;
use crate::filter::Filter;
use crate::look::TerminalStyle;
use crate::settings::Settings;
use crate::view_kind::ViewKind;

/// Initial state of an [`App`](crate::App).
#[derive(Debug, Clone)]
pub struct Setup {
    /// Live machine or recording.
    pub scene: Scene,
    /// Capabilities of the terminal.
    pub look: TerminalStyle,
    /// The machine, and how it is counted.
    pub source: Arc<Source>,
    /// Time between intervals.
    pub interval: Duration,
    /// Disables warming and evicting.
    pub readonly: bool,
    /// The first view.
    pub view: ViewKind,
    /// The filter of every view.
    pub filter: Option<Filter>,
    /// The field to sort by, in views that have it.
    pub sort: Option<&'static str>,
    /// The watched part, unless it is the whole machine.
    pub scope: Option<String>,
    /// The columns that the user has chosen.
    pub settings: Settings,
    /// The recording, if there is one.
    pub recorded: Option<Recorded>,
}

/// Facts about a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The file name from the command line.
    pub name: String,
    /// Number of processes and files with rows of their own in each sample.
    pub top: u64,
}
