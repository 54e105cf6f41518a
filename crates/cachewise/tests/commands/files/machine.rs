//! `--all` and `--evicted`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::MemfdFlags;
use serde_json::Value;

use super::shown::leaves;
use super::stand::*;
use crate::support::*;

/// Cached and Buffers as the kernel has them, once each processor has handed in what it keeps to itself.
fn of_kernel() -> Vec<String> {
    // To read it is to have it done.
    let _ = fs::read("/proc/sys/vm/stat_refresh");
    let memory = fs::read_to_string("/proc/meminfo").expect("it can be read");
    let lines = memory.lines();
    let is_ours = |line: &&str| line.starts_with("Cached:") || line.starts_with("Buffers:");
    lines.filter(is_ours).map(str::to_owned).collect()
}

/// Other programs go on while a census is taken; where they leave the page cache alone, it adds up.
pub fn adds_up() {
    const LOOKS: usize = 60;
    /// Equal inserts and evictions look like a quiet machine now and then.
    const STILL: usize = 5;
    let mut wrong = Vec::new();
    for _ in 0..LOOKS {
        let before = of_kernel();
        let ended = Ended::of(&mut files(["--all", "--top", "20"])).expect(0, "root may ask");
        let is_still = of_kernel() == before;
        let out = ended.out();
        let compared = ["Cached", "Buffers"].map(|name| {
            let line = out
                .lines()
                .find(|line| line.contains(&format!("kernel's {name}")));
            line.unwrap_or_else(|| panic!("{name} stands beside its sum: {out}"))
        });
        assert!(out.contains("census of "), "how it went: {out}");
        assert!(
            out.lines().count() <= 1 + 20 + 2 + 3,
            "no more than was asked for: {out}"
        );
        if compared.iter().all(|line| line.starts_with("adds up: ")) {
            return;
        }
        if is_still {
            wrong.push(compared.map(str::to_owned));
        }
        if wrong.len() == STILL {
            break;
        }
    }
    assert!(
        wrong.len() < STILL,
        "the sums are the kernel's, to the page, when nothing else goes on: {wrong:?}"
    );
    println!("skipped: the census adds up: the page cache is never still here");
}

fn all(arguments: &[&str]) -> Value {
    all_while(arguments, || true).expect("it is always so")
}

/// `None` if the condition does not hold afterwards: without a page of the file there is nothing to report, which fails.
fn all_while(arguments: &[&str], is_so: impl Fn() -> bool) -> Option<Value> {
    let ended = Ended::of(files(["--all", "-n", "0", "--json"]).args(arguments));
    is_so().then(|| document(&ended.expect(0, "root may ask")))
}

pub fn lists_all() {
    const DELETED: u64 = 11;
    const MEMORY: u64 = 13;
    const ELSEWHERE: u64 = 17;
    const CLOSED: u64 = 19;
    let scratch = Scratch::new();
    let gone = scratch.file("gone", DELETED * page_size());
    let held = File::open(&gone).expect("it is there");
    fs::remove_file(&gone).expect("it is ours");
    let name = format!("census-{}", std::process::id());
    let memory = rustix::fs::memfd_create(&*name, MemfdFlags::CLOEXEC).expect("memory can be had");
    File::from(memory.try_clone().expect("it is ours"))
        .write_all(&vec![1; (MEMORY * page_size()) as usize])
        .expect("there is room");
    let script = format!(
        "mount -t tmpfs none \"$0\"; head -c {} /dev/zero >\"$0/{name}\"",
        ELSEWHERE * page_size()
    );
    let elsewhere = Elsewhere::with(&scratch, "elsewhere", &script);
    let closed = scratch.file("closed", CLOSED * page_size());

    let resident_of = |file: &File| {
        use std::os::fd::AsFd;
        cachewise_sys::cachestat(file.as_fd(), None)
            .expect("root may ask")
            .cached
            .0
    };
    let document = undisturbed(|| {
        warm(&closed);
        warm(Path::new(&format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&held)
        )));
        let document = all(&[]);
        (resident(&closed) == CLOSED && resident_of(&held) == DELETED).then_some(document)
    });
    let pages = |path: &Path| number(row_of(&document, path), "resident_bytes") / page_size();
    assert_eq!(pages(&closed), CLOSED, "a file that nobody holds");
    assert_eq!(pages(&gone), DELETED, "one that is deleted and open");
    assert_eq!(row_of(&document, &gone)["note"], "deleted", "which is said");
    let label = PathBuf::from(format!("[memory]/memfd:{name}"));
    assert_eq!(pages(&label), MEMORY, "memory that has a descriptor");
    let rows = document["rows"].as_array().expect("rows").iter();
    let unseen: Vec<&Value> = rows
        .filter(|row| {
            row["path"]
                .as_str()
                .is_some_and(|path| path.starts_with("[tmpfs ") && path.ends_with(&name))
        })
        .collect();
    assert_eq!(
        unseen.len(),
        1,
        "a file of another mount namespace: {unseen:?}"
    );
    assert_eq!(
        number(unseen[0], "resident_bytes"),
        ELSEWHERE * page_size(),
        "with all of its pages"
    );
    assert!(
        unseen[0]["note"]
            .as_str()
            .is_some_and(|note| note.contains("not seen from this mount namespace")),
        "and why it has no path: {}",
        unseen[0]
    );
    drop(elsewhere);
}

/// The census tells clean files, and the others are asked, before they are sorted.
pub fn sorted_by_dirty_pages() {
    const DIRTY: u64 = 7;
    let scratch = Scratch::new();
    let dirty = scratch.file("x-dirty", DIRTY * page_size());
    let clean = scratch.file("clean", 3 * page_size());
    let synced = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    let dirty_pages = |path: &Path| {
        use std::os::fd::AsFd;
        let file = File::open(path).expect("it is there");
        let stat = cachewise_sys::cachestat(file.as_fd(), None);
        stat.expect("root may ask").dirty.0
    };
    let include = format!("{}/*", scratch.directory().display());
    let document = undisturbed(|| {
        warm(&clean);
        synced(&clean).expect("it can be written");
        // Not truncated before: ext4 would begin to write it when it is closed.
        let file = File::options().write(true).open(&dirty);
        file.and_then(|mut file| file.write_all(&vec![1; (DIRTY * page_size()) as usize]))
            .expect("there is room");
        all_while(&["--sort", "dirty", "--include", &include], || {
            dirty_pages(&dirty) == DIRTY && (dirty_pages(&clean), resident(&clean)) == (0, 3)
        })
    });
    let rows = document["rows"].as_array().expect("rows");
    let shown = |row: &Value| {
        let path = row["path"].as_str().map(str::to_owned);
        (path, row["resident_dirty_pages"].as_u64())
    };
    let expected = [(&dirty, DIRTY), (&clean, 0)];
    let expected = expected.map(|(path, pages)| (Some(path.display().to_string()), Some(pages)));
    assert_eq!(
        rows.iter().map(shown).collect::<Vec<_>>(),
        expected,
        "the dirty file first"
    );
    assert_eq!(
        document["total"]["resident_dirty_pages"], DIRTY,
        "and their sum"
    );
}

pub fn tree_and_ncdu() {
    let scratch = Scratch::new();
    let closed = scratch.file("closed", 5 * page_size());
    let directory = scratch.directory().display().to_string();
    let include = format!("{directory}/*");
    let picked = undisturbed(|| {
        warm(&closed);
        all_while(&["--tree", "--depth", "99", "--include", &include], || {
            resident(&closed) == 5
        })
    });
    let row = row_of(&picked, scratch.directory());
    assert_eq!(row["resident_pages"], 5, "what is in it: {row}");
    let whole = all(&["--tree"]);
    let rows = whole["rows"].as_array().expect("rows");
    let roots: u64 = rows
        .iter()
        .filter(|row| {
            row["path"]
                .as_str()
                .is_some_and(|path| path == "/" || path.starts_with('[') && !path.contains("]/"))
        })
        .map(|row| number(row, "resident_pages"))
        .sum();
    assert_eq!(
        whole["total"]["resident_pages"], roots,
        "what is seen from here and what is not are all there is"
    );
    let ended = undisturbed(|| {
        warm(&closed);
        let ended = Ended::of(&mut files(["--all", "--ncdu"])).expect(0, "root may ask");
        (resident(&closed) == 5).then_some(ended)
    });
    // Names need not be text.
    let text = String::from_utf8_lossy(&ended.out);
    let document: Value = serde_json::from_str(&text).expect("JSON, but for such names");
    let mut found = Vec::new();
    leaves(&document[3], "", &mut found);
    let expected = (
        closed.display().to_string(),
        5 * page_size(),
        5 * page_size(),
    );
    assert!(
        found.contains(&expected),
        "our file is where it belongs: {expected:?}"
    );
}

/// A disk is no file that could be in memory as a whole.
pub fn block_devices_are_in_no_size() {
    const PAGES: u64 = 64;
    let scratch = Scratch::new();
    let device = LoopDevice::over(&scratch.file("image", 8 << 20));
    let pinned = pin(&device.path, PAGES);
    let include = device.path.display().to_string();
    let document = all(&["--include", &include]);
    let row = row_of(&document, &device.path);
    assert_eq!(
        row["file_size_bytes"],
        8 << 20,
        "its own row has its size: {row}"
    );
    assert!(
        number(row, "resident_bytes") >= PAGES * page_size(),
        "what of it is resident is there: {row}"
    );
    let total = &document["total"];
    assert_eq!(total["file_size_bytes"], 0, "sums have none: {total}");
    assert_eq!(
        total["resident_bytes"], row["resident_bytes"],
        "what is resident counts: {total}"
    );
    drop(pinned);
}

pub fn patterns() {
    let scratch = Scratch::new();
    let wanted = scratch.file("wanted.idx", 3 * page_size());
    let unwanted = scratch.file("unwanted.idx", 3 * page_size());
    let document = undisturbed(|| {
        warm(&wanted);
        all_while(&["--include", "*.idx", "--exclude", "un*"], || {
            resident(&wanted) == 3
        })
    });
    row_of(&document, &wanted);
    assert!(rows_of(&document, &unwanted).is_empty(), "it is left out");
    let rows = document["rows"].as_array().expect("rows");
    assert!(
        rows.iter().all(|row| row["path"]
            .as_str()
            .is_some_and(|path| path.ends_with(".idx"))),
        "and so is everything else"
    );
}

/// A file is read, and then another one that takes all the room there is.
pub fn evicted() {
    const LIMIT: u64 = 8 << 20;
    let Some(group) = Group::new() else {
        return println!("skipped: evicted files: no control group can be made here");
    };
    if group.limit_memory(LIMIT).is_none() {
        return println!("skipped: evicted files: control groups have no memory limit here");
    }
    let scratch = Scratch::new();
    let (first, second) = (
        scratch.file("first", LIMIT / 4),
        scratch.file("second", LIMIT / 2 * 3),
    );
    let script = "echo $$ >\"$0/cgroup.procs\"; cat \"$@\" >/dev/null";
    let mut recordings = 0..;
    // The kernel forgets a file, and what it lost, when it is not open and no page of it is left.
    let _open = File::open(&first).expect("it is ours");
    let document = undisturbed(|| {
        evict(&first);
        evict(&second);
        let recording = scratch.path(format!("recording-{}", recordings.next().unwrap_or(0)));
        let mut command = cachewise(["record", "-q", "-i", "200ms"]);
        command.arg(&recording).args(["--", "sh", "-ec", script]);
        command.arg(group.path()).args([&first, &second]);
        Ended::of(command.stdin(Stdio::null())).expect(0, "they can be read");
        // Of all that a machine has lost in weeks, our own: each is asked.
        let mut command = files(["--evicted", "-n", "0", "--json", "--culprits"]);
        let ended = Ended::of(command.arg(&recording).arg("--include").arg(&first));
        (resident(&first) == 0).then(|| document(&ended.expect(0, "root may ask")))
    });
    let row = row_of(&document, &first);
    let gone = number(row, "shadow_pages");
    assert!(
        gone > 0 && gone <= pages_of(&first),
        "the kernel remembers what it threw out: {row}"
    );
    assert!(
        number(row, "recent_shadow_pages") <= gone,
        "some of it a moment ago: {row}"
    );
    let note = row["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("evicted by cat, ") && note.contains("(group limit)"),
        "the recording names the process: {row}"
    );
    Ended::of(files(["--evicted", "--culprits"]).arg(&first))
        .expect(2, "a file that is no recording")
        .says("it is not a recording of cachewise", "the cause");
}

/// Without the census a walk takes its place, and nothing looks as if it were all.
pub fn without_the_right() {
    let scratch = Scratch::new();
    let ended = Ended::of(files_as_nobody(&scratch).args([
        "--all",
        "-n",
        "3",
        "--exclude",
        "/[!e]*",
        "--json",
    ]));
    let ended = ended
        .expect(2, "of root's files nothing is known")
        .says("this is a walk", "it says what it is")
        .says("deleted files", "what is missing")
        .says("CAP_BPF", "and how to get it");
    let metrics = Ended::of(
        files_as_nobody(&scratch)
            .args(["--all", "--exclude", "/[!e]*"])
            .args(["-o", "openmetrics"]),
    );
    let unknown = metrics.out();
    let unknown = unknown
        .lines()
        .find_map(|line| line.strip_prefix("cachewise_unknown_files "));
    assert!(
        unknown.is_some_and(|files| files != "0"),
        "of how many nothing is known is in the metrics: {}",
        metrics.out()
    );
    let total = &document(&ended)["total"];
    let id = "resident_bytes";
    let is_marked = total[id].is_null()
        || total["estimated"]
            .as_array()
            .is_some_and(|ids| ids.contains(&Value::from(id)));
    assert!(is_marked, "in the document, too: {total}");
    Ended::of(files_as_nobody(&scratch).arg("--evicted"))
        .expect(2, "no walk finds these")
        .says("only the census", "it says so")
        .says("root", "and who may");
}
