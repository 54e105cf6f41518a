//! cachewise's live view on a terminal: use of the page cache, live or in a recording.
//!
//! The view is a state machine, [`App`]: intervals, answers and keys go in, requests and frames
//! come out. It does no I/O, so that a test can drive it key by key. [`live()`] and [`replay()`]
//! run one on a terminal, and restore the terminal at the end, also after a panic or a signal.
//! Queries to the machine go through [`Source`] and [`Machine`].
//!
//! The crate does not read the kernel; its user does.
//!
//! ```
//! use cachewise_tui::{App, ViewKind, TerminalStyle, Scene, Setup};
//! use ratatui::Terminal;
//! use ratatui::backend::TestBackend;
//! use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
//!
//! let mut app = App::new(Setup {
//!     scene: Scene::Live,
//!     look: TerminalStyle { ascii: true, color: false },
//!     source: Default::default(),
//!     interval: std::time::Duration::from_secs(1),
//!     readonly: true,
//!     view: ViewKind::Process,
//!     filter: None,
//!     sort: None,
//!     scope: None,
//!     settings: Default::default(),
//!     recorded: None,
//! });
//! app.key(KeyEvent::new(KeyCode::Char('2'), KeyModifiers::NONE));
//! let mut terminal = Terminal::new(TestBackend::new(60, 10))?;
//! terminal.draw(|frame| app.draw(frame))?;
//! assert!(terminal.backend().to_string().contains("[2 files]"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! - `action`, `bindings`: actions and their keys: one table.
//! - `app`, `pane`, `mouse`: the state and its changes. `machine`: requests to the outside.
//! - `item`, `names`, `tree`, `group`, `listing`, `row_order`, `filter`: from an interval to lines. `facts`, `findings`: facts and
//!   findings.
//! - `setup`: the initial state; `settings`: chosen columns, in a file; `view_kind`: processes, files, control groups or devices; `areas`: positions for the mouse.
//! - `columns`, `zeros`, `scale`, `look`, `moment`: columns, format of numbers, times, capabilities of a terminal.
//! - `draw`: frames.
//! - `live`, `replay`, `events`, `terminal`: the terminal, and the loops on it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod action;
mod app;
mod areas;
mod bindings;
mod columns;
mod draw;
mod error;
mod events;
mod facts;
mod filter;
mod findings;
mod group;
mod item;
mod listing;
mod live;
mod look;
mod machine;
mod moment;
mod mouse;
mod names;
mod pane;
mod replay;
mod row_order;
mod scale;
mod settings;
mod setup;
mod terminal;
mod tree;
mod view_kind;
mod zeros;

pub use action::{Action, Category, Scene};
pub use app::{App, Beat, Message, Position};
pub use bindings::{BINDINGS, Binding, Stroke, markdown, markdown_of_other_programs};
pub use columns::Column;
pub use error::Error;
pub use filter::Filter;
pub use findings::Headline;
pub use item::{Grouping, Item, Key, items};
pub use listing::arranged;
pub use live::{LiveOptions, live};
pub use look::TerminalStyle;
pub use machine::{Act, Answer, FileName, Machine, ProcessName, Request, SampleStep, Source, Verb};
pub use moment::Moment;
pub use replay::{History, Player, replay};
pub use scale::Scale;
pub use settings::{ChosenColumns, Settings};
pub use setup::{Recorded, Setup};
pub use view_kind::ViewKind;
