//! Notes to the user, each of them once.

use std::collections::HashSet;

use cachewise_cli::output::tell;

/// What was told. Of a list that goes on, a note is told when it is new, not with every look.
#[derive(Debug, Default)]
pub struct Notes {
    goes_on: bool,
    before: HashSet<String>,
    now: HashSet<String>,
}

impl Notes {
    /// Nothing was told yet.
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
