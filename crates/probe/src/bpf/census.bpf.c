// SPDX-License-Identifier: GPL-2.0
/*
 * The census: every inode of the machine that has pages in the page cache, found by going over the lists of
 * inodes that super blocks keep. It is run by user space (BPF_PROG_TEST_RUN), attached to nothing, and takes
 * no lock and no reference. Linux 5.17 and later (bpf_loop), with BTF.
 *
 * Why it is safe: a raw tracepoint program runs inside rcu_read_lock() also when it is run like this, and
 * super blocks, inodes and dentries are freed after a grace period. So what was reached by a list stays
 * readable until the run's end, and an address that is kept to the next run is checked before it is
 * believed. A wrong one costs at most a failed read.
 *
 * Why nothing stable is missed: the kernel adds an inode at the front of its list, and the walk goes from
 * the front to the end. Whatever is on the list at an address where the walk has been is therefore at or
 * before the place where the walk was, also if it was freed and made anew meanwhile. So the walk may go
 * on from any such inode: it repeats some, which user space sees by their identity, and leaves none out.
 *
 * How long a run takes is bounded by steps and by the clock, since the CPU does nothing else meanwhile.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "census.h"
#include "inode.h"

char LICENSE[] SEC("license") = "GPL";

struct census census = {};

/* Records that user space has not taken so far. A run that finds it full stops, and nothing is lost. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* The super blocks of the machine, at the moment of the first run. */
#define SUPERS_MAX 16384
struct found {
	u64 address;
	u64 dev;
};
static struct found supers[SUPERS_MAX];

/*
 * Where the walk is. Only one run at a time uses it. It is not on the stack, where the verifier would
 * follow each of its values through the loops.
 *
 * marks[k] is the last place that was a multiple of 16^k inodes from the list's front: if those next to
 * the walk have been taken off the list, one farther back is still there.
 */
#define MARKS 5
static struct {
	u32 next_super;
	u32 tick;
	u64 super; /* 0: none */
	u64 head, node;
	u64 visited;
	u64 marks[MARKS];
	u64 deadline;
	u64 magic;
} at;

/* The record that is being made; its part about the super block stays until the next one. */
static struct cached_inode record;

static u32 state;     /* enum census_state: what a run returns */
static u64 collected; /* the node of the super blocks' list that is next */

/*
 * The directory whose names are in the record. Neighbours on a list mostly lie in one directory, and a
 * name of five components costs as much as five inodes without pages.
 */
struct naming {
	u64 directory;
	u64 dentry;
	u32 length;
	u32 cut;
} naming = {};

static long collect_step(u32 i, void *context)
{
	u64 node = collected, next = word(node), n = census.supers;

	if (next == node || !is_kernel(next)) {
		state = CENSUS_AGAIN;
		return 1;
	}
	if (!is_in_image(node)) {
		if (n >= SUPERS_MAX) {
			census.overflow = 1;
			state = CENSUS_DONE;
			return 1;
		}
		supers[n].address = node - S_LIST;
		supers[n].dev = SUPER(node - S_LIST, s_dev);
		census.supers = n + 1;
	}
	collected = next;
	if (next == supers[0].address + S_LIST) {
		state = CENSUS_DONE;
		return 1;
	}
	return 0;
}

/* Adds the time since `started` to what is said of the runs. */
static __always_inline void clock_out(u64 started)
{
	u64 taken = bpf_ktime_get_ns() - started;

	census.total_ns += taken;
	if (taken > census.longest_ns)
		census.longest_ns = taken;
}

/*
 * The first run: which super blocks there are. The list is a ring, and is entered at one that cannot go
 * away, that of the root directory of the task.
 */
SEC("raw_tp")
int collect(void *context)
{
	u64 started = bpf_ktime_get_ns();
	struct task_struct___census *task = (void *)bpf_get_current_task();

	__builtin_memset(&at, 0, sizeof(at));
	census.supers = 0;
	state = CENSUS_AGAIN;
	collected = (u64)BPF_CORE_READ(task, fs, root.mnt, mnt_sb) + S_LIST;
	bpf_loop(2 * SUPERS_MAX, collect_step, NULL, 0);
	clock_out(started);
	return state;
}

/* Goes to the next super block that is still there; false: that was the last. */
static __noinline int enter_super(void)
{
	u64 n = at.next_super, super;
	struct file_system_type *type;

	/* one register: 6.1 does not see that a copy of 32 bits has the same bounds */
	barrier_var(n);
	if (n >= census.supers || n >= SUPERS_MAX)
		return 0;
	at.next_super = n + 1;
	super = supers[n].address;
	if (!is_linked(super + S_LIST) || SUPER(super, s_dev) != supers[n].dev)
		return 1; /* unmounted */
	at.super = super;
	at.head = super + S_INODES;
	at.node = word(at.head);
	at.visited = 0;
	__builtin_memset(at.marks, 0, sizeof(at.marks));
	at.magic = SUPER(super, s_magic);
	type = SUPER(super, s_type);
	record.super_block = n;
	record.super_dev = supers[n].dev;
	bpf_probe_read_kernel_str(record.fs_type, sizeof(record.fs_type),
				  BPF_CORE_READ(type, name));
	return 1;
}

/*
 * Goes back to the last place of the walk that is still on the list, or to the list's front. Returns 0 if it
 * is that of the inode before.
 */
static __noinline int go_back(void)
{
	for (u32 k = 0; k < MARKS; k++) {
		u64 node = at.marks[k];

		if (node && is_linked(node) &&
		    (u64)INODE(node - I_SB_LIST, i_sb) == at.super) {
			at.node = word(node);
			return k;
		}
		at.marks[k] = 0;
	}
	at.node = word(at.head);
	at.visited = 0;
	census.restarts++;
	return MARKS;
}

static __always_inline void leave_mark(u64 node)
{
	u64 n = at.visited++;

	at.marks[0] = node;
	if (n & 0xf)
		return;
	at.marks[1] = node;
	if (!(n & 0xff))
		at.marks[2] = node;
	if (!(n & 0xfff))
		at.marks[3] = node;
	if (!(n & 0xffff))
		at.marks[4] = node;
}

/* One name further up, from a directory to its parent. */
static long directory_step(u32 i, void *context)
{
	struct dentry *dentry = (void *)naming.dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	u32 used = naming.length;
	long length;

	if (parent == dentry) {
		naming.cut = 0;
		return 1;
	}
	if (used >= NAMES_MAX || !parent)
		return 1;
	length = bpf_probe_read_kernel_str(&record.names[used & (NAMES_MAX - 1)], NAME_MAX + 1,
					   BPF_CORE_READ(dentry, d_name.name));
	if (length <= 0)
		return 1;
	naming.length = used + length;
	naming.dentry = (u64)parent;
	return 0;
}

/* Puts the names of the directory and of those above it into the record, if they are not there. */
static __noinline int name_directory(u64 directory)
{
	if (naming.directory == directory)
		return 0;
	naming.directory = naming.dentry = directory;
	naming.length = 0;
	naming.cut = 1;
	bpf_loop(256, directory_step, NULL, 0);
	return 0;
}

#define ALIASES_MAX 8

/* The dentry of one of the inode's links, of one that still exists if there is any; 0: none is in memory. */
static __noinline u64 dentry_of(u64 inode)
{
	u64 alias = (u64)INODE(inode, i_dentry.first), first = 0;

	for (u32 k = 0; k < ALIASES_MAX && is_kernel(alias); k++) {
		u64 dentry = alias - bpf_core_field_offset(struct dentry, d_u.d_alias);

		if (DENTRY(dentry, d_hash.pprev))
			return dentry;
		if (!first)
			first = dentry;
		alias = word(alias);
	}
	return first;
}

/* Puts the inode's name into the record. */
static __noinline int name(u64 inode)
{
	u64 dentry = dentry_of(inode), parent;
	u32 used = 0;
	long length;

	if (!dentry)
		return 0;
	parent = (u64)DENTRY(dentry, d_parent);
	if (parent != dentry) {
		name_directory(parent);
		used = naming.length;
	} else {
		naming.directory = 0;
	}
	length = bpf_probe_read_kernel_str(&record.names[used & (2 * NAMES_MAX - 1)], NAME_MAX + 1,
					   DENTRY(dentry, d_name.name));
	if (length <= 0)
		return 0;
	record.length = used + length;
	if (parent != dentry) {
		record.flags |= naming.cut ? INODE_CUT : 0;
		return 0;
	}
	/*
	 * No directory is above it: it is a file system's root, which some read as a file; or was opened by its
	 * number, and has no name; or it never had a path, but a label.
	 */
	if (record.names[0] != '/') {
		record.flags |= INODE_LABELLED;
	} else {
		record.names[0] = 0;
		record.length = S_ISDIR(record.mode);
	}
	return 0;
}

/* btrfs gives each subvolume a device of its own, which stat(2) shows and s_dev does not. */
static __always_inline u32 dev_of(u64 inode)
{
	u32 dev = 0;

	if (at.magic == BTRFS_SUPER_MAGIC && bpf_core_type_exists(struct btrfs_inode)) {
		struct btrfs_inode *btrfs =
			(void *)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);

		dev = BPF_CORE_READ(btrfs, root, anon_dev);
	}
	return dev ?: record.super_dev;
}

/* Entries of a tree: a node below, or else a folio, or (odd) what remembers an evicted page. */
static __always_inline bool is_node(u64 entry)
{
	return (entry & 3) == 2 && entry > 4096;
}

/* Flags of a tree from here up are its marks: some page is dirty, or being written. Those of its kind lie below. */
#define MARKS_SHIFT 8

/* The slots of the tree that is looked at. */
static u64 slots[64];

/*
 * Has the inode neither dirty pages, nor pages under writeback, nor entries of evicted ones? cachestat(2) need not be
 * asked then. Entries are counted in the nodes: trees of up to two levels are looked at, 4,096 pages.
 */
static __noinline int is_clean(u64 inode)
{
	u64 entry = (u64)INODE(inode, i_data.i_pages.xa_head), root = entry - 2;
	u32 shift;

	/* cachestat(2) refuses huge pages, and they have no marks */
	if (INODE(inode, i_data.i_pages.xa_flags) >> MARKS_SHIFT || at.magic == HUGETLBFS_MAGIC)
		return 0;
	if (!is_node(entry))
		return !(entry & 1);
	if (NODE(root, nr_values))
		return 0;
	shift = NODE(root, shift);
	if (shift != 6)
		return !shift;
	bpf_probe_read_kernel(slots, sizeof(slots),
			      (void *)(root + bpf_core_field_offset(struct xa_node___census, slots)));
	for (u32 i = 0; i < 64; i++) {
		if (is_node(slots[i]) && NODE(slots[i] - 2, nr_values))
			return 0;
	}
	return 1;
}

/* Sends the record of an inode; false: the ring is full. */
static __noinline int send(u64 inode, u64 pages)
{
	u32 used;

	record.address = inode;
	record.pages = pages;
	record.mode = INODE(inode, i_mode);
	if (S_ISBLK(record.mode)) {
		record.id.dev = INODE(inode, i_rdev);
		record.id.inode = 0;
		record.id.generation = 0;
	} else {
		record.id.dev = dev_of(inode);
		record.id.inode = INODE(inode, i_ino);
		record.id.generation = INODE(inode, i_generation);
	}
	record.size = INODE(inode, i_size);
	record.links = INODE(inode, i_nlink);
	record.references = INODE(inode, i_count.counter);
	record.flags = 0;
	if (INODE(inode, i_data.i_mmap.rb_root.rb_node))
		record.flags |= INODE_MAPPED;
	if (INODE(inode, i_writecount.counter) > 0)
		record.flags |= INODE_WRITERS;
	if (is_clean(inode))
		record.flags |= INODE_CLEAN;
	record.length = 0;
	if (census.names)
		name(inode);
	if (!record.links && !(record.flags & INODE_LABELLED))
		record.flags |= INODE_DELETED;
	used = record.length & (2 * NAMES_MAX - 1);
	return !bpf_ringbuf_output(&ring, &record, __builtin_offsetof(struct cached_inode, names) + used,
				   BPF_RB_NO_WAKEUP);
}

/* Without pages, but with entries that say which ones reclaim took. tmpfs has its swap entries there. */
static __always_inline bool is_evicted(u64 inode)
{
	return INODE(inode, i_data.i_pages.xa_head) && at.magic != TMPFS_MAGIC;
}

/* One inode, or the way to the next super block. */
static long step(u32 i, void *context)
{
	u64 node = at.node, inode = node - I_SB_LIST, next, pages;

	if (!(++at.tick & 31) && bpf_ktime_get_ns() > at.deadline)
		return 1;
	if (!at.super) {
		if (enter_super())
			return 0;
		state = CENSUS_DONE;
		return 1;
	}
	if (node == at.head) {
		at.super = 0;
		return 0;
	}
	/*
	 * The next inode of the list has this one before it, unless one of the two is just being taken off. The next step reads
	 * that line of memory too; i_sb would be in another one.
	 */
	next = is_kernel(node) ? word(node) : 0;
	if (!is_kernel(next) || next == node || word(next + sizeof(next)) != node) {
		census.recoveries++;
		go_back();
		return 0;
	}
	pages = INODE(inode, i_data.nrpages);
	if (pages ? census.cached : census.evicted && is_evicted(inode)) {
		if (!send(inode, pages)) {
			state = CENSUS_FULL;
			return 1;
		}
		at.tick |= 31; /* names take as long as many inodes: look at the clock */
	}
	census.inodes++;
	leave_mark(node);
	at.node = next;
	return 0;
}

/* One run: some of the inodes, from where the run before has stopped. */
SEC("raw_tp")
int walk(void *context)
{
	u64 started = bpf_ktime_get_ns();

	at.deadline = started + census.budget_ns;
	naming.directory = 0; /* it may have been renamed */
	at.tick = 0; /* some steps are made in any case */
	state = CENSUS_MORE;
	if (at.super) {
		if (!is_linked(at.super + S_LIST) || SUPER(at.super, s_dev) != record.super_dev) {
			at.super = 0; /* unmounted meanwhile */
		} else if (at.visited) {
			census.recoveries += go_back() != 0;
		} else {
			at.node = word(at.head);
		}
	}
	bpf_loop(census.budget, step, NULL, 0);
	clock_out(started);
	return state;
}
