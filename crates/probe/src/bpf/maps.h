/* SPDX-License-Identifier: GPL-2.0 */
/* State of the probe: settings, maps, and the state of each task and CPU. */
#ifndef CACHEWISE_MAPS_H
#define CACHEWISE_MAPS_H

const volatile struct config config = {};

/*
 * Most commands want neither stacks nor accesses: COUNTS_ONLY has programs without them. The verifier takes a branch that a
 * setting closes out of the program, and what the branch calls, but it first reads all of that.
 */
#ifdef COUNTS_ONLY
#define STACKS 0
#define ACCESSES 0
#else
#define STACKS config.stacks
#define ACCESSES config.accesses
#endif

/* The kernel's numbers for the types that PLAIN casts to. Filled in before loading. */
const volatile struct kernel_types {
	u32 address_space, bio, dentry, file, folio, inode, io_kiocb, iov_iter, kiocb, mem_cgroup, task_struct;
} kernel_types = {};

struct lost lost = {};

/*
 * One bit for each followed thread group (SCOPE_TREE), indexed by its id: the kernel assigns at most 4 Mi
 * ids (PID_MAX_LIMIT). Set or cleared at fork, so the bit of a reused id is right.
 */
#define PID_WORDS (1 << 16)
u64 followed[PID_WORDS] = {};

/*
 * State of a mapping that the fast path of get_pages must not ignore: the number of pages inserted ahead and
 * not touched yet, and of requests whose inserts wait for their event. Indexed by a hash of the inode number,
 * because the verifier accepts a number as an index, and not a pointer. A collision costs time, never a count.
 */
#define WATCH_BITS 12
u64 watch[1 << WATCH_BITS] = {};

/* Likewise, the number of evicted pages that would be refaults if they were inserted again. */
u64 gone_watch[1 << WATCH_BITS] = {};

/* Changes whenever an inode may get its first pages in the cache: an earlier inode at the same address is gone. */
u32 begun[1 << WATCH_BITS] = {};

/* Changes whenever pages of an inode leave the cache. */
u32 left[1 << WATCH_BITS] = {};

static __always_inline u64 watch_slot(u64 inode_number)
{
	return (inode_number * 0x9E3779B97F4A7C15ULL) >> (64 - WATCH_BITS);
}

static __always_inline u64 *watch_of(u64 inode_number)
{
	return &watch[watch_slot(inode_number)];
}

/*
 * The rows of counters, all allocated at the start. Allocated on demand, a burst of new rows would exhaust
 * the small reserve of the CPU before it is refilled, and rows would be lost although the table is almost empty.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct row_key);
	__type(value, struct ledger);
} rows SEC(".maps");

/*
 * With intervals (`config.intervals`) rows are made in this table while `side` is 1. User space flips `side`,
 * waits until no program that saw the old value still runs, and then owns one table: counts of the meantime are
 * in the other one, so nothing has to be subtracted and nothing can be lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct row_key);
	__type(value, struct ledger);
} rows_other SEC(".maps");

u32 side = 0;

/* Files that have had a row, and so a record in the ring; with the round of naming that it was sent in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_id);
	__type(value, u32);
} files SEC(".maps");

/* Pages that tasks out of scope inserted into files that have had a row. Empty unless config.outside. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct file_id);
	__type(value, u64);
} outside SEC(".maps");

/* File systems, as device and volume, that have had a record; with the round of naming that it was sent in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} file_systems SEC(".maps");

/* Raised by user space now and then: files in use send their records again, as names change. */
u32 naming_round = 0;

/* The files that the filter names (config.file_filter); generation is 0 here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct file_id);
	__type(value, u32);
} wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct process_id);
	__type(value, struct process);
} processes SEC(".maps");

#define RECORDS_BYTES (4 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RECORDS_BYTES);
} records SEC(".maps");

/* The same call of the same task: `serial` is task->ioac.syscr (or syscw), which the kernel raises at
 * the end of each read (write); `epoch` counts io_uring's requests, for which it does not. */
struct call {
	u64 mapping;
	u64 serial;
	u32 nr;
	u32 epoch;
};

/* The mapping that a system call may read or write. */
struct target {
	u64 mapping; /* its address */
	u32 nr;
};

/* A folio inserted into the cache, and the system call that inserted it. */
struct insert {
	struct target target;
	u64 serial;
	u64 moment; /* as moment_of() has it, for times */
	u64 lo, hi, pages;
	struct row_key key; /* of the read that it is for */
};

/* The request that an io_uring worker executes. */
struct work_id {
	u64 request, file; /* addresses */
	u64 inode;	   /* its number */
	u32 generation;
	u32 opcode;
};

/*
 * Counts that one event adds to a reader's account. On the side of the request: the pages and bytes in registers
 * and iovecs. On the side of the cache: the pages that its events name (`reached`) and the inserted ones (`misses`).
 */
struct tally {
	u64 requests, pages, bytes;
	u64 misses, ahead, used;
	u64 reached;
};

/* Below zero for a batch that inserts pages which an earlier event named: sums are modulo 2^64. */
static __always_inline u64 hits_of(const struct tally *tally)
{
	return tally->reached - tally->misses;
}

/* Requested pages start..=end of a mapping, given by its address; none if the tally has no pages. */
struct read {
	u64 mapping;
	struct call call; /* the call in progress; mapping 0: it is over */
	u64 start, end;
	struct tally tally;
	u64 rangeless; /* no event gives its range */
	u64 file;      /* the address of the open file, for accesses; 0: not known */
};

/* The byte range that a call requests. */
struct range {
	u64 mapping; /* 0: any mapping, as below an overlay */
	u64 pos, len;
};

/* A request of a task that was booked as a whole, whose result has not been seen. */
struct result {
	struct call call;
	u64 inode_number;
	u64 account;	 /* bytes that calls of its kind had moved for the task before it */
	u64 pos, bytes;	 /* that were booked */
	u64 start, end;	 /* their pages */
	u64 misses;	 /* booked */
	u64 stack;	 /* its id */
	u64 used;	 /* for a request of one page: it was a readahead hit */
	u64 size;	 /* of the file, before it */
	u32 generation;
	u32 open;
	u32 left, padding; /* the value of `left` when the first page was inserted for it */
};

/* As in linux/aio_abi.h. */
struct iocb {
	u64 data;
	u32 key, rw_flags;
	u16 opcode;
	u16 priority;
	u32 fd;
	u64 buffer, bytes;
	s64 offset;
};

/* The read whose event names pages index..=last of a mapping: its position and length. */
struct aio_read {
	u64 mapping, index, last;
	u64 array;
	u64 pos, len;
	u32 at;	  /* its place in the array */
	u32 turn; /* the request whose turn it is, if it can be that one */
	u64 address;
	struct iocb iocb;
};

/* A bit for each page: `missed` was inserted for the call, `used` was inserted ahead of it and then found by it. */
struct again {
	struct call call;
	u64 missed, used;
};

/* The chunks of the latest call: as many as most calls read. */
#define RECENT 2
struct recent {
	u64 chunk;
	struct again again;
};

/* Pages start..=end of a read, of which it reached those below `cut`. */
struct reach {
	struct call call;
	u64 inode_number;
	u64 start, end, cut;
	u64 missed, used; /* inserted for it and reached; inserted ahead, found in the cache and not reached */
	u32 task, started;
	u32 left, gone; /* the former value of `left`; unreached pages that may have left the cache since */
};

/* An io_uring read or write that was submitted and has not completed. */
struct flight {
	struct row_key key;
	u64 ring, user_data; /* with the request's address they identify it */
	u64 file, mapping;   /* mapping 0: that of its first event */
	u64 inode_number;
	u64 serial;
	u64 pos, length; /* requested */
	u64 before;	 /* bytes in front of `pos` that direct I/O read */
	/* booked */
	u64 bytes, start, end;
	u64 last; /* page that events name as its last */
	u64 misses;
	u64 stack; /* its id, of direct I/O */
	u32 task;  /* that submitted it */
	u32 doubts;
	u8 write, splice, direct, device;
	u8 counted;
	u8 at_position; /* begins at the file's position or end at the time of its execution */
	u8 selects;	/* takes a buffer from a pool, which may be shorter */
	u8 skips;	/* does not report success */
	u8 grouped;
	u8 doubtful; /* an insert in the meantime may belong to it */
	u8 padding[2];
	u32 left; /* the value of `left` at submission */
};

/* The request of the latest io_uring event, and the pages lo..=hi that it requests. */
struct found_flight {
	u64 id;	     /* its address; 0: one of several requests */
	u64 mapping; /* 0: none */
	u64 lo, hi;
	u32 epoch;
	u32 announced; /* by readahead */
};

struct task_state {
	u64 self; /* the task's address */
	/* the read in progress */
	struct call read;
	u64 read_index, read_last; /* of its latest event */
	u64 read_end;		   /* last page counted */
	u64 read_pos;
	u64 read_pages, read_misses; /* of a call in chunks, so far */
	/* the requested range, which classifies inserts */
	struct call ahead;
	u64 ahead_lo, ahead_hi;
	u64 ahead_start; /* first page of the request; ~0: unknown */
	u64 ahead_pos;	 /* its first byte, from the registers; ~0: the range is from a kernel event */
	struct insert insert; /* that is being booked */
	struct range range;   /* of the read that is being counted */
	u32 known, same;      /* what is known of the range, and whether the call is that of the read before */
	u32 kind, padding_of_kind;
	/* inserts that wait for the event of their request */
	struct call pending;
	struct row_key pending_key;
	u64 pending_inode; /* its number */
	u64 pending_lo, pending_hi;
	u32 pending_miss, pending_ahead;
	u32 pending_counts; /* no event yet: the request itself is to be counted */
	u32 pending_chunks; /* a call in chunks: misses are booked as its pages are */
	u32 pending_left, padding_of_left;
	/* the page fault in progress */
	u64 fault_mapping, fault_serial, fault_index;
	u32 fault_known, fault_missed;
	/* the write in progress */
	struct call write;
	u64 write_pos, write_end;
	/* their results */
	struct result read_result, write_result;
	struct reach reach;
	struct recent recent[RECENT];
	u64 pending_stack; /* its id */
	u64 pending_account, pending_pos, pending_bytes; /* 0 bytes: not known */
	u64 pending_length; /* requested from pending_pos on; 0: not known */
	/* the latest request of io_submit(2) */
	struct aio_read aio;
	u64 aio_array, aio_serial;
	u32 aio_count, aio_at;
	u32 aio_tail, padding_of_tail;
	/* direct I/O and io_uring */
	u64 direct_serial;
	struct call bio; /* on a block device: one call, maybe several bios */
	u32 epoch;
	u32 padding_of_epoch;
	struct work_id work;
	/* the current event, as numbers in memory: global functions take no kernel pointers */
	u64 event_mapping, event_inode, event_lo, event_hi;
	struct flight submitted; /* the latest read or write */
	struct found_flight found;
	/* the call in progress, with fentry or kprobes instead of tracepoints; mapping 0: none */
	u64 call_mapping, call_index, call_last;
	u64 device_inode, device_bytes;
	u32 device_write, padding_of_device;
	/* The read that a program is about to count. It is not on the stack, of which older kernels give a
	 * program and all functions that it calls 512 bytes. */
	struct read counting;
	/* booked in the process table so far; before the first time, the values when the probe was attached */
	u32 settled;
	u32 padding;
	u64 cpu_time, user_time, system_time, minor_faults, major_faults;
	u64 rchar, wchar, read_bytes, write_bytes, cancelled_write_bytes;
	/* moments: the latest insert of pages that come back, and of pages that are fetched, with the time since then */
	u64 back_at, fetch_at, fetch_since, fetch_cpu;
	u32 fetch_resumes; /* the call of fetch_at goes on when the task has a CPU again */
	u32 throttled;
	u32 resume;  /* the program to go on with when its requests are settled */
	u32 flushes; /* likewise, when its inserts that wait are booked */
	/* the latest stack that was sent, and the call or fault of it */
	u32 stack_kind;
	u64 stack, stack_moment;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

/*
 * Reads and writes of one file by one process on one CPU that are not booked on a row yet. A read needs the first two lines
 * of the CPU's cache.
 */
struct slot {
	u64 mapping, inode, start;
	u64 groups; /* the process's set of control groups, by address: another one once it moves */
	u32 generation, tgid;
	u32 begun, era;
	u64 requests, pages, bytes, hits;
	u64 misses, ahead, used;
	u64 write_requests, write_pages, write_bytes;
	struct row_key key;
	u64 padding[3];
};

/*
 * Beside a slot, so that one of another file needs no look at it: hashes of the file and process that it is of, and
 * of those that used it in vain since then: the next time, it is theirs. 0: none.
 */
struct mark {
	u8 owner, candidate;
};

/* DETAIL_ROWS: 2^config.slot_bits of each CPU. Mappable, so that they begin with a line of the CPU's cache. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Raised by user space when files in use may need a record again: slots of an earlier era have no owner. */
u32 era = 0;

/* An inode, by its address, into which `just_added` pages were put a moment ago. */
struct subject {
	u64 inode;
	u64 just_added;
};

/* In the place of pages: it has had a record in this round, and may have a name by now. */
#define AGAIN ~0ULL

/* A file that is named at the end of the event that has met it. */
struct unnamed {
	struct subject subject;
	struct file_id file;
	u32 is_known; /* it has had a record in an earlier round */
	u32 padding;
};

/* Files that one event meets, and one that interrupts it. */
#define WAITING 2

/*
 * `busy` guards fields that change without atomics: a program that interrupts another one on the same CPU
 * (softirq, or preemption if the kernel allows it inside tracepoints) finds it set and uses atomics instead.
 */
#define SLOTS_MAX 8192
#define SLOT_RUN_SHIFT 8 /* there are 32 runs at most */
struct cpu {
	u32 busy;
	u32 naming;
	u32 used, flushing; /* a bit for each run of slots: used since the latest flush; to be booked by it */
	u64 entered; /* when its task was given the CPU, if the times of the task are measured */
	u64 met_start; /* the process that was entered last in the table of processes */
	u32 met_tgid;
	u32 named_round; /* in which the file system below had its record */
	u64 named;
	struct unnamed unnamed[WAITING];
	u32 waiting, padding_of_waiting; /* the number of them */
	u64 culprit_start, culprit_comm[2]; /* the process that was entered last among those that evicted, and its name */
	u32 culprit_tgid, culprit_round;
	u32 padding, sent; /* bytes of records since the fill level of their ring was looked at */
	u64 requests, pages, bytes, hits; /* DETAIL_TOTALS: reads on the fast path */
	struct ledger total;	    /* DETAIL_TOTALS: everything else; atomic */
	struct ledger fresh;	    /* the row being made; guarded by `busy` */
	struct mark marks[SLOTS_MAX];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/*
 * Programs that others go on with, so that the verifier looks at them once and not as parts of each of those: one that names
 * files, one that settles requests, and those with which it goes on. User space fills it.
 */
enum service { NAME, SETTLE, GET_PAGES, INSERT, DELETE, DIRECT_BEGIN, EXIT, SERVICES };
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, SERVICES);
	__type(key, u32);
	__type(value, u32);
} services SEC(".maps");

/* In memory: the kernel patches the code of a program that goes on with one whose number the verifier knows. */
u32 service_numbers[2] = { NAME, SETTLE };

/* A directory at the moment at which its name was copied. */
struct level {
	u64 parent;    /* the address of its directory's dentry */
	u64 name_hash; /* with the name's length */
	u32 version;
	u32 padding;
};

/* Buffer in which a file's record is built, which is too large for the stack. */
#define LEVELS_KEPT 16
struct scratch {
	struct file_record record;
	u64 directory; /* the address of the dentry whose names are the first part of the record's; 0: none */
	u32 depth;     /* levels from there up to the root of the file system */
	u32 padding;
	struct level levels[LEVELS_KEPT];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

/*
 * Where there is no bpf_rdonly_cast (before 6.2) kernel memory is read by a helper, by programs that are compiled for that. A
 * setting instead would leave a branch at each read, and for each branch that the verifier removes it moves the rest
 * of the program.
 */
#ifdef READS_BY_HELPER
#define BY_HELPER 1
#else
#define BY_HELPER 0
#endif

/*
 * A kernel pointer for reading. The programs are raw tracepoints, so that their arguments are numbers to
 * the verifier. (As BTF tracepoints their arguments would have types, and at each step from a pointer that
 * it trusts the verifier searches the kernel's type information by name: most of a second for these
 * programs.) The cast costs nothing at run time; a read through a bad pointer gives 0.
 *
 * The function is called as a helper with a number that no helper has; user space makes it the call of the kernel's function
 * (`cast.rs`). With a declaration of the function libbpf would look for it itself, and read all of the kernel's types for
 * that.
 */
#define RDONLY_CAST 0x7ca50000
static void *(*const rdonly_cast)(const void *object, __u32 btf_id) = (void *)RDONLY_CAST;
#define PLAIN(type, pointer)                                                                       \
	((struct type *)(BY_HELPER ? (void *)(pointer) : rdonly_cast(pointer, kernel_types.type)))

/* A word of kernel memory; 0: there is none at that address. */
#if BY_HELPER
/* In a function of its own, so that its memory is taken once and not with each use: all the programs' functions together
 * have 512 bytes. */
static __noinline u64 peek(u64 address)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}
#else
/* To the verifier it is the first word of a folio, which is a number. */
static __always_inline u64 peek(u64 address)
{
	return *(volatile u64 *)PLAIN(folio, (void *)address);
}
#endif

/*
 * READ(pointer, a, b) is pointer->a->b, for a pointer from PLAIN. Before 6.2 there is no such cast, and each
 * step is a call. The verifier knows config's values and leaves out the other way. Of a member that is
 * smaller than a word, the word that begins with it is read, and the rest cut off: this machine is a
 * little-endian one.
 */
#define PEEK(p, a) ((typeof((p)->a))peek((u64)&(p)->a))
#define PEEK1(p, a) PEEK(p, a)
#define PEEK2(p, a, b) PEEK(PEEK(p, a), b)
#define PEEK3(p, a, b, c) PEEK(PEEK2(p, a, b), c)
#define PEEK4(p, a, b, c, d) PEEK(PEEK3(p, a, b, c), d)
#define STEPS1(p, a) (p)->a
#define STEPS2(p, a, b) (p)->a->b
#define STEPS3(p, a, b, c) (p)->a->b->c
#define STEPS4(p, a, b, c, d) (p)->a->b->c->d
#define BY_COUNT(p, a, b, c, d, name, ...) name
#define READ(pointer, ...)                                                                         \
	({                                                                                         \
		typeof(BY_COUNT(pointer, __VA_ARGS__, STEPS4, STEPS3, STEPS2,                      \
				STEPS1)(pointer, __VA_ARGS__)) found;                              \
		if (BY_HELPER)                                                                     \
			found = BY_COUNT(pointer, __VA_ARGS__, PEEK4, PEEK3, PEEK2,                \
					 PEEK1)(pointer, __VA_ARGS__);                             \
		else                                                                               \
			found = BY_COUNT(pointer, __VA_ARGS__, STEPS4, STEPS3, STEPS2,             \
					 STEPS1)(pointer, __VA_ARGS__);                            \
		found;                                                                             \
	})

/*
 * A function that is not static is verified once for each program, and not again on every path that
 * leads to it. It can take only numbers and pointers to plain memory: a kernel pointer that came from
 * another one goes in as a number, in memory, where the verifier forgets what it was.
 */
#define ONCE __noinline

/*
 * A function that several parts of a program share. Before 6.2 it is part of each: as a function of its own it would take
 * stack of its own, of which the longest chain of calls has none left there.
 */
#if BY_HELPER
#define SHARED static __always_inline
#else
#define SHARED ONCE
#endif

/* The current task: for helpers, and for reading. */
#define CURRENT(trusted, task)                                                                     \
	struct task_struct *trusted = bpf_get_current_task_btf();                                  \
	struct task_struct *task = PLAIN(task_struct, trusted)

static __always_inline struct cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/* The CPU's sum of everything (DETAIL_TOTALS). Older verifiers want to see the check before the addition. */
static __always_inline struct ledger *cpu_total(void)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return NULL;
	barrier_var(cpu);
	return &cpu->total;
}

static __always_inline struct task_state *state_of(struct task_struct *task)
{
	struct task_state *state = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!state)
		__sync_fetch_and_add(&lost.tasks, 1);
	else
		state->self = (u64)task;
	return state;
}

static __always_inline bool is_followed(u32 tgid)
{
	return followed[(tgid >> 6) & (PID_WORDS - 1)] >> (tgid & 63) & 1;
}

static __always_inline void follow(u32 tgid, bool on)
{
	u64 *word = &followed[(tgid >> 6) & (PID_WORDS - 1)], bit = 1ULL << (tgid & 63);

	if (on)
		__sync_fetch_and_or(word, bit);
	else if (*word & bit)
		__sync_fetch_and_and(word, ~bit);
}

/* The group that memory of these tasks is charged to. */
static __always_inline struct cgroup *memory_group_in(struct css_set *set)
{
	u64 place = bpf_core_field_offset(struct css_set, subsys) +
		    bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof(void *);
	struct cgroup_subsys_state *css;

	if (BY_HELPER)
		css = (void *)peek((u64)set + place);
	else
		css = *(struct cgroup_subsys_state *volatile *)((void *)set + place);
	return css ? READ(css, cgroup) : NULL;
}

static __always_inline struct cgroup *cgroup_in(struct css_set *set)
{
	return config.cgroup_v1 ? memory_group_in(set) : READ(set, dfl_cgrp);
}

static __always_inline u64 cgroup_id_in(struct css_set *set)
{
	struct cgroup *cgroup = cgroup_in(set);

	return cgroup ? READ(cgroup, kn, id) : 0;
}

static __always_inline u64 cgroup_id_of(struct task_struct *task)
{
	return cgroup_id_in(READ(task, cgroups));
}

static __always_inline bool under_cgroup(struct task_struct *task)
{
	struct cgroup *cgroup = cgroup_in(READ(task, cgroups)), *ancestor = NULL;
	u32 level = config.cgroup_level;

	if (!cgroup || READ(cgroup, level) < (int)level)
		return false;
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors) +
				      level * sizeof(ancestor));
	return ancestor && PEEK2(ancestor, kn, id) == config.cgroup_id;
}

/* Is what this task does to be counted? */
static __always_inline bool in_scope(struct task_struct *task)
{
	if (config.scope == SCOPE_TREE && !is_followed(task->tgid))
		return false;
	return !config.cgroup_filter || under_cgroup(task);
}

#endif
