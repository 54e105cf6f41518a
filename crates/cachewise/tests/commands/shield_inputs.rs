//! `shield`: readers and files that are not ordinary, and processes and groups that end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::shield::{MIB, Shielded, adds_up, left, pages, taken_or_held, text};
use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("readers::io_uring", io_uring),
        needs_root("readers::sendfile", sendfile),
        needs_root("readers::unmapped_before_the_end", unmapped_before_the_end),
        needs_root("readers::static_program", static_program),
        needs_root("readers::another_mount_namespace", another_mount_namespace),
        needs_root("readers::close_and_reopen", close_and_reopen),
        needs_root("files::overlay", overlay),
        needs_root("files::overlay_over_no_inode_numbers", overlay_over_btrfs),
        needs_root("files::tmpfs", tmpfs),
        needs_root("files::truncated_while_read", truncated_while_read),
        needs_root("files::renamed_while_read", renamed_while_read),
        needs_root("files::only_those_of_a_list", only_those_of_a_list),
        needs_root("files::a_list_names_what_it_cannot_use", unusable_lists),
        needs_root("ends::a_process_that_vanishes", process_that_vanishes),
        needs_root("ends::a_reused_process_id", reused_process_id),
        needs_root("ends::a_group_that_vanishes", group_that_vanishes),
        needs_root(
            "ends::two_shields_of_one_process",
            two_shields_of_one_process,
        ),
        needs_root("ends::metrics_at_the_end", metrics),
    ]
}

/// Whether a program is installed; else says that the test is skipped.
pub fn has(program: &str, test: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\" >/dev/null", program])
        .status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: shield: {test}: {program} is not installed");
    }
    is_there
}

/// All pages of the file that the program inserted were dropped.
#[track_caller]
fn all_dropped(file: &Path, bytes: u64, result: &Value) {
    adds_up(result);
    assert_eq!(left(file, result), 0, "{result:#}");
    let dropped = pages(result, "dropped") + taken_or_held(result);
    assert!(dropped >= bytes / page_size(), "{result:#}");
}

fn io_uring() {
    if !has("fio", "io_uring") {
        return;
    }
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 48 * MIB);
    let alone = Command::new("fio")
        .args([
            "--name=probe",
            "--rw=read",
            "--size=4k",
            "--ioengine=io_uring",
        ])
        .args([
            "--invalidate=0",
            "--output=/dev/null",
            "--allow_file_create=0",
        ])
        .arg(format!("--filename={}", file.display()))
        .output();
    if !alone.is_ok_and(|alone| alone.status.success()) {
        return println!("skipped: shield: io_uring: fio cannot use it here");
    }
    evict(&file);
    let script = r#"fio --name=scan --filename="$1" --rw=read --bs=128k --ioengine=io_uring --iodepth=8 \
        --invalidate=0 --allow_file_create=0 --output=/dev/null"#;
    let mut command = shielded.command(&["--", "sh", "-ec", script, "sh"]);
    let ended = Ended::of(command.arg(&file));
    ended.expect(0, "fio works");
    let result = shielded.read();
    adds_up(&result);
    // Several requests in flight are out of order: pages may be used again.
    let stays = pages(&result, "used_again");
    assert!(left(&file, &result) <= stays, "{result:#}");
    let files = result["files"].as_array().expect("files");
    assert!(
        files.iter().all(|file| file["stopped"] == false),
        "one pass is no second one: {result:#}"
    );
}

fn sendfile() {
    if !has("python3", "sendfile") {
        return;
    }
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    evict(&file);
    let program = "import os, sys
source = os.open(sys.argv[1], os.O_RDONLY)
sink = os.open('/dev/null', os.O_WRONLY)
place = 0
while (sent := os.sendfile(sink, source, place, 1 << 20)):
    place += sent
";
    let mut command = shielded.command(&["--", "python3", "-c", program]);
    Ended::of(command.arg(&file)).expect(0, "it is sent");
    all_dropped(&file, 32 * MIB, &shielded.read());
}

/// Pages of a mapping are dropped once they are unmapped, while the program goes on.
fn unmapped_before_the_end() {
    if !has("python3", "mapped") {
        return;
    }
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 16 * MIB);
    evict(&file);
    let program = "import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
with mmap.mmap(file, 0, prot=mmap.PROT_READ) as view:
    sum(view[place] for place in range(0, len(view), 4096))
print('unmapped', flush=True)
sys.stdin.read()
";
    let mut command = shielded.command(&["--", "python3", "-c", program]);
    let mut shield = Started::of(command.arg(&file).stdin(Stdio::piped()));
    shield.line().expect("it has unmapped the file");
    // The kernel holds references to some until they are on its lists.
    until("unmapped pages are dropped", || {
        (resident(&file) < 8 * MIB / page_size()).then_some(())
    });
    shield.signal(Signal::TERM);
    shield.wait();
    all_dropped(&file, 16 * MIB, &shielded.read());
}

/// Reads its file in steps of 64 KiB.
const C: &str = "#include <fcntl.h>
#include <unistd.h>
static char buffer[65536];
int main(int count, char **words)
{
	int file = open(words[count - 1], O_RDONLY);
	if (file < 0)
		return 1;
	while (read(file, buffer, sizeof(buffer)) > 0)
		;
	return 0;
}
";

/// A static program; `None` with a note without a compiler.
fn compiled(shielded: &Shielded, test: &str) -> Option<PathBuf> {
    if !has("gcc", test) {
        return None;
    }
    let (source, program) = (
        shielded.scratch.path("reads.c"),
        shielded.scratch.path("reads"),
    );
    fs::write(&source, C).expect("there is room");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-static", "-o"])
        .arg(&program)
        .arg(&source);
    Ended::of(&mut gcc).expect(0, "it is compiled");
    Some(program)
}

fn static_program() {
    let shielded = Shielded::new();
    let Some(program) = compiled(&shielded, "static program") else {
        return;
    };
    let file = shielded.scratch.file("file", 32 * MIB);
    evict(&file);
    let mut command = shielded.command(&["--"]);
    Ended::of(command.arg(program).arg(&file)).expect(0, "it reads the file");
    all_dropped(&file, 32 * MIB, &shielded.read());
}

fn another_mount_namespace() {
    let shielded = Shielded::new();
    let Some(program) = compiled(&shielded, "mount namespace") else {
        return;
    };
    let file = shielded.scratch.file("file", 32 * MIB);
    let root = shielded.scratch.path("root");
    fs::create_dir(&root).expect("there is room");
    evict(&file);
    let script = r#"exec unshare -m sh -ec '
        mount -t tmpfs none "$3"; cp "$1" "$3/app"; : >"$3/file"
        mount --bind "$2" "$3/file"; exec chroot "$3" /app /file' sh "$@""#;
    let result = shielded.script(&[], script, &[&program, &file, &root]);
    assert!(!Path::new("/app").exists(), "its paths lead nowhere here");
    all_dropped(&file, 32 * MIB, &result);
}

fn close_and_reopen() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    evict(&file);
    // Each MiB by a descriptor of its own.
    let script = r#"i=0; while [ $i -lt 32 ]; do
        dd if="$1" of=/dev/null bs=64k count=16 skip=$((i*16)) status=none; i=$((i+1)); done"#;
    let result = shielded.script(&[], script, &[&file]);
    adds_up(&result);
    let again = pages(&result, "used_again");
    assert!(left(&file, &result) <= again, "{result:#}");
}

/// An overlay of `lower` in a directory, unmounted when it goes.
struct Overlay(PathBuf);

impl Overlay {
    fn over(lower: &Path, beside: &Path) -> Overlay {
        let path = |name: &str| beside.join(name);
        for name in ["upper", "work", "merged"] {
            fs::create_dir(path(name)).expect("there is room");
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            text(lower),
            text(&path("upper")),
            text(&path("work"))
        );
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]);
        Ended::of(mount.arg(path("merged"))).expect(0, "root can mount an overlay");
        Overlay(path("merged"))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn overlay() {
    let shielded = Shielded::new();
    let lower = shielded.scratch.path("lower");
    fs::create_dir(&lower).expect("there is room");
    let file = shielded.scratch.file("lower/data", 32 * MIB);
    let overlay = Overlay::over(&lower, shielded.scratch.directory());
    evict(&file);
    let merged = overlay.0.join("data");
    let result = shielded.script(&[], r#"cat "$1" >/dev/null"#, &[&merged]);
    // The pages are those of the file below.
    all_dropped(&file, 32 * MIB, &result);
}

/// A file system whose files cannot be opened by inode number, below an overlay: no descriptor leads to the pages.
fn overlay_over_btrfs() {
    if !has("mkfs.btrfs", "btrfs") {
        return;
    }
    let shielded = Shielded::new();
    let (image, lower) = (
        shielded.scratch.path("image"),
        shielded.scratch.path("lower"),
    );
    let sparse = fs::File::create(&image).and_then(|file| file.set_len(256 * MIB));
    sparse.expect("a file with holes takes no room");
    fs::create_dir(&lower).expect("there is room");
    let mut make = Command::new("mkfs.btrfs");
    Ended::of(make.arg("-q").arg(&image)).expect(0, "it is made");
    let device = LoopDevice::over(&image);
    let mut mount = Command::new("mount");
    let mounted = mount.args([&device.path, &lower]).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: shield: btrfs: it cannot be mounted here");
        return;
    }
    let result = {
        let file = shielded.scratch.file("lower/data", 16 * MIB);
        let overlay = Overlay::over(&lower, shielded.scratch.directory());
        evict(&file);
        let merged = overlay.0.join("data");
        shielded.script(&[], r#"cat "$1" >/dev/null"#, &[&merged])
    };
    let mut unmount = Command::new("umount");
    Ended::of(unmount.arg(&lower)).expect(0, "nothing keeps it open");
    adds_up(&result);
    let stays = pages(&result, "not_opened") + pages(&result, "dropped") + taken_or_held(&result);
    assert!(
        stays >= 16 * MIB / page_size(),
        "what cannot be dropped is reported: {result:#}"
    );
}

fn tmpfs() {
    let shielded = Shielded::new();
    let directory = shielded.scratch.path("memory");
    fs::create_dir(&directory).expect("there is room");
    let script = r#"exec unshare -m sh -ec '
        mount -t tmpfs none "$1"; dd if=/dev/zero of="$1/file" bs=1M count=8 status=none
        cat "$1/file" "$1/file" | wc -c' sh "$1""#;
    let mut command = shielded.command(&["--writes", "--", "sh", "-ec", script, "sh"]);
    let ended = Ended::of(command.arg(&directory)).expect(0, "it ends");
    assert_eq!(
        ended.out().trim(),
        (16 * MIB).to_string(),
        "no byte is lost"
    );
    let result = shielded.read();
    adds_up(&result);
    assert!(
        pages(&result, "dropped") < 8 * MIB / page_size(),
        "its pages are not dropped: {result:#}"
    );
}

fn truncated_while_read() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    evict(&file);
    // It reads half, cuts the rest off, writes other data there, and reads that.
    let script = r#"exec 3<"$1"; dd bs=1M count=16 <&3 of=/dev/null status=none; truncate -s 8M "$1"
        yes other | head -c 16M >>"$1"; dd bs=1M skip=4 if="$1" status=none | md5sum"#;
    let mut command = shielded.command(&["--writes", "--", "sh", "-ec", script, "sh"]);
    let ended = Ended::of(command.arg(&file)).expect(0, "it ends");
    let result = shielded.read();
    adds_up(&result);
    let mut sum = Command::new("sh");
    sum.args(["-c", r#"dd bs=1M skip=4 if="$0" status=none | md5sum"#]);
    let sum = Ended::of(sum.arg(&file)).expect(0, "it can be read");
    assert_eq!(ended.out(), sum.out(), "the data are those on the device");
    assert_eq!(
        fs::metadata(&file).map(|file| file.len()).ok(),
        Some(24 * MIB)
    );
}

fn renamed_while_read() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    let name = shielded.scratch.path("renamed");
    evict(&file);
    // Another file has the old name by then.
    let script = r#"exec 3<"$1"; dd bs=1M count=8 <&3 of=/dev/null status=none
        mv "$1" "$2"; head -c 1M /dev/urandom >"$1"; cat <&3 >/dev/null; exec 3<&-"#;
    let result = shielded.script(&[], script, &[&file, &name]);
    adds_up(&result);
    assert_eq!(
        left(&name, &result),
        0,
        "the file by its new name: {result:#}"
    );
    assert_eq!(
        resident(&file),
        MIB / page_size(),
        "written pages of the other file stay: {result:#}"
    );
}

fn only_those_of_a_list() {
    let shielded = Shielded::new();
    let listed = shielded.scratch.file("listed", 24 * MIB);
    let other = shielded.scratch.file("other", 24 * MIB);
    let list = shielded.scratch.path("list");
    let pages_of_one = 24 * MIB / page_size();
    undisturbed(|| {
        evict(&listed);
        evict(&other);
        fs::write(&list, format!("{}\0", text(&listed))).expect("there is room");
        let options = ["-0", "--files-from", text(&list)];
        let script = r#"cat "$1" "$2" >/dev/null"#;
        let result = shielded.script(&options, script, &[&other, &listed]);
        adds_up(&result);
        assert_eq!(left(&listed, &result), 0, "it is dropped: {result:#}");
        assert!(
            pages(&result, "not_named") + taken_or_held(&result) >= pages_of_one,
            "the other is kept, and reported: {result:#}"
        );
        (resident(&other) == pages_of_one).then_some(())
    });
}

fn unusable_lists() {
    let shielded = Shielded::new();
    let mark = shielded.scratch.path("ran");
    for (list, part) in [
        (text(shielded.scratch.directory()), "find DIR -type f"),
        ("/no/such/file", "/no/such/file"),
        ("", "has no path"),
    ] {
        let mut command = cachewise(["shield", "--files-from", "-", "--", "touch"]);
        let ended = Ended::with_input(command.arg(&mark), list.as_bytes());
        ended
            .expect(2, "it is refused")
            .says(part, "with the reason");
        assert!(!mark.exists(), "the command is not run");
    }
}

fn process_that_vanishes() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 16 * MIB);
    evict(&file);
    let mut reader = Reader::of(&file);
    let pid = reader.pid();
    let mut shield = Started::of(&mut shielded.command(&["-p", &pid.to_string()]));
    shield.until_thread("shield");
    reader.read();
    signal(pid, Signal::KILL);
    shield.wait().expect(0, "it ends with the process");
    all_dropped(&file, 16 * MIB, &shielded.read());
}

/// In a process namespace whose next number can be set.
fn reused_process_id() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 24 * MIB);
    let script = r#"exec unshare -pf --mount-proc sh -c '
        exec 9>"$3/hold"
        sh -c "sleep 1000 & read _" <"$3/go" & first=$!
        "$1" shield -o json="$3/result.json" -p $first & shield=$!
        until grep -qs shield /proc/$shield/task/*/comm; do sleep 0.05; done
        exec 8>"$3/go"; exec 8>&-; wait $first
        echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
        sh -c "cat \"$2\" >/dev/null; exit 0" & second=$!; wait $second
        kill -INT $shield; wait $shield
        [ $first = $second ] || exit 77' sh "$@""#;
    for name in ["go", "hold"] {
        let made = Command::new("mkfifo")
            .arg(shielded.scratch.path(name))
            .status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo is there");
    }
    // `hold` is opened for reading, so that the script can open it for writing.
    let hold = fs::File::options()
        .read(true)
        .write(true)
        .open(shielded.scratch.path("hold"));
    let _hold = hold.expect("it is a pipe");
    undisturbed(|| {
        evict(&file);
        let mut command = Command::new("sh");
        command
            .args(["-ec", script, "sh", PROGRAM])
            .arg(&file)
            .arg(shielded.scratch.directory());
        let ended = Ended::of(&mut command);
        if ended.code() == 77 {
            println!("skipped: shield: reused process id: its number cannot be set here");
            return Some(());
        }
        let result = shielded.read();
        assert!(
            pages(&result, "dropped") == 0,
            "the later process is not shielded: {result:#}"
        );
        (resident(&file) == 24 * MIB / page_size()).then_some(())
    });
}

fn group_that_vanishes() {
    let Some(group) = Group::new() else {
        println!("skipped: shield: no control group can be made here");
        return;
    };
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 16 * MIB);
    evict(&file);
    let mut reader = Reader::of_group(&file, group.path());
    let mut shield = Started::of(&mut shielded.command(&["--cgroup", text(group.path())]));
    shield.until_thread("shield");
    reader.read();
    reader.end();
    drop(group);
    shield
        .wait()
        .expect(0, "it ends with the group")
        .says("is gone", "and says so");
    all_dropped(&file, 16 * MIB, &shielded.read());
}

fn two_shields_of_one_process() {
    let shields = [Shielded::new(), Shielded::new()];
    let file = shields[0].scratch.file("file", 32 * MIB);
    evict(&file);
    let mut reader = Reader::of(&file);
    let pid = reader.pid().to_string();
    let mut started = shields
        .each_ref()
        .map(|shielded| Started::of(&mut shielded.command(&["-p", &pid])));
    for shield in &mut started {
        shield.until_thread("shield");
    }
    reader.read();
    until("the pages are dropped", || {
        (resident(&file) == 0).then_some(())
    });
    reader.end();
    for (shield, shielded) in started.into_iter().zip(&shields) {
        shield.wait().expect(0, "it ends with the process");
        adds_up(&shielded.read());
    }
}

fn metrics() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 16 * MIB);
    evict(&file);
    let target = shielded.scratch.path("shield.prom");
    let target_option = format!("openmetrics={}", text(&target));
    let mut command = shielded.command(&["-o", &target_option, "--", "cat"]);
    Ended::of(command.arg(&file).stdout(Stdio::null())).expect(0, "it ends");
    let result = shielded.read();
    let exposition = fs::read_to_string(&target).expect("it was written");
    let line = format!(
        "cachewise_shield_pages{{fate=\"dropped\"}} {}\n",
        pages(&result, "dropped")
    );
    assert!(exposition.contains(&line), "{line}{exposition}");
    assert!(exposition.ends_with("# EOF\n"), "{exposition}");
}
