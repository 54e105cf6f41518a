//! The whole of it beside the kernel's own sums.

use cachewise_kstat::Kernel;
use cachewise_probe::census::{Options, Report, Sums};

use crate::stand::{Stand, as_root};

/// How often to look for a moment in which nothing changes.
const TRIES: usize = 100;
/// How many such moments to look at.
const MOMENTS: usize = 5;

fn of_kernel() -> Sums {
    Sums::of_kernel(&Kernel::new()).expect("/proc/meminfo can be read")
}

fn of_inodes(report: &Report) -> Sums {
    let mut sums = Sums::default();
    for inode in &report.inodes {
        match &*inode.file_system {
            "bdev" => sums.buffers += inode.pages,
            "hugetlbfs" => {}
            _ => sums.cached += inode.pages,
        }
    }
    sums
}

/// A moment in which nothing changed: the kernel's sums are the same before, between and after two censuses,
/// and these agree.
fn quiet_moment(stand: &mut Stand) -> Option<(Sums, Report)> {
    let options = Options {
        names: false,
        ..Options::default()
    };
    (0..TRIES).find_map(|_| {
        let before = of_kernel();
        let first = stand.take_with(&options);
        if of_kernel() != before {
            return None;
        }
        let second = stand.take_with(&options);
        let same = of_kernel() == before && first.summary.sums == second.summary.sums;
        same.then_some((before, second))
    })
}

#[test]
fn its_sums_are_the_kernels() {
    as_root("sums", |stand| {
        // A file system that another program mounts and unmounts all the time can have the same number of pages at
        // each reading and still be missed, because it is a new one each time. So one moment of several is enough.
        let mut seen = Vec::new();
        for _ in 0..MOMENTS {
            let Some((kernel, report)) = quiet_moment(stand) else {
                println!("skipped: census: sums: the page cache is never still here");
                return;
            };
            let sums = report.summary.sums.expect("cached files were asked for");
            assert_eq!(
                of_inodes(&report),
                sums,
                "the sums are those of what is listed"
            );
            assert!(
                sums.cached.0 > 0,
                "a machine that runs has files in its cache"
            );
            if sums == kernel {
                return;
            }
            seen.push((sums, kernel));
        }
        panic!("Cached and Buffers are not met to the page (census, kernel): {seen:?}");
    });
}
