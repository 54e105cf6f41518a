//! The import rules of ARCHITECTURE.md, checked against the manifests.
//!
//! The picture is useful only while it is true, and one line in a Cargo.toml can make it false: the test reads the
//! manifests, as cargo does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One crate of the workspace and what it may do.
struct Rule {
    /// The folder under `crates/`; the package is `cachewise-<folder>`, the binary's `cachewise`.
    folder: &'static str,
    /// The folders of the crates that it may import.
    may_import: &'static [&'static str],
    /// Whether `unsafe` may appear in it.
    may_be_unsafe: bool,
}

/// The table that ARCHITECTURE.md draws: a new crate is added in both places.
const RULES: [Rule; 19] = [
    Rule {
        folder: "units",
        may_import: &[],
        may_be_unsafe: false,
    },
    Rule {
        folder: "sys",
        may_import: &["units"],
        may_be_unsafe: true,
    },
    Rule {
        folder: "kstat",
        may_import: &["units"],
        may_be_unsafe: false,
    },
    // Changes and restores the settings that kstat reads.
    Rule {
        folder: "control",
        may_import: &["units", "sys", "kstat"],
        may_be_unsafe: false,
    },
    Rule {
        folder: "model",
        may_import: &["units"],
        may_be_unsafe: false,
    },
    // The ledger is defined once, in the model; the probe fills it.
    Rule {
        folder: "probe",
        may_import: &["units", "sys", "kstat", "model"],
        may_be_unsafe: true,
    },
    Rule {
        folder: "curve",
        may_import: &["units"],
        may_be_unsafe: false,
    },
    Rule {
        folder: "residency",
        may_import: &["units", "sys"],
        may_be_unsafe: false,
    },
    // Unwinds the records of the probe, and names the calls.
    Rule {
        folder: "stacks",
        may_import: &["units", "sys", "kstat", "model", "probe"],
        may_be_unsafe: false,
    },
    // A library, and the program that shows it.
    Rule {
        folder: "cpu",
        may_import: &["units", "sys", "kstat", "model", "view", "cli"],
        may_be_unsafe: true,
    },
    Rule {
        folder: "view",
        may_import: &["units", "model"],
        may_be_unsafe: false,
    },
    Rule {
        folder: "tui",
        may_import: &["units", "sys", "model", "view"],
        may_be_unsafe: false,
    },
    Rule {
        folder: "recording",
        may_import: &["units", "model"],
        may_be_unsafe: false,
    },
    Rule {
        folder: "web",
        may_import: &["units", "sys", "model", "view"],
        may_be_unsafe: false,
    },
    // Measurements go through the table of fields, which is in the model.
    Rule {
        folder: "bench",
        may_import: &["units", "sys", "kstat", "control", "residency", "model"],
        may_be_unsafe: true,
    },
    // For Python, out of the workspace.
    Rule {
        folder: "python",
        may_import: &["units", "sys", "residency", "tier"],
        may_be_unsafe: false,
    },
    // Knows files by their origin and nothing of the kernel's caches; what is mounted where it asks kstat, and sys to
    // have servers that it starts for trying things on end with it. The program reads snapshots of residency.
    Rule {
        folder: "tier",
        may_import: &["units", "model", "sys", "kstat", "residency", "view", "cli"],
        may_be_unsafe: false,
    },
    // The parts that the programs share.
    Rule {
        folder: "cli",
        may_import: &["units", "sys", "kstat", "model", "view"],
        may_be_unsafe: false,
    },
    Rule {
        folder: "cachewise",
        may_import: &[
            "cli",
            "units",
            "sys",
            "kstat",
            "control",
            "model",
            "probe",
            "residency",
            "curve",
            "stacks",
            "view",
            "tui",
            "recording",
            "web",
            "bench",
        ],
        may_be_unsafe: false,
    },
];

/// Arguments and errors for people belong to the programs: a library has neither.
const ONLY_IN_PROGRAMS: [&str; 2] = ["clap", "anyhow"];

/// The crates of the programs, and what they share.
const PROGRAMS: [&str; 4] = ["cli", "cachewise", "cpu", "tier"];

/// The feature of `cpu` and `tier` that adds the program to the library.
const PROGRAM: &str = "program";

/// The binary is glue: what grows beyond this belongs into a module.
const LONGEST_MAIN: usize = 60;

/// A member of the workspace as cargo sees it.
struct Member {
    folder: String,
    directory: PathBuf,
    /// The packages that it depends on, tests and build scripts apart.
    imports: BTreeSet<String>,
}

fn package_of(folder: &str) -> String {
    if folder == "cachewise" {
        folder.to_owned()
    } else {
        format!("cachewise-{folder}")
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("cargo metadata gives a string for `{key}`"))
}

/// Those of the workspace, and the one for Python, which is out of it because Python builds it.
fn members() -> Vec<Member> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut members = members_of(&here.join("Cargo.toml"));
    members.extend(members_of(&here.join("../../python/Cargo.toml")));
    members
}

fn members_of(manifest: &Path) -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()
        .expect("cargo, which runs this test, can be run");
    assert!(
        output.status.success(),
        "cargo metadata works: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"]
        .as_array()
        .expect("the metadata has packages");
    packages
        .iter()
        .map(|package| {
            let directory = Path::new(text(package, "manifest_path"))
                .parent()
                .expect("a manifest lies in a directory")
                .to_owned();
            let folder = directory
                .file_name()
                .expect("it has a name")
                .to_string_lossy()
                .into_owned();
            let dependencies = package["dependencies"]
                .as_array()
                .expect("a list, maybe empty");
            let imports = dependencies
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| text(dependency, "name").to_owned())
                .collect();
            assert_eq!(
                text(package, "name"),
                package_of(&folder),
                "a package is named after its folder"
            );
            Member {
                folder,
                directory,
                imports,
            }
        })
        .collect()
}

/// The folder of each crate, and its directory.
pub fn folders() -> Vec<(String, PathBuf)> {
    let members = members().into_iter();
    members
        .map(|member| (member.folder, member.directory))
        .collect()
}

fn rule_of(member: &Member) -> &'static Rule {
    RULES
        .iter()
        .find(|rule| rule.folder == member.folder)
        .unwrap_or_else(|| {
            panic!(
                "crates/{} is new here: add it, with what it may import, to RULES in {} and to the \
             picture in ARCHITECTURE.md",
                member.folder,
                file!()
            )
        })
}

#[test]
fn crates_import_only_what_the_picture_allows() {
    let mut wrong = Vec::new();
    for member in members() {
        let rule = rule_of(&member);
        let allowed: BTreeSet<String> = rule.may_import.iter().map(|to| package_of(to)).collect();
        for import in &member.imports {
            let ours = import == "cachewise" || import.starts_with("cachewise-");
            if ours && !allowed.contains(import) {
                wrong.push(format!("{} imports {import}", member.folder));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "against the arrows in ARCHITECTURE.md: {}. If the new cut is better, change the picture \
         and RULES in {}",
        wrong.join(", "),
        file!()
    );
}

/// The picture of ARCHITECTURE.md: a crate a line, in an order in which imports point upwards.
fn picture() -> String {
    let mut drawn: Vec<&Rule> = Vec::new();
    while drawn.len() < RULES.len() {
        let next = RULES.iter().find(|rule| {
            let is_drawn = |folder: &str| drawn.iter().any(|rule| rule.folder == folder);
            !is_drawn(rule.folder) && rule.may_import.iter().all(|folder| is_drawn(folder))
        });
        drawn.push(next.expect("imports have no cycle"));
    }
    let lines = drawn.iter().map(|rule| {
        let line = format!("{:10} <- {}", rule.folder, rule.may_import.join(", "));
        line.trim_end_matches([' ', '<', '-']).to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_architecture_page_shows_the_rules() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(&page).expect("there is a page");
    let (head, rest) = text
        .split_once("<!-- imports -->\n")
        .expect("it has a mark");
    let (_, tail) = rest
        .split_once("<!-- end of imports -->")
        .expect("it has an end");
    let wanted = format!(
        "{head}<!-- imports -->\n```\n{}\n```\n<!-- end of imports -->{tail}",
        picture()
    );
    if std::env::var_os("CACHEWISE_WRITE_DOCS").is_some() {
        std::fs::write(&page, &wanted).expect("the page can be written");
    }
    assert!(
        text == wanted || std::env::var_os("CACHEWISE_WRITE_DOCS").is_some(),
        "the picture is of other rules: CACHEWISE_WRITE_DOCS=1 writes it anew"
    );
}

#[test]
fn every_rule_is_about_a_crate_that_exists() {
    let folders: BTreeSet<String> = members().into_iter().map(|member| member.folder).collect();
    for rule in &RULES {
        assert!(
            folders.contains(rule.folder),
            "crates/{} is gone: drop its rule",
            rule.folder
        );
    }
}

#[test]
fn arguments_and_free_form_errors_stay_in_the_programs() {
    for member in members()
        .iter()
        .filter(|member| !PROGRAMS.contains(&member.folder.as_str()))
    {
        for import in &member.imports {
            let banned = ONLY_IN_PROGRAMS
                .iter()
                .any(|name| import == name || import.starts_with(&format!("{name}_")));
            assert!(
                !banned,
                "{} depends on {import}, which is the programs': a library returns its own error \
                 type and takes its options as values",
                member.folder
            );
        }
    }
}

#[test]
fn libraries_of_programs_do_without_what_only_the_program_needs() {
    for folder in ["cpu", "tier"] {
        let manifest =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{folder}/Cargo.toml"));
        let manifest = std::fs::read_to_string(manifest).expect("there is a manifest");
        let manifest: toml::Table = manifest.parse().expect("cargo has parsed it");
        for import in ONLY_IN_PROGRAMS
            .iter()
            .chain(&["cachewise-cli", "cachewise-view"])
        {
            let is_optional = manifest["dependencies"][*import]
                .get("optional")
                .and_then(toml::Value::as_bool);
            assert_eq!(
                is_optional,
                Some(true),
                "{folder} has {import} with the feature {PROGRAM} only"
            );
        }
    }
}

#[test]
fn unsafe_is_forbidden_where_it_is_not_needed() {
    for member in members() {
        let roots: Vec<PathBuf> = ["src/lib.rs", "src/main.rs"]
            .iter()
            .map(|root| member.directory.join(root))
            .filter(|root| root.exists())
            .collect();
        assert!(
            !roots.is_empty(),
            "{} has a lib.rs or a main.rs",
            member.folder
        );
        for root in roots {
            let source = std::fs::read_to_string(&root).expect("a crate's root can be read");
            let forbids = source
                .lines()
                .any(|line| line.trim_end() == "#![forbid(unsafe_code)]");
            assert!(
                forbids || rule_of(&member).may_be_unsafe,
                "{} says #![forbid(unsafe_code)] at its head",
                root.display()
            );
        }
    }
}

#[test]
fn each_main_is_glue() {
    for folder in ["cachewise", "cpu", "tier"] {
        let main = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{folder}/src/main.rs"));
        let lines = std::fs::read_to_string(main)
            .expect("the program has a main.rs")
            .lines()
            .count();
        assert!(
            lines < LONGEST_MAIN,
            "main.rs of {folder} has {lines} lines, and is to stay under {LONGEST_MAIN}: it only wires things up"
        );
    }
}

/// Crates that the program for the page cache, which runs as root, does without.
const NOT_IN_CACHEWISE: [&str; 6] = [
    "rustls",
    "reqwest",
    "object_store",
    "foyer",
    "fuser",
    "cachewise-cpu",
];

#[test]
fn cachewise_has_no_tls_object_store_or_fuse_server() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "cachewise",
            "-e",
            "normal",
        ])
        .args(["--prefix", "none", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo, which runs this test, can be run");
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && tree.contains("clap"), "{tree}");
    for name in NOT_IN_CACHEWISE {
        assert!(
            !tree
                .lines()
                .any(|line| line.split(' ').next() == Some(name)),
            "cachewise depends on {name}"
        );
    }
}
