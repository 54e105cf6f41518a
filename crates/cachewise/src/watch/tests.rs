//! Intervals compared with ground truth: scripted processes on files with known residency.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cachewise_kstat::{Device, Kernel};
use cachewise_model::{Counter, FileNumber, Interval, Ledger, Measured, Missing, Reason};
use cachewise_probe::{Detail, ErrorKind, Options, Probe, Scope};

use super::Watch;
use super::groups::Groups;
use crate::account::of_use;
use crate::machine;

const FILE: u64 = 4 << 20;

/// The reason why the whole system cannot be watched here, if any.
fn cannot_watch() -> Option<String> {
    match Probe::attach(&Options::new(Scope::System, Detail::Totals)) {
        Ok(_) => None,
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            Some(error.to_string())
        }
        Err(error) => panic!("the probe: {error}"),
    }
}

fn watch() -> Watch {
    let kernel = Kernel::new();
    let options = Options {
        cgroup_v1: machine::uses_cgroup_v1(&kernel),
        ..Options::new(Scope::System, Detail::Rows)
    };
    Watch::open(&options, kernel).unwrap()
}

/// A file on a disk, all or none of it in the page cache.
struct Known {
    path: PathBuf,
    file: File,
}

impl Known {
    fn new(directory: &Path, name: &str, warm: bool) -> Known {
        let path = directory.join(name);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.write_all(&vec![9; FILE as usize]).unwrap();
        file.sync_all().unwrap();
        let known = Known { path, file };
        known.cool();
        if warm {
            known.read_all();
        }
        known
    }

    fn cool(&self) {
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    fn read_all(&self) {
        let mut buffer = vec![0; 1 << 20];
        for offset in (0..FILE).step_by(buffer.len()) {
            self.file.read_exact_at(&mut buffer, offset).unwrap();
        }
    }

    fn resident(&self) -> u64 {
        cachewise_sys::cachestat(self.file.as_fd(), None).map_or(0, |stat| stat.cached.0)
    }

    /// The interval's counts for this file, in total and by process.
    fn told(&self, interval: &Interval) -> (Ledger, Vec<(u32, Ledger)>) {
        let meta = self.file.metadata().unwrap();
        let number = FileNumber {
            device: Device::from_stat(meta.dev()).to_string(),
            inode: meta.ino(),
        };
        let place = interval
            .files
            .iter()
            .position(|row| row.number.as_ref() == Some(&number));
        let Some(place) = place else {
            return Default::default();
        };
        let by_process = interval
            .uses
            .iter()
            .filter(|used| used.file == place)
            .filter_map(|used| {
                let process = &interval.processes[used.process?];
                Some((process.pid?, used.ledger.clone()))
            })
            .collect();
        (interval.files[place].ledger.clone(), by_process)
    }
}

/// `dd` of a file, which waits for a line before it starts and is reaped on drop.
struct Reader(Child);

impl Reader {
    fn of(known: &Known, cgroup: Option<&Path>, flags: &str) -> Reader {
        let join = cgroup.map_or(String::new(), |group| {
            format!("echo $$ > {}/cgroup.procs; ", group.display())
        });
        let script = format!(
            "{join}echo ready; read line; exec dd if={} of=/dev/null bs=64K {flags} status=none",
            known.path.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its start-up reads must not be part of the comparison.
        let mut said = String::new();
        let out = child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).unwrap();
        assert_eq!(said, "ready\n", "the reader starts");
        Reader(child)
    }

    fn begin(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    fn end(&mut self) {
        assert!(self.0.wait().unwrap().success(), "dd reads the file");
    }
}

/// A control group of the hierarchy that accounts memory, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new(what: &str) -> Option<Group> {
        let hierarchy = Kernel::new().cgroup_hierarchy().ok()?;
        let name = format!("cachewise-{what}-{}", std::process::id());
        let path = hierarchy.mount()?.join(name);
        std::fs::create_dir(&path).ok()?;
        Some(Group(path))
    }

    fn name(&self) -> String {
        let name = self.0.file_name().unwrap().to_string_lossy();
        format!("/{name}")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group with a zombie may stay until that is reaped; an empty one does no harm.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn per_process_counts_match_ground_truth() {
    if let Some(reason) = cannot_watch() {
        println!("skipped: agreement with the ground truth: {reason}");
        return;
    }
    let place = std::env::var_os("CACHEWISE_TEST_DIR").map_or("/var/tmp".into(), PathBuf::from);
    let directory = tempfile::tempdir_in(place).unwrap();
    let page = cachewise_sys::page_size().get();
    let pages = FILE / page;
    let group = Group::new("watch");
    let mut watch = watch();
    // A host may reclaim pages at any time, and turn an expected hit into a miss.
    for attempt in 0.. {
        let name = |what: &str| format!("{what}-{attempt}");
        let hit = Known::new(directory.path(), &name("hit"), true);
        let miss = Known::new(directory.path(), &name("miss"), false);
        let direct = Known::new(directory.path(), &name("direct"), false);
        let mut readers = [
            Reader::of(&hit, group.as_ref().map(|group| &*group.0), ""),
            Reader::of(&miss, None, ""),
            Reader::of(&direct, None, "iflag=direct"),
        ];
        let pids = readers.each_ref().map(|reader| reader.0.id());
        watch.interval().unwrap();
        let before = [hit.resident(), miss.resident(), direct.resident()];
        let mut sum: Option<Interval> = None;
        readers.iter_mut().for_each(Reader::begin);
        for _ in 0..3 {
            let interval = watch.interval().unwrap();
            match &mut sum {
                Some(sum) => sum.append(interval),
                None => sum = Some(interval),
            }
        }
        readers.iter_mut().for_each(Reader::end);
        let mut sum = sum.unwrap();
        sum.append(watch.interval().unwrap());
        let told = [&hit, &miss, &direct].map(|known| known.told(&sum));
        let evicted: u64 = told
            .iter()
            .map(|(ledger, _)| {
                ledger[Counter::EvictedReclaimPages] + ledger[Counter::EvictedOtherPages]
            })
            .sum();
        if (before != [pages, 0, 0] || evicted > 0) && attempt < 10 {
            continue;
        }
        assert!(sum.lost.is_empty(), "nothing is lost: {:?}", sum.lost);
        let [(hit, hit_by), (miss, miss_by), (direct, direct_by)] = told;
        assert_eq!(
            (
                hit[Counter::ReadRequestedPages],
                hit[Counter::ReadMissedPages],
                hit.inserted_pages()
            ),
            (pages, 0, Measured::Exact(0)),
            "each page of the cached file is a hit"
        );
        assert_eq!(
            (miss[Counter::ReadRequestedPages], miss.inserted_pages()),
            (pages, Measured::Exact(pages)),
            "the uncached file is inserted once"
        );
        assert!(
            miss[Counter::ReadMissedPages] > 0,
            "its reader waited for it"
        );
        assert_eq!(
            (
                direct[Counter::DirectReadBytes],
                direct[Counter::ReadRequestedPages],
                direct.inserted_pages()
            ),
            (FILE, 0, Measured::Exact(0)),
            "the third bypasses the page cache"
        );
        for (pid, by, ledger) in [
            (pids[0], hit_by, &hit),
            (pids[1], miss_by, &miss),
            (pids[2], direct_by, &direct),
        ] {
            let read = of_use(ledger.clone());
            assert_eq!(by, [(pid, read)], "the reader's counts are the file's");
            let row = sum
                .processes
                .iter()
                .find(|row| row.pid == Some(pid))
                .unwrap();
            assert_eq!(
                row.ledger[Counter::EvictedOtherPages],
                0,
                "dd drops nothing"
            );
            assert_eq!(row.command, Measured::Exact("dd".into()), "by name");
            assert_eq!(row.exit.to_string(), "0", "how it ended");
            assert_eq!(row.ppid, Measured::Exact(std::process::id()), "its parent");
            assert!(
                row.ledger[Counter::ReadRequestedPages] >= ledger[Counter::ReadRequestedPages],
                "the file is a part of its reads"
            );
        }
        let miss_row = sum
            .processes
            .iter()
            .find(|row| row.pid == Some(pids[1]))
            .unwrap();
        assert!(
            miss_row.device_read_bytes.known() >= Some(FILE),
            "misses were read from the device: {:?}",
            miss_row.device_read_bytes
        );
        if let Some(group) = &group {
            let row = sum
                .cgroups
                .iter()
                .find(|row| row.path == Measured::Exact(group.name()))
                .expect("the group has a row");
            let dd = sum
                .processes
                .iter()
                .find(|row| row.pid == Some(pids[0]))
                .unwrap();
            assert_eq!(
                row.ledger, dd.ledger,
                "the group's counts are those of its only process"
            );
            assert_eq!(dd.cgroup, Measured::Exact(group.name()), "where it ran");
            assert!(
                row.system.memory_used_bytes.known().is_some(),
                "with its memory"
            );
        }
        let rows: Ledger = sum.uses.iter().map(|used| &used.ledger).sum();
        // Without the marks: evictions have no process, so their sum is not offered. Times may be spent on no file.
        for counter in Counter::ALL
            .iter()
            .filter(|one| !Counter::TIMES.contains(one))
        {
            assert_eq!(
                rows[*counter],
                sum.ledger[*counter],
                "the total is the sum over processes and files: {}",
                counter.id()
            );
        }
        return;
    }
}

#[test]
fn rows_list_groups_with_memory_and_each_disk_once() {
    if let Some(reason) = cannot_watch() {
        println!("skipped: groups and devices: {reason}");
        return;
    }
    let mut watch = watch();
    let interval = watch.interval().unwrap();
    let names: Vec<_> = interval
        .cgroups
        .iter()
        .map(|row| row.path.clone().known())
        .collect();
    if Kernel::new()
        .cgroup_hierarchy()
        .is_ok_and(|found| found.mount().is_some())
    {
        assert!(!names.is_empty(), "a group has memory");
    }
    for row in &interval.cgroups {
        let used = row.system.memory_used_bytes.known();
        assert!(
            used > Some(0) || !row.ledger.is_zero(),
            "with memory or activity: {:?}",
            row.path
        );
    }
    let devices: Vec<&str> = interval.devices.iter().map(|row| &*row.device).collect();
    let mut once = devices.clone();
    once.dedup();
    assert_eq!(devices, once, "each device has one row");
}

#[test]
fn recreated_group_starts_at_zero() {
    let Some(group) = Group::new("again") else {
        println!("skipped: a recreated group: control groups cannot be made here");
        return;
    };
    let kernel = Kernel::new();
    let mut groups = Groups::open(&kernel);
    let id = kernel.cgroup_id(&group.0).unwrap() as u32;
    let mut used = || {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, 1);
        let rows = groups.rows(HashMap::from([(id, ledger)]));
        let mut active = rows.into_iter().filter(|row| !row.ledger.is_zero());
        active.next().unwrap().system.memory_used_bytes
    };
    if used().missing().is_some() {
        println!("skipped: a recreated group: its memory is not accounted");
        return;
    }
    std::fs::remove_dir(&group.0).expect("its open files do not hold it");
    std::fs::create_dir(&group.0).unwrap();
    for _ in 0..3 {
        assert_eq!(
            used().missing().map(Missing::reason),
            Some(Reason::GroupGone),
            "counts of the new group are not those of the old one"
        );
    }
}
