//! Programs in Java, Node.js and C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cold::cold;
use super::fault::{Amount, Fault, Subject};
use super::healthy::stays_healthy;
use super::kit::*;
use super::mapping::storm;
use super::patterns::tiny;
use crate::support::*;

fn run<'a>(words: impl IntoIterator<Item = &'a std::ffi::OsStr>) -> Report {
    let report = report_of(&[], words);
    assert!(report.ended.status.success(), "{}", report.ended.err());
    report
}

/// Reads in pieces of 64 bytes, in order or at random places, by the stream that its second argument names.
const JAVA: &str = "
import java.io.*;
import java.util.Random;
class Read {
    public static void main(String[] words) throws IOException {
        byte[] data = new byte[64];
        if (words[1].equals(\"random\")) {
            try (RandomAccessFile file = new RandomAccessFile(words[0], \"r\")) {
                Random places = new Random(7);
                for (int i = 0; i < 3000; i++) {
                    file.seek(64L * places.nextInt((int) (file.length() / 64)));
                    file.readFully(data);
                }
            }
            return;
        }
        InputStream file = new FileInputStream(words[0]);
        if (words[1].equals(\"buffer\")) file = new BufferedInputStream(file, 65536);
        for (int i = 0; i < 60000; i++) file.read(data);
        file.close();
    }
}
";

/// Compiles the Java program, if there is a JDK.
fn compiled(scratch: &Scratch, test: &str) -> bool {
    if !has(&["java", "javac"], &format!("advice::{test}")) {
        return false;
    }
    let source = scratch.path("Read.java");
    fs::write(&source, JAVA).expect("a file");
    let mut compile = Command::new("javac");
    Ended::of(compile.arg("-d").arg(scratch.directory()).arg(source)).expect(0, "it compiles");
    true
}

fn java(scratch: &Scratch, file: &Path, how: &str) -> Report {
    let classes = scratch.directory().as_os_str();
    let words = ["java", "-Xshare:auto", "-Xmx64m", "-cp"].map(AsRef::as_ref);
    let program = [classes, "Read".as_ref(), file.as_os_str(), how.as_ref()];
    run(words.into_iter().chain(program))
}

pub fn java_without_a_buffer() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    if compiled(&scratch, "java_without_a_buffer") {
        tiny(&file, "Java reads 64 B at a time without a buffer").check(
            || java(&scratch, &file, "stream"),
            || java(&scratch, &file, "buffer"),
        );
    }
}

pub fn java_random_reads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 48 * MIB);
    if !compiled(&scratch, "java_random_reads") {
        return;
    }
    let read = || java(&scratch, &file, "random");
    read();
    evict(&file);
    let fault = Fault {
        scenario: "Java reads 64 B at random places of a cold file",
        rules: &["random_small_reads"],
        subject: Subject::File(&file),
        figure: ("read_missed_pages", 1_000),
        fix: &["the file fits into memory", "cat "],
        amount: Amount::Fetched(&file),
        factor: 100,
        warm: &[&file],
    };
    fault.check(read, read);
}

pub fn warm_java() {
    if has(&["java"], "advice::warm_java") {
        stays_healthy("java -version, resident", || {
            run(["java", "-version"].map(AsRef::as_ref))
        });
    }
}

/// Reads the file in pieces of as many bytes as its second argument says, 60,000 pieces at most; all at once for 0.
const NODE: &str = "
const fs = require('fs');
const [path, size] = [process.argv[1], Number(process.argv[2])];
if (size === 0) fs.readFileSync(path);
else {
    const fd = fs.openSync(path), data = Buffer.alloc(size);
    for (let i = 0; i < 60000 && fs.readSync(fd, data) > 0; i++);
}
";

fn node(file: &Path, size: &str) -> Report {
    let words = ["node", "-e", NODE].map(AsRef::as_ref);
    run(words.into_iter().chain([file.as_os_str(), size.as_ref()]))
}

pub fn node_tiny_reads() {
    if !has(&["node"], "advice::node_tiny_reads") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    tiny(&file, "Node.js reads 64 B at a time")
        .check(|| node(&file, "64"), || node(&file, "65536"));
}

pub fn node_cold_file() {
    if !has(&["node"], "advice::node_cold_file") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let read = || node(&file, "0");
    read();
    evict(&file);
    cold(&file, &[&file], "Node.js reads a cold file at once").check(read, read);
}

pub fn warm_node() {
    if has(&["node"], "advice::warm_node") {
        stays_healthy("node -e 0, resident", || {
            run(["node", "-e", "0"].map(AsRef::as_ref))
        });
    }
}

/// Compiles a C program, if there is gcc.
fn gcc(scratch: &Scratch, source: &str, test: &str) -> Option<PathBuf> {
    has(&["gcc"], &format!("advice::{test}")).then(|| {
        let (text, program) = (scratch.path("program.c"), scratch.path("program"));
        fs::write(&text, source).expect("a file");
        let mut compile = Command::new("gcc");
        let compile = compile.args(["-O1", "-o"]).arg(&program).arg(text);
        Ended::of(compile).expect(0, "it compiles");
        program
    })
}

/// getc, with the buffer of stdio if there is a second argument.
const GETC: &str = "
#include <stdio.h>
int main(int count, char **words)
{
    FILE *file = fopen(words[1], \"r\");
    if (count < 3) setvbuf(file, NULL, _IONBF, 0);
    for (int i = 0; i < 60000 && getc(file) != EOF; i++);
    return 0;
}";

pub fn c_without_a_buffer() {
    let scratch = Scratch::new();
    let Some(program) = gcc(&scratch, GETC, "c_without_a_buffer") else {
        return;
    };
    let file = scratch.file("file", MIB);
    let words = [program.as_os_str(), file.as_os_str(), "buffer".as_ref()];
    let each = || run(words[..2].iter().copied());
    tiny(&file, "getc in C without a buffer").check(each, || run(words));
}

/// Sums a mapping in order, with the advice for that or, without a second argument, for random touches.
const SUM: &str = "
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
int main(int count, char **words)
{
    struct stat facts;
    int fd = open(words[1], O_RDONLY), sum = 0;
    fstat(fd, &facts);
    const volatile char *data = mmap(0, facts.st_size, PROT_READ, MAP_SHARED, fd, 0);
    madvise((void *)data, facts.st_size, count < 3 ? MADV_RANDOM : MADV_SEQUENTIAL);
    for (long place = 0; place < facts.st_size; place += 64) sum += data[place];
    return sum == 1;
}";

pub fn c_mapping_with_wrong_advice() {
    let scratch = Scratch::new();
    let Some(program) = gcc(&scratch, SUM, "c_mapping_with_wrong_advice") else {
        return;
    };
    let file = scratch.file("file", 24 * MIB);
    let words = [program.as_os_str(), file.as_os_str(), "order".as_ref()];
    let sum = |words: &[&std::ffi::OsStr]| {
        evict(&file);
        run(words.iter().copied())
    };
    storm(&file, "C sums a mapping in order after MADV_RANDOM")
        .check(|| sum(&words[..2]), || sum(&words));
}
