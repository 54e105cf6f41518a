//! Programs whose warm runs are predicted, with the files that they read.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// A program and its arguments, to be run in the directory of its files.
pub struct Program {
    pub name: &'static str,
    pub command: Vec<OsString>,
}

const MIB: usize = 1 << 20;

const RANDOM_READS: &str = "import os, random
file = os.open('large', os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
pages = os.fstat(file).st_size // 4096
places = random.Random(7)
for _ in range(READS):
    os.pread(file, 4096, places.randrange(pages) * 4096)
";

const SCAN: &str = "select count(*), sum(length(data)), max(number) from rows";

/// Makes the files in an empty directory: `scale` is 16 for large files (200 MiB), less for smaller ones.
pub fn programs(place: &Path, scale: usize) -> Outcome<Vec<Program>> {
    let mut all = Vec::new();
    let mut add = |name, tool: &str, arguments: &[&str]| {
        let found = Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            println!("skipped: {name}: there is no {tool}");
            return false;
        }
        let words = std::iter::once(&tool).chain(arguments);
        all.push(Program {
            name,
            command: words.map(OsString::from).collect(),
        });
        true
    };
    let size = scale * MIB * 25 / 2;
    write_random(&place.join("large"), size)?;
    tree(&place.join("tree"), 125 * scale)?;
    fs::write(place.join("program.c"), c_program())?;
    add("cat", "cat", &["large"]);
    add("sha256sum", "sha256sum", &["large"]);
    add("tar", "tar", &["--create", "--file=archive.tar", "tree"]);
    add("gcc", "gcc", &["-O1", "-c", "program.c", "-o", "program.o"]);
    let reads = RANDOM_READS.replace("READS", &(500 * scale).to_string());
    add("random reads", "python3", &["-c", &reads]);
    add(
        "python import",
        "python3",
        &[
            "-c",
            "import argparse, asyncio, decimal, email, http.client, json, unittest, xml.dom.minidom",
        ],
    );
    if add("sqlite scan", "sqlite3", &["database", SCAN]) {
        let rows = 6_250 * scale;
        let script = format!(
            "pragma journal_mode = off; create table rows (number integer primary key, data blob);
             with recursive up(n) as (select 1 union all select n + 1 from up where n < {rows})
             insert into rows select n, randomblob(1000) from up;"
        );
        succeed(Command::new("sqlite3").arg("database").arg(script), place)?;
    }
    add(
        "git grep",
        "git",
        &["grep", "--no-index", "-c", "wanted", "tree"],
    );
    rustix::fs::sync();
    Ok(all)
}

fn succeed(command: &mut Command, place: &Path) -> Outcome<()> {
    let status = command
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {status}").into()),
    }
}

fn write_random(path: &Path, size: usize) -> Outcome<()> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut file = BufWriter::new(File::create(path)?);
    let mut buffer = vec![0; MIB / 2];
    for _ in 0..size / buffer.len() {
        random.fill(&mut buffer);
        file.write_all(&buffer)?;
    }
    file.flush()?;
    Ok(())
}

/// Files of 16 KiB of words, 50 in a directory.
fn tree(path: &Path, files: usize) -> Outcome<()> {
    let mut random = fastrand::Rng::with_seed(8);
    for number in 0..files {
        let directory = path.join(format!("{:03}", number / 50));
        fs::create_dir_all(&directory)?;
        let mut text = String::new();
        while text.len() < 16 << 10 {
            let word: String = (0..8).map(|_| random.lowercase()).collect();
            writeln!(text, "{word} wanted {number}")?;
        }
        fs::write(directory.join(format!("{number}.txt")), text)?;
    }
    Ok(())
}

/// A program of many functions and headers.
fn c_program() -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <math.h>\n",
    );
    for number in 0..400 {
        text.push_str(&format!(
            "int f{number}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {number} ^ (s >> 3); return s; }}\n"
        ));
    }
    text
}
