/* SPDX-License-Identifier: GPL-2.0 */
/* Decisions on blocks: user space runs `decide` for each block that the program has passed. */
#ifndef CACHEWISE_SHIELD_DECIDE_H
#define CACHEWISE_SHIELD_DECIDE_H

/* The folios of a block, one after the other. Only one run at a time uses it. */
static struct {
	u64 leaf[64];
	u64 of; /* the index of the leaf's first page, or ~0 */
	u64 head[8];
	u64 candidates[WORDS];
	u32 stopped;
	u32 position;
} at;

/* Loads the leaf that has page `index`; or returns the folio that is larger than a leaf, or 0. */
static __noinline u64 load_leaf(u64 index)
{
	u64 entry = (u64)GET(struct address_space, request.mapping, i_pages.xa_head), node, slots;
	u8 shift = 0;

	at.of = ~0ULL;
	for (int level = 0; level < 8; level++) {
		if ((entry & 3) != 2 || entry <= 4096)
			return entry & 3 || (!level && index) ? 0 : entry;
		node = entry - 2;
		slots = node + bpf_core_field_offset(struct xa_node, slots);
		shift = GET(struct xa_node, node, shift);
		if (!level && index >> (shift & 63) >= 64)
			return 0;
		if (!shift) {
			if (!bpf_probe_read_kernel(at.leaf, sizeof(at.leaf), (void *)slots))
				at.of = index & ~63ULL;
			return 0;
		}
		entry = word(slots + (index >> (shift & 63) & 63) * 8);
		if ((entry & 3) == 2 && entry < 64 << 2)
			entry = word(slots + (entry >> 2) * 8);
	}
	return 0;
}

static __always_inline u64 leaf_slot(u64 slot)
{
	slot &= 63;
	barrier_var(slot);
	return slot < 64 ? at.leaf[slot] : 0;
}

static __always_inline u64 head_word(u64 offset)
{
	return *(u64 *)((void *)at.head + (offset & 56));
}

static __always_inline int head_int(u64 offset)
{
	return *(int *)((void *)at.head + (offset & 60));
}

/* The reason for which the folio whose head was read stays; KEPT_REASONS: none. */
static __always_inline u32 reason_of_state(u64 folio, u64 flags, u32 pages, bool written)
{
	u64 held = pages;
	int mapped;

	if (flags & FLAG_OF(PG_dirty))
		return KEPT_DIRTY;
	if (flags & FLAG_OF(PG_writeback))
		return KEPT_WRITEBACK;
	if (flags & FLAG_OF(PG_locked))
		return KEPT_LOCKED;
	if (flags & FLAG_OF(PG_mlocked) || flags & FLAG_OF(PG_unevictable))
		return KEPT_MLOCKED;
	if (flags & (FLAG_OF(PG_private) | FLAG_OF(PG_private_2)))
		held++;
	if ((u32)head_int(bpf_core_field_offset(struct folio___counted, _refcount)) <= held)
		return KEPT_REASONS;
	if (pages == 1)
		mapped = head_int(bpf_core_field_offset(struct folio___counted, _mapcount));
	else if (bpf_core_field_exists(struct folio___counted, _large_mapcount))
		mapped = GET(struct folio___counted, folio, _large_mapcount.counter);
	else
		mapped = -1;
	return mapped >= 0 ? KEPT_MAPPED : KEPT_IN_USE;
}

static long folio_step(u64 step, u64 *unused)
{
	struct shield_key key = { request.mapping, request.block };
	u32 position = at.position, first, pages, reason = KEPT_REASONS;
	u64 index = (request.block << BLOCK_SHIFT) + position, folio, flags, start;
	u64 ours = 0, missing = 0, other = 0, again = 0, ahead = 0, written = 0;
	struct shield_block *block;

	if (position >= BLOCK_PAGES)
		return 1;
	/* nothing of ours in this word */
	if (!(at.candidates[position >> 6 & (WORDS - 1)] >> (position & 63))) {
		at.position = (position | 63) + 1;
		return 0;
	}
	at.position = position + 1;
	folio = 0;
	if ((index & ~63ULL) != at.of)
		folio = load_leaf(index);
	if ((index & ~63ULL) == at.of) {
		folio = leaf_slot(index);
		/* a slot of a large folio names the slot that has its address */
		if ((folio & 3) == 2 && folio < 64 << 2)
			folio = leaf_slot(folio >> 2);
	}
	if (!folio || folio & 3)
		return 0;
	if (bpf_probe_read_kernel(at.head, sizeof(at.head), (void *)folio))
		return 0;
	flags = at.head[0];
	pages = folio_pages(folio, flags);
	start = head_word(bpf_core_field_offset(struct folio, index));
	/* freed meanwhile, or another folio */
	if (head_word(bpf_core_field_offset(struct folio, mapping)) != request.mapping || !pages ||
	    pages > BLOCK_PAGES || index < start || index - start >= pages || start & (pages - 1))
		return 0;
	first = start & (BLOCK_PAGES - 1);
	at.position = first + pages;
	block = bpf_map_lookup_elem(&blocks, &key);
	if (!block)
		return 1;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, first + pages - 1), here = block->ours[i] & mask;

		ours += bits(here);
		missing |= mask & ~here;
		other |= block->other[i] & mask;
		again |= block->again[i] & mask;
		ahead |= mask & ~block->passed[i];
		written |= block->written[i] & mask;
	}
	if (!ours)
		return 0;
	answer.ours += ours;
	if (missing)
		reason = KEPT_MIXED;
	else if (other)
		reason = KEPT_OTHER;
	else if (again || at.stopped)
		reason = KEPT_AGAIN;
	else if (ahead && !request.ahead)
		reason = KEPT_AHEAD;
	else if (written && !request.writes)
		reason = KEPT_WRITTEN;
	else
		reason = reason_of_state(folio, flags, pages, written);
	if (reason == KEPT_IN_USE && request.held)
		reason = KEPT_REASONS;
	if (ahead)
		answer.unpassed += ours;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, first + pages - 1);

		if (reason == KEPT_REASONS)
			answer.drop[i] |= mask;
		else if (reason == KEPT_DIRTY && written)
			answer.write[i] |= mask;
	}
	if (reason < KEPT_REASONS)
		answer.kept[reason] += ours;
	return 0;
}

/* Says of the block in `request` which folios are to be dropped, in `answer`. */
SEC("raw_tp")
int decide(void *context)
{
	struct shield_key key = { request.mapping, request.block };
	struct shield_block *block;
	struct shield_file *file;
	u64 mapping = request.mapping, inode;

	__builtin_memset(&answer, 0, sizeof(answer));
	answer.state = NO_BLOCK;
	block = bpf_map_lookup_elem(&blocks, &key);
	if (!block)
		return 0;
	block->queued = 0;
	answer.touched = block->touched;
	answer.dropped_at = block->dropped_at;
	answer.state = OTHER_FILE;
	for (int i = 0; i < WORDS; i++)
		answer.has_gone |= block->gone[i] != 0;
	file = bpf_map_lookup_elem(&files, &mapping);
	if (!file || file->epoch != block->epoch)
		return 0;
	inode = (u64)GET(struct address_space, mapping, host);
	if (GET(struct inode, inode, i_ino) != file->inode || GET(struct inode, inode, i_generation) != file->generation)
		return 0;
	answer.state = DECIDED;
	answer.stopped = at.stopped = file->stopped;
	for (int i = 0; i < WORDS; i++)
		at.candidates[i] = block->ours[i];
	at.position = 0;
	at.of = ~0ULL;
	bpf_loop(BLOCK_PAGES + 1, folio_step, NULL, 0);
	return 0;
}

/* Adds a block to the answer of `look`. */
static long look_step(void *map, struct shield_key *key, struct shield_block *block, void *unused)
{
	u32 ours = 0, passed = 0;
	u64 place = looked.resident;

	looked.blocks++;
	for (int i = 0; i < WORDS; i++) {
		ours += bits(block->ours[i]);
		passed += bits(block->ours[i] & block->passed[i]);
	}
	if (!ours)
		return 0;
	if (place >= LOOKED)
		return 1;
	looked.of[place].mapping = key->mapping;
	looked.of[place].block = key->block;
	looked.of[place].touched = block->touched;
	looked.of[place].ours = ours;
	looked.of[place].passed = passed;
	looked.resident = place + 1;
	return 0;
}

/* Lists the blocks with resident pages, in `looked`. */
SEC("raw_tp")
int look(void *context)
{
	looked.blocks = 0;
	looked.resident = 0;
	bpf_for_each_map_elem(&blocks, look_step, NULL, 0);
	return 0;
}

#endif
