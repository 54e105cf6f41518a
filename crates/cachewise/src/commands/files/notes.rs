//! Notes to the user, each of them once.

use std::collections::HashSet;

use cachewise_cli::output::tell;

/// Notes that were printed. A repeated list prints a note when it is new, not at each repetition.
#[derive(Debug, Default)]
pub struct Notes {
    goes_on: bool,
    before: HashSet<String>,
    now: HashSet<String>,
}

impl Notes {
    /// No notes so far; `goes_on` for a repeated list.
    pub fn new(goes_on: bool) -> Notes {
        Notes {
            goes_on,
            ..Notes::default()
        }
    }

    /// Tells the user, unless the look before did.
    pub fn tell(&mut self, note: &str) {
        let is_new =
            !self.goes_on || self.now.insert(note.to_owned()) && !self.before.contains(note);
        if is_new {
            tell(note);
        }
    }

    /// Begins the next look.
    pub fn next(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}
