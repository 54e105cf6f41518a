//! The commands on the pages of docs/: the `sh` blocks of each page run one after the other, in a
//! directory of the page, and show the text that the page promises (`<!-- shows: TEXT -->` behind
//! the block).
//!
//! A block with a line that starts with `sudo` needs root, and so do all later blocks of the page.
//! The blocks after `<!-- needs: PROGRAM -->`, or `<!-- needs: /dev/DEVICE -->`, need that program
//! or device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::siblings::programs;

/// Pages whose commands end by themselves and only need files that they make.
const PAGES: [&str; 12] = [
    "compat.md",
    "drop.md",
    "install.md",
    "order.md",
    "run.md",
    "size.md",
    "stat.md",
    "walkthroughs/block-cache.md",
    "walkthroughs/cpu-caches.md",
    "walkthroughs/dd.md",
    "walkthroughs/direct-io.md",
    "walkthroughs/reading-order.md",
];
/// Far more than any block takes.
const LIMIT: Duration = Duration::from_secs(300);

/// A block of a page.
struct Block {
    lines: Vec<String>,
    /// Required programs and devices.
    needs: Vec<String>,
    shows: Vec<String>,
}

fn docs() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2);
    root.expect("the crate lies two below the root")
        .join("docs")
}

fn blocks_of(page: &str) -> Vec<Block> {
    let path = docs().join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = None;
    let mut needs = Vec::new();
    for line in text.lines() {
        let shown = line
            .strip_prefix("<!-- shows: ")
            .and_then(|line| line.strip_suffix(" -->"));
        let needed = line
            .strip_prefix("<!-- needs: ")
            .and_then(|line| line.strip_suffix(" -->"));
        if let Some(needed) = needed {
            needs.push(needed.to_owned());
        }
        match (line.strip_prefix("```"), inside, shown) {
            (Some(language), None, _) => {
                inside = Some(language == "sh");
                if language == "sh" {
                    blocks.push(Block {
                        lines: Vec::new(),
                        needs: needs.clone(),
                        shows: Vec::new(),
                    });
                }
            }
            (Some(_), Some(_), _) => inside = None,
            (None, Some(true), _) => {
                let block = blocks.last_mut().expect("it was begun");
                block.lines.push(line.to_owned());
            }
            (None, None, Some(text)) => {
                let block = blocks.last_mut();
                let block = block.unwrap_or_else(|| panic!("{page}: `{line}` is behind a block"));
                block.shows.push(text.to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(inside, None, "{page}: every block is closed");
    blocks
}

/// Ends the processes that a page leaves running; it writes their pids into files `NAME.pid`.
struct Running<'p>(&'p Path);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let entries = std::fs::read_dir(self.0).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_some_and(|end| end == "pid")) {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let Ok(number) = text.trim().parse::<u32>() else {
                continue;
            };
            // The pid may belong to another process, or to an ended one.
            let directory = PathBuf::from(format!("/proc/{number}"));
            let is_ours = || {
                let at = std::fs::read_link(directory.join("cwd"));
                at.is_ok_and(|at| self.0.canonicalize().is_ok_and(|place| at == place))
            };
            let pid = i32::try_from(number).ok();
            let pid = pid.and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid.filter(|_| is_ours()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                let until = std::time::Instant::now() + Duration::from_secs(30);
                while is_ours() && std::time::Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// Whether a device can be opened, or a program is in one of the directories of `PATH`.
fn is_there(needed: &str, path: &std::ffi::OsStr) -> bool {
    if needed.starts_with('/') {
        let mut options = std::fs::File::options();
        return options.read(true).write(true).open(needed).is_ok();
    }
    std::env::split_paths(path).any(|directory| directory.join(needed).exists())
}

fn walk_through(page: &str) {
    let blocks = blocks_of(page);
    assert!(!blocks.is_empty(), "{page} shows commands, in ```sh blocks");
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let _running = Running(place.path());
    let [binary, ..] = programs();
    let mut path = binary
        .parent()
        .expect("it lies in a directory")
        .as_os_str()
        .to_owned();
    if let Some(others) = std::env::var_os("PATH") {
        path.push(":");
        path.push(others);
    }
    let is_root = rustix::process::geteuid().is_root();
    let file = place.path().join("FILE");
    std::fs::write(&file, vec![7; 1 << 20]).expect("the disk has room");
    for block in &blocks {
        let needs_root = block.lines.iter().any(|line| line.starts_with("sudo "));
        if needs_root && !is_root {
            println!(
                "skipped: docs/{page}: from `{}` on: needs root",
                block.lines.concat()
            );
            return;
        }
        if let Some(missing) = block.needs.iter().find(|needed| !is_there(needed, &path)) {
            println!(
                "skipped: docs/{page}: from `{}` on: {missing} cannot be used here",
                block.lines.first().map_or("", String::as_str)
            );
            return;
        }
        let lines = block.lines.iter();
        let lines = lines.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
        let script = lines.collect::<Vec<_>>().join("\n");
        let output = assert_cmd::Command::new("sh")
            .args(["-euc", &script])
            .current_dir(place.path())
            .env("PATH", &path)
            .env("NO_COLOR", "1")
            .timeout(LIMIT)
            .output()
            .expect("there is a shell");
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let said = said.concat();
        assert!(
            output.status.success(),
            "docs/{page}: this succeeds:\n{script}\n--- {}\n{said}",
            output.status
        );
        assert!(
            !said.is_empty() || script.contains('>'),
            "docs/{page}: it shows something:\n{script}"
        );
        for text in &block.shows {
            assert!(
                said.contains(text.as_str()),
                "docs/{page}: {text:?} is shown by\n{script}\n---\n{said}"
            );
        }
    }
}

#[test]
fn every_command_of_the_pages_succeeds() {
    // In sequence: two pages at once would read files that the other evicts.
    for page in PAGES {
        walk_through(page);
    }
}

#[test]
fn every_walkthrough_is_tested() {
    let entries = std::fs::read_dir(docs().join("walkthroughs")).expect("there are some");
    for entry in entries {
        let name = entry.expect("it can be read").file_name();
        let page = format!("walkthroughs/{}", name.to_string_lossy());
        assert!(
            PAGES.contains(&page.as_str()),
            "docs/{page} is not run by this test"
        );
    }
}

#[test]
fn every_command_has_a_page_that_begins_with_a_question() {
    let help = assert_cmd::Command::new(env!("CARGO_BIN_EXE_cachewise"))
        .arg("--help")
        .output()
        .expect("it runs");
    let help = String::from_utf8(help.stdout).expect("help is text");
    let commands = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // Continuation lines of a description are indented further.
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|line| !line.starts_with(' '))
        })
        .filter_map(|line| line.split_whitespace().next());
    let mut known = 0;
    for command in commands {
        let page = match command {
            "warm" | "evict" | "lock" | "snapshot" => "acts",
            "cat" => "order",
            "report" => "record",
            // These are made from the other commands.
            "columns" | "completions" | "man" | "help" => continue,
            command => command,
        };
        let text = std::fs::read_to_string(docs().join(format!("{page}.md")))
            .unwrap_or_else(|error| panic!("{command}: docs/{page}.md: {error}"));
        let beginning: Vec<&str> = text.lines().take(4).collect();
        assert!(
            beginning.concat().contains('?'),
            "docs/{page}.md begins with a question that `cachewise {command}` answers: {beginning:?}"
        );
        known += 1;
    }
    assert!(known > 15, "commands were found: {known}\n{help}");
}

#[test]
fn every_link_between_pages_has_a_target() {
    let mut pages = vec![
        docs().join("../README.md"),
        docs().join("../python/README.md"),
    ];
    for directory in [docs(), docs().join("walkthroughs")] {
        let entries = std::fs::read_dir(directory).expect("it is there");
        pages.extend(entries.map(|entry| entry.expect("it can be read").path()));
    }
    let mut links = 0;
    for page in pages
        .iter()
        .filter(|page| page.extension().is_some_and(|end| end == "md"))
    {
        let text = std::fs::read_to_string(page).expect("it can be read");
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            let link = rest.split([')', '#']).next().unwrap_or_default();
            if link.is_empty() || link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let target = page.parent().expect("it lies in a directory").join(link);
            assert!(target.exists(), "{}: {link} is not there", page.display());
            links += 1;
        }
    }
    assert!(links > 20, "links were found: {links}");
}
