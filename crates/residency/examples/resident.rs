//! Prints which pages of files are in the page cache: `cargo run --example resident -- FILE...`.

use cachewise_residency::{ByteRange, map, open, query};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args_os().skip(1) {
        let file = open(path.as_ref())?;
        let whole = ByteRange::starting_at(0);
        match query(&file, whole) {
            Ok(counts) => println!(
                "{}: {} of {} pages",
                path.display(),
                counts.cached,
                counts.total
            ),
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                continue;
            }
        }
        for range in map(&file, whole)?.ranges {
            println!("  pages {} to {}", range.start, range.end - 1);
        }
    }
    Ok(())
}
