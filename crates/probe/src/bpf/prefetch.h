/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fate of pages: inserted ahead and then read or evicted untouched; evicted and inserted again. A bit for
 * each page, 64 pages to an entry.
 */
#ifndef CACHEWISE_PREFETCH_H
#define CACHEWISE_PREFETCH_H

#define CHUNK_SHIFT 6
#define CHUNK_PAGES (1 << CHUNK_SHIFT)
/* The largest folio of the page cache, 512 pages, over chunks that it may not be aligned to. */
#define FOLIO_CHUNKS 9

/* Resident pages that were inserted ahead of any read and that no read has touched. */
struct ahead_key {
	u64 mapping;
	u64 chunk;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); /* 16 GiB, if dense */
	__type(key, struct ahead_key);
	__type(value, u64);
} ahead SEC(".maps");

/* Pages that left the cache, of files with a row. The oldest are dropped: refaults are a lower bound. */
struct gone_key {
	struct file_id file;
	u64 chunk;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768); /* 8 GiB, if dense */
	__type(key, struct gone_key);
	__type(value, u64);
} gone SEC(".maps");

static __always_inline u32 count_bits(u64 x)
{
	x -= (x >> 1) & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (x * 0x0101010101010101ULL) >> 56;
}

/* The bits of pages lo..=hi in the chunk that holds `lo`. */
static __always_inline u64 chunk_bits(u64 lo, u64 hi)
{
	u64 offset = lo & (CHUNK_PAGES - 1), pages = CHUNK_PAGES - offset;

	if (pages > hi - lo + 1)
		pages = hi - lo + 1;
	return ~0ULL >> ((CHUNK_PAGES - pages) & (CHUNK_PAGES - 1)) << offset;
}

struct ahead_range {
	u64 mapping, inode_number, lo, hi, taken;
};

/* First page of lo..=hi in the i-th chunk after that of `lo`; a page beyond hi: none. */
static __always_inline u64 chunk_start(u64 lo, u32 i)
{
	return i ? ((lo >> CHUNK_SHIFT) + i) << CHUNK_SHIFT : lo;
}

/* Notes pages, by their bits, in the chunk of page `lo`. */
static __always_inline void ahead_set_chunk(const struct ahead_range *range, u64 lo, u64 bits)
{
	struct ahead_key key = { range->mapping, lo >> CHUNK_SHIFT };
	u64 old = 0, *entry = bpf_map_lookup_elem(&ahead, &key);

	if (!entry && bpf_map_update_elem(&ahead, &key, &bits, BPF_NOEXIST)) {
		/* full, or another CPU made the entry at this moment */
		entry = bpf_map_lookup_elem(&ahead, &key);
		if (!entry) {
			__sync_fetch_and_add(&lost.prefetch, count_bits(bits));
			return;
		}
	}
	if (entry)
		old = __sync_fetch_and_or(entry, bits);
	__sync_fetch_and_add(watch_of(range->inode_number), count_bits(bits & ~old));
}

static long ahead_set_step(u32 i, void *context)
{
	struct ahead_range *range = context;
	u64 lo = chunk_start(range->lo, i);

	if (lo > range->hi)
		return 1;
	ahead_set_chunk(range, lo, chunk_bits(lo, range->hi));
	return 0;
}

ONCE int ahead_set_range(struct ahead_range *range)
{
	struct ahead_range local; /* a loop's context has to be on the stack */

	if (!range)
		return 0;
	local = *range;
	bpf_loop(FOLIO_CHUNKS, ahead_set_step, &local, 0);
	return 0;
}

/* Takes the noted pages in the chunk of `lo`, which is in the range; returns their bits. */
static __always_inline u64 ahead_take_chunk(struct ahead_range *range, u64 lo)
{
	u64 bits, old, taken, *entry;
	struct ahead_key key = { range->mapping, lo >> CHUNK_SHIFT };

	entry = bpf_map_lookup_elem(&ahead, &key);
	if (!entry)
		return 0;
	bits = chunk_bits(lo, range->hi);
	if (!(*entry & bits))
		return 0;
	old = __sync_fetch_and_and(entry, ~bits);
	if (!(old & ~bits))
		bpf_map_delete_elem(&ahead, &key);
	taken = count_bits(old & bits);
	__sync_fetch_and_sub(watch_of(range->inode_number), taken);
	range->taken += taken;
	return old & bits;
}

static long ahead_take_step(u32 i, void *context)
{
	struct ahead_range *range = context;
	u64 lo = chunk_start(range->lo, i);

	if (lo > range->hi)
		return 1;
	ahead_take_chunk(range, lo);
	return 0;
}

ONCE u64 ahead_take_range(struct ahead_range *range)
{
	struct ahead_range local;

	if (!range)
		return 0;
	local = *range;
	bpf_loop(1 << 14, ahead_take_step, &local, 0); /* a read returns 2 GiB at most */
	return local.taken;
}

/* Notes that pages lo..=hi were inserted ahead. */
static __always_inline void ahead_set(struct address_space *mapping, u64 lo, u64 hi)
{
	struct ahead_range range = { (u64)mapping, READ(mapping, host, i_ino), lo, hi, 0 };

	ahead_set_range(&range);
}

/* Drops pages lo..=hi; returns the number that had been inserted ahead and not touched. */
static __always_inline u64 ahead_take(struct address_space *mapping, u64 lo, u64 hi)
{
	struct ahead_range range = { (u64)mapping, READ(mapping, host, i_ino), lo, hi, 0 };

	return *watch_of(range.inode_number) ? ahead_take_range(&range) : 0;
}

struct gone_range {
	struct file_id file;
	u64 inode_number;
	u64 lo, hi, taken;
	u64 lifetime; /* an address, or a number */
};

static long gone_set_step(u32 i, void *context)
{
	struct gone_range *range = context;
	u64 lo = chunk_start(range->lo, i), bits, *entry;
	struct gone_key key = { range->file, lo >> CHUNK_SHIFT };

	if (lo > range->hi)
		return 1;
	bits = chunk_bits(lo, range->hi);
	entry = bpf_map_lookup_elem(&gone, &key);
	if (entry)
		__sync_fetch_and_or(entry, bits);
	else
		bpf_map_update_elem(&gone, &key, &bits, BPF_ANY);
	__sync_fetch_and_add(&gone_watch[watch_slot(range->inode_number)], count_bits(bits));
	return 0;
}

static long gone_take_step(u32 i, void *context)
{
	struct gone_range *range = context;
	u64 lo = chunk_start(range->lo, i), bits, *entry;
	struct gone_key key = { range->file, lo >> CHUNK_SHIFT };

	if (lo > range->hi)
		return 1;
	bits = chunk_bits(lo, range->hi);
	entry = bpf_map_lookup_elem(&gone, &key);
	if (entry && *entry & bits)
		range->taken += count_bits(__sync_fetch_and_and(entry, ~bits) & bits);
	return 0;
}

ONCE int gone_set_range(struct gone_range *range)
{
	struct gone_range local;

	if (!range)
		return 0;
	local = *range;
	local.file.padding = mix(range->lifetime);
	bpf_loop(FOLIO_CHUNKS, gone_set_step, &local, 0);
	return 0;
}

ONCE u64 gone_take_range(struct gone_range *range)
{
	struct gone_range local;

	if (!range)
		return 0;
	local = *range;
	local.file.padding = mix(range->lifetime);
	bpf_loop(FOLIO_CHUNKS, gone_take_step, &local, 0);
	return local.taken;
}

/*
 * A file stays the same while its file system is mounted. After that no page counts as a refault, even if all
 * parts of the id are the same again. The same holds for a device that gets other data.
 */
static __always_inline void set_lifetime(struct gone_range *range, struct inode *inode)
{
	struct bdev_inode *device = (void *)inode - bpf_core_field_offset(struct bdev_inode, vfs_inode);

	if (S_ISBLK(READ(inode, i_mode))) {
		range->lifetime = sequence_of(&device->bdev);
		return;
	}
	range->lifetime = (u64)READ(inode, i_sb, s_root);
}

/* Notes that pages lo..=hi have left the cache. */
static __always_inline void gone_set(struct inode *inode, struct file_id *file, u64 lo, u64 hi)
{
	struct gone_range range = { *file, READ(inode, i_ino), lo, hi, 0 };

	set_lifetime(&range, inode);

	gone_set_range(&range);
}

/* The number of pages lo..=hi that had left the cache, and are in it again. */
static __always_inline u64 gone_take(struct inode *inode, struct file_id *file, u64 lo, u64 hi)
{
	struct gone_range range = { *file, READ(inode, i_ino), lo, hi, 0 };

	/* never decremented: the table drops the oldest silently */
	if (!gone_watch[watch_slot(range.inode_number)])
		return 0;
	set_lifetime(&range, inode);
	return gone_take_range(&range);
}

#endif
