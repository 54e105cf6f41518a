//! The layout that the head of a module describes: the modules that it names are there.

use std::fs;
use std::path::{Path, PathBuf};

/// Heads of modules with other modules below them.
const HEADS: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];

fn heads(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            heads(&path, found);
        } else if HEADS.iter().any(|head| path.ends_with(head)) {
            found.push(path);
        }
    }
}

/// The modules that the section "Layout" names: those before a colon, at the head of an item or behind a semicolon.
fn named(text: &str) -> Vec<String> {
    let Some((_, section)) = text.split_once("//! # Layout\n") else {
        return Vec::new();
    };
    let lines = section.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with(" #")).collect();
    let items = lines.join("\n");
    let items = items.split("\n - ").flat_map(|item| item.split("; "));
    items
        .filter_map(|item| item.trim_start_matches(" - ").split_once(':'))
        .map(|(names, _)| names)
        .filter(|names| names.starts_with('`') && names.ends_with('`'))
        .flat_map(|names| names.split(", "))
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| !name.contains(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .collect()
}

#[test]
fn every_module_of_a_layout_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    heads(&crates, &mut files);
    files.retain(|path| path.iter().any(|part| part == "src"));
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        let directory = file.parent().expect("a directory");
        for name in named(&text) {
            seen += 1;
            let is_there =
                directory.join(format!("{name}.rs")).is_file() || directory.join(&name).is_dir();
            assert!(is_there, "{}: there is no module `{name}`", file.display());
        }
    }
    assert!(seen > 200, "layouts are found: {seen} names");
}
