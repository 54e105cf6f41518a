/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that come twice for one read: memory is short, and what was there or on its way when the read began
 * is thrown out before the read gets to it. It is one page that was asked for, and one miss.
 *
 * Not told apart, and counted each time that they come: pages of splice(2), of io_submit(2) and of io_uring's
 * workers, whose requests have no number, and those that the call brought in more than SET_CHUNKS chunks before.
 * Of those that had been brought in ahead, the ones behind a read's first SET_CHUNKS stay first uses.
 */
#ifndef CACHEWISE_AGAIN_H
#define CACHEWISE_AGAIN_H

static __always_inline void set_clear(struct page_set *set)
{
	set->call.mapping = 0;
	__builtin_memset(set->chunks, 0xff, sizeof(set->chunks)); /* no chunk's number */
}

/* How many of pages lo..=hi were in the set. From now on all of them are (`in`), or none. */
ONCE u64 set_pages(struct page_set *set, u64 lo, u64 hi, bool in)
{
	u64 found = 0;

	if (!set)
		return 0;
	for (u32 i = 0; i < FOLIO_CHUNKS; i++) {
		u64 from = chunk_start(lo, i), chunk = from >> CHUNK_SHIFT, count, bits;
		u32 at = chunk & (SET_CHUNKS - 1);

		if (from > hi)
			break;
		bits = chunk_bits(from, hi, &count);
		if (set->chunks[at] == chunk) {
			found += count_bits(set->bits[at] & bits);
		} else if (in) {
			set->chunks[at] = chunk;
			set->bits[at] = 0;
		} else {
			continue;
		}
		if (in)
			set->bits[at] |= bits;
		else
			set->bits[at] &= ~bits;
	}
	return found;
}

/* As ahead_range, with what is found noted as used. */
struct use {
	struct ahead_range range;
	struct page_set *used;
};

static long use_step(u32 i, void *context)
{
	struct use *use = context;
	u64 lo = chunk_start(use->range.lo, i), bits, chunk = lo >> CHUNK_SHIFT;
	u32 at = chunk & (SET_CHUNKS - 1);

	if (lo > use->range.hi)
		return 1;
	bits = ahead_take_chunk(&use->range, lo);
	/* the first ones: those that it gets to last are too many to be kept */
	if (bits && i < SET_CHUNKS) {
		use->used->chunks[at] = chunk;
		use->used->bits[at] = bits;
	}
	return 0;
}

/*
 * As ahead_take, for the read that is being counted; what it finds is in `state->used`. Whose call that is, the
 * caller says, if it was not over.
 */
ONCE u64 ahead_use(struct task_state *state)
{
	struct address_space *mapping;
	struct use use = {};

	if (!state)
		return 0;
	mapping = PLAIN(address_space, (void *)state->counting.mapping);
	use.range.mapping = state->counting.mapping;
	use.range.inode_number = READ(mapping, host, i_ino);
	use.range.lo = state->counting.start;
	use.range.hi = state->counting.end;
	use.used = &state->used;
	state->used.call.mapping = 0;
	if (!*watch_of(use.range.inode_number))
		return 0;
	set_clear(&state->used);
	bpf_loop(1 << 14, use_step, &use, 0); /* a read returns 2 GiB at most */
	return use.range.taken;
}

/* Is a call of the number `nr` told from the next one: by the task's count of reads, or by its epoch? */
static __always_inline bool is_numbered(struct task_struct *task, u32 nr)
{
	if (call_kind(nr) & (CALL_READ | CALL_CHUNKED))
		return true;
	return nr == NR_io_uring_enter && !(task->flags & PF_IO_WORKER);
}

/*
 * Books those of pages lo..=hi, just brought in for the read of the call `nr`, that were thrown out before it
 * got to them: `readahead_used_pages` was too early, or they are here for the second time. Returns how many of
 * the latter there are.
 */
ONCE u64 book_again(struct task_state *state, u64 lo, u64 hi, u32 nr)
{
	CURRENT(trusted, task);
	u64 used = 0, again, m, serial = task->ioac.syscr;
	struct ledger *ledger;
	struct row_key key;

	if (!state || !is_numbered(task, nr))
		return 0;
	m = state->pending.mapping;
	if (same_call(&state->used.call, m, serial, nr, state->epoch))
		used = set_pages(&state->used, lo, hi, false);
	if (!same_call(&state->missed.call, m, serial, nr, state->epoch)) {
		set_clear(&state->missed);
		set_call(&state->missed.call, m, serial, nr, state->epoch);
	}
	again = set_pages(&state->missed, lo, hi, true);
	if (used | again) {
		key = state->pending_key;
		ledger = ledger_of_key(&key);
		ADD(ledger, used_too_early_pages, used);
		ADD(ledger, readahead_wasted_pages, again);
	}
	return again;
}

#endif
