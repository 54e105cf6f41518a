//! Devices that other programs keep busy.

use std::path::Path;
use std::process::{Command, Stdio};

use super::fault::note;
use super::kit::*;
use crate::support::*;

/// Reads single pages around the page cache.
const READER: &str = "
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
places = random.Random(7)
for _ in range(3000):
    os.preadv(fd, [page], 4096 * places.randrange(16384))
";

/// Reads a device around the page cache until it is ended. It is one process: a child would
/// read on after its parent was ended.
const BUSY: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
block = mmap.mmap(-1, 1 << 20)
while True:
    for place in range(64):
        os.preadv(fd, [block], place << 20)
";

/// Keeps a device busy until it is dropped.
fn busy_with(device: &Path) -> Started {
    let mut command = Command::new("python3");
    Started::of(command.args(["-c", BUSY]).arg(device).stdin(Stdio::null()))
}

/// A program that reads little, beside another one that reads all the time.
pub fn device_busy_for_another_program() {
    if !has(&["python3"], "advice::device_busy_for_another_program") {
        return;
    }
    let scratch = Scratch::new();
    let device = LoopDevice::over(&scratch.file("image", 64 * MIB));
    // Its requests reach the disk, and wait there.
    let mut direct = Command::new("losetup");
    Ended::of(direct.arg("--direct-io=on").arg(&device.path)).expect(0, "direct I/O of the image");
    let report = || report_of_python(READER, &[device.path.as_os_str()]);
    let (beside, found) = {
        // Two, so that the device is never idle between them.
        let _others = [busy_with(&device.path), busy_with(&device.path)];
        let beside = report();
        let found = the_one(&beside, "device_busy", &device.path).clone();
        (beside, found)
    };
    assert_eq!(found["subject_kind"], "device", "{found}");
    let figures = &found["evidence"];
    let (others, all) = (
        number(figures, "others_bytes"),
        number(figures, "device_bytes"),
    );
    assert!(
        others >= all / 3 * 2 && all - others >= 3000 * 4096,
        "the reads of the run are none of others: {figures}"
    );
    assert!(step(&found).contains("io.max"), "the fix: {found}");
    // The fix: at another time.
    let alone = report();
    assert!(
        alone.findings("device_busy").is_empty(),
        "{}",
        alone.json["findings"]
    );
    let moved = |report: &Report| {
        let rows = report.json["devices"].as_array().expect("a list");
        let row = rows
            .iter()
            .find(|row| row["path"].as_str() == device.path.to_str());
        number(row.expect("the device was used"), "device_read_bytes")
    };
    assert_eq!(
        moved(&alone),
        3000 * 4096,
        "the device moves what the run reads"
    );
    assert!(moved(&beside) > 2 * moved(&alone), "others read beside it");
    note(&[
        "fault",
        "python reads a device that two programs keep busy",
        "device_busy",
        "device_busy of the device",
        "device_read_bytes",
        &format!("{} -> {}", moved(&beside), moved(&alone)),
    ]);
}
