/* SPDX-License-Identifier: GPL-2.0 */
/* Pages that the program has passed: what it uses, and from which of its requests it has gone on. */
#ifndef CACHEWISE_SHIELD_PASS_H
#define CACHEWISE_SHIELD_PASS_H

/* Dropped pages are used again: would they still be resident? A file of which many are is not dropped any more. */
__noinline int comes_back(struct shield_file *file, struct shield_block *block, u64 pages)
{
	/* without the shield they would have been evicted in between, by what the program itself inserted */
	if (!file || !block || !file->room || totals.inserted - block->dropped_at > file->room)
		return 0;
	__sync_fetch_and_add(&file->near, pages);
	/* more than single pages, as the index of a database has: a second pass */
	if (file->near >= 64 && file->near * 32 >= file->dropped)
		file->stopped = 1;
	return 1;
}

/* Pages first..=last of a block have been passed; `seen`: an event told of the use. */
__noinline int pass_block(struct shield_block *block, struct shield_key *key, u32 first, u32 last, u32 seen)
{
	/* without branches, of which the verifier would follow each */
	u64 back = 0, fresh = 0, ahead = 0, counted = -(u64)(seen & 1), mapping;
	struct shield_file *file;
	int near;

	if (!block || !key)
		return 0;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, last);

		back += bits(block->gone[i] & mask & counted);
		if (mask)
			fresh += bits(~__sync_fetch_and_or(&block->passed[i], mask) & block->ours[i] & mask);
		ahead |= block->ours[i] & ~block->passed[i];
	}
	if (back) {
		mapping = key->mapping;
		file = bpf_map_lookup_elem(&files, &mapping);
		near = comes_back(file, block, back);
		__sync_fetch_and_add(&totals.returned, back);
		if (near)
			__sync_fetch_and_add(&totals.near, back);
		if (file)
			__sync_fetch_and_add(&file->returned, back);
		for (int i = 0; i < WORDS; i++) {
			u64 mask = mask_of(i, first, last) & block->gone[i];

			if (!mask)
				continue;
			__sync_fetch_and_and(&block->gone[i], ~mask);
			if (near)
				__sync_fetch_and_or(&block->again[i], mask);
		}
	}
	if (!ahead && fresh && !block->queued) {
		block->queued = 1;
		announce(key->mapping, key->block, fresh);
	} else {
		__sync_fetch_and_add(&unannounced, fresh);
	}
	return 0;
}

__noinline int other_block(struct shield_block *block, u32 first, u32 last)
{
	if (!block)
		return 0;
	for (int i = 0; i < WORDS; i++) {
		u64 mask = mask_of(i, first, last);

		if (mask & ~block->other[i])
			__sync_fetch_and_or(&block->other[i], mask);
	}
	return 0;
}

/* Pages of a mapping, block by block. */
struct span {
	u64 mapping, first, last;
	u64 now;    /* of a use by the program that begins; 0: pages that have been passed */
	u32 others; /* a use by others */
	u32 unseen; /* pages that have been passed, and no event told of their use */
	u32 tgid;
};

static long span_step(u64 step, struct span *span)
{
	struct shield_key key = { span->mapping, span->first >> BLOCK_SHIFT };
	struct shield_block *block;
	u32 from = span->first & (BLOCK_PAGES - 1), to;
	u64 end = (key.block << BLOCK_SHIFT) + BLOCK_PAGES - 1;

	if (span->first > span->last)
		return 1;
	to = span->last < end ? span->last & (BLOCK_PAGES - 1) : BLOCK_PAGES - 1;
	block = bpf_map_lookup_elem(&blocks, &key);
	if (block) {
		if (span->others || (config.whole_machine && block->tgid != span->tgid))
			other_block(block, from, to);
		else if (span->now)
			block->touched = span->now;
		else
			pass_block(block, &key, from, to, !span->unseen);
	}
	span->first = end + 1;
	return 0;
}

/* A batch of the kernel has 31 folios. */
#define MAX_BLOCKS 64

__noinline int walk_span(struct span *span)
{
	struct span rest;

	if (!span)
		return 0;
	rest = *span;
	bpf_loop(MAX_BLOCKS, span_step, &rest, 0);
	return 0;
}

/* The task has gone on from its cursor, up to before page `index` if it is in the same request. */
__noinline int leave(struct cursor *cursor, u64 mapping, u64 index, u32 tgid)
{
	struct span span = {};

	if (!cursor || !cursor->mapping)
		return 0;
	span.mapping = cursor->mapping;
	span.first = cursor->index;
	span.last = cursor->last;
	span.tgid = tgid;
	if (mapping == cursor->mapping && index >= cursor->index && index <= cursor->last) {
		if (index == cursor->index)
			return 0;
		span.last = index - 1;
	}
	return walk_span(&span);
}

struct search {
	u64 mapping, index, last;
	u64 found; /* FLIGHTS: none so far */
};

static long search_step(u64 number, struct search *search)
{
	struct flights *all = bpf_task_storage_get(&in_flight, bpf_get_current_task_btf(), 0, 0);
	struct cursor *cursor;

	if (!all)
		return 1;
	cursor = &all->of[number & (FLIGHTS - 1)];
	if (cursor->mapping != search->mapping || cursor->last != search->last || cursor->index > search->index)
		return 0;
	search->found = number;
	return 1;
}

/* The cursor of a request of the current task, which uses io_uring; NULL: it has none. */
static __noinline struct cursor *flight_of(u64 mapping, u64 index, u64 last)
{
	struct search search = { mapping, index, last, FLIGHTS };
	struct flights *all = bpf_task_storage_get(&in_flight, bpf_get_current_task_btf(), 0,
						   is_watched(mapping) ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);

	if (!all)
		return NULL;
	bpf_loop(FLIGHTS, search_step, &search, 0);
	if (search.found >= FLIGHTS)
		search.found = all->next++;
	return &all->of[search.found & (FLIGHTS - 1)];
}

static long leave_flight(u64 number, u32 *tgid)
{
	struct flights *all = bpf_task_storage_get(&in_flight, bpf_get_current_task_btf(), 0, 0);
	struct cursor *cursor;

	if (!all)
		return 1;
	cursor = &all->of[number & (FLIGHTS - 1)];
	leave(cursor, 0, 0, *tgid);
	cursor->mapping = 0;
	return 0;
}

/*
 * The current task reads page `index` of a mapping: it has also read those from where its call began, or from where its
 * cursor ends if that is in the same call (sendfile(2) has many requests).
 */
__noinline int pass_unseen(struct cursor *cursor, u64 mapping, u64 index, u32 tgid)
{
	struct span span = {};
	u64 next = 0;

	if (!cursor)
		return 0;
	if (cursor->mapping == mapping && cursor->index <= index)
		next = cursor->last + 1;
	if (next >= index)
		return 0;
	span.mapping = mapping;
	span.first = first_requested(mapping, index);
	if (span.first < next)
		span.first = next;
	span.last = index - 1;
	span.tgid = tgid;
	span.unseen = 1;
	return span.first < index ? walk_span(&span) : 0;
}

/* The current task uses pages index..=last of a mapping; `reads`: by a read, and not by a fault or a write. */
__noinline int use_pages(u64 mapping, u64 index, u64 last, u32 reads)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct span span = {};
	struct cursor *cursor;

	if (tgid == owner.tgid || last < index)
		return 0;
	if (!is_ours(tgid)) {
		if (!is_watched(mapping))
			return 0;
		span.others = 1;
	} else {
		if (BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), io_uring))
			cursor = flight_of(mapping, index, last);
		else
			cursor = bpf_task_storage_get(&cursors, bpf_get_current_task_btf(), 0,
						      is_watched(mapping) ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
		if (!cursor)
			return 0;
		leave(cursor, mapping, index, tgid);
		if (reads && is_watched(mapping))
			pass_unseen(cursor, mapping, index, tgid);
		cursor->mapping = mapping;
		cursor->index = index;
		cursor->last = last;
		if (!is_watched(mapping))
			return 0;
		span.now = bpf_ktime_get_ns();
		last = index;
	}
	span.mapping = mapping;
	span.first = index;
	span.last = last;
	span.tgid = tgid;
	return walk_span(&span);
}

#endif
