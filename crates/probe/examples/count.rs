//! Runs a command and prints what it asked of the page cache: `cargo run --example count -- ls -l`.

use std::process::Command;

use cachewise_probe::{Counter, Detail, Options, Probe, Scope};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments
        .next()
        .ok_or("usage: count COMMAND [ARGUMENT...]")?;
    let mut probe = Probe::attach(&Options {
        times: true,
        ..Options::new(Scope::Children, Detail::Rows)
    })?;
    let start = std::time::Instant::now();
    Command::new(program).args(arguments).status()?;
    println!("{:?}", start.elapsed());
    let snapshot = probe.snapshot()?;
    for row in &snapshot.rows {
        let file = row.file.and_then(|file| snapshot.files.get(&file));
        println!("{:?} {:?}", row.process.map(|process| process.tgid), file);
        for counter in Counter::ALL {
            if row.ledger[*counter] != 0 {
                println!("  {:28} {}", counter.id(), row.ledger[*counter]);
            }
        }
    }
    for process in &snapshot.processes {
        println!("{process:?}");
    }
    println!(
        "{:?} in flight {} notes {:?}",
        snapshot.lost,
        snapshot.direct_in_flight,
        probe.notes()
    );
    Ok(())
}
