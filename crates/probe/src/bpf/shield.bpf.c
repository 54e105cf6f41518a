// SPDX-License-Identifier: GPL-2.0
/*
 * The shield: the pages of files that a program inserted, those of them that it has passed, and uses by others. User space
 * has each block of a file decided (`decide`), and drops the pages with posix_fadvise(2).
 *
 * Nothing is noted of a page that was resident before: a bit in `ours` comes from the insertion of the page by a task of
 * the program, and goes when the page leaves the cache. If a table is full, or an event is lost, a page is not noted, and
 * so is never dropped.
 *
 * A task's latest access is a cursor: the kernel's event names the range that is requested, of which the pages before
 * the next event's range have been copied. So pages are passed when the task goes on, and the page in which it stops is
 * not dropped from under it. Of pages that no event tells of: shield_request.h.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "shield.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct shield_config config = {};

struct shield_totals totals = {};
struct shield_request request = {};
struct shield_answer answer = {};

/* The answer of `look`. */
struct {
	u64 blocks;   /* of the table */
	u64 resident; /* records that follow */
	struct shield_looked of[LOOKED];
} looked = {};

/* The process that the shield runs in, as in identity.h. */
struct {
	u64 namespace;
	u32 level, tgid;
} owner = {};

/* As in maps.h: a bit for each thread group. */
#define PID_WORDS (1 << 16)
u64 followed[PID_WORDS] = {};

/* Mappings that have an entry, by a hash of their address: all others are none of ours. */
#define WATCH_BITS 14
u32 watch[1 << WATCH_BITS] = {};

u32 epochs = 0;
u64 unannounced = 0; /* pages passed since user space was woken */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct shield_file);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct shield_key);
	__type(value, struct shield_block);
} blocks SEC(".maps");

/* Blocks that the program has gone through, in turn. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} ring SEC(".maps");

/* The latest access of a task. */
struct cursor {
	u64 mapping, index, last;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cursor);
} cursors SEC(".maps");

/*
 * The latest requests of a task that uses io_uring. The kernel tries each at once, and again when its pages have been read:
 * the task has not gone on from one because the next begins, but from the oldest when there are more than could be in flight.
 */
#define FLIGHTS 32

struct flights {
	struct cursor of[FLIGHTS];
	u64 next;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flights);
} in_flight SEC(".maps");

enum pageflags___shield {
	PG_locked = 1,
	PG_dirty,
	PG_writeback,
	PG_unevictable,
	PG_mlocked,
	PG_private,
	PG_private_2,
};
struct folio___counted {
	struct {
		int counter;
	} _mapcount, _refcount, _large_mapcount;
} CORE;

#define FLAG(name) (1ULL << bpf_core_enum_value(enum pageflags, name))
#define FLAG_OF(name) (1ULL << bpf_core_enum_value(enum pageflags___shield, name))
#define FUSE_SUPER_MAGIC 0x65735546

#define GET(type, from, ...)                                                                       \
	({                                                                                         \
		u64 address_ = (from);                                                             \
		BPF_CORE_READ((type *)address_, __VA_ARGS__);                                      \
	})

static __always_inline u64 word(u64 address)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline u32 watch_slot(u64 mapping)
{
	return (mapping * 0x9E3779B97F4A7C15ULL) >> (64 - WATCH_BITS);
}

static __always_inline bool is_watched(u64 mapping)
{
	return watch[watch_slot(mapping) & ((1 << WATCH_BITS) - 1)] != 0;
}

static __always_inline u64 bits(u64 x)
{
	x -= x >> 1 & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);
	return ((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * 0x0101010101010101ULL >> 56;
}

/* The bits below `end` of a block that lie in a word; without branches, of which the verifier would follow each. */
static __always_inline u64 below(u32 in, u32 end)
{
	s64 bit = (s64)end - in * 64;

	return (((1ULL << (bit & 63)) - 1) | (u64)((63 - bit) >> 63)) & ~(u64)(bit >> 63);
}

/* The bits of pages first..=last of a block that lie in a word. */
static __always_inline u64 mask_of(u32 in, u32 first, u32 last)
{
	return below(in, last + 1) & ~below(in, first);
}

#include "shield_scope.h"

static __always_inline u32 folio_pages(u64 folio, u64 flags)
{
	if (!(flags & FLAG(PG_head)))
		return 1;
	if (bpf_core_field_exists(struct folio___sized, _nr_pages))
		return GET(struct folio___sized, folio, _nr_pages);
	if (bpf_core_field_exists(struct folio___sized, _folio_nr_pages))
		return GET(struct folio___sized, folio, _folio_nr_pages);
	return 1u << (GET(struct folio, folio, _flags_1) & 0xff);
}

/* User space is woken when programs have passed this much since: 2 MiB with pages of 4 KiB. */
#define WAKE_PAGES 512

/* Has user space look at a block. */
static __always_inline void announce(u64 mapping, u64 number, u64 pages)
{
	struct shield_key key = { mapping, number };
	u64 flags = BPF_RB_NO_WAKEUP;

	if (__sync_fetch_and_add(&unannounced, pages) + pages >= WAKE_PAGES) {
		unannounced = 0;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	if (bpf_ringbuf_output(&ring, &key, sizeof(key), flags))
		__sync_fetch_and_add(&totals.lost, 1);
}

#include "arch.h"
#include "shield_request.h"
#include "shield_pass.h"

SEC("raw_tp/mm_filemap_get_pages")
int BPF_PROG(on_get_pages, u64 mapping, u64 index, u64 last)
{
	return use_pages(mapping, index, last, true);
}

SEC("raw_tp/mm_filemap_map_pages")
int BPF_PROG(on_map_pages, u64 mapping, u64 first, u64 last)
{
	return use_pages(mapping, first, last, false);
}

SEC("raw_tp/mm_filemap_fault")
int BPF_PROG(on_fault, u64 mapping, u64 index)
{
	return use_pages(mapping, index, index, false);
}

/* The entry of a file; NULL: it is none whose pages are noted. */
static __noinline struct shield_file *file_of(u64 mapping, u64 inode, u32 tgid)
{
	struct shield_file *file = bpf_map_lookup_elem(&files, &mapping), fresh = {};

	fresh.inode = GET(struct inode, inode, i_ino);
	fresh.generation = GET(struct inode, inode, i_generation);
	fresh.device = GET(struct inode, inode, i_sb, s_dev);
	if (file && file->inode == fresh.inode && file->generation == fresh.generation &&
	    file->device == fresh.device)
		return file;
	fresh.magic = GET(struct inode, inode, i_sb, s_magic);
	fresh.epoch = __sync_fetch_and_add(&epochs, 1) + 1;
	fresh.tgid = tgid;
	fresh.pid = seen_pid((struct task_struct *)bpf_get_current_task());
	if (!file)
		__sync_fetch_and_add(&watch[watch_slot(mapping) & ((1 << WATCH_BITS) - 1)], 1);
	if (bpf_map_update_elem(&files, &mapping, &fresh, BPF_ANY)) {
		if (!file)
			__sync_fetch_and_sub(&watch[watch_slot(mapping) & ((1 << WATCH_BITS) - 1)], 1);
		return NULL;
	}
	return bpf_map_lookup_elem(&files, &mapping);
}

static __noinline struct shield_block *block_of(struct shield_key *key, u32 epoch, u32 tgid)
{
	static const struct shield_block empty;
	struct shield_block *block = bpf_map_lookup_elem(&blocks, key);

	if (block && block->epoch == epoch)
		return block;
	/* of an earlier file at the same address, all of whose pages have left the cache */
	bpf_map_update_elem(&blocks, key, &empty, BPF_ANY);
	block = bpf_map_lookup_elem(&blocks, key);
	if (!block)
		return NULL;
	block->epoch = epoch;
	block->tgid = tgid;
	return block;
}

/* A folio comes in that is not the program's. */
static __always_inline int others_insert(u64 mapping, u64 index, u32 pages)
{
	struct shield_key key = { mapping, index >> BLOCK_SHIFT };
	struct shield_block *block = bpf_map_lookup_elem(&blocks, &key);
	u32 first = index & (BLOCK_PAGES - 1), last = first + pages - 1;
	u64 needed = 0;

	if (!block)
		return 0;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, last), gone = block->gone[i] & mask;

		if (gone) {
			needed += bits(gone);
			__sync_fetch_and_and(&block->gone[i], ~mask);
		}
	}
	if (needed) {
		__sync_fetch_and_add(&totals.needed, needed);
		comes_back(bpf_map_lookup_elem(&files, &mapping), block, needed);
	}
	return 0;
}

SEC("raw_tp/mm_filemap_add_to_page_cache")
int BPF_PROG(on_insert, u64 folio)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, pages, first, last;
	u64 mapping, index, inode, flags, held = 0;
	struct shield_block *block;
	struct shield_file *file;
	struct shield_key key = {};
	bool ours = is_ours(tgid);

	mapping = (u64)GET(struct folio, folio, mapping);
	if (!ours && !is_watched(mapping))
		return 0;
	index = GET(struct folio, folio, index);
	flags = word(folio);
	pages = folio_pages(folio, flags);
	if (!pages || pages > BLOCK_PAGES)
		return 0;
	if (!ours)
		return others_insert(mapping, index, pages);
	if (flags & FLAG(PG_swapbacked))
		return 0;
	inode = (u64)GET(struct address_space, mapping, host);
	if (!S_ISREG(GET(struct inode, inode, i_mode)))
		return 0;
	__sync_fetch_and_add(&totals.inserted, pages);
	if (GET(struct inode, inode, i_sb, s_magic) == FUSE_SUPER_MAGIC) {
		__sync_fetch_and_add(&totals.never_open, pages);
		return 0;
	}
	file = file_of(mapping, inode, tgid);
	if (!file)
		goto untracked;
	file->inserted += pages;
	if (config.whole_machine) {
		file->run = file->next == index && file->tgid == tgid ? file->run + pages : pages;
		file->tgid = tgid;
		file->next = index + pages;
		if (file->run < config.stream_pages)
			return 0;
	}
	key.mapping = mapping;
	key.block = index >> BLOCK_SHIFT;
	block = block_of(&key, file->epoch, tgid);
	if (!block)
		goto untracked;
	if (config.whole_machine && block->tgid != tgid) {
		others_insert(mapping, index, pages);
		for (int i = 0; i < WORDS; i++)
			held |= block->ours[i];
		if (held)
			return 0;
		block->tgid = tgid;
	}
	first = index & (BLOCK_PAGES - 1);
	last = first + pages - 1;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, last);

		if (!mask)
			continue;
		__sync_fetch_and_and(&block->passed[i], ~mask);
		__sync_fetch_and_and(&block->other[i], ~mask);
		__sync_fetch_and_and(&block->written[i], ~mask);
		__sync_fetch_and_or(&block->ours[i], mask);
	}
	block->queued = 0;
	__sync_fetch_and_add(&totals.noted, pages);
	return 0;
untracked:
	__sync_fetch_and_add(&totals.untracked, pages);
	return 0;
}

/* A folio of a file whose pages are not noted leaves the cache: for the memory of the program, if that is reclaimed. */
static __noinline int evicts_others(u64 folio)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u64 flags;

	if (config.whole_machine || !(BPF_CORE_READ(task, flags) & PF_MEMALLOC) ||
	    !is_ours(bpf_get_current_pid_tgid() >> 32))
		return 0;
	flags = word(folio);
	if (!(flags & FLAG(PG_swapbacked)))
		__sync_fetch_and_add(&totals.evicted, folio_pages(folio, flags));
	return 0;
}

SEC("raw_tp/mm_filemap_delete_from_page_cache")
int BPF_PROG(on_delete, u64 folio)
{
	u64 mapping = (u64)GET(struct folio, folio, mapping), index, gone = 0;
	bool by_shield = bpf_get_current_pid_tgid() >> 32 == owner.tgid;
	struct shield_key key = { mapping };
	struct shield_block *block;
	struct shield_file *file;
	u32 pages, first, last;

	if (!is_watched(mapping)) {
		evicts_others(folio);
		return 0;
	}
	index = GET(struct folio, folio, index);
	pages = folio_pages(folio, word(folio));
	key.block = index >> BLOCK_SHIFT;
	block = bpf_map_lookup_elem(&blocks, &key);
	if (!block || !pages || pages > BLOCK_PAGES)
		return 0;
	first = index & (BLOCK_PAGES - 1);
	last = first + pages - 1;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, last), ours;

		if (!mask)
			continue;
		ours = __sync_fetch_and_and(&block->ours[i], ~mask) & mask;
		__sync_fetch_and_and(&block->other[i], ~mask);
		__sync_fetch_and_and(&block->written[i], ~mask);
		gone += bits(ours);
		if (by_shield && ours)
			__sync_fetch_and_or(&block->gone[i], ours);
	}
	if (!gone)
		return 0;
	if (!by_shield) {
		__sync_fetch_and_add(&totals.left, gone);
		return 0;
	}
	block->dropped_at = totals.inserted;
	__sync_fetch_and_add(&totals.dropped, gone);
	file = bpf_map_lookup_elem(&files, &mapping);
	if (file)
		__sync_fetch_and_add(&file->dropped, gone);
	return 0;
}

/* A page of a file becomes dirty. */
SEC("raw_tp/writeback_dirty_folio")
int BPF_PROG(on_dirty, u64 folio, u64 mapping)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, pages, first, last;
	struct shield_key key = { mapping };
	struct shield_block *block;
	u64 index;

	if (!mapping || !is_watched(mapping) || tgid == owner.tgid)
		return 0;
	index = GET(struct folio, folio, index);
	pages = folio_pages(folio, word(folio));
	if (!pages || pages > BLOCK_PAGES)
		return 0;
	if (is_ours(tgid)) {
		key.block = index >> BLOCK_SHIFT;
		block = bpf_map_lookup_elem(&blocks, &key);
		if (!block)
			return 0;
		first = index & (BLOCK_PAGES - 1);
		last = first + pages - 1;
		for (int i = 0; i < WORDS; i++) {
			u64 mask = mask_of(i, first, last);

			if (mask)
				__sync_fetch_and_or(&block->written[i], mask);
		}
	}
	return use_pages(mapping, index, index + pages - 1, false);
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(on_fork, u64 parent, u64 child)
{
	u32 of_parent = GET(struct task_struct, parent, tgid), of_child = GET(struct task_struct, child, tgid);

	if (of_child != of_parent)
		follow(of_child, is_followed(of_parent) || (config.children && of_parent == owner.tgid));
	return 0;
}

SEC("raw_tp/sched_process_exit")
int BPF_PROG(on_exit)
{
	struct cursor *cursor;
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!is_ours(tgid))
		return 0;
	bpf_loop(FLIGHTS, leave_flight, &tgid, 0);
	cursor = bpf_task_storage_get(&cursors, bpf_get_current_task_btf(), 0, 0);
	if (!cursor)
		return 0;
	leave(cursor, 0, 0, tgid);
	cursor->mapping = 0;
	return 0;
}

/* Run once by the owner itself. */
SEC("raw_tp")
int meet_owner(void *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);

	owner.tgid = BPF_CORE_READ(task, tgid);
	owner.level = BPF_CORE_READ(pid, level);
	owner.namespace = (u64)GET(struct upid,
				   (u64)pid + bpf_core_field_offset(struct pid, numbers) +
					   owner.level * bpf_core_type_size(struct upid),
				   ns);
	return 0;
}

/* Follow this process, by the owner's id for it, and those under it. */
u32 walk_root = 0;

SEC("iter/task")
int walk(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task, *ancestor = task;

	if (!task || !walk_root)
		return 0;
	for (int depth = 0; depth < 64 && ancestor; depth++) {
		if (seen_pid(ancestor) == walk_root) {
			follow(BPF_CORE_READ(task, tgid), true);
			return 0;
		}
		if (!BPF_CORE_READ(ancestor, pid))
			break;
		ancestor = BPF_CORE_READ(ancestor, real_parent);
	}
	return 0;
}

/* Does request.fd of this process lead to request.mapping? */
SEC("raw_tp")
int is_same(void *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	u64 file;

	if (request.fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	file = word((u64)BPF_CORE_READ(table, fd) + request.fd * 8ULL);
	return file && (u64)GET(struct file, file, f_mapping) == request.mapping;
}

/* Forgets the file request.mapping. */
SEC("raw_tp")
int forget(void *context)
{
	u64 mapping = request.mapping;

	if (!bpf_map_delete_elem(&files, &mapping))
		__sync_fetch_and_sub(&watch[watch_slot(mapping) & ((1 << WATCH_BITS) - 1)], 1);
	return 0;
}

/* Says how many pages would stay in memory at most, for the file request.mapping. */
SEC("raw_tp")
int set_room(void *context)
{
	u64 mapping = request.mapping;
	struct shield_file *file = bpf_map_lookup_elem(&files, &mapping);

	if (file)
		file->room = request.room;
	return 0;
}

#include "shield_decide.h"
