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

/* User space writes the first; the programs count pages that were read, sampled or not, and records that were lost. */
enum { SAMPLE_THRESHOLD, SAMPLE_REQUESTED, SAMPLE_LOST, SAMPLE_NUMBERS };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLE_NUMBERS);
	__type(key, u32);
	__type(value, u64);
} sample SEC(".maps");

#define BLOCK_SHIFT 3
#define SAMPLE_ALL (1ULL << 32)

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

struct sample_walk {
	struct access rest; /* of the access, from the next block on */
	u64 last, threshold;
};

/* Sends the next block of an access if it is in the sample. */
static long sample_step(u64 step, struct sample_walk *walk)
{
	struct access record = walk->rest;
	u64 block = record.first >> BLOCK_SHIFT, last = (block << BLOCK_SHIFT) + (1 << BLOCK_SHIFT) - 1, hash;

	if (record.first > walk->last)
		return 1;
	if (last > walk->last)
		last = walk->last;
	walk->rest.first = last + 1;
	hash = record.file + block * 0x9E3779B97F4A7C15ULL;
	hash ^= hash >> 32;
	hash *= 0xD6E8FEB86659FD93ULL;
	hash ^= hash >> 32;
	if ((u32)hash >= walk->threshold)
		return 0;
	record.pages = last - record.first + 1;
	send_record(&record);
	return 0;
}

/*
 * A hash of what file_of() would say, which takes more stack: the chain of calls to here is the longest of some
 * programs.
 */
static __always_inline u64 file_hash(struct inode *inode)
{
	struct super_block *super = READ(inode, i_sb);
	u64 dev = READ(super, s_dev), hash;

	if (S_ISBLK(READ(inode, i_mode)))
		return READ(inode, i_rdev) * 0xD6E8FEB86659FD93ULL;
	if (READ(super, s_magic) == BTRFS_SUPER_MAGIC && bpf_core_type_exists(struct btrfs_inode)) {
		struct btrfs_inode *b =
			(void *)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);

		dev = PEEK2(b, root, anon_dev);
	}
	hash = (READ(inode, i_ino) ^ (u64)READ(inode, i_generation) << 32) * 0x9E3779B97F4A7C15ULL;
	return (hash ^ hash >> 32 ^ dev << 32) * 0xD6E8FEB86659FD93ULL;
}

/*
 * Sends the access to pages first..=last of a mapping, given by its address. Not ONCE: some callers have the address as a
 * number, and some as a pointer, which a function of that kind does not take.
 */
static __noinline int send_access(u64 mapping, u64 first, u64 last, u32 kind)
{
	struct address_space *of = PLAIN(address_space, (void *)mapping);
	struct sample_walk walk = {};
	u32 threshold_at = SAMPLE_THRESHOLD;
	u64 *threshold;

	if (last < first || last - first > ~0U)
		return 0;
	threshold = bpf_map_lookup_elem(&sample, &threshold_at);
	if (!threshold)
		return 0;
	if (kind == ACCESS_READ)
		add_to_sample(SAMPLE_REQUESTED, last - first + 1);
	walk.threshold = *threshold;
	walk.last = last;
	walk.rest.file = file_hash(READ(of, host));
	walk.rest.first = first;
	walk.rest.pages = last - first + 1;
	walk.rest.kind = kind;
	if (walk.threshold >= SAMPLE_ALL) {
		send_record(&walk.rest);
		return 0;
	}
	bpf_loop(1 << 17, sample_step, &walk, 0);
	return 0;
}

/* As above, if user space requested accesses. */
static __always_inline void access_pages(u64 mapping, u64 first, u64 last, u32 kind)
{
	if (config.accesses)
		send_access(mapping, first, last, kind);
}

#endif
