//! Journeys: keys, intervals and answers go in; the screen and requests to the outside come out.
//!
//! # Layout
//! - `views`, `rows`, `columns`, `fingers`, `panes`, `acts`, `screens`, `settings`, `recordings`: the journeys.
//! - `hand_made`: intervals, and a screen to inspect.

mod acts;
mod columns;
mod fingers;
#[path = "../hand_made/mod.rs"]
mod hand_made;
mod panes;
mod recordings;
mod rows;
mod screens;
mod settings;
mod views;
