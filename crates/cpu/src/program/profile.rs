//! Output of callgrind: costs by object and address.
//!
//! The format is that of valgrind's manual ("Callgrind Format Specification"). Only self costs are taken: the line
//! after `calls=` has the costs of what was called, which stand at their own place too.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::Rate;
use crate::Error;

/// The required events, in this order.
const EVENTS: [&str; 14] = [
    "Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim",
    "SpLoss1",
];

/// Costs of an address, a line or a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs([u64; EVENTS.len()]);

impl Costs {
    fn event(&self, name: &str) -> u64 {
        let place = EVENTS.iter().position(|event| *event == name);
        place.map_or(0, |place| self.0[place])
    }

    /// Reads that came from data.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.event("Dr")
    }

    /// Of those, the ones that the first level did not have.
    #[must_use]
    pub fn read_misses(&self) -> u64 {
        self.event("D1mr")
    }

    /// Reads and writes.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.event("Dr") + self.event("Dw")
    }

    /// Of those, the ones that the first level did not have.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.event("D1mr") + self.event("D1mw")
    }

    /// Returns the bytes of lines that the first level fetched and evicted unused.
    #[must_use]
    pub fn wasted(&self) -> u64 {
        self.event("SpLoss1")
    }

    /// Adds others'.
    pub fn add(&mut self, other: &Costs) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }
}

/// Where costs are: the number of an object's name, and an address in it.
type Spot = (usize, u64);

/// Parsed output of callgrind for a run.
#[derive(Debug, Default)]
pub struct Profile {
    objects: Vec<String>,
    spots: HashMap<Spot, (Costs, String)>,
    /// Of the whole.
    pub total: Costs,
}

/// Abbreviations of names within one file.
#[derive(Default)]
struct Names {
    objects: HashMap<String, usize>,
    functions: HashMap<String, String>,
}

impl Profile {
    /// Adds what a file has.
    pub(super) fn read(&mut self, path: &Path) -> Result<(), Error> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut names = Names::default();
        let (mut events, mut object, mut address) = (Vec::new(), None, 0u64);
        let (mut function, mut is_call) = (String::new(), false);
        let wrong = |line: &str| Error::Profile {
            path: path.to_owned(),
            line: line.chars().take(80).collect(),
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(Error::io("read", path))?;
            // Names need not be UTF-8.
            let line = String::from_utf8_lossy(&line);
            if let Some(list) = line.strip_prefix("events:") {
                events = list.split_whitespace().map(place_of).collect();
            } else if line.starts_with(['0', '+', '-', '*']) {
                let mut words = line.split(' ');
                let position = words.next().unwrap_or_default();
                address = moved(address, position).ok_or_else(|| wrong(&line))?;
                if std::mem::take(&mut is_call) {
                    continue;
                }
                // The line of the source: callgrind's is the innermost inlined function's, which is not wanted.
                words.next();
                let mut costs = Costs::default();
                for (word, place) in words.zip(&events) {
                    let count: u64 = word.parse().map_err(|_| wrong(&line))?;
                    if let Some(place) = place {
                        costs.0[*place] += count;
                    }
                }
                self.total.add(&costs);
                if let Some(object) = object {
                    let spot = self
                        .spots
                        .entry((object, address))
                        .or_insert_with(|| (Costs::default(), function.clone()));
                    spot.0.add(&costs);
                }
            } else if let Some((key, value)) = line.split_once('=') {
                match key {
                    "ob" => object = Some(self.object(value, &mut names)),
                    "cob" => drop(self.object(value, &mut names)),
                    "fn" => function = named(value, &mut names.functions),
                    "cfn" => drop(named(value, &mut names.functions)),
                    "calls" => is_call = true,
                    _ => {}
                }
            }
        }
        match events.is_empty() {
            true => Err(wrong("no events in it")),
            false => Ok(()),
        }
    }

    fn object(&mut self, value: &str, names: &mut Names) -> usize {
        let (number, name) = split(value);
        if let (None, Some(known)) = (name, names.objects.get(number)) {
            return *known;
        }
        let name = name.unwrap_or(number).to_owned();
        let place = self.objects.iter().position(|known| *known == name);
        let place = place.unwrap_or_else(|| {
            self.objects.push(name);
            self.objects.len() - 1
        });
        names.objects.insert(number.to_owned(), place);
        place
    }

    /// The costliest addresses by misses of data: object, address, costs, and the function by callgrind's account.
    /// Those that never miss are among them: they belong to lines that do.
    pub(super) fn costliest(&self, most: usize) -> Vec<(&str, u64, &Costs, &str)> {
        let mut spots: Vec<_> = self
            .spots
            .iter()
            .filter(|(_, (costs, _))| costs.accesses() > 0)
            .collect();
        spots.sort_by_key(|(spot, (costs, _))| {
            (
                std::cmp::Reverse((costs.misses(), costs.accesses())),
                **spot,
            )
        });
        let spots = spots.into_iter().take(most);
        spots
            .map(|((object, address), (costs, function))| {
                (
                    self.objects[*object].as_str(),
                    *address,
                    costs,
                    function.as_str(),
                )
            })
            .collect()
    }

    /// The program's rates.
    #[must_use]
    pub fn rates(&self) -> Vec<Rate> {
        let event = |name: &str| self.total.event(name);
        let rate = |name, accesses, misses| Rate {
            name,
            counts: Ok((accesses, misses)),
        };
        let not = |name| Rate {
            name,
            counts: Err(
                "callgrind does not simulate it: it has the first and the last level only".into(),
            ),
        };
        let first = event("I1mr") + event("D1mr") + event("D1mw");
        let last = event("ILmr") + event("DLmr") + event("DLmw");
        vec![
            rate("L1d reads", event("Dr"), event("D1mr")),
            rate("L1d writes", event("Dw"), event("D1mw")),
            rate("L1i", event("Ir"), event("I1mr")),
            not("L2"),
            rate("LLC", first, last),
            not("dTLB"),
            rate(
                "branches",
                event("Bc") + event("Bi"),
                event("Bcm") + event("Bim"),
            ),
        ]
    }
}

fn place_of(event: &str) -> Option<usize> {
    EVENTS.iter().position(|known| *known == event)
}

/// `(5) name`, or `(5)` where the name was given before, or a name alone.
fn split(value: &str) -> (&str, Option<&str>) {
    match value.split_once(' ') {
        Some((number, name)) if number.starts_with('(') => (number, Some(name)),
        _ => (value, None),
    }
}

fn named(value: &str, names: &mut HashMap<String, String>) -> String {
    let (number, name) = split(value);
    if let Some(name) = name {
        names.insert(number.to_owned(), name.to_owned());
    }
    names
        .get(number)
        .cloned()
        .unwrap_or_else(|| number.to_owned())
}

/// The address that a position leads to: absolute, or from the last one.
fn moved(address: u64, position: &str) -> Option<u64> {
    match position.split_at_checked(1)? {
        ("*", "") => Some(address),
        ("+", by) => address.checked_add(by.parse().ok()?),
        ("-", by) => address.checked_sub(by.parse().ok()?),
        _ => u64::from_str_radix(position.strip_prefix("0x")?, 16).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
version: 1
positions: instr line
events: Ir Dr Dw I1mr D1mr D1mw AcCost1 SpLoss1

ob=(1) /bin/program
fl=(1) a.c
fn=(1) main
0x1000 3 10 4 0 0 2 0 9 112
+4 3 1 2
cob=(2) /lib/other.so
cfn=(2) callee
calls=7 0x500 0
* 3 1000 1000 1000 1000 1000 1000
+2 4 1 0 1 0 0 1

ob=(2)
fn=(2)
0x500 0 5 5 0 0 5
-16 0 2 1
";

    fn profile(text: &str) -> Result<Profile, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut profile = Profile::default();
        profile.read(file.path()).map(|()| profile)
    }

    #[test]
    fn self_costs_stand_at_their_addresses() {
        let profile = profile(TEXT).unwrap();
        let costliest = profile.costliest(10);
        let spots: Vec<_> = costliest
            .iter()
            .map(|(object, address, costs, function)| {
                (*object, *address, costs.misses(), *function)
            })
            .collect();
        assert_eq!(
            spots,
            [
                ("/lib/other.so", 0x500, 5, "callee"),
                ("/bin/program", 0x1000, 2, "main"),
                ("/bin/program", 0x1006, 1, "main"),
                ("/bin/program", 0x1004, 0, "main"),
                ("/lib/other.so", 0x4f0, 0, "callee"),
            ],
            "what was called counts once, and addresses go on from the line of the call"
        );
        assert_eq!(
            profile.total.event("Ir"),
            19,
            "the costs of calls are not added"
        );
        assert_eq!(
            costliest[1].2.wasted(),
            112,
            "bytes that were fetched for nothing"
        );
        let reads = &profile.rates()[0];
        assert_eq!(reads.counts, Ok((12, 7)), "reads and their misses");
    }

    #[test]
    fn text_that_is_not_a_profile_is_refused() {
        for text in [
            "",
            "hello",
            "events: Ir\nob=(1) x\n0xzz 1 2\n",
            "events: Ir\nob=(1) x\n0x1 1 two\n",
            "events: Ir\n-5 1 1\n",
        ] {
            let error = profile(text).unwrap_err().to_string();
            assert!(error.contains("cannot parse"), "{text:?}: {error}");
        }
    }
}
