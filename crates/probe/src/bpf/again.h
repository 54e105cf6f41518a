/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages inserted twice for one read: memory is short, and a page that was resident or on its way when the read
 * began is evicted before the read reaches it. It counts as one requested page and one miss.
 *
 * Pages of calls without a number (`is_numbered`) count at each insertion: no two of those calls differ.
 */
#ifndef CACHEWISE_AGAIN_H
#define CACHEWISE_AGAIN_H

/* A chunk of 64 pages that a task's call reads. (Task numbers are reused; a number with a start time is not.) */
struct again_key {
	u64 mapping, chunk;
	u32 task, started;
};

/*
 * Chunks that have no room in the task's state. The oldest entries are dropped. They belong to calls that are over,
 * unless 4 GiB were inserted since.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct again_key);
	__type(value, struct again);
} calls SEC(".maps");

/*
 * Does a call of this kind differ from the next one, by the task's count of reads or by its epoch? Those of
 * splice(2), io_submit(2), io_uring's workers, 32-bit programs, and the kernel's own reads do not; nor those of
 * io_uring if the probe sees no submissions. (Linked requests are all submitted before the first is served: two
 * of them that read the same pages count as one.)
 */
static __always_inline bool is_numbered(struct task_struct *task, struct task_state *state, u32 nr)
{
	if (call_kind(nr) & (CALL_READ | CALL_CHUNKED))
		return true;
	return nr == NR_io_uring_enter && state->epoch && !(task->flags & PF_IO_WORKER);
}

static __always_inline bool is_of(const struct again *again, const struct call *call)
{
	return same_call(&again->call, call->mapping, call->serial, call->nr, call->epoch);
}

/* Where the task's state holds a chunk of a call, if it holds it. */
static __always_inline struct recent *recent_of(struct task_state *state, u64 chunk)
{
	return &state->recent[chunk & (RECENT - 1)];
}

/*
 * The record of a chunk of a task's call, or of an io_uring request, whose address replaces the task in the key and
 * which has no state.
 */
static __always_inline struct again *again_of(struct task_state *state, const struct call *call, u64 chunk, u32 task,
					      u32 started)
{
	struct again_key key = { call->mapping, chunk, task, started };
	struct again *found, fresh = { *call, 0, 0 };

	if (state) {
		struct recent *recent = recent_of(state, chunk);

		if (!is_of(&recent->again, call)) {
			recent->chunk = chunk;
			recent->again = fresh;
		}
		if (recent->chunk == chunk)
			return &recent->again;
	}
	found = bpf_map_lookup_elem(&calls, &key);
	if (found) {
		/* of an earlier call: the task is in this one now */
		if (!is_of(found, call))
			*found = fresh;
		return found;
	}
	bpf_map_update_elem(&calls, &key, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&calls, &key);
}

/* As above; NULL: there is none. */
static __always_inline struct again *find_again(struct task_state *state, const struct call *call, u64 chunk, u32 task,
						u32 started)
{
	struct again_key key = { call->mapping, chunk, task, started };
	struct again *found;

	if (state) {
		struct recent *recent = recent_of(state, chunk);

		if (recent->chunk == chunk && is_of(&recent->again, call))
			return &recent->again;
	}
	found = bpf_map_lookup_elem(&calls, &key);
	return found && is_of(found, call) ? found : NULL;
}

/* As ahead_range, for a call that may not have reached the pages that it finds. */
struct finding {
	struct ahead_range range;
	struct call call;
};

/* The context of a loop, apart from what it changes: a function that is looked at once may overwrite all that it is given. */
struct finding_walk {
	struct finding *finding;
	struct task_state *state;
};

SHARED int use_chunk(struct finding *finding, struct task_state *state, u32 i)
{
	CURRENT(trusted, task);
	struct again *again;
	u64 lo, bits;

	if (!finding || !state)
		return 1;
	lo = chunk_start(finding->range.lo, i);
	if (lo > finding->range.hi)
		return 1;
	bits = ahead_take_chunk(&finding->range, lo);
	if (bits && (again = again_of(state, &finding->call, lo >> CHUNK_SHIFT, task->pid, (u32)task->start_time)))
		again->used |= bits;
	return 0;
}

static long use_step(u32 i, void *context)
{
	struct finding_walk *walk = context;

	return !!use_chunk(walk->finding, walk->state, i);
}

/* A request for one page, and not a chunk of a larger one. */
static __always_inline bool is_one_page(const struct read *read)
{
	return read->start == read->end && !(call_kind(read->call.nr) & CALL_CHUNKED);
}

/* As ahead_take, for the read that is being counted. */
ONCE u64 ahead_use(struct task_state *state)
{
	CURRENT(trusted, task);
	struct address_space *mapping;
	struct read *read;
	struct finding use = {};

	if (!state)
		return 0;
	read = &state->counting;
	mapping = PLAIN(address_space, (void *)read->mapping);
	use.range.mapping = read->mapping;
	use.range.inode_number = READ(mapping, host, i_ino);
	use.range.lo = read->start;
	use.range.hi = read->end;
	if (!*watch_of(use.range.inode_number))
		return 0;
	/* for a single page the task's state remembers it */
	if (!read->call.mapping || is_one_page(read) || !is_numbered(task, state, read->call.nr))
		return ahead_take_range(&use.range);
	use.call = read->call;
	struct finding_walk walk = { &use, state };

	bpf_loop(1 << 14, use_step, &walk, 0); /* a read returns 2 GiB at most */
	return use.range.taken;
}

/* Pages lo..=hi that a call inserts: the number that it had `used` before, and the number inserted `again`. */
struct come {
	struct call call;
	u64 lo, hi, used, again;
	u32 task, started; /* of the call; or the request's address */
	u32 cancelled;	   /* they were not inserted after all */
	u32 padding;
};

struct come_walk {
	struct come *come;
	struct task_state *state; /* NULL: of an io_uring request */
};

SHARED int come_chunk(struct come *come, struct task_state *state, u32 i)
{
	struct again *again;
	u64 lo, bits;

	if (!come)
		return 1;
	lo = chunk_start(come->lo, i);
	if (lo > come->hi)
		return 1;
	again = again_of(state, &come->call, lo >> CHUNK_SHIFT, come->task, come->started);
	if (!again)
		return 0;
	bits = chunk_bits(lo, come->hi);
	if (come->cancelled) {
		again->missed &= ~bits;
		return 0;
	}
	come->used += count_bits(again->used & bits);
	come->again += count_bits(again->missed & bits);
	again->used &= ~bits;
	again->missed |= bits;
	return 0;
}

static long come_step(u32 i, void *context)
{
	struct come_walk *walk = context;

	return !!come_chunk(walk->come, walk->state, i);
}

/* Walks the chunks of pages that a folio has. */
static __always_inline void walk_come(struct come *come, struct task_state *state)
{
	struct come_walk walk = { come, state };

	bpf_loop(FOLIO_CHUNKS, come_step, &walk, 0);
}

/*
 * Books those of pages lo..=hi, just inserted for the read of the call `nr`, that had been evicted before it
 * reached them: `readahead_hit_pages` counted them too early, or they are inserted for the second time. Returns
 * the number of the latter.
 */
ONCE u64 book_again(struct task_state *state, u64 lo, u64 hi, u32 nr)
{
	CURRENT(trusted, task);
	struct come come = {};
	struct ledger *ledger;
	struct row_key key;

	if (!state || !is_numbered(task, state, nr))
		return 0;
	set_call(&come.call, state->pending.mapping, task->ioac.syscr, nr, state->epoch);
	come.task = task->pid;
	come.started = (u32)task->start_time;
	come.lo = lo;
	come.hi = hi;
	walk_come(&come, state);
	if (come.used | come.again) {
		key = state->pending_key;
		ledger = ledger_of_key(&key);
		ADD(ledger, used_too_early_pages, come.used);
		ADD(ledger, readahead_wasted_pages, come.again);
	}
	return come.again;
}

/* Pages lo..=hi of the read whose inserts are being collected were returned unread. */
ONCE int cancel_again(struct task_state *state, u64 lo, u64 hi)
{
	CURRENT(trusted, task);
	struct come come = {};

	if (!state)
		return 0;
	come.call = state->pending;
	come.task = task->pid;
	come.started = (u32)task->start_time;
	come.lo = lo;
	come.hi = hi;
	come.cancelled = 1;
	walk_come(&come, state);
	return 0;
}

/*
 * Notes that pages lo..=hi were inserted for an io_uring request, or not after all. Returns the number that had been
 * inserted for it before.
 */
ONCE u64 come_for_flight(u64 id, struct flight *flight, u64 lo, u64 hi, bool came)
{
	struct come come = {};

	if (!flight)
		return 0;
	set_call(&come.call, flight->mapping, flight->serial, NR_io_uring_enter, 0);
	come.task = (u32)id;
	come.started = id >> 32;
	come.lo = lo;
	come.hi = hi;
	come.cancelled = !came;
	walk_come(&come, NULL);
	return come.again;
}

#endif
