//! cachewise's live view on a terminal.

#![forbid(unsafe_code)]
