//! The example for Kubernetes: its settings are settings, and its command mounts with them.

use std::fs;
use std::path::Path;

use crate::mounted::{Mounted, bytes_of, has_fuse, origin};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "packaged::settings_of_the_kubernetes_example_mount",
            settings_mount,
        ),
        plain(
            "packaged::volumes_of_the_csi_example_have_settings",
            volume_attributes,
        ),
    ]
}

/// The lines of `settings.toml` in the config map.
fn settings_of(example: &str) -> Vec<&str> {
    let lines = example
        .lines()
        .skip_while(|line| line.trim() != "settings.toml: |");
    lines
        .skip(1)
        .take_while(|line| line.starts_with("    "))
        .map(str::trim)
        .collect()
}

fn volume_attributes() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let example = fs::read_to_string(packaging.join("kubernetes/csi.yaml"));
    let example = example.expect("the example is there");
    let attributes: Vec<&str> = example
        .lines()
        .skip_while(|line| line.trim() != "volumeAttributes:")
        .skip(1)
        .take_while(|line| line.starts_with("      "))
        .chain(settings_of(&example))
        .filter_map(|line| line.trim().split([':', '=']).next())
        .map(str::trim)
        .collect();
    assert!(attributes.len() > 5, "{attributes:?}");
    for name in attributes {
        assert!(
            name == "origin" || cachewise_tier::Setting::find(name).is_ok(),
            "{name} is a setting"
        );
    }
    let ended = Ended::of(&mut cachewise(["csi", "--help"])).expect(0, "help");
    let help = ended.out();
    let flags = example
        .lines()
        .skip_while(|line| line.trim() != "- csi")
        .skip(1)
        .map_while(|line| line.trim().strip_prefix("- --"));
    let flags: Vec<&str> = flags.filter_map(|flag| flag.split('=').next()).collect();
    assert_eq!(flags.len(), 3, "{flags:?}");
    for flag in flags {
        assert!(help.contains(&format!("--{flag} <")), "--{flag} is a flag");
    }
}

fn settings_mount() {
    if !has_fuse("the example for Kubernetes") {
        return;
    }
    let scratch = Scratch::new();
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let example = fs::read_to_string(packaging.join("kubernetes/cachewise-tier.yaml"));
    let example = example.expect("the example is there");
    // A disk and an engine of this machine: where they are is all that differs.
    let disk = scratch.directory().join("blocks");
    let settings: Vec<String> = settings_of(&example)
        .into_iter()
        // Ordinary users need an administrator's permission for it.
        .filter(|line| rustix::process::geteuid().is_root() || !line.starts_with("allow_other"))
        .map(|line| match line.split_once(" = ") {
            Some(("disk", _)) => format!("disk = {disk:?}"),
            Some(("disk_size", _)) => "disk_size = \"64M\"".to_owned(),
            Some(("engine", _)) => "engine = \"redis-cluster://127.0.0.1:1\"".to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    assert!(
        settings.len() > 4,
        "the config map has settings: {settings:?}"
    );
    let file = scratch.directory().join("settings.toml");
    fs::write(&file, settings.join("\n")).expect("written");

    let files = origin(&scratch, 1, 10_000);
    let mounted = Mounted::new(
        &scratch,
        &files,
        &["--settings", file.to_str().expect("UTF-8")],
    );
    assert_eq!(
        fs::read(mounted.path("f/0")).expect("read"),
        bytes_of(0, 10_000)
    );
    // Its probes of health read this file.
    assert!(example.contains("/.cachewise/stat.json"));
    assert!(mounted.report()["pid"].is_u64());
    mounted.end().expect(0, "SIGTERM unmounts it");
}
