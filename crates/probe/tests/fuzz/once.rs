//! Programs that failed once, by a defect of the probe that is corrected. They run before the random ones.

/// Their texts.
pub const ONCE: [&str; 14] = [
    // Pages of a call in chunks that ended short were read ahead, and forgotten.
    "on ext4-tiny
file 143360 hole
file 0 hole
fill 0
copy 0 0 192512 1 0
splice 0 0 133632
",
    "on btrfs
file 495616 cold
sendfile-socket 0 0 512000
read 0 462848 4608
",
    // A read right after a splice(2) that had no event, which leaves the count of reads as it is.
    "on ext4-inline
file 1 cold
splice 0 0 1
read 0 0 1
",
    "on ext4-1k
file 544768 hole
copy 0 0 843776 0 589824
",
    // The last page of a read that the file system reads alone, behind a page that has an event.
    "on ext4-inline
file 8192 hole
pwritev 0 0 1 0
read 0 0 6656
",
    // The page of a read that would have had to wait was gone when that was known, and another one took its place.
    "on ext4
file 4 cold
preadv2-nowait 0 0 10
truncate 0 0
write 0 0 1
splice 0 0 28
",
    // A direct read that fails behind the old end of a file, which a write beside it makes longer.
    "on xfs-large-blocks
file 57 cold
uring-write 0 0 256 0
uring-read 0 60 11 13
uring-enter
",
    // Pages of inline data that the kernel gives back, to advice and to a fault.
    "on ext4-inline
file 60 cold
fadvise-willneed 0 0 60
touch 0 0
",
    // Requests without a range have marks: of inline data, on large blocks, inside of one file, on btrfs.
    "on ext4-inline
file 60 cold
splice 0 0 60
",
    "on xfs-large-blocks
file 100000 cold
aio-read 0 0 5000
",
    "on ext4
file 10000 cold
copy 0 5000 900 0 9500
",
    "on btrfs
file 100000 cold
file 100000 written
aio-write 0 0 5000
splice-in 1 0 5000
copy 0 1 0 0 5000
",
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
