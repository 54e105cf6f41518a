//! Pictures of docs/pictures/, made from real runs: each time in a scratch directory, and with `CACHEWISE_WRITE_PICTURES`
//! set in docs/pictures/ (`scripts/pictures`). They show what the program prints today, so they differ from run to run;
//! what is tested is that each can be made, shows what its text says, and is small.
//!
//! # Layout
//! - `cast`: runs on a terminal; `drawn`: a screen of a terminal as SVG
//! - `thrashing`: a control group whose limit is too small, in `top` and on the page
//! - `comparison`: the table of other tools in docs/kernels.md, as bars

mod cast;
mod comparison;
mod drawn;
mod thrashing;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ended, Scratch, Trial, cachewise, needs_root, plain};

/// All pictures together; they are part of each checkout.
const MOST_BYTES: u64 = 300 << 10;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("runs_on_a_terminal", || {
            made(cast::cold_warm_direct);
        }),
        needs_root("thrashing_group_in_top_and_on_the_page", || {
            made(thrashing::shown);
        }),
        needs_root("curve_of_a_memory_size", || made(curve)),
        plain("other_tools_beside", || made(|_, to| comparison::drawn(to))),
        plain("those_of_the_documentation_are_there_and_small", kept),
    ]
}

fn documentation() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn made(make: impl Fn(&Scratch, &Path)) {
    let scratch = Scratch::new();
    let to = match std::env::var_os("CACHEWISE_WRITE_PICTURES") {
        Some(_) => documentation().join("pictures"),
        None => scratch.path("pictures"),
    };
    fs::create_dir_all(&to).expect("a directory");
    make(&scratch, &to);
}

fn write(to: &Path, name: &str, bytes: &[u8]) {
    assert!(bytes.len() > 500, "{name} has content");
    fs::write(to.join(name), bytes).expect("it can be written");
}

/// Reads of a file at random, some parts far more often.
const SKEWED: &str = "
import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
pages, chance = os.fstat(file).st_size // 4096, random.Random(7)
for _ in range(120_000):
    os.pread(file, 4096, int(pages * chance.random() ** 3) * 4096)
";

fn curve(scratch: &Scratch, to: &Path) {
    let python = Command::new("python3").arg("--version").output();
    if python.is_err() {
        return println!("skipped: the curve of a memory size: needs python3");
    }
    let file = scratch.file("data", 64 << 20);
    let picture = to.join("curve.svg");
    let mut size = cachewise(["size", "--full-sample", "--svg"]);
    size.arg(&picture).args(["--", "python3", "-c", SKEWED]);
    Ended::of(size.arg(&file)).expect(0, "the reader ends well");
    let text = fs::read_to_string(&picture).expect("a plot");
    assert!(text.contains("<svg") && text.contains("polyline"), "{text}");
}

fn kept() {
    let place = documentation().join("pictures");
    let mut whole = 0;
    for entry in fs::read_dir(&place).expect("docs/pictures") {
        let entry = entry.expect("an entry");
        let bytes = entry.metadata().expect("its size").len();
        assert!(bytes > 500, "{} has content", entry.path().display());
        whole += bytes;
    }
    assert!(whole <= MOST_BYTES, "{whole} bytes in {}", place.display());
    // Each picture that a text shows is there.
    let texts = [
        "../README.md",
        "README.md",
        "top.md",
        "serve.md",
        "size.md",
        "run.md",
        "kernels.md",
    ];
    for text in texts {
        let text = fs::read_to_string(documentation().join(text)).expect("a text");
        for part in text.split("pictures/").skip(1) {
            let name: String = part
                .chars()
                .take_while(|one| one.is_ascii_alphanumeric() || "-.".contains(*one))
                .collect();
            let name = name.trim_end_matches('.');
            assert!(
                name.is_empty() || place.join(name).exists(),
                "{name} is shown and not there"
            );
        }
    }
}
