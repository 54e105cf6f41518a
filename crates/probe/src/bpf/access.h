/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Accesses, one by one, for a simulation of memories of other sizes (config.accesses). A sample of them by a hash of
 * blocks of pages, at a rate that user space may lower at any time: `cachewise_curve::Rate` computes the same.
 */
#ifndef CACHEWISE_ACCESS_H
#define CACHEWISE_ACCESS_H

#define ACCESSES_BYTES (8 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ACCESSES_BYTES);
} accesses SEC(".maps");

/*
 * User space writes the first two; the programs count pages that were read, sampled or not, and records that were lost.
 */
enum { SAMPLE_THRESHOLD, SAMPLE_SHIFT, SAMPLE_REQUESTED, SAMPLE_LOST, SAMPLE_NUMBERS };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLE_NUMBERS);
	__type(key, u32);
	__type(value, u64);
} sample SEC(".maps");

#define SAMPLE_ALL (1ULL << 32)

static __always_inline u64 sample_number(u32 number)
{
	u64 *value = bpf_map_lookup_elem(&sample, &number);

	return value ? *value : 0;
}

static __always_inline void add_to_sample(u32 number, u64 more)
{
	u64 *value = bpf_map_lookup_elem(&sample, &number);

	if (value)
		__sync_fetch_and_add(value, more);
}

static __always_inline void send_record(const struct access *record)
{
	u64 waiting = bpf_ringbuf_query(&accesses, BPF_RB_AVAIL_DATA);

	if (bpf_ringbuf_output(&accesses, (void *)record, sizeof(*record),
				waiting < ACCESSES_BYTES / 4 ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP))
		add_to_sample(SAMPLE_LOST, 1);
}

/*
 * A hash of what file_of() would say, which takes more stack: the chain of calls to here is the longest of some
 * programs. The upper half, by which blocks are sampled, is a multiple of the plastic ratio: files with inode numbers in
 * turn, as they are made one after the other, are spread evenly over the sample, and none share it with another.
 */
static __always_inline u64 file_hash(struct inode *inode)
{
	struct super_block *super = READ(inode, i_sb);
	u64 dev = READ(super, s_dev), number = READ(inode, i_ino), hash;

	if (S_ISBLK(READ(inode, i_mode)))
		return READ(inode, i_rdev) * 0xD6E8FEB86659FD93ULL;
	if (READ(super, s_magic) == BTRFS_SUPER_MAGIC && bpf_core_type_exists(struct btrfs_inode)) {
		struct btrfs_inode *b =
			(void *)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);

		dev = PEEK2(b, root, anon_dev);
	}
	hash = (number ^ (u64)READ(inode, i_generation) << 32) * 0x9E3779B97F4A7C15ULL;
	hash = (hash ^ hash >> 32 ^ dev << 32) * 0xD6E8FEB86659FD93ULL;
	return hash >> 32 | (number * 0xC13FA9A9ULL + dev * 0x9E3779B1ULL) << 32;
}

/* Whether a block is in the sample. */
static __always_inline bool in_sample(u64 file, u64 block, u64 threshold)
{
	return (file + block * 0x9E3779B97F4A7C15ULL) >> 32 < threshold;
}

struct sample_walk {
	struct access rest; /* of the access, from the next block on */
	u64 threshold;
	u32 left; /* pages */
	u32 shift;
};

/* Sends the next block of an access if it is in the sample. Without a copy of the record: stack is short here. */
static long sample_step(u64 step, struct sample_walk *walk)
{
	u64 first = walk->rest.first, block = first >> walk->shift;
	u64 pages = ((block + 1) << walk->shift) - first;

	if (!walk->left)
		return 1;
	if (pages > walk->left)
		pages = walk->left;
	walk->left -= pages;
	if (in_sample(walk->rest.file, block, walk->threshold)) {
		walk->rest.pages = pages;
		send_record(&walk->rest);
	}
	walk->rest.first = first + pages;
	walk->rest.flags &= ~ACCESS_CONTINUES;
	return 0;
}

/* The order of the largest folio of a mapping; 0: a page. */
static __always_inline u32 largest_folio_order(struct address_space *of)
{
	u64 flags = READ(of, flags);

	if (bpf_core_enum_value_exists(enum mapping_flags, AS_FOLIO_ORDER_MAX))
		return flags >> bpf_core_enum_value(enum mapping_flags, AS_FOLIO_ORDER_MAX) & 31;
	if (!bpf_core_enum_value_exists(enum mapping_flags___large, AS_LARGE_FOLIO_SUPPORT))
		return 0;
	return flags >> bpf_core_enum_value(enum mapping_flags___large, AS_LARGE_FOLIO_SUPPORT) & 1 ? 9 : 0;
}

/*
 * Notes how the kernel reads ahead for the record's request: by the open file; 0: by the task, it is not known which. A
 * separate function, so that its stack is not added to that of sample_step.
 */
static __noinline int set_reader(struct access *record, u64 mapping, u64 address)
{
	struct address_space *of = PLAIN(address_space, (void *)mapping);
	struct file *file = PLAIN(file, (void *)address);
	struct inode *inode = READ(of, host);
	u64 shift = config.page_shift, pages = (READ(inode, i_size) + (1 << shift) - 1) >> shift, window, io;
	u64 before;

	record->file_pages = pages < ~0U ? pages : ~0U;
	record->flags = largest_folio_order(of);
	window = address ? READ(file, f_ra.ra_pages) : READ(inode, i_sb, s_bdi, ra_pages);
	io = READ(inode, i_sb, s_bdi, io_pages);
	/* as ractl_max_pages() */
	if (record->pages > window && io > window)
		window = record->pages < io ? record->pages : io;
	if (address) {
		before = READ(file, f_ra.prev_pos);
		if (READ(file, f_mode) & FMODE_RANDOM)
			window = 0;
		if (before && before != ~0ULL) {
			if (record->first - (before >> shift) <= 1)
				record->flags |= ACCESS_FOLLOWS;
			if (record->first == (before - 1) >> shift)
				record->flags |= ACCESS_CONTINUES;
		}
	} else {
		address = (u32)bpf_get_current_pid_tgid();
	}
	record->window = window < 0xffff ? window : 0xffff;
	/* a copy by a helper is a number to the verifier, of which a hash may be made */
	bpf_probe_read_kernel(&before, sizeof(before), &address);
	record->reader = mix(before);
	return 0;
}

/*
 * Sends the access to pages first..=last of a mapping, given by its address. Not ONCE: some callers have the address as a
 * number, and some as a pointer, which a function of that kind does not take.
 */
static __noinline int send_access(u64 mapping, u64 first, u64 last, u32 kind, u64 file)
{
	struct address_space *of = PLAIN(address_space, (void *)mapping);
	struct sample_walk walk = {};

	if (last < first || last - first >= ~0U)
		return 0;
	walk.threshold = sample_number(SAMPLE_THRESHOLD);
	walk.shift = sample_number(SAMPLE_SHIFT) & 31;
	walk.rest.file = file_hash(READ(of, host));
	walk.rest.first = first;
	walk.rest.pages = walk.left = last - first + 1;
	walk.rest.kind = kind;
	if (kind == ACCESS_READ || kind == ACCESS_FAULT)
		add_to_sample(SAMPLE_REQUESTED, last - first + 1);
	/* most accesses end here when the sample is small */
	if (first >> walk.shift == last >> walk.shift && !in_sample(walk.rest.file, first >> walk.shift, walk.threshold))
		return 0;
	if (kind == ACCESS_READ || kind == ACCESS_FAULT)
		set_reader(&walk.rest, mapping, file);
	if (walk.threshold >= SAMPLE_ALL) {
		send_record(&walk.rest);
		return 0;
	}
	bpf_loop(1 << 17, sample_step, &walk, 0);
	return 0;
}

/* A search for a page in the tree of a mapping. */
struct tree_walk {
	u64 index, entry;
	u32 levels;
};

/* Goes down a level. An entry that ends in binary 10 is a node, or the number of the slot that has the folio. */
static long tree_step(u64 step, struct tree_walk *walk)
{
	u64 node = walk->entry - 2, slots = node + bpf_core_field_offset(struct xa_node, slots), entry = 0;
	u8 shift = 0;

	if ((walk->entry & 3) != 2 || walk->entry <= 4096)
		return 1;
	bpf_probe_read_kernel(&shift, sizeof(shift), (void *)(node + bpf_core_field_offset(struct xa_node, shift)));
	/* a tree of few levels has no pages beyond */
	if (!step && walk->index >> (shift & 63) >= 64) {
		walk->entry = 0;
		return 1;
	}
	bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(slots + (walk->index >> (shift & 63) & 63) * 8));
	if ((entry & 3) == 2 && entry < 64 << 2)
		bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(slots + (entry >> 2) * 8));
	walk->entry = entry;
	walk->levels++;
	return 0;
}

/*
 * The folio of a page that is in the page cache, by its address; 0: it is not there. As xas_load() searches, with slots of
 * XA_CHUNK_SHIFT 6, and without a lock: the answer is that of a moment. Shadow entries of evicted pages are odd.
 */
static __noinline u64 resident_folio(u64 mapping, u64 index)
{
	struct address_space *of = PLAIN(address_space, (void *)mapping);
	struct tree_walk walk = { index, (u64)READ(of, i_pages.xa_head) };

	bpf_loop(12, tree_step, &walk, 0);
	return walk.entry & 3 || (!walk.levels && index) ? 0 : walk.entry;
}

/* Sends the access to pages first..=last, if user space requested accesses. */
static __always_inline void access_pages(u64 mapping, u64 first, u64 last, u32 kind, u64 file)
{
	if (ACCESSES)
		send_access(mapping, first, last, kind, file);
}

#endif
