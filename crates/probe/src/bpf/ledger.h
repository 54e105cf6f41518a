/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs and user space share: the ledger, its keys, and the records about files. */
#ifndef CACHEWISE_LEDGER_H
#define CACHEWISE_LEDGER_H

/*
 * The counters, in the order of `cachewise_model::Counter`, where each is explained: user space
 * reads a ledger as an array of u64, and a test compares the names in both places.
 */
#define LEDGER(X)                                                                                  \
	X(read_requests)                                                                           \
	X(read_requested_pages)                                                                    \
	X(read_requested_bytes)                                                                    \
	X(read_missed_pages)                                                                       \
	X(readahead_pages)                                                                         \
	X(prefetch_pages)                                                                          \
	X(readahead_hit_pages)                                                                     \
	X(readahead_wasted_pages)                                                                  \
	X(readahead_cancelled_pages)                                                               \
	X(fault_requests)                                                                          \
	X(fault_miss_pages)                                                                        \
	X(fault_readahead_pages)                                                                   \
	X(write_requests)                                                                          \
	X(write_pages)                                                                             \
	X(write_bytes)                                                                             \
	X(write_new_pages)                                                                         \
	X(dirtied_pages)                                                                           \
	X(direct_read_requests)                                                                    \
	X(direct_read_bytes)                                                                       \
	X(direct_write_requests)                                                                   \
	X(direct_write_bytes)                                                                      \
	X(evicted_reclaim_pages)                                                                   \
	X(evicted_other_pages)                                                                     \
	X(refault_pages)                                                                           \
	X(metadata_pages)                                                                          \
	X(other_pages)                                                                             \
	X(eventless_requests)                                                                      \
	X(read_unserved_pages)                                                                     \
	X(read_unserved_bytes)                                                                     \
	X(read_failed_requests)                                                                    \
	X(write_unserved_bytes)                                                                    \
	X(write_failed_requests)                                                                   \
	X(direct_read_failed_requests)                                                             \
	X(direct_write_failed_requests)                                                            \
	X(read_hit_pages)                                                                          \
	TIMES(X)

/*
 * Nanoseconds of tasks. `fetch_cpu_seconds` is a part of the CPU time, and `cold_run_queue_seconds` of
 * `run_queue_seconds`; the others do not overlap, and with the CPU time add up to `task_seconds`, which is measured by
 * itself.
 */
#define TIMES(X)                                                                                   \
	/* for a file */                                                                           \
	X(waited_missed_seconds)                                                                   \
	X(waited_refault_seconds)                                                                  \
	X(waited_in_flight_seconds)                                                                \
	X(waited_fault_seconds)                                                                    \
	X(waited_direct_seconds)                                                                   \
	X(waited_sync_seconds)                                                                     \
	X(waited_metadata_seconds)                                                                 \
	X(waited_filesystem_seconds)                                                               \
	/* for no file */                                                                          \
	X(waited_throttle_seconds)                                                                 \
	X(waited_reclaim_seconds)                                                                  \
	X(waited_swap_seconds)                                                                     \
	X(waited_async_seconds)                                                                    \
	X(waited_children_seconds)                                                                 \
	X(waited_lock_seconds)                                                                     \
	X(waited_peer_seconds)                                                                     \
	X(slept_seconds)                                                                           \
	X(waited_other_seconds)                                                                    \
	X(run_queue_seconds)                                                                       \
	X(fetch_cpu_seconds)                                                                       \
	X(task_seconds)                                                                            \
	X(cold_run_queue_seconds)

struct ledger {
#define X(name) u64 name;
	LEDGER(X)
#undef X
	/* Part of readahead_hit_pages that was evicted before the read reached it, so wasted. User space moves it. */
	u64 used_too_early_pages;
	/* Requests whose result is hidden by other calls of the task, or by other io_uring requests in flight. */
	u64 unsure_reads, unsure_writes;
	/* Requests whose range no event gives, or that no event shows. */
	u64 rangeless_reads, rangeless_writes;
	/* Readahead pages of short reads that may have left the cache before the results of the reads were known. */
	u64 unsure_ahead_pages;
};

/* A file as stat(2) names it; a block device is (its own number, 0). */
struct file_id {
	u32 dev;
	u32 generation; /* inode numbers are reused, often at once */
	u64 inode;
	u32 volume; /* device numbers are reused too, for example by a loop device for one image after another */
	u32 padding;
};

/* A process: ids are reused too, so the start time is part of the key. tgid 0: no process. */
struct process_id {
	u64 start;
	u32 tgid;
	u32 cgroup; /* lower half of the kernfs id; 0 in the process table */
};

struct row_key {
	struct file_id file;
	struct process_id process;
};

/* Causes of evictions, in the order of `cachewise_model::EvictionCause`, where each is explained. */
#define CAUSES(X)                                                                                  \
	X(UNKNOWN)                                                                                 \
	X(GROUP_LIMIT)                                                                             \
	X(DIRECT_RECLAIM)                                                                          \
	X(KSWAPD)                                                                                  \
	X(PROACTIVE_RECLAIM)                                                                       \
	X(TRUNCATION)                                                                              \
	X(UNLINK)                                                                                  \
	X(ADVICE)                                                                                  \
	X(DROP_CACHES)                                                                             \
	X(INVALIDATION)                                                                            \
	X(RELEASE)

enum cause {
#define X(name) CAUSE_##name,
	CAUSES(X)
#undef X
};

/* Evicted pages of a file, charged to one control group, by the process that evicted them and the cause. */
struct eviction_key {
	struct file_id file;
	struct process_id culprit; /* tgid 0: a kernel thread */
	u32 charged;		   /* lower half of the group's kernfs id; 0: none */
	u32 cause;
};

/* A process that evicted pages. */
struct culprit {
	u64 cgroup;
	u32 pid; /* as the owner of the probe sees it; 0: not in its PID namespace */
	u32 padding;
	char comm[16];
};

/* A process's own account, for values that belong to no file. Times in nanoseconds. */
struct process {
	u64 cpu_time;		     /* exact; the next two are sampled at the clock tick */
	u64 user_time, system_time;
	u64 rchar, wchar, read_bytes, write_bytes, cancelled_write_bytes;
	u64 minor_faults, major_faults;
	u64 cgroup;
	u32 pid, parent; /* as the owner of the probe sees them; 0: not in its PID namespace */
	u32 exit_code;
	u32 exited;
	char comm[16];
};

#define NAMES_MAX 4096
#define LEVELS_MAX 256
#define NAME_MAX 255

enum record_kind { RECORD_FILE, RECORD_MOUNT };

/*
 * Sent once for each file, when the first of its rows is made; and, before that, once for each file system, which is
 * known by (super_dev, id.volume): where it is mounted in the mount namespace of the probe's owner.
 */
struct file_record {
	struct file_id id;
	u64 address; /* of the inode */
	u64 size;
	u64 resident_pages; /* before this row's first event */
	u64 magic;	    /* of the file system */
	u32 super_dev;	    /* the file system's own device: differs from id.dev on btrfs */
	u32 mode;
	u32 unlinked;
	u32 whole;		     /* names go up to the root: the buffer was large enough */
	u32 length;		     /* bytes used of names; 0: the inode has no name */
	u32 kind;
	u32 alone; /* the first event came from a process with one thread */
	u32 first_length; /* bytes of the first of the two parts of the names */
	char type[16];	 /* of a mount: of the file system, as in mountinfo */
	/*
	 * Names, each ended by NUL and followed by that of the directory above. Of a file: its directory's, ...; its own.
	 * Of a mount: of the mounted directory of its file system, ...; of the mount point, ...
	 */
	char names[NAMES_MAX + 512];
};

/* An access to pages of a file, for `cachewise_curve`. */
enum access_kind { ACCESS_READ, ACCESS_WRITE, ACCESS_AHEAD, ACCESS_REMOVE, ACCESS_FAULT, ACCESS_RESIDENT,
		   ACCESS_AROUND };
/*
 * Of a read: it begins where the one before it of the same open file ended, or in the page in which that ended. The bits
 * below are the order of the largest folio that the file may have.
 */
enum access_flags { ACCESS_FOLLOWS = 32, ACCESS_CONTINUES = 64 };
struct access {
	u64 file; /* a hash of its id */
	u64 first;
	u32 pages;
	/* of reads and faults, by which the kernel reads ahead */
	u32 file_pages; /* the length of the file */
	u32 reader;	/* a hash of the open file */
	u16 window;	/* pages that are read ahead at most */
	u8 kind, flags;
};

/* Events at which a task's stack is sent, in the order of `cachewise_model::StackKind`. */
enum stack_kind {
	STACK_READ,	/* a read of file contents that misses, or waits for pages */
	STACK_FAULT,	/* a fault on a mapped file that misses, or waits for pages */
	STACK_DIRECT,	/* direct I/O */
	STACK_SYNC,	/* fsync(2) and its kin */
	STACK_THROTTLE, /* a writer waits as too much memory is dirty */
	STACK_EVICTION,
	STACK_KINDS,
};
enum stack_unit { UNIT_PAGES, UNIT_BYTES, UNIT_NANOSECONDS, STACK_UNITS };
/* Ids that are no stack's: the event is in no call of a task, or the stack was lost. */
enum no_stack { STACK_NONE, STACK_LOST, NO_STACKS };
enum stack_origin { ORIGIN_USER, ORIGIN_KERNEL_THREAD, ORIGIN_WORKER, ORIGIN_32_BIT };

#define STACK_BYTES 16384
#define STACK_PIECE 4096 /* of the copy: it lies in one page */
#define STACK_KERNEL_FRAMES 48
#define STACK_FRAMES 16
#define STACK_FRAMES_WALKED 64
#define SIGNATURE_WORDS 32

/* More weight for a stack. */
struct stack_weight {
	u64 id;
	s64 weight;
	u32 unit, kind;
};

/* The words to which a frame pointer points. */
struct stack_frame {
	u64 address; /* of the two others */
	u64 next;    /* frame pointer */
	u64 caller;  /* return address */
};

/* The stack of a task. It is sent up to the end of its copy of the user's stack. */
struct stack_record {
	struct stack_weight head;
	u64 memory; /* the address of its mm_struct, which with the process's start identifies an address space */
	u64 start;
	u64 executable_pages; /* of the address space: they change when code is mapped */
	u64 ip, sp, bp;
	u32 tgid; /* as the owner of the probe sees it; 0: not in its PID namespace */
	u32 origin, user_bytes, kernel_frames, frames;
	char comm[16];
	u32 padding;
	u64 kernel[STACK_KERNEL_FRAMES];
	struct stack_frame chain[STACK_FRAMES]; /* behind the copy */
	u8 user[STACK_BYTES];
};

enum scope { SCOPE_SYSTEM, SCOPE_TREE };
enum detail { DETAIL_TOTALS, DETAIL_ROWS };

/* Set before loading: the verifier removes code for disabled features. */
struct config {
	u32 scope;
	u32 detail;
	u32 page_shift;
	u32 children;	   /* SCOPE_TREE: new children of the probe's owner are followed */
	u32 cgroup_v1;	   /* cgroup ids are of the v1 memory hierarchy */
	u32 cgroup_filter; /* only tasks under the cgroup below */
	u32 cgroup_level;
	u32 file_filter; /* only files in the map `wanted` */
	u32 intervals;	 /* rows alternate between two tables: the other one is read and emptied */
	u32 by_sys_exit; /* reads are counted at the end of system calls */
	u32 times;	 /* what tasks wait for is measured */
	u32 outside;	 /* pages that other tasks insert into the files that have a row are counted too */
	u32 accesses;	 /* accesses are sent one by one */
	u32 fault_around; /* and the pages around a fault among them */
	u32 stacks;	 /* stacks of tasks are sent */
	u32 slot_bits;	 /* each CPU has 2^slot_bits slots */
	u64 cgroup_id;
};

/* Events that could not be counted. Every field is shown to the user if it is not zero. */
struct lost {
	u64 rows;	 /* events booked on the overflow row, because the table was full */
	u64 tasks;	 /* events of tasks that got no storage, or no entry for their times */
	u64 names;	 /* files that could not be named: ring buffer full */
	u64 prefetch;	 /* pages whose readahead state could not be stored */
	u64 direct;	 /* direct requests whose completion cannot be matched */
	u64 flights;	 /* io_uring requests whose events cannot be matched */
	u64 processes;	 /* times that the process table was full */
	u64 returns;	 /* calls whose return was not seen */
	u64 stacks;	 /* stacks that found the ring full */
};

#endif
