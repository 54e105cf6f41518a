//! Code that waited for storage, or evicted pages: stacks with their weights, and the functions that weigh most.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::{Bytes, Pages};

use crate::reason::Reason;

/// The event at which a stack was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StackKind {
    /// A read that missed pages, or waited for pages on their way.
    Read,
    /// A fault on a mapped file that missed its page, or waited for it.
    Fault,
    /// Direct I/O, by its bytes and waits.
    Direct,
    /// A wait in fsync(2) and its kin, or in a write to a file that is open with O_SYNC or O_DSYNC.
    Sync,
    /// A wait of a writer: too much memory is dirty.
    Throttle,
    /// Pages of the run's files that a task evicted.
    Eviction,
}

impl StackKind {
    /// All of them, in the order of the probe's numbers.
    pub const ALL: [StackKind; 6] = [
        StackKind::Read,
        StackKind::Fault,
        StackKind::Direct,
        StackKind::Sync,
        StackKind::Throttle,
        StackKind::Eviction,
    ];

    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            StackKind::Read => "read",
            StackKind::Fault => "fault",
            StackKind::Direct => "direct",
            StackKind::Sync => "sync",
            StackKind::Throttle => "throttle",
            StackKind::Eviction => "eviction",
        }
    }

    /// The name in tables.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            StackKind::Read => "missed reads",
            StackKind::Fault => "faults that missed",
            StackKind::Direct => "direct I/O",
            StackKind::Sync => "fsync",
            StackKind::Throttle => "throttled writes",
            StackKind::Eviction => "evictions",
        }
    }

    /// Whether a task waits at this event.
    #[must_use]
    pub const fn waits(self) -> bool {
        !matches!(self, StackKind::Eviction)
    }
}

/// Cost of the events at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Pages that missed, or that were evicted.
    pub pages: Pages,
    /// Bytes that direct I/O moved.
    pub bytes: Bytes,
    /// Time that tasks waited.
    pub waited: Duration,
}

impl Weight {
    /// Adds another one.
    pub fn add(&mut self, other: &Weight) {
        self.pages.0 += other.pages.0;
        self.bytes.0 += other.bytes.0;
        self.waited += other.waited;
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Weight::default()
    }

    /// The order of functions: by time, then by bytes and pages.
    #[must_use]
    pub fn rank(&self, page_bytes: u64) -> (Duration, u64) {
        (self.waited, self.bytes.0 + self.pages.0 * page_bytes)
    }
}

/// A call on a stack. A value that is `None` is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// The function, demangled.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<PathBuf>,
    /// The line of the call.
    pub line: Option<u32>,
    /// The program or library.
    pub module: Option<PathBuf>,
    /// It is the kernel's.
    pub is_kernel: bool,
    /// The compiler put the function's code into its caller.
    pub is_inlined: bool,
    /// It belongs to a language's library, not to the program.
    pub is_library: bool,
    /// Why function or line are unknown.
    pub unknown: Option<Reason>,
}

impl Frame {
    /// Whether a JIT compiler made its code.
    #[must_use]
    pub fn is_in_no_file(&self) -> bool {
        self.module.is_none() && !self.is_kernel
    }

    /// Whether the function is as exact a place as can be: with a line; without one where a JIT compiler or an interpreter
    /// has the function.
    fn is_place(&self) -> bool {
        let has_no_line = self.is_in_no_file() || self.unknown == Some(Reason::Interpreter);
        self.function.is_some() && (self.line.is_some() || has_no_line)
    }
}

/// A stack with its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The event.
    pub kind: StackKind,
    /// The name of the task.
    pub command: String,
    /// The calls, the innermost first.
    pub frames: Vec<Frame>,
    /// Why outer calls are missing, or all of them.
    pub cut: Option<Reason>,
    /// The weight of all events with these calls.
    pub weight: Weight,
}

impl Stack {
    /// The program's own function that waits: the innermost one with a line that is not of a language's library; functions
    /// of scripts and of JIT compilers need no line. Where there is none, the innermost one with a name outside such
    /// libraries; else the innermost call outside of them; else the innermost one of all.
    #[must_use]
    pub fn own(&self) -> Option<&Frame> {
        let mut user = self.frames.iter().filter(|frame| !frame.is_kernel);
        let mut own = user.clone().filter(|frame| !frame.is_library);
        own.clone()
            .find(|frame| frame.is_place())
            .or_else(|| own.clone().find(|frame| frame.function.is_some()))
            .or_else(|| own.next())
            .or_else(|| user.next())
    }

    /// Why its own function is unknown.
    #[must_use]
    pub fn why_unknown(&self) -> Option<Reason> {
        match self.own() {
            Some(frame) if frame.function.is_some() => None,
            Some(frame) => frame.unknown.or(self.cut),
            None => self.cut,
        }
    }
}

/// A function, with the line of the call in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodePlace {
    /// The event.
    pub kind: StackKind,
    /// The function; if it is unknown, its program or library at most.
    pub frame: Frame,
    /// Why the function is unknown.
    pub unknown: Option<Reason>,
    /// The weight of all stacks with it.
    pub weight: Weight,
}

/// All stacks of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stacks {
    /// Those with a weight, in no particular order.
    pub stacks: Vec<Stack>,
}

impl Stacks {
    /// The sum of all stacks of a kind.
    #[must_use]
    pub fn total(&self, kind: StackKind) -> Weight {
        let mut total = Weight::default();
        for stack in self.stacks.iter().filter(|stack| stack.kind == kind) {
            total.add(&stack.weight);
        }
        total
    }

    /// The functions of the program that weigh most, for each kind of event.
    #[must_use]
    pub fn places(&self, page_bytes: u64) -> Vec<CodePlace> {
        let mut by_place: HashMap<(StackKind, Frame, Option<Reason>), Weight> = HashMap::new();
        for stack in &self.stacks {
            let unknown = stack.why_unknown();
            let frame = match unknown {
                None => stack.own().cloned().unwrap_or_default(),
                Some(_) => Frame {
                    module: stack.own().and_then(|own| own.module.clone()),
                    ..Frame::default()
                },
            };
            by_place
                .entry((stack.kind, frame, unknown))
                .or_default()
                .add(&stack.weight);
        }
        let mut places: Vec<CodePlace> = by_place
            .into_iter()
            .map(|((kind, frame, unknown), weight)| CodePlace {
                kind,
                frame,
                unknown,
                weight,
            })
            .collect();
        places.sort_by(|a, b| {
            let rank = |place: &CodePlace| place.weight.rank(page_bytes);
            (a.kind, rank(b), &a.frame.function, a.frame.line).cmp(&(
                b.kind,
                rank(a),
                &b.frame.function,
                b.frame.line,
            ))
        });
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: Option<u32>, is_library: bool) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            line,
            module: Some("/bin/program".into()),
            is_library,
            ..Frame::default()
        }
    }

    fn stack(frames: Vec<Frame>, pages: u64) -> Stack {
        Stack {
            kind: StackKind::Read,
            command: "test".to_owned(),
            frames,
            cut: None,
            weight: Weight {
                pages: Pages(pages),
                ..Weight::default()
            },
        }
    }

    #[test]
    fn own_function_is_the_innermost_with_a_line_outside_libraries() {
        let read = vec![
            frame("pread", None, true),
            frame("sqlite3Read", None, false),
            frame("load", Some(7), false),
            frame("main", Some(9), false),
        ];
        let read = stack(read, 1);
        let own = read.own().and_then(|frame| frame.function.as_deref());
        assert_eq!(own, Some("load"), "a line beats an inner function without");
        let bare = stack(
            vec![frame("pread", None, true), frame("load", None, false)],
            1,
        );
        let own = bare.own().and_then(|frame| frame.function.as_deref());
        assert_eq!(
            own,
            Some("load"),
            "without lines the innermost of the program"
        );
        let script = Frame {
            module: None,
            ..frame("app.load", None, false)
        };
        let script = stack(
            vec![
                frame("run", None, false),
                script,
                frame("main", Some(3), false),
            ],
            1,
        );
        let own = script.own().and_then(|frame| frame.function.as_deref());
        assert_eq!(own, Some("app.load"), "a script's function has no line");
        let library = stack(vec![frame("pread", None, true)], 1);
        assert!(library.own().is_some(), "a library's rather than none");
    }

    #[test]
    fn places_add_up_stacks_with_the_same_line() {
        let stacks = Stacks {
            stacks: vec![
                stack(
                    vec![frame("a", Some(1), false), frame("x", Some(3), false)],
                    2,
                ),
                stack(
                    vec![frame("a", Some(1), false), frame("y", Some(4), false)],
                    3,
                ),
                stack(vec![frame("b", Some(2), false)], 4),
                Stack {
                    cut: Some(Reason::LostEvents),
                    ..stack(Vec::new(), 1)
                },
            ],
        };
        let places = stacks.places(4096);
        let seen: Vec<_> = places
            .iter()
            .map(|place| (place.frame.function.as_deref(), place.weight.pages.0))
            .collect();
        assert_eq!(
            seen,
            [(Some("a"), 5), (Some("b"), 4), (None, 1)],
            "callers of a function share its row, and the unknown has one"
        );
        assert_eq!(
            stacks.total(StackKind::Read).pages,
            Pages(10),
            "nothing is left out"
        );
    }
}
