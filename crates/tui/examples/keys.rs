//! Prints the table of keys for `docs/top.md`.

fn main() {
    print!("{}", cachewise_tui::markdown());
}
