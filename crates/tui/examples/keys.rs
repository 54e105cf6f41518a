//! Prints the table of keys as `docs/top.md` has it.

fn main() {
    print!("{}", cachewise_tui::markdown());
}
