//! [`Action`]: what the user can request.

use crate::view_kind::ViewKind;

/// An action that the user can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table of bindings describes each")]
pub enum Action {
    View(ViewKind),
    NextView,
    Findings,
    Evictions,
    Up,
    Down,
    HalfPageUp,
    HalfPageDown,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Close,
    Prompt,
    Tree,
    Group,
    Unfold,
    Fold,
    FoldOrHelp,
    UnfoldAll,
    SortLeft,
    SortRight,
    SortMenu,
    SortCpu,
    SortMemory,
    SortTime,
    Columns,
    DefaultColumns,
    Reverse,
    Search,
    NextMatch,
    PreviousMatch,
    Filter,
    Active,
    Scale,
    CommandLine,
    Pause,
    Faster,
    Slower,
    Warm,
    Evict,
    Earlier,
    Later,
    FirstSample,
    LastSample,
    Play,
    Save,
    Help,
    Redraw,
    Suspend,
    Quit,
}

/// Heading of a binding in the help pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Choice of the view.
    Views,
    /// Movement.
    Moving,
    /// Order and choice of rows.
    Rows,
    /// Format and interval of numbers.
    Numbers,
    /// Changes of the machine's page cache.
    Acting,
    /// Movement through a recording.
    Recording,
    /// The program itself.
    Program,
}

impl Category {
    /// The heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Category::Views => "Views",
            Category::Moving => "Moving",
            Category::Rows => "Rows",
            Category::Numbers => "Numbers",
            Category::Acting => "Acting on the cache",
            Category::Recording => "In a recording",
            Category::Program => "Program",
        }
    }
}

/// Where a binding is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scene {
    /// A live machine.
    Live,
    /// A recording.
    Recording,
}
