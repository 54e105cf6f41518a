//! Prints the tables of keys for `docs/top.md`.

fn main() {
    println!("{}", cachewise_tui::markdown());
    print!("{}", cachewise_tui::markdown_of_other_programs());
}
