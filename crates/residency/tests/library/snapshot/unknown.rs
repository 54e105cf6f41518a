//! Files whose residency is unknown.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use cachewise_residency::snapshot::{Reader, RestoreOptions, SnapshotEntry, diff_now};
use cachewise_units::Pages;

use super::*;
use crate::support::{evict, file, load, told, undisturbed};
use crate::unprivileged::{PublicDirectory, answer, looked_at};

#[test]
fn unknown_and_unreadable_files_are_reported() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: files of others: needs root");
        return;
    }
    let place = PublicDirectory::new();
    let [shown, hidden] = ["shown", "hidden"].map(|name| file(place.path(), name, 10));
    std::fs::set_permissions(&shown, Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(&hidden, Permissions::from_mode(0o600)).unwrap();
    let kept = place.path().join("kept");
    undisturbed(|| {
        for path in [&shown, &hidden] {
            load(path, &(0..10).collect());
        }
        save(&kept, &[shown.clone(), hidden.clone()]);
        std::fs::set_permissions(&kept, Permissions::from_mode(0o644)).unwrap();
        evict(&shown);
        let Some(answer) = place.ask("snapshot::unknown::restore_as_nobody", "", &kept) else {
            return Ok(());
        };
        assert_eq!(
            answer,
            "1 warmed, 1 unknown, 1 denied, 10 pages; 2 and 0 known now, 20 pages then; no_permission",
            "what is not known is not counted, and what the snapshot says is"
        );
        match told(&shown).0.cached {
            Pages(10) => Ok(()),
            other => Err(format!("it was warmed all the same: {other}")),
        }
    });
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn restore_as_nobody() {
    let Some(kept) = looked_at() else { return };
    let restored = back(&kept, &RestoreOptions::default());
    let totals = diff_now(Reader::open(&kept).unwrap(), |_| {}).unwrap();
    let shown = SnapshotEntry::from_path(&kept.with_file_name("shown")).unwrap_err();
    answer(format_args!(
        "{} warmed, {} unknown, {} denied, {} pages; {} and {} known now, {} pages then; {}",
        restored.files,
        restored.unknown,
        restored.skipped.denied,
        restored.pages,
        totals.unknown,
        totals.files,
        totals.before,
        shown.unknown().unwrap().id(),
    ));
}
