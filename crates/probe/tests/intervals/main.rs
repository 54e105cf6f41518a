//! A watch over the whole system, in intervals: the sum of its snapshots has to be exact, however many
//! processes come and go, and however small its tables are.
//!
//! Processes are made by fork alone, without exec, so that thousands of them take seconds: each reads some
//! pages of a file, and exits with their number as its status.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cachewise_model::{Counter, Ledger};
use cachewise_probe::{Detail, ErrorKind, Lost, Options, Probe, ProcessId, Scope, Snapshot};
use cachewise_units::Bytes;

/// Pages of a file.
const PAGES: u64 = 16;

/// A probe on the whole system, or the reason why there is none.
fn watch(name: &str, max_rows: u32) -> Option<Probe> {
    let mut options = Options::new(Scope::System, Detail::Rows);
    options.intervals = true;
    options.max_rows = max_rows;
    match Probe::attach(&options) {
        Ok(probe) => Some(probe),
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            println!("skipped: {name}: {error}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn page() -> u64 {
    cachewise_sys::page_size().get()
}

/// Files of [`PAGES`] pages in a directory that goes with this value.
struct Files {
    directory: tempfile::TempDir,
    files: Vec<File>,
}

impl Files {
    fn new(count: usize) -> Files {
        let place = std::env::var_os("CACHEWISE_TEST_DIR").map_or("/var/tmp".into(), PathBuf::from);
        let directory = tempfile::tempdir_in(place).unwrap();
        let files = (0..count)
            .map(|number| {
                let path = directory.path().join(number.to_string());
                let mut file = File::create(&path).unwrap();
                file.write_all(&vec![7; (PAGES * page()) as usize]).unwrap();
                File::open(path).unwrap()
            })
            .collect();
        Files { directory, files }
    }

    fn inodes(&self) -> HashSet<u64> {
        let inode = |file: &File| file.metadata().unwrap().ino();
        self.files.iter().map(inode).collect()
    }

    fn path(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string())
    }
}

/// Forks a process that reads this number of pages of a file, one at a time, and exits with the number.
fn reader(file: &File, pages: u64) -> libc::pid_t {
    let (fd, page) = (file.as_raw_fd(), page() as usize);
    let mut buffer = [0u8; 16];
    // SAFETY: the child calls nothing but pread(2) and _exit(2), which may be called after a fork in a
    // program with threads, and the buffer is its own.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            for number in 0..pages {
                let offset = (number as usize * page) as libc::off_t;
                libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), offset);
            }
            libc::_exit(pages as i32);
        }
        assert!(pid > 0, "fork: {}", std::io::Error::last_os_error());
        pid
    }
}

fn reap(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a plain system call with a place for the status.
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(reaped, pid, "the child is reaped");
}

/// Sum of all intervals.
#[derive(Default)]
struct Sums {
    files: Ledger,
    of_process: HashMap<ProcessId, Ledger>,
    ends: HashMap<ProcessId, Vec<u32>>,
    pids: HashMap<ProcessId, u32>,
    lost: Lost,
    overflow: Ledger,
}

impl Sums {
    fn add(&mut self, snapshot: &Snapshot, inodes: &HashSet<u64>) {
        for row in &snapshot.rows {
            match row.file {
                Some(file) if inodes.contains(&file.inode) => self.files += &row.ledger,
                None => self.overflow += &row.ledger,
                Some(_) => continue,
            }
            if let Some(id) = row.process {
                *self.of_process.entry(id).or_default() += &row.ledger;
            }
        }
        for process in &snapshot.processes {
            if let Some(status) = process.exit_status {
                self.ends.entry(process.id).or_default().push(status);
            }
            self.pids.insert(process.id, process.pid);
        }
        let lost = &snapshot.lost;
        self.lost.rows += lost.rows;
        self.lost.tasks += lost.tasks;
        self.lost.names += lost.names;
        self.lost.processes += lost.processes;
        self.lost.forgotten += lost.forgotten;
        self.lost.skipped += lost.skipped;
    }
}

#[test]
fn twenty_thousand_processes_are_told_to_the_page_with_small_tables() {
    const PROCESSES: u64 = 20_000;
    const AT_ONCE: u64 = 100;
    let Some(mut probe) = watch("20,000 processes", 1024) else {
        return;
    };
    let files = Files::new(1500);
    let inodes = files.inodes();
    probe.snapshot().unwrap();
    let mut sums = Sums::default();
    let mut truth = 0;
    for first in (0..PROCESSES).step_by(AT_ONCE as usize) {
        let children: Vec<_> = (first..first + AT_ONCE)
            .map(|number| {
                let pages = 1 + number % PAGES;
                truth += pages;
                reader(&files.files[number as usize % files.files.len()], pages)
            })
            .collect();
        children.into_iter().for_each(reap);
        sums.add(&probe.snapshot().unwrap(), &inodes);
    }
    sums.add(&probe.snapshot().unwrap(), &inodes);

    // Other processes may fill the table; one row sums the rest, and is reported. Events without storage are
    // reported too: the kernel refuses it if a task is interrupted while it makes or frees its own.
    let booked = sums.files[Counter::ReadRequestedPages];
    let aside = sums.overflow[Counter::ReadRequestedPages];
    println!(
        "{truth} pages were read: {booked} on rows, {aside} on the row for the rest; {} processes ended, {:?}",
        sums.ends.len(),
        sums.lost
    );
    assert!(
        booked == truth
            || booked < truth
                && booked + aside + sums.lost.tasks >= truth
                && sums.lost.rows + sums.lost.tasks > 0,
        "{truth} pages were read: {booked} on their files' rows, {aside} on the row for what found no \
         room, {:?}",
        sums.lost
    );
    let ended: Vec<_> = sums
        .ends
        .iter()
        .filter(|(id, _)| sums.of_process.contains_key(id))
        .collect();
    assert!(
        ended.iter().all(|(_, ends)| ends.len() == 1),
        "each process ends once"
    );
    let wrong = ended
        .iter()
        .filter(|(id, ends)| {
            let read = sums.of_process[id][Counter::ReadRequestedPages];
            u64::from(ends[0] >> 8) != read
        })
        .count() as u64;
    assert!(
        wrong <= sums.lost.rows + sums.lost.tasks,
        "{wrong} processes whose pages are not those that they told by their status, {:?}",
        sums.lost
    );
    assert!(
        ended.len() as u64 + sums.lost.processes + sums.lost.rows + sums.lost.tasks >= PROCESSES,
        "{} of {PROCESSES} processes were told of, {:?}",
        ended.len(),
        sums.lost
    );
    assert_eq!(
        sums.lost.skipped, 0,
        "nothing else is lost: {:?}",
        sums.lost
    );
    assert!(
        sums.lost.tasks * 10_000 <= truth,
        "and of that hardly anything: {:?}",
        sums.lost
    );
    assert!(
        sums.lost.forgotten > 0,
        "1,500 files do not fit, those unused for longest go: {:?}",
        sums.lost
    );
    let left = probe.snapshot().unwrap();
    let zombies = left
        .processes
        .iter()
        .filter(|process| sums.ends.contains_key(&process.id))
        .count();
    assert_eq!(zombies, 0, "who has ended is not told of again");
}

#[test]
fn a_process_id_that_is_used_again_is_another_process() {
    const AGAIN: &str = "/proc/sys/kernel/ns_last_pid";
    let Some(mut probe) = watch("a process id used again", 1024) else {
        return;
    };
    let files = Files::new(1);
    let inodes = files.inodes();
    probe.snapshot().unwrap();
    let mut sums = Sums::default();
    let first = reader(&files.files[0], 3);
    reap(first);
    // Both in one interval. Another process may get the number in between: then try again.
    let again = (0..1000).any(|_| {
        if std::fs::write(AGAIN, (first - 1).to_string()).is_err() {
            return false;
        }
        let second = reader(&files.files[0], 5);
        reap(second);
        second == first
    });
    if !again {
        println!("skipped: a process id used again: {AGAIN} is not to be written here");
        return;
    }
    sums.add(&probe.snapshot().unwrap(), &inodes);
    let mut of_pid: Vec<(u64, u32, u64)> = sums
        .pids
        .iter()
        .filter(|(_, pid)| **pid == first as u32)
        .filter_map(|(id, _)| {
            let read = sums.of_process.get(id)?[Counter::ReadRequestedPages];
            Some((id.start, sums.ends.get(id)?[0] >> 8, read))
        })
        .collect();
    of_pid.sort_unstable();
    let said: Vec<(u32, u64)> = of_pid.iter().map(|(_, end, read)| (*end, *read)).collect();
    assert_eq!(
        said,
        [(3, 3), (5, 5)],
        "two processes of one id, each with its own pages and end"
    );
}

#[test]
fn an_interval_has_what_was_done_in_it_and_no_more() {
    let Some(mut probe) = watch("intervals", 4096) else {
        return;
    };
    let files = Files::new(1);
    let inodes = files.inodes();
    let own = std::process::id();
    probe.snapshot().unwrap();
    let mut seen = Vec::new();
    for pages in [2u64, 0, 7, 7, 1] {
        for number in 0..pages {
            let mut buffer = [0; 1];
            std::os::unix::fs::FileExt::read_at(&files.files[0], &mut buffer, number * page())
                .unwrap();
        }
        let snapshot = probe.snapshot().unwrap();
        let mut sums = Sums::default();
        sums.add(&snapshot, &inodes);
        seen.push(sums.files[Counter::ReadRequestedPages]);
        let me = snapshot
            .processes
            .iter()
            .find(|process| process.pid == own)
            .expect("this process is alive and has used the page cache");
        assert!(
            !me.command.is_empty() && me.exit_status.is_none(),
            "who it is is known: {me:?}"
        );
        assert!(
            me.cpu_time.as_secs() < 60 && me.read_call_bytes < Bytes(1 << 30),
            "its account is that of the interval: {me:?}"
        );
        if pages > 0 {
            let name = snapshot
                .files
                .iter()
                .find(|(id, _)| inodes.contains(&id.inode))
                .and_then(|(_, info)| info.path.clone());
            assert_eq!(
                name.as_deref().and_then(Path::file_name),
                files.path(0).file_name(),
                "a file has its name in each interval in which it is used"
            );
        }
    }
    assert_eq!(
        seen,
        [2, 0, 7, 7, 1],
        "a row that vanished and came again starts at nothing"
    );
}

#[test]
fn names_come_through_of_more_files_than_the_ring_holds() {
    const FILES: usize = 30_000;
    const NAME: usize = 200;
    let Some(mut probe) = watch("names of many files", 65_536) else {
        return;
    };
    let place = std::env::var_os("CACHEWISE_TEST_DIR").map_or("/var/tmp".into(), PathBuf::from);
    let directory = tempfile::tempdir_in(place).unwrap();
    probe.snapshot().unwrap();
    // Their records take twice the size of the ring, and no snapshot is taken in the meantime.
    let inodes: HashSet<u64> = (0..FILES)
        .map(|number| {
            let path = directory.path().join(format!("{number:0NAME$}"));
            let mut file = File::create(path).unwrap();
            file.write_all(b"x").unwrap();
            file.metadata().unwrap().ino()
        })
        .collect();
    let snapshot = probe.snapshot().unwrap();
    let named = snapshot
        .files
        .iter()
        .filter(|(id, file)| {
            let path = file.path_in_file_system.as_ref();
            let name = path.and_then(|path| path.file_name());
            inodes.contains(&id.inode) && name.is_some_and(|name| name.len() == NAME)
        })
        .count();
    assert!(
        snapshot.lost.names == 0 && named + snapshot.lost.rows as usize >= FILES,
        "{named} of {FILES} files have names, {:?}",
        snapshot.lost
    );
}

#[test]
fn what_a_process_does_between_two_ticks_and_its_end_is_booked() {
    let Some(mut probe) = watch("short work before an end", 4096) else {
        return;
    };
    let files = Files::new(1);
    let script = format!(
        "echo ready; read line; exec cat {}",
        files.path(0).display()
    );
    let bytes = PAGES * page();
    // How much of a tick is left is chance: it works out within one most of the time.
    for round in 0..50 {
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "it waits");
        // Its counts so far are booked here, under its present name.
        probe.snapshot().unwrap();
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let mut said = Vec::new();
        out.read_to_end(&mut said).unwrap();
        assert_eq!(said.len() as u64, bytes, "it reads the file");
        assert!(child.wait().unwrap().success(), "and ends");
        let snapshot = probe.snapshot().unwrap();
        let process = snapshot
            .processes
            .iter()
            .find(|process| process.pid == child.id())
            .expect("it has read a file");
        assert_eq!(process.command, "cat", "in round {round}, by its last name");
        assert!(
            process.read_call_bytes >= Bytes(bytes),
            "in round {round}, with what it read: {process:?}"
        );
    }
}
