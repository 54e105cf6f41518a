/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests that fail or are short. The probe does not see the return value of a call: an event at the end of
 * system calls would cost every call of the machine. But the kernel sums for each task its read (write) calls
 * and the bytes that they moved. So the sums are stored with the latest request, and their differences at the
 * task's next event, at its end, and when rows are read, are the result.
 */
#ifndef CACHEWISE_RESULT_H
#define CACHEWISE_RESULT_H

/* The walk's state is the task's: programs and what they call have 512 bytes of stack. */
struct reach_walk {
	struct reach *reach;
	struct task_state *state; /* NULL: of an io_uring request */
};

SHARED int reach_chunk(struct reach *reach, struct task_state *state, u32 i)
{
	struct ahead_range range = {};
	u64 lo, bits, beyond = 0;
	struct again *again;

	if (!reach)
		return 1;
	lo = chunk_start(reach->start, i);
	if (lo > reach->end)
		return 1;
	range.mapping = reach->call.mapping;
	range.inode_number = reach->inode_number;
	again = find_again(state, &reach->call, lo >> CHUNK_SHIFT, reach->task, reach->started);
	if (!again)
		return 0;
	bits = chunk_bits(lo, reach->end);
	if (reach->cut <= lo)
		beyond = bits;
	else if (reach->cut <= reach->end && reach->cut >> CHUNK_SHIFT == lo >> CHUNK_SHIFT)
		beyond = chunk_bits(reach->cut, reach->end);
	FORGET(bits);
	FORGET(beyond);
	reach->missed += count_bits(again->missed & bits & ~beyond);
	reach->used += count_bits(again->used & beyond);
	beyond &= again->missed | again->used;
	again->missed &= ~beyond;
	again->used &= ~beyond;
	if (!beyond)
		return 0;
	/* others may have evicted them: then a mark would outlive its page */
	if (reach->left == left[watch_slot(reach->inode_number)])
		ahead_set_chunk(&range, lo, beyond);
	else
		reach->gone += count_bits(beyond);
	return 0;
}

static long reach_step(u32 i, void *context)
{
	struct reach_walk *walk = context;

	return !!reach_chunk(walk->reach, walk->state, i);
}

/* Walks the chunks of the task's state->reach. */
SHARED int walk_reach(struct task_state *state)
{
	struct reach_walk walk = {};

	if (!state)
		return 0;
	walk.reach = &state->reach;
	walk.state = state;
	bpf_loop(1 << 14, reach_step, &walk, 0);
	return 0;
}

/* The row of what `task` did to the file of a request; NULL: not to be counted, or the file is gone. */
static __always_inline struct ledger *ledger_of_request(struct task_struct *task, const struct result *request)
{
	struct address_space *mapping = PLAIN(address_space, (void *)request->call.mapping);
	struct inode *inode = READ(mapping, host);
	struct row_key key = {};

	if (READ(inode, i_ino) != request->inode_number || READ(inode, i_generation) != request->generation)
		return NULL;
	file_of(inode, &key.file);
	if (!is_wanted(&key.file))
		return NULL;
	key.process.tgid = READ(task, tgid);
	key.process.start = READ(task, group_leader, start_time);
	key.process.cgroup = cgroup_id_in(READ(task, cgroups));
	return ledger_of_key(&key);
}

/* Books that the latest read of the task moved fewer bytes than were booked, if it did. */
ONCE int settle_read(struct task_state *state)
{
	struct task_struct *task;
	struct result *request;
	struct reach *reach;
	struct ledger *ledger;
	u64 calls_since, moved, unserved;

	if (!state)
		return 0;
	task = PLAIN(task_struct, (void *)state->self);
	request = &state->read_result;
	calls_since = READ(task, ioac.syscr) - request->call.serial;
	if (!request->open || !calls_since)
		return 0;
	request->open = 0;
	moved = READ(task, ioac.rchar) - request->account;
	if (moved >= request->bytes)
		return 0;
	reach = &state->reach;
	__builtin_memset(reach, 0, sizeof(*reach));
	reach->call = request->call;
	reach->inode_number = request->inode_number;
	reach->start = request->start;
	reach->end = request->end;
	reach->cut = request->start;
	if (moved && (request->pos + moved - 1) >> config.page_shift >= request->start)
		reach->cut = ((request->pos + moved - 1) >> config.page_shift) + 1;
	reach->task = READ(task, pid);
	reach->started = (u32)READ(task, start_time);
	reach->left = request->left;
	walk_reach(state);
	if (request->used && reach->cut <= request->start) {
		struct ahead_range range = { request->call.mapping, request->inode_number };

		reach->used = request->used;
		if (request->left == left[watch_slot(request->inode_number)])
			ahead_set_chunk(&range, request->start, 1ULL << (request->start & (CHUNK_PAGES - 1)));
		else
			reach->gone++;
	}
	ledger = ledger_of_request(task, request);
	unserved = reach->cut <= reach->end ? reach->end - reach->cut + 1 : 0;
	ADD(ledger, read_unserved_pages, unserved);
	ADD(ledger, read_unserved_bytes, request->bytes - moved);
	ADD(ledger, read_failed_requests, !moved);
	/* what came in and was not reached came in ahead */
	ADD(ledger, read_missed_pages, reach->missed - request->misses);
	ADD(ledger, readahead_pages, request->misses - reach->missed);
	weigh(request->stack, STACK_READ, UNIT_PAGES, reach->missed - request->misses);
	ADD(ledger, read_hit_pages, request->misses - reach->missed - unserved);
	ADD(ledger, readahead_hit_pages, -reach->used);
	ADD(ledger, unsure_reads, calls_since > 1);
	ADD(ledger, unsure_ahead_pages, reach->gone);
	return 0;
}

/* As above, of the latest write. */
ONCE int settle_write(struct task_state *state)
{
	struct task_struct *task;
	struct address_space *mapping;
	struct result *request;
	struct ledger *ledger;
	u64 calls_since, moved, size, end, pages;
	bool sure;

	if (!state)
		return 0;
	task = PLAIN(task_struct, (void *)state->self);
	request = &state->write_result;
	calls_since = READ(task, ioac.syscw) - request->call.serial;
	if (!request->open || !calls_since)
		return 0;
	request->open = 0;
	moved = READ(task, ioac.wchar) - request->account;
	if (moved >= request->bytes)
		return 0;
	sure = calls_since == 1;
	if (!sure) {
		/*
		 * Other calls moved bytes too, after it; but a file that did not reach to where the write began, and
		 * does now, ends where the write did.
		 */
		mapping = PLAIN(address_space, (void *)request->call.mapping);
		size = READ(mapping, host, i_size);
		if (request->size <= request->pos && size > request->pos &&
		    size < request->pos + request->bytes) {
			end = size - request->pos;
			sure = end <= moved;
			moved = sure ? end : moved;
		}
	}
	ledger = ledger_of_request(task, request);
	if (!ledger)
		return 0;
	end = moved ? ((request->pos + moved - 1) >> config.page_shift) + 1 : request->start;
	pages = end <= request->end ? request->end - end + 1 : 0;
	ADD(ledger, write_bytes, moved - request->bytes);
	ADD(ledger, write_pages, -pages);
	ADD(ledger, write_unserved_bytes, request->bytes - moved);
	ADD(ledger, write_failed_requests, !moved);
	ADD(ledger, unsure_writes, !sure);
	return 0;
}

/* Of the task's latest read and write, if they are over. */
static __always_inline void settle_results(struct task_state *state)
{
	settle_read(state);
	settle_write(state);
}

/* Starts to wait for the result of a request that was booked as a whole, and whose call is set. */
static __always_inline void open_result(struct result *result, struct inode *inode, u64 account)
{
	result->inode_number = READ(inode, i_ino);
	result->generation = READ(inode, i_generation);
	result->account = account;
	result->misses = result->used = result->stack = 0;
	result->size = READ(inode, i_size);
	result->left = left[watch_slot(result->inode_number)];
	result->open = 1;
}

#endif
