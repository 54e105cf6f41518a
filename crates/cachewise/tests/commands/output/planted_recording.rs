//! A recording that another user has planted where `record` goes on with one.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::support::*;

/// The unprivileged user `nobody`.
const OTHER: u32 = 65_534;

const REGULAR: &str = "/proc/sys/fs/protected_regular";

pub fn record_appends_to_a_planted_recording_only_where_the_kernel_allows_it() {
    let scratch = Scratch::new();
    let shared = scratch.path("shared");
    fs::create_dir(&shared).expect("the disk has room");
    let made = scratch.path("a.rec");
    let record = |path| Ended::of(cachewise(["record", "-q", "-d", "0.1"]).arg(path));
    record(&made).expect(0, "recorded");
    let planted = shared.join("a.rec");
    // (fs.protected_regular, mode of the directory, whether the file may be written)
    for (value, mode, is_allowed) in [
        ("0", 0o1777, true),
        ("1", 0o1777, false),
        ("1", 0o1775, true),
        ("2", 0o1775, false),
    ] {
        fs::set_permissions(&shared, Permissions::from_mode(mode)).expect("it is ours");
        let Some(_set) = Sysctl::set(REGULAR, value) else {
            println!("skipped: planted recordings: fs.protected_regular cannot be set");
            return;
        };
        let line = format!("fs.protected_regular = {value}, directory {mode:o}");
        fs::copy(&made, &planted).expect("the disk has room");
        chown(&planted, Some(OTHER), Some(OTHER)).expect("we are root");
        let before = fs::read(&planted).expect("it is there");
        let ended = record(&planted);
        let after = fs::read(&planted).expect("it is there");
        if is_allowed {
            ended.expect(0, &line);
            assert!(after.len() > before.len(), "{line}: appended");
        } else {
            ended.expect(2, &line).says(
                "ermission denied",
                "as the kernel does to any other program",
            );
            assert!(after == before, "{line}: untouched");
        }
        let owner = fs::metadata(&planted).expect("it is there").uid();
        assert_eq!(owner, OTHER, "{line}: whose it was");
        fs::remove_file(&planted).expect("it is there");
    }
    // A recording of root goes on as anywhere else.
    let _set = Sysctl::set(REGULAR, "2").expect("it could be set before");
    fs::copy(&made, &planted).expect("the disk has room");
    record(&planted).expect(0, "ours");
}
