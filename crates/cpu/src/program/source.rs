//! From addresses to lines of the user's own source.
//!
//! Iterators are inlined, so that the innermost line of a hot loop belongs to the standard library,
//! which the user cannot change. Debug information has all frames that were inlined at an address:
//! the innermost one outside of the libraries is reported.

use std::collections::HashMap;

use addr2line::Loader;

use super::{Costs, Profile};

/// More addresses than this have next to nothing each.
const MOST_ADDRESSES: usize = 50_000;

/// Whether a function has a name: without a symbol callgrind calls it `???`, or by its address.
fn has_name(function: &str) -> bool {
    !function.starts_with("???") && !function.starts_with("0x")
}

/// Paths of sources that are not the user's own.
const LIBRARIES: [&str; 6] = [
    "/rustc/",
    "/rustlib/src/",
    "/.cargo/registry/",
    "/.cargo/git/",
    "/usr/include/",
    "/rust/deps/",
];

/// Where a cost arises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostLocation<C = Costs> {
    /// The function, by debug information, or by symbols where there is none; nothing where there are no symbols, either.
    pub function: Option<String>,
    /// The file and line; nothing without debug information.
    pub line: Option<(String, u32)>,
    /// The program or library.
    pub object: String,
    /// Its costs.
    pub costs: C,
}

/// A place's name: what is the same is added up.
pub(super) type Name = (Option<String>, Option<(String, u32)>, String);

/// Costs that can be added up and compared.
pub(super) trait Cost: Default {
    fn add(&mut self, other: &Self);
    fn weight(&self) -> u64;
}

impl Cost for Costs {
    fn add(&mut self, other: &Costs) {
        Costs::add(self, other);
    }

    fn weight(&self) -> u64 {
        self.misses()
    }
}

/// The places with the most misses of data, the worst first.
#[must_use]
pub fn hottest(profile: &Profile, most: usize) -> Vec<CostLocation> {
    let mut loaders: HashMap<&str, Option<Loader>> = HashMap::new();
    let spots = profile.costliest(MOST_ADDRESSES).into_iter();
    let named = spots.map(|(object, address, costs, function)| {
        let loader = loaders
            .entry(object)
            .or_insert_with(|| Loader::new(object).ok());
        let own = loader
            .as_ref()
            .and_then(|loader| own_frame(loader, address));
        let (function, line) = match own {
            Some((function, line)) => (Some(function), line),
            None => (has_name(function).then(|| function.to_owned()), None),
        };
        ((function, line, object.to_owned()), *costs)
    });
    ranked(named, most)
}

/// Returns the locations with costs, the costliest first.
pub(super) fn ranked<C: Cost>(
    named: impl Iterator<Item = (Name, C)>,
    most: usize,
) -> Vec<CostLocation<C>> {
    let mut places: HashMap<Name, C> = HashMap::new();
    for (name, costs) in named {
        places.entry(name).or_default().add(&costs);
    }
    places.retain(|_, costs| costs.weight() > 0);
    let mut places: Vec<CostLocation<C>> = places
        .into_iter()
        .map(|((function, line, object), costs)| CostLocation {
            function,
            line,
            object,
            costs,
        })
        .collect();
    places.sort_by(|one, other| {
        let name = |place: &CostLocation<C>| {
            let (function, line) = (place.function.clone(), place.line.clone());
            (function, line, place.object.clone())
        };
        let weight = other.costs.weight().cmp(&one.costs.weight());
        weight.then_with(|| name(one).cmp(&name(other)))
    });
    places.truncate(most);
    places
}

/// The innermost frame that is not a library's; the outermost if all are.
pub(super) fn own_frame(loader: &Loader, address: u64) -> Option<(String, Option<(String, u32)>)> {
    let mut frames = loader.find_frames(address).ok()?;
    let mut last = None;
    while let Ok(Some(frame)) = frames.next() {
        let name = frame
            .function
            .as_ref()
            .and_then(|name| Some(name.demangle().ok()?.into_owned()));
        let line = frame
            .location
            .and_then(|location| Some((location.file?.to_owned(), location.line?)));
        let Some(name) = name else { continue };
        let is_library = line.as_ref().is_none_or(|(file, _)| is_library(file));
        last = Some((name, line));
        if !is_library {
            break;
        }
    }
    last
}

fn is_library(file: &str) -> bool {
    LIBRARIES.iter().any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_name() {
        assert!(has_name("main") && has_name("x0x"), "those are");
        assert!(!has_name("???") && !has_name("0x0000000000001149"), "no");
    }

    #[test]
    fn locations_of_equal_cost_are_sorted_by_name() {
        #[derive(Debug, Default)]
        struct One(u64);
        impl Cost for One {
            fn add(&mut self, other: &One) {
                self.0 += other.0;
            }

            fn weight(&self) -> u64 {
                self.0
            }
        }
        let names: Vec<String> = (10..30).map(|number| format!("lib{number}")).collect();
        let named = names.iter().rev();
        let named = named.map(|name| ((None, None, name.clone()), One(1)));
        let ranked: Vec<String> = ranked(named, usize::MAX)
            .into_iter()
            .map(|place| place.object)
            .collect();
        assert_eq!(ranked, names, "without functions and lines, too");
    }

    #[test]
    fn own_sources_are_told_from_libraries() {
        for file in [
            "/rustc/abc/library/core/src/ops/arith.rs",
            "/root/.cargo/registry/src/index/serde-1/src/lib.rs",
            "/root/.rustup/toolchains/x/lib/rustlib/src/rust/library/alloc/src/vec.rs",
        ] {
            assert!(is_library(file), "{file} is nobody's own");
        }
        assert!(!is_library("/home/me/project/src/main.rs"), "that is");
    }

    #[test]
    fn an_address_here_has_a_line_here() {
        let own = std::env::current_exe().unwrap();
        let loader = Loader::new(own).unwrap();
        let here = an_address_here_has_a_line_here as *const () as u64;
        // The mapping of this program's beginning, from which debug information counts.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let base = maps.lines().next().unwrap().split('-').next().unwrap();
        let base = u64::from_str_radix(base, 16).unwrap();
        let found = own_frame(&loader, here - base);
        match found {
            Some((function, Some((file, _)))) => {
                assert!(
                    function.contains("an_address_here") && file.ends_with("source.rs"),
                    "{function} {file}"
                );
            }
            other if cfg!(debug_assertions) => panic!("no line of this test: {other:?}"),
            _ => println!("skipped: lines of source: built without debug information"),
        }
    }
}
