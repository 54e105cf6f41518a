//! The result of a program: figures that are wrong, and what could not be compared.

use cachewise_model::{Counter, Ledger};

use crate::bounds::{Difference, Tally};
use crate::invariants::{CONTRADICTION, contradiction};
use crate::open::OPEN;

/// The result of a program.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The figures that are wrong.
    pub differences: Vec<Difference>,
    /// Times that it was repeated.
    pub repeats: usize,
    /// How often it met each documented gap.
    pub met: [usize; OPEN.len()],
    /// The counters of each file, in words.
    pub counted: Vec<String>,
    /// Rows that contradict themselves, which reports mark, in words.
    pub contradictions: Vec<String>,
    /// Pages of a program of several tasks that were reclaimed while it ran.
    pub reclaimed: u64,
    /// Comparisons made, and not made because the figure is marked.
    pub tally: Tally,
}

/// How a run of a program ended.
#[derive(Debug)]
pub enum Attempt {
    /// It was compared.
    Done(Box<Verdict>),
    /// The machine reclaimed pages of its files.
    Reclaimed,
    /// The probe says that it lost events.
    Lost,
    /// The kernel began a call anew, which is another call to it, and no other to the program.
    Restarted,
    /// The kernel killed one of its processes because its memory group was full.
    Killed,
}

/// The counters of a row that are not 0, and the marks on them.
pub fn in_words(of: &str, ledger: &Ledger) -> String {
    let is_worth_it =
        |counter: &&Counter| ledger[**counter] != 0 || ledger.get(**counter).exact().is_none();
    let counters = Counter::ALL.iter().filter(is_worth_it);
    let words = counters.map(|counter| {
        let mark = match ledger.get(*counter).exact() {
            Some(_) => "",
            None => "~",
        };
        format!("{} {mark}{}", counter.id(), ledger[*counter])
    });
    format!("{of}: {}", words.collect::<Vec<_>>().join(", "))
}

impl Verdict {
    /// Notes a figure that is not within its bounds.
    pub fn find(&mut self, of: &str, what: &'static str, expected: (u64, u64), counted: u64) {
        self.tally.count(what, false);
        self.differences
            .extend(Difference::find(of, what, expected, counted));
    }

    /// Notes whether a row of racing tasks contradicts itself. That is wrong unless it is `documented`:
    /// reports mark the row. Readahead hits can always be more than hits: two CPUs change the same pages' bookkeeping
    /// at the same moment.
    pub fn note_contradiction(&mut self, of: &str, ledger: &Ledger, documented: bool) {
        let found = contradiction(of, ledger);
        let hits = ledger[Counter::ReadHitPages];
        let is_ahead = ledger[Counter::ReadaheadHitPages] > hits
            && hits + ledger[Counter::ReadMissedPages] + ledger[Counter::ReadUnservedPages]
                == ledger[Counter::ReadRequestedPages];
        let is_marked = found.is_some() && (documented || is_ahead);
        self.tally.count(CONTRADICTION, is_marked);
        match found {
            Some(_) if is_marked => self.contradictions.push(in_words(of, ledger)),
            found => self.differences.extend(found),
        }
    }
}
