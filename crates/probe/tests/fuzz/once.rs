//! Programs that failed once, by a defect of the probe that is corrected. They run before the random ones.

/// Their texts.
pub const ONCE: [&str; 2] = [
    // Each hole that is made leaves a page at its edge that no read has filled. Reclaimed in the middle of a read it was
    // taken for a page that the file system gave back.
    "on ext4
run within 1048576 0
file 4000000 hole
task 0
punch 0 0 60691
punch 0 100000 60691
punch 0 200000 60691
pread 0 300000 1000000
pread 0 1300000 1000000
pread 0 2300000 1000000
",
    // The same in the middle of reads by io_uring.
    "on ext4
run within 1048576 0
file 4000000 hole
task 0
punch 0 0 60691
punch 0 100000 60691
punch 0 200000 60691
uring-read 0 1004064 65536 0
uring-read 0 1204064 65536 0
uring-read 0 1304064 65536 0
uring-read 0 1404064 65536 0
uring-read 0 1504064 65536 0
uring-read 0 1604064 65536 0
uring-read 0 1704064 65536 0
uring-read 0 1804064 65536 0
uring-enter
uring-read 0 2204064 65536 0
uring-read 0 2304064 65536 0
uring-read 0 2404064 65536 0
uring-read 0 2504064 65536 0
uring-read 0 2604064 65536 0
uring-read 0 2704064 65536 0
uring-read 0 2804064 65536 0
uring-read 0 2904064 65536 0
uring-enter
",
];
