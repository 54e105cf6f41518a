//! Manual pages and completions, as read by mandoc, man and the shells.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::siblings::{programs, sibling};

fn run(program: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    let output = output.expect("the binary can be run");
    assert!(
        output.status.success(),
        "{} {}: {}",
        program.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// All pages of all programs, in a temporary directory.
fn pages() -> (tempfile::TempDir, Vec<PathBuf>) {
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    // The directory is made.
    let below = place.path().join("man/man1");
    for program in programs() {
        run(
            &program,
            &["man", below.to_str().expect("an ordinary name")],
        );
    }
    let entries = fs::read_dir(&below).expect("it was made");
    let mut pages: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    pages.sort();
    (place, pages)
}

fn name_of(page: &Path) -> String {
    let stem = page.file_stem().expect("it has a name");
    stem.to_string_lossy().into_owned()
}

/// Messages of a program about a page; `None` if it is not installed.
fn said(program: &str, arguments: &[&str], page: &Path) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .arg(page)
        .env("LC_ALL", "C.UTF-8")
        .env("MANWIDTH", "80")
        .output()
        .ok()?;
    // mandoc writes messages to standard output, man to standard error, and the page to the other
    // one.
    let said = match program {
        "man" => output.stderr,
        _ => output.stdout,
    };
    Some(String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn mandoc_lints_every_page_without_warnings() {
    let (_place, pages) = pages();
    for page in &pages {
        let Some(said) = said("mandoc", &["-T", "lint", "-W", "warning"], page) else {
            println!("skipped: manual: `mandoc` is not installed");
            return;
        };
        // Possible values are between two empty lines, one of which mandoc skips.
        let wrong: Vec<&str> = said
            .lines()
            .filter(|line| !line.contains("skipping paragraph macro"))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn man_shows_every_page_without_warnings() {
    let (_place, pages) = pages();
    for page in &pages {
        let arguments = ["--warnings=w", "--local-file", "--encoding=utf8"];
        let Some(said) = said("man", &arguments, page) else {
            println!("skipped: manual: `man` is not installed");
            return;
        };
        assert!(said.is_empty(), "{}: {said}", page.display());
    }
    let first = pages.first().expect("there are pages");
    let shown = Command::new("man").arg("--local-file").arg(first).output();
    let shown = shown.expect("it was run before").stdout;
    let shown = String::from_utf8_lossy(&shown);
    assert!(
        shown.contains("cachewise") && shown.contains("SYNOPSIS"),
        "the page is shown: {shown}"
    );
}

#[test]
fn whatis_finds_every_command() {
    let (_place, pages) = pages();
    for page in &pages {
        let Ok(output) = Command::new("lexgrog").arg(page).output() else {
            println!("skipped: manual: `lexgrog` of man-db is not installed");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && said.contains(&format!("\"{} - ", name_of(page))),
            "{}: a name and a line: {said}",
            page.display()
        );
    }
}

/// The words of a page's command: a word may contain a hyphen, so each starts at the end of the
/// parent's name.
fn words_of<'a>(page: &'a str, pages: &[String]) -> Vec<&'a str> {
    let above = pages.iter().filter_map(|above| {
        let word = page.strip_prefix(above.as_str())?.strip_prefix('-')?;
        Some((above.len(), word))
    });
    match above.max() {
        Some((length, word)) => {
            let mut words = words_of(&page[..length], pages);
            words.push(word);
            words
        }
        None => Vec::new(),
    }
}

#[test]
fn every_page_contains_the_help_text() {
    let (_place, pages) = pages();
    let names: Vec<String> = pages.iter().map(|page| name_of(page)).collect();
    let mut commands = 0;
    for page in &pages {
        let name = name_of(page);
        let text = fs::read_to_string(page).expect("it was written");
        let text = text.replace("\\-", "-").replace("\\*(Aq", "'");
        let mut words = words_of(&name, &names);
        if !words.is_empty() {
            words.push("--help");
            // `cachewise cpu` and `cachewise tier` start the sibling.
            let help = run(&sibling("cachewise"), &words).stdout;
            let help = String::from_utf8_lossy(&help).into_owned();
            let about = help
                .lines()
                .next()
                .unwrap_or_default()
                .trim_end_matches('.');
            assert!(text.contains(about), "{name}: {about:?}");
            commands += 1;
        }
        let is_of_others = text.contains("SEE ALSO");
        assert!(is_of_others, "{name} leads on to others");
    }
    assert!(commands > 20, "one for each command: {commands}");
}

#[test]
fn unwritable_directory_is_reported_with_its_path() {
    let output = Command::new(env!("CARGO_BIN_EXE_cachewise"))
        .args(["man", "/proc/none/man1"])
        .output()
        .expect("the binary can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "it failed: {said}");
    assert!(said.contains("/proc/none/man1"), "with the path: {said}");
}

#[test]
fn shells_accept_the_completions_of_each_program() {
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    for program in programs() {
        for (shell, check) in [
            ("bash", &["-n"][..]),
            ("zsh", &["-n"][..]),
            ("fish", &["--no-execute"][..]),
        ] {
            let name = name_of(&program);
            let script = place.path().join(format!("{name}.{shell}"));
            let text = run(&program, &["completions", shell]).stdout;
            assert!(!text.is_empty(), "{name} has completions for {shell}");
            fs::write(&script, text).expect("the directory is ours");
            match Command::new(shell).args(check).arg(&script).output() {
                Ok(output) => assert!(
                    output.status.success() && output.stderr.is_empty(),
                    "{shell} can read it: {}",
                    String::from_utf8_lossy(&output.stderr)
                ),
                Err(_) => println!("skipped: completions: `{shell}` is not installed"),
            }
        }
    }
    // The completions of bash after `cachewise ev`.
    let script = "source \"$1\"; COMP_WORDS=(cachewise ev); COMP_CWORD=1; _cachewise cachewise ev cachewise; \
                  echo \"${COMPREPLY[*]}\"";
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(place.path().join("cachewise.bash"))
        .output();
    match output {
        Ok(output) => assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            "evict",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(_) => println!("skipped: completions: `bash` is not installed"),
    }
}

/// Lines that end in the middle of a name, and the whole name.
const COMPLETED: [(&str, &str); 6] = [
    ("stat --columns time,read_hit_p", "time,read_hit_pages"),
    ("report --columns fetched_b", "fetched_bytes"),
    ("top --sort fetched_b", "fetched_bytes"),
    (
        "size --columns note,size_policy,size_mem",
        "note,size_policy,size_memory_bytes",
    ),
    ("bench --columns amp", "amplification_factor"),
    ("doctor --columns id,st", "id,state"),
];

/// Prints what bash completes the line to.
const BASH: &str = r#"source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_cachewise cachewise "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[*]}""#;

/// Types the line and a tab in an interactive zsh, in which the program prints its last argument.
const ZSH: &str = r#"zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z "autoload -Uz compinit; compinit -u -D; source $1; cachewise() { print -r -- \"<\$@[-1]>\" }; PS1=RE''ADY"
zpty -r -m z text '*READY*'
zpty -w -n z "$2"$'\t'
zpty -w -n z $'\n'
zpty -r -m z text '*<*>*'
print -r -- ${${text##*<}%%>*}; zpty -d z"#;

const FISH: &str = r#"source "$argv[1]"; complete -C "$argv[2]" | string replace -r "\t.*" """#;

#[test]
fn shells_complete_columns_in_lists_and_sort_keys() {
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let program = programs()
        .into_iter()
        .find(|program| name_of(program) == "cachewise")
        .expect("it is built");
    for (shell, arguments) in [
        ("bash", &["-c", BASH, "bash"][..]),
        ("zsh", &["-f", "-c", ZSH, "zsh"]),
        ("fish", &["--no-config", "-c", FISH]),
    ] {
        let script = place.path().join(shell);
        fs::write(&script, run(&program, &["completions", shell]).stdout).expect("it is ours");
        for (typed, whole) in COMPLETED {
            let output = Command::new(shell)
                .args(arguments)
                .arg(&script)
                .arg(format!("cachewise {typed}"))
                .output();
            let Ok(output) = output else {
                println!("skipped: completions: `{shell}` is not installed");
                break;
            };
            assert_eq!(
                String::from_utf8_lossy(&output.stdout).trim(),
                whole,
                "{shell}: {typed}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
