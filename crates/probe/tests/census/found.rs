//! Listed files, with their page counts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use cachewise_kstat::{Device, Kernel};
use cachewise_probe::ErrorKind;
use cachewise_probe::census::{CachedInode, Census, Name, Options, Report, Select};
use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::stand::{
    Stand, as_root, command, fill, find, mounts, page, resident, utf8, write_pages,
};

/// Checks the pages of an open file, which nothing else uses.
fn check<'r>(report: &'r Report, file: &File, pages: u64, what: &str) -> &'r CachedInode {
    assert_eq!(
        resident(file),
        pages,
        "{what}: that is what the kernel has of it"
    );
    let inode = find(report, file).unwrap_or_else(|| panic!("{what}: it is listed"));
    assert_eq!(
        inode.pages.0, pages,
        "{what}: with all of its pages: {inode:?}"
    );
    assert_eq!(
        inode.size.0,
        file.metadata().expect("fstat works").len(),
        "{what}: and its size"
    );
    inode
}

#[test]
fn files_that_no_path_leads_to_are_listed() {
    as_root("deleted files and memfd", |stand| {
        let path = stand.path("deleted");
        let deleted = write_pages(&path, 7);
        fs::remove_file(&path).expect("its name can be taken away");
        let memfd = rustix::fs::memfd_create("cachewise-test", MemfdFlags::CLOEXEC)
            .expect("a memfd can be had");
        let mut memfd = File::from(memfd);
        fill(&mut memfd, 5);
        let unnamed = stand.path("");
        let unnamed = rustix::fs::open(
            &unnamed,
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::RUSR,
        );
        let report = stand.take();

        let found = check(&report, &deleted, 7, "deleted and open");
        assert!(
            found.deleted && found.links == 0,
            "it has no name any more: {found:?}"
        );
        assert!(found.writers, "and is open for writing: {found:?}");
        assert!(
            matches!(&found.name, Name::Path(path) if path.ends_with("deleted")),
            "what its name was is known: {found:?}"
        );
        let found = check(&report, &memfd, 5, "memfd");
        assert_eq!(
            found.name,
            Name::Label("memfd:cachewise-test".into()),
            "it never had a path"
        );
        assert!(!found.deleted, "so it has not lost one: {found:?}");
        assert_eq!(&*found.file_system, "tmpfs", "it lives in shared memory");

        // Not every file system has files without a name from the start.
        if let Ok(unnamed) = unnamed {
            let mut unnamed = File::from(unnamed);
            fill(&mut unnamed, 3);
            let report = stand.take();
            let found = check(&report, &unnamed, 3, "O_TMPFILE");
            assert!(found.deleted, "it has no name: {found:?}");
        }
    });
}

#[test]
fn shared_anonymous_memory_is_listed() {
    as_root("shared memory", |stand| {
        const PAGES: usize = 1237;
        let length = PAGES * page() as usize;
        // SAFETY: a new mapping, to which no reference exists.
        let memory = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }
        .expect("memory can be mapped");
        // SAFETY: the mapping is that long and writable.
        unsafe { std::ptr::write_bytes(memory.cast::<u8>(), 1, length) };
        let report = stand.take();
        let found = report.inodes.iter().find(|inode| {
            inode.name == Name::Label("dev/zero".into()) && inode.size.0 == length as u64
        });
        let found = found.expect("memory that processes share is in the page cache");
        // Huge pages may round it up.
        assert!(found.pages.0 >= PAGES as u64, "with all of it: {found:?}");
        assert!(found.mapped, "and it is mapped: {found:?}");
        // SAFETY: mapped above, and not used any more.
        unsafe { rustix::mm::munmap(memory, length) }.expect("it can be unmapped");
    });
}

#[test]
fn a_closed_file_is_listed_by_its_path() {
    as_root("closed files", |stand| {
        let path = stand.path("closed");
        drop(write_pages(&path, 11));
        let report = stand.take();
        let file = File::open(&path).expect("it can be opened again");
        let found = check(&report, &file, 11, "closed");
        assert!(
            !found.deleted && !found.writers,
            "nobody has it open: {found:?}"
        );
        let kernel = Kernel::new();
        assert_eq!(
            found.path(&kernel, &mounts(&kernel)),
            Some(fs::canonicalize(&path).expect("the path is that of a file")),
            "its path is found without walking"
        );
    });
}

#[test]
fn a_file_of_another_mount_namespace_is_listed() {
    as_root("other mount namespaces", |stand| {
        let place = stand.path("elsewhere");
        fs::create_dir(&place).expect("make a mount point");
        let script = "mount -t tmpfs other \"$1\" && cd \"$1\" && mkdir deep &&
            dd if=/dev/zero of=deep/hidden-file bs=\"$2\" count=9 2>/dev/null && echo made && read line";
        let mut child = Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh"])
            .arg(&place)
            .arg(page().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare can be started");
        let mut said = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut said)
            .expect("it can be read");
        assert_eq!(
            said, "made\n",
            "the file is there, in a namespace of its own"
        );
        let report = stand.take();
        drop(child.stdin.take());
        child.wait().expect("it ends when its input does");

        let hidden = Name::Path("/deep/hidden-file".into());
        let found: Vec<_> = report
            .inodes
            .iter()
            .filter(|inode| inode.name == hidden)
            .collect();
        assert_eq!(found.len(), 1, "it is listed, once: {found:?}");
        assert_eq!(found[0].pages.0, 9, "with its pages: {found:?}");
        assert_eq!(
            &*found[0].file_system, "tmpfs",
            "and its file system's type"
        );
        let kernel = Kernel::new();
        assert_eq!(
            found[0].path(&kernel, &mounts(&kernel)),
            None,
            "no path leads to it from here"
        );
    });
}

#[test]
fn a_block_device_is_listed() {
    as_root("block devices", |stand| {
        let image = stand.path("image");
        drop(write_pages(&image, 64));
        let device = command("losetup", &["-f", "--show", utf8(&image)]);
        let mut file = File::open(&device).expect("the loop device can be opened");
        let mut content = vec![0; 40 * page() as usize];
        file.read_exact(&mut content).expect("and read");
        let report = stand.take();
        let pages = resident(&file);
        command("losetup", &["-d", &device]);

        let number = std::os::unix::fs::MetadataExt::rdev(&file.metadata().expect("fstat works"));
        let number = Device::from_stat(number);
        let found: Vec<_> = report
            .inodes
            .iter()
            .filter(|inode| inode.is_block_device())
            .filter(|inode| (inode.id.major, inode.id.minor) == (number.major, number.minor))
            .collect();
        assert_eq!(
            found.len(),
            1,
            "a device is one inode, however many nodes it has: {found:?}"
        );
        assert!(pages >= 40, "what was read is in the cache");
        assert_eq!(found[0].pages.0, pages, "and in the census: {found:?}");
        assert_eq!(&*found[0].file_system, "bdev", "under Buffers");
        let kernel = Kernel::new();
        assert_eq!(
            found[0].path(&kernel, &mounts(&kernel)),
            Some(device.into()),
            "by the device's name"
        );
    });
}

#[test]
fn pages_are_those_that_cachestat_sees() {
    as_root("files of the system", |stand| {
        // Files in use, which do not change while one looks: this program, and what it is linked to.
        let maps = fs::read_to_string("/proc/self/maps").expect("its mappings can be read");
        let mut paths: Vec<&str> = maps
            .lines()
            .filter_map(|line| line.find('/').map(|at| &line[at..]))
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let files: Vec<File> = paths
            .iter()
            .filter_map(|path| File::open(path).ok())
            .collect();
        assert!(files.len() > 2, "a program has libraries: {paths:?}");
        let all = |files: &[File]| files.iter().map(resident).collect::<Vec<u64>>();
        // Pages may be read or reclaimed meanwhile: then one looks again.
        let quiet = (0..50).find_map(|_| {
            let before = all(&files);
            let report = stand.take();
            (before == all(&files)).then_some((before, report))
        });
        let (pages, report) = quiet.expect("once in 50 times nothing changes");
        for (file, pages) in files.iter().zip(pages) {
            let found = find(&report, file).map_or(0, |inode| inode.pages.0);
            assert_eq!(found, pages, "{file:?}: the same count by both ways");
        }
    });
}

#[test]
fn every_file_system_is_seen() {
    as_root("file systems on disks", |stand| {
        for kind in ["ext4", "xfs", "btrfs"] {
            let Some(disk) = stand.disk(kind) else {
                continue;
            };
            let mut directory = disk.path().to_owned();
            if kind == "btrfs" {
                // A subvolume, which stat(2) shows under a device of its own.
                directory.push("subvolume");
                command("btrfs", &["subvolume", "create", utf8(&directory)]);
            }
            let path = directory.join("file");
            let file = write_pages(&path, 6);
            let report = stand.take();
            let found = check(&report, &file, 6, kind);
            assert_eq!(&*found.file_system, kind, "its type");
            let kernel = Kernel::new();
            assert_eq!(
                found.path(&kernel, &mounts(&kernel)),
                Some(fs::canonicalize(&path).expect("it is there")),
                "{kind}: its path"
            );
        }
    });
}

#[test]
fn what_reclaim_took_is_listed_when_asked_for() {
    as_root("evicted files", |stand| {
        let Some(disk) = stand.disk("ext4") else {
            return;
        };
        let path = disk.path().join("evicted");
        let file = write_pages(&path, 32);
        file.sync_all().expect("it can be written to the disk");
        page_out(&file, 32);
        assert_eq!(resident(&file), 0, "reclaim took all of its pages");

        let evicted = Options {
            select: Select::Evicted,
            ..Options::default()
        };
        assert!(
            find(&stand.take(), &file).is_none(),
            "it has nothing in the cache"
        );
        let report = stand.take_with(&evicted);
        let found = find(&report, &file).expect("the kernel remembers what it took");
        assert!(found.is_evicted(), "none of its pages is left: {found:?}");
        assert_eq!(found.name, Name::Path("/evicted".into()), "it has its name");
        assert_eq!(report.summary.sums, None, "what is cached was not asked");
        assert!(
            report.inodes.iter().all(CachedInode::is_evicted),
            "and nothing that has pages is listed"
        );

        let both = Options {
            select: Select::Both,
            ..Options::default()
        };
        let report = stand.take_with(&both);
        assert!(find(&report, &file).is_some(), "both: evicted files");
        let cached = report
            .inodes
            .iter()
            .filter(|inode| !inode.is_evicted())
            .count();
        assert!(cached > 0, "and cached ones");
    });
}

#[test]
fn clean_files_are_those_of_which_cachestat_reports_nothing_else() {
    as_root("clean files", |stand| {
        let Some(disk) = stand.disk("ext4") else {
            return;
        };
        // One entry, one node, two levels, and more levels than the census looks at.
        let sizes = [1, 40, 300, 5000];
        let made = |what: &str| {
            sizes.map(|pages| {
                let file = write_pages(&disk.path().join(format!("{what}-{pages}")), pages);
                file.sync_all().expect("it can be written to the disk");
                file
            })
        };
        let (mut written, evicted, untouched) =
            (made("written"), made("evicted"), made("untouched"));
        for file in &mut written {
            // Of a file whose pages are on the disk, one is changed.
            file.rewind().expect("it can be read again");
            fill(file, 1);
        }
        for file in &evicted {
            page_out(file, 1);
        }
        let files: Vec<&File> = written.iter().chain(&evicted).chain(&untouched).collect();
        let told = || -> Vec<bool> {
            let stat = |file: &&File| cachewise_sys::cachestat(file.as_fd(), None);
            let stats = files
                .iter()
                .map(|file| stat(file).expect("cachestat works"));
            stats
                .map(|stat| (stat.dirty + stat.writeback + stat.evicted).is_zero())
                .collect()
        };
        // The kernel may write or reclaim pages meanwhile: then one looks again.
        let quiet = (0..50).find_map(|_| {
            let before = told();
            let report = stand.take_with(&Options {
                select: Select::Both,
                ..Options::default()
            });
            (before == told()).then_some((before, report))
        });
        let (told, report) = quiet.expect("once in 50 times nothing changes");
        let ours = |file: &&File| find(&report, file).expect("it is listed").clean;
        let ours: Vec<bool> = files.iter().map(ours).collect();
        let is_looked_at = |place: usize| sizes[place % sizes.len()] <= 4096;
        for (place, (ours, told)) in ours.iter().zip(&told).enumerate() {
            let expected = *told && is_looked_at(place);
            assert_eq!(*ours, expected, "{:?}: cachestat says {told}", files[place]);
        }
        assert!(
            !told[sizes.len()..2 * sizes.len()].contains(&true),
            "evicted pages are remembered: {told:?}"
        );
        assert!(ours.contains(&true), "and some file is clean: {ours:?}");
    });
}

/// Has the kernel reclaim a file's pages, as it would if memory was short.
fn page_out(file: &File, pages: u64) {
    let length = (pages * page()) as usize;
    // SAFETY: a new mapping at a place of the kernel's choice; it is unmapped before this returns.
    unsafe {
        let place = rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )
        .expect("a file can be mapped");
        for page_number in 0..pages {
            place
                .cast::<u8>()
                .add((page_number * page()) as usize)
                .read_volatile();
        }
        rustix::mm::madvise(place, length, Advice::LinuxPageOut).expect("MADV_PAGEOUT works");
        rustix::mm::munmap(place, length).expect("and it is unmapped");
    }
}

#[test]
fn names_are_left_out_when_not_asked_for() {
    as_root("a census without names", |stand| {
        let file = write_pages(&stand.path("file"), 2);
        let report = stand.take_with(&Options {
            names: false,
            ..Options::default()
        });
        assert_eq!(
            check(&report, &file, 2, "without names").name,
            Name::Unknown,
            "not asked for"
        );
        let named = report
            .inodes
            .iter()
            .find(|inode| inode.name != Name::Unknown);
        assert_eq!(named, None, "nor is any other");
    });
}

#[test]
fn who_may_not_is_told_so() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: census without privileges: this is root");
        return;
    }
    let error = Census::open().expect_err("without CAP_BPF nothing can be loaded");
    assert_eq!(
        error.kind(),
        ErrorKind::Denied,
        "and that is the reason: {error:?}"
    );
}

#[test]
fn a_stream_has_what_a_report_has() {
    as_root("streamed results", |stand: &mut Stand| {
        let file = write_pages(&stand.path("file"), 4);
        let inode = find(&stand.take(), &file).expect("it is listed").clone();
        let mut times = 0;
        let mut all = 0;
        let summary = stand
            .census
            .stream(&Options::default(), |found| {
                all += 1;
                times += u32::from(found.id == inode.id && found.device == inode.device);
            })
            .expect("a census can be streamed");
        assert_eq!(times, 1, "the same inode, once");
        assert_eq!(
            summary.found, all,
            "and the sum is that of what was passed on"
        );
    });
}
