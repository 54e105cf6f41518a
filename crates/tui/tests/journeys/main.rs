//! Journeys: keys, stretches and answers in; what is on the screen and what is asked of the outside, out.
//!
//! # Layout
//! - `views`, `rows`, `panes`, `acts`, `screens`, `recordings`: what one goes through.
//! - `hand_made`: stretches, and a screen to look at.

mod acts;
#[path = "../hand_made/mod.rs"]
mod hand_made;
mod panes;
mod recordings;
mod rows;
mod screens;
mod views;
