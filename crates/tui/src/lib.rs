//! cachewise's live view on a terminal: who uses the page cache, and how, now or in a recording.
//!
//! The view is a state machine, [`App`]: stretches, answers and keys go in, requests and frames come out.
//! It does no I/O, so that a test can go through it key by key. [`live()`] and [`replay()`] put one on a
//! terminal, which they give back as it was, on a panic and on signals too; what a machine can be asked is
//! behind [`Source`] and [`Machine`].
//!
//! It is not a reader of the kernel: whoever uses it does that.
//!
//! ```
//! use cachewise_tui::{App, Kind, Look, Scene, Setup};
//! use cachewise_units::PageSize;
//! use ratatui::Terminal;
//! use ratatui::backend::TestBackend;
//! use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
//!
//! let mut app = App::new(Setup {
//!     scene: Scene::Live,
//!     look: Look { ascii: true, color: false },
//!     page: PageSize::new(4 << 10).expect("a power of two"),
//!     hostname: "box".into(),
//!     backend: Default::default(),
//!     interval: std::time::Duration::from_secs(1),
//!     readonly: true,
//!     view: Kind::Process,
//!     filter: None,
//!     sort: None,
//!     scope: None,
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
//! - `action`: what can be done, and by which keys: one table.
//! - `app`, `pane`, `mouse`: the state, and what changes it. `machine`: what it asks of the outside.
//! - `item`, `tree`, `listing`, `filter`: from a stretch to lines. `facts`, `findings`: what there is to say.
//! - `columns`, `number`, `look`: which columns, how numbers look, what a terminal can show.
//! - `draw`: frames.
//! - `live`, `replay`, `events`, `terminal`: the terminal, and the loops on it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod action;
mod app;
mod columns;
mod draw;
mod error;
mod events;
mod facts;
mod filter;
mod findings;
mod item;
mod listing;
mod live;
mod look;
mod machine;
mod mouse;
mod number;
mod pane;
mod replay;
mod terminal;
mod tree;

pub use action::{Action, BINDINGS, Binding, Category, Scene, markdown};
pub use app::{App, Beat, Message, Position, Recorded, Setup};
pub use columns::Column;
pub use error::Error;
pub use filter::Filter;
pub use item::{Item, Key, items};
pub use listing::{Kind, arranged};
pub use live::{Options, live};
pub use look::Look;
pub use machine::{Act, Answer, FileName, Machine, ProcessName, Request, Source, Step, Verb};
pub use number::Scale;
pub use replay::{History, Player, replay};
