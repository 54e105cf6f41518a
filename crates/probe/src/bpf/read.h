/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads: the pages that they request, and the pages inserted for them.
 *
 * The kernel's event names the rest of a request, batch by batch, and does not fire for a batch whose last
 * folio is not up to date. So the start of a request comes from the registers, the task's count of finished
 * reads separates a batch that continues a request from a new request, and inserts wait until an event of
 * their request confirms them.
 */
#ifndef CACHEWISE_READ_H
#define CACHEWISE_READ_H

/* The open file of the read call that the task is in, by its address; 0: no file of that mapping. */
static __always_inline u64 file_read(u64 mapping)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u32 nr = syscall_nr(task, regs);
	struct file *file;

	if (!(call_kind(nr) & (CALL_READ | CALL_SPLICE)))
		return 0;
	file = file_of_fd(task, nr == NR_sendfile ? ARG2(regs) : ARG1(regs));
	return file && (u64)READ(file, f_mapping) == mapping ? (u64)file : 0;
}

/* Sends the pages that are counted as an access, if user space requested accesses. */
static __always_inline void send_counting(struct read *read)
{
	if (!ACCESSES)
		return;
	/* in memory the verifier forgets that the address is one */
	*(volatile u64 *)&read->file = file_read(read->mapping);
	access_pages(read->mapping, read->start, read->end, ACCESS_READ, *(volatile u64 *)&read->file);
}

/* Counts the pages of `state->counting` as requested (no pages: only the inserted ones). */
ONCE int count_read(struct task_state *state)
{
	CURRENT(trusted, task);
	struct address_space *mapping;
	struct read *read;

	if (!state)
		return 0;
	read = &state->counting;
	mapping = PLAIN(address_space, (void *)read->mapping);
	if (read->tally.reached)
		read->tally.used = ahead_use(state);
	book_read(task, mapping, &read->tally);
	if (read->tally.reached)
		send_counting(read);
	if (read->rangeless) {
		state->event_inode = (u64)READ(mapping, host);
		mark_rangeless_read(state);
	}
	return 0;
}

static __always_inline void pending_close(struct task_state *state)
{
	__sync_fetch_and_sub(watch_of(state->pending_inode), 1);
	state->pending.mapping = 0;
	state->pending_miss = state->pending_ahead = 0;
}

/*
 * An event of the request has come: its inserts are misses. A call in chunks requests more than it may reach
 * (a full socket ends it), and readahead runs ahead of it: its misses are limited to its pages.
 */
static __always_inline void pending_commit(struct task_state *state, struct tally *tally)
{
	u64 miss = state->pending_miss;

	if (state->pending_chunks) {
		if (miss > state->read_pages - state->read_misses)
			miss = state->read_pages - state->read_misses;
		state->read_misses += miss;
	}
	tally->misses = miss;
	weigh(state->pending_stack, STACK_READ, UNIT_PAGES, miss);
	tally->ahead = state->pending_ahead;
	state->pending_miss -= miss;
	state->pending_ahead = 0;
	if (!state->pending_miss)
		pending_close(state);
}

/* Notes as readahead the pages that a call in chunks inserted and did not reach. */
ONCE int set_rest_ahead(struct task_state *state)
{
	struct task_struct *task;
	struct reach *reach;

	if (!state)
		return 0;
	task = PLAIN(task_struct, (void *)state->self);
	reach = &state->reach;
	__builtin_memset(reach, 0, sizeof(*reach));
	reach->call = state->pending;
	reach->inode_number = state->pending_inode;
	reach->start = state->pending_lo;
	if (same_call(&state->read, state->pending.mapping, state->pending.serial, state->pending.nr,
		      state->pending.epoch))
		reach->start = state->read_end + 1;
	reach->end = state->pending_hi;
	reach->cut = reach->start;
	reach->task = READ(task, pid);
	reach->started = (u32)READ(task, start_time);
	reach->left = state->pending_left;
	walk_reach(state);
	if (reach->gone) {
		struct row_key key = state->pending_key;
		struct ledger *ledger = ledger_of_key(&key);

		ADD(ledger, unsure_ahead_pages, reach->gone);
	}
	return 0;
}

/*
 * Books inserts whose request never had an event: it was served page by page (readahead of the file system
 * inserted nothing), it ended early, or it was not a read.
 */
ONCE int pending_flush_of(struct task_state *state)
{
	struct address_space *mapping;
	struct row_key key;
	struct ledger *ledger;
	u64 pages, bytes;

	if (!state || !state->pending.mapping)
		return 0;
	key = state->pending_key;
	ledger = ledger_of_key(&key);
	if (!ledger)
		goto close;
	if (state->pending_counts && state->pending_miss && state->pending_hi >= state->pending_lo) {
		pages = state->pending_hi - state->pending_lo + 1;
		bytes = state->pending_bytes ?: pages << config.page_shift;
		ADD(ledger, read_requests, 1);
		ADD(ledger, eventless_requests, 1);
		ADD(ledger, read_requested_pages, pages);
		ADD(ledger, read_requested_bytes, bytes);
		ADD(ledger, read_hit_pages, pages - state->pending_miss);
		ADD(ledger, read_missed_pages, state->pending_miss);
		ADD(ledger, readahead_pages, state->pending_ahead);
		weigh(state->pending_stack, STACK_READ, UNIT_PAGES, state->pending_miss);
		access_pages(state->pending.mapping, state->pending_lo, state->pending_hi, ACCESS_READ, 0);
		mapping = PLAIN(address_space, (void *)state->pending.mapping);
		state->read_result.call = state->pending;
		open_result(&state->read_result, READ(mapping, host), state->pending_account);
		state->read_result.left = state->pending_left;
		state->read_result.open = !!state->pending_bytes;
		state->read_result.pos = state->pending_pos;
		state->read_result.bytes = bytes;
		state->read_result.start = state->pending_lo;
		state->read_result.end = state->pending_hi;
		state->read_result.misses = state->pending_miss;
		state->read_result.stack = state->pending_stack;
	} else if (call_kind(state->pending.nr) & CALL_READ && state->read_result.open &&
		   same_call(&state->read_result.call, state->pending.mapping, state->pending.serial,
			     state->pending.nr, state->pending.epoch)) {
		/* the last pages of a request that had events, which the file system read one by one */
		ADD(ledger, read_missed_pages, state->pending_miss);
		ADD(ledger, read_hit_pages, -(u64)state->pending_miss);
		ADD(ledger, readahead_pages, state->pending_ahead);
		state->read_result.misses += state->pending_miss;
		weigh(state->pending_stack, STACK_READ, UNIT_PAGES, state->pending_miss);
	} else {
		/* the rest of a call in chunks that ended short, or readahead without a read */
		ADD(ledger, readahead_pages, state->pending_miss + state->pending_ahead);
		/* of inline data a call that is not read(2) has no event */
		if (state->pending_miss && !config.by_sys_exit &&
		    (call_kind(state->pending.nr) & CALL_SPLICE || state->pending.nr == NR_io_submit) &&
		    !same_call(&state->read, state->pending.mapping, state->pending.serial, state->pending.nr,
			       state->pending.epoch))
			ADD(ledger, rangeless_reads, 1);
	}
close:
	pending_close(state);
	return 0;
}

/* Has the call ended whose inserts wait? By the count of reads, or as the task is in another call. */
static __always_inline bool pending_is_over(struct task_struct *trusted, struct task_struct *task,
					    struct task_state *state)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);

	if (call_kind(state->pending.nr) & (CALL_READ | CALL_CHUNKED))
		return state->pending.serial != task->ioac.syscr;
	return !(task->flags & PF_IO_WORKER) && syscall_nr(task, regs) != state->pending.nr;
}

/* Books inserts that wait for no event any more, and the results of the read that they are of and of the one before. */
static __always_inline void pending_flush(struct task_state *state)
{
	if (!same_call(&state->read_result.call, state->pending.mapping, state->pending.serial, state->pending.nr,
		       state->pending.epoch))
		settle_read(state);
	if (state->pending.mapping && state->pending_chunks && state->pending_miss)
		set_rest_ahead(state);
	pending_flush_of(state);
	settle_read(state);
}

/* Does the copy_file_range(2) that the task is in write beyond `eof`? */
ONCE int copies_beyond(u64 eof)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	struct file *file;
	u64 pos = 0;

	if (ARG4(regs)) {
		if (bpf_probe_read_user(&pos, sizeof(pos), (void *)ARG4(regs)))
			return 0;
	} else {
		file = file_of_fd(task, ARG3(regs));
		if (file)
			pos = READ(file, f_pos);
	}
	return pos + ARG5(regs) > eof;
}

/* Are requests of the current task over that are not booked as they ended? */
SHARED int is_due(struct task_state *state)
{
	CURRENT(trusted, task);
	struct result *read, *write;

	if (!state)
		return 0;
	read = &state->read_result;
	write = &state->write_result;
	if (state->pending.mapping && pending_is_over(trusted, task, state))
		return true;
	if (read->open && task->ioac.syscr != read->call.serial && task->ioac.rchar - read->account < read->bytes)
		return true;
	return write->open && task->ioac.syscw != write->call.serial &&
	       task->ioac.wchar - write->account < write->bytes;
}

/* Has the inserts that wait for an event be booked, although their call is not over, before the event at hand. */
static __always_inline int flush_first(struct task_state *state)
{
	state->flushes = 1;
	return 1;
}

/*
 * Goes on with the program that settles the task's requests, and then again with the one that handles the event, which
 * has not changed anything so far and then finds no request that is over. Ends the caller.
 */
static __always_inline void settle_and(void *context, struct task_state *state, u32 service)
{
	state->resume = service;
	bpf_tail_call(context, &services, service_numbers[SETTLE]);
}

SEC("raw_tp")
int settle_over(void *context)
{
	CURRENT(trusted, task);
	struct task_state *state = bpf_task_storage_get(&tasks, trusted, 0, 0);

	if (!state)
		return 0;
	if (state->pending.mapping && (state->flushes || pending_is_over(trusted, task, state)))
		pending_flush(state);
	state->flushes = 0;
	settle_results(state);
	bpf_tail_call(context, &services, state->resume);
	return 0;
}

/* As get_pages, by any path. True: nothing was done, as the task's requests are to be settled before; not if `settles`. */
static __always_inline int read_by_any_path(struct address_space *mapping, u64 index, u64 last, bool settles)
{
	CURRENT(trusted, task);
	struct task_state *state = state_at_request(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	struct inode *inode = READ(mapping, host);
	struct range *range;
	struct read *read;
	u64 m = (u64)mapping, serial, shift = config.page_shift;
	u64 eof, start = index, end, bytes = 0, asked = 0, pos, len;
	u32 nr, requests = 1;
	volatile u32 *known, *same, *number, *kind; /* in memory the verifier forgets them, and looks at what follows once */

	if (!state)
		return 0;
	nr = syscall_nr(task, regs);
	eof = READ(inode, i_size);
	if (!settles && is_due(state))
		return 1;
	fetch_ends(state, moment_of(task, nr), 0);
	number = &state->insert.target.nr;
	kind = &state->kind;
	*number = nr;
	*kind = call_kind(nr);
	if (in_uring(state, nr)) {
		set_event(state, m, index, last);
		if (flight_event(state))
			return 0;
	}
	known = &state->known;
	same = &state->same;
	*known = KNOWN_NOTHING;
	range = &state->range;
	range->mapping = range->pos = range->len = 0;
	read = &state->counting;
	__builtin_memset(read, 0, sizeof(*read));
	serial = read_serial(task, state, regs, nr);
	*same = same_call(&state->read, m, serial, nr, state->epoch);
	state->insert.target.mapping = m;
	end = last_requested(&state->insert.target, state, last);
	if (end > last_page(inode))
		end = last_page(inode);
	if (*number == NR_splice && *same) {
		/* splice(2) leaves the count of reads as it is: its position has to tell them apart */
		read_range(*number, range);
		*same = range->pos == state->read_pos;
	}
	if (*same && last == state->read_last && index > state->read_index && !(*kind & CALL_CHUNKED)) {
		/* the next batch of a request that was counted */
		state->read_index = index;
		goto commit;
	}
	if (state->pending.mapping && !same_call(&state->pending, m, serial, *number, state->epoch)) {
		if (!settles)
			return flush_first(state);
		pending_flush(state);
	}
	if (*number == NR_io_uring_enter || task->flags & PF_IO_WORKER) {
		/* submitted before the probe came */
		if (task->flags & PF_IO_WORKER || (*same && last == state->read_last))
			goto done;
	} else if (*number == NR_io_submit) {
		/* the end is that of the last folio */
		if (least_folio_order(mapping))
			read->rangeless = 1;
		state->aio.mapping = m;
		state->aio.index = index;
		state->aio.last = last;
		if (find_aio_read(state)) {
			*known = KNOWN_RANGE;
			range->pos = state->aio.pos;
			range->len = state->aio.len;
		}
	} else if (state->pending.mapping && state->pending_length) {
		/* of this call, whose range is known since its first insert */
		*known = KNOWN_RANGE;
		range->pos = state->pending_pos;
		range->len = state->pending_length;
	} else {
		*known = read_range(*number, range);
		if (range->mapping && range->mapping != m)
			*known = KNOWN_NOTHING;
	}
	pos = range->pos;
	len = range->len;
	if (*kind & CALL_SPLICE) {
		/* a file that the call makes longer has another end at each chunk */
		if (*number == NR_copy_file_range && is_output(&state->insert.target) && copies_beyond(eof))
			read->rangeless = 1;
		/* the chunks of one call follow each other; a page on the edge of two counts once */
		if (*kind & CALL_CHUNKED && *same && *known && state->read_pos == pos) {
			start = state->read_end + 1;
			requests = 0;
		} else if (*known && pos >> shift < start) {
			start = pos >> shift;
		}
		if (end >= start) {
			u64 from = start << shift, to = (last + 1) << shift;

			if (*known && to > pos + len)
				to = pos + len;
			if (to > eof)
				to = eof;
			if (*known && from < pos)
				from = pos;
			bytes = to > from ? to - from : 0;
		}
	} else {
		if (!*known && !*same && state->ahead_hi == last && state->ahead_start < start &&
		    same_call(&state->ahead, m, serial, *number, state->epoch))
			start = state->ahead_start; /* the first batch had no event */
		if (*known) {
			if (pos >> shift < start)
				start = pos >> shift;
			if (len && eof > pos)
				bytes = len < eof - pos ? len : eof - pos;
			/* by the registers alone, so that the pages of the events can be held against it */
			if (*known == KNOWN_RANGE && bytes)
				asked = ((pos + bytes - 1) >> shift) - (pos >> shift) + 1;
		}
		if (*known == KNOWN_NOTHING && *number != NR_none && *number != NR_io_uring_enter) {
			/* the kernel's own read for some other call, a program's head in execve: how
			 * many bytes of the page it wants is not known */
		} else if (!bytes && end >= start) {
			u64 to = (end + 1) << shift;

			bytes = (to > eof ? eof : to) - (start << shift);
			if (*known == KNOWN_START)
				bytes -= pos & ((1 << shift) - 1);
		}
	}
	if (requests) {
		state->read_pages = state->read_misses = 0;
		/* without a call where all has moved, as mostly */
		if (settles && state->read_result.open &&
		    task->ioac.rchar - state->read_result.account < state->read_result.bytes)
			settle_read(state);
		if (settles && state->write_result.open)
			settle_write(state); /* sendfile(2) raises the account of writes too */
		/* the others are in none of the task's accounts */
		if (*known && *kind & (CALL_READ | CALL_CHUNKED) && end >= start) {
			set_call(&state->read_result.call, m, serial, *number, state->epoch);
			open_result(&state->read_result, inode, task->ioac.rchar);
			if (state->pending.mapping == m)
				state->read_result.left = state->pending_left;
			state->read_result.pos = pos;
			state->read_result.bytes = 0;
			state->read_result.start = start;
		}
	}
	if (state->read_result.open && state->read_result.call.serial == serial) {
		state->read_result.bytes += bytes;
		state->read_result.end = end;
	}
	if (end >= start) {
		read->start = start;
		read->end = end;
		read->tally.requests = requests;
		read->tally.reached = end - start + 1;
		read->tally.pages = asked ?: read->tally.reached;
		read->tally.bytes = bytes;
		state->read_pages += end - start + 1;
	}
done:
	set_call(&state->read, m, serial, *number, state->epoch);
	state->read_index = index;
	state->read_last = last;
	state->read_end = end;
	state->read_pos = range->pos;
commit:
	if (state->pending.mapping == m)
		pending_commit(state, &read->tally);
	if (read->tally.misses && state->read_result.open && state->read_result.call.serial == serial) {
		state->read_result.misses += read->tally.misses;
		state->read_result.stack = state->pending_stack;
	}
	if (read->tally.reached | read->tally.misses | read->tally.ahead) {
		read->mapping = m;
		read->call = state->read;
		count_read(state);
		if (read->tally.used && is_one_page(read) && state->read_result.open &&
		    state->read_result.call.serial == serial)
			state->read_result.used = read->tally.used;
	}
	return 0;
}

#if BY_HELPER
static __noinline int read_event(struct address_space *mapping, u64 index, u64 last)
{
	return read_by_any_path(mapping, index, last, false);
}

static __noinline int read_event_here(struct address_space *mapping, u64 index, u64 last)
{
	return read_by_any_path(mapping, index, last, true);
}
#else
ONCE int read_event_at(u64 *address, u64 index, u64 last)
{
	return address ? read_by_any_path(PLAIN(address_space, (void *)*address), index, last, false) : 0;
}

ONCE int read_event_here_at(u64 *address, u64 index, u64 last)
{
	return address ? read_by_any_path(PLAIN(address_space, (void *)*address), index, last, true) : 0;
}

static __always_inline int read_event(struct address_space *mapping, u64 index, u64 last)
{
	u64 address = (u64)mapping;

	return read_event_at(&address, index, last);
}

static __always_inline int read_event_here(struct address_space *mapping, u64 index, u64 last)
{
	u64 address = (u64)mapping;

	return read_event_here_at(&address, index, last);
}
#endif

/* As book_page, by any path. A separate function, so that its stack is not added to that of read_event. */
static __noinline int count_pages(struct address_space *mapping, u64 pages, u64 bytes)
{
	CURRENT(trusted, task);
	struct tally tally = { 1, pages, bytes, .reached = pages };

	book_read(task, mapping, &tally);
	return 0;
}

/*
 * Notes in the task's state that it reads pages index..=last, as read_by_any_path does; false: nothing was noted, as there is
 * more to do than that. Nothing is pending for the mapping.
 */
static __always_inline bool note_read(struct task_struct *trusted, struct task_struct *task,
				      struct address_space *mapping, u32 nr, u64 index, u64 last, u64 end, u64 pos,
				      u64 bytes)
{
	struct task_state *state = state_of(trusted);
	u64 m = (u64)mapping, serial = task->ioac.syscr, moved = task->ioac.rchar;

	if (!state || state->pending.mapping || (config.times && (state->fetch_since || state->fetch_resumes)) ||
	    same_call(&state->read, m, serial, nr, state->epoch))
		return false;
	if (state->read_result.open && moved - state->read_result.account < state->read_result.bytes)
		return false;
	if (state->write_result.open && task->ioac.wchar - state->write_result.account < state->write_result.bytes)
		return false;
	state->read_pages = end - index + 1;
	state->read_misses = 0;
	set_call(&state->read, m, serial, nr, state->epoch);
	state->read_index = index;
	state->read_last = last;
	state->read_end = end;
	state->read_pos = pos;
	set_call(&state->read_result.call, m, serial, nr, state->epoch);
	open_result(&state->read_result, READ(mapping, host), moved);
	state->read_result.pos = pos;
	state->read_result.bytes = bytes;
	state->read_result.start = index;
	state->read_result.end = end;
	return true;
}

enum counted {
	COUNTED,     /* and met no new file */
	COUNTED_NEW, /* may have met one */
	DUE,	     /* nothing was done: requests of the task are to be settled before */
};

/* Pages index..=last of a mapping are requested, or are the rest of a request. Never DUE if it `settles`. */
static __always_inline enum counted get_pages(struct address_space *raw_mapping, u64 index, u64 last, bool settles)
{
	CURRENT(trusted, task);
	struct address_space *mapping = PLAIN(address_space, raw_mapping);
	struct pt_regs *regs;
	struct file *file;
	u64 pos = 0, len, eof, end, bytes, shift = config.page_shift;
	u32 nr;

	if (!in_scope(task))
		return COUNTED;
	/*
	 * The fast path: the first event of a read whose range is known, with nothing pending for its mapping. A read of one
	 * page is complete with this event, so no state of the task is needed.
	 */
	if (*watch_of(READ(mapping, host, i_ino)) || (settles && index != last))
		goto full;
	regs = (void *)bpf_task_pt_regs(trusted);
	nr = syscall_nr(task, regs);
	if (nr != NR_pread && nr != NR_read)
		goto full;
	if (nr == NR_read || index != last) {
		file = file_of_fd(task, ARG1(regs));
		if (!reads_or_writes(file, (u64)mapping))
			goto full;
		pos = READ(file, f_pos);
	}
	if (nr == NR_pread)
		pos = ARG4(regs);
	len = ARG3(regs);
	eof = READ(mapping, host, i_size);
	if (pos >> shift != index || (pos + len - 1) >> shift != last || pos >= eof)
		goto full;
	bytes = len < eof - pos ? len : eof - pos;
	if (index != last) {
		end = (pos + bytes - 1) >> shift;
		if (ACCESSES || task->flags & PF_IO_WORKER || least_folio_order(mapping) ||
		    !note_read(trusted, task, mapping, nr, index, last, end, pos, bytes))
			goto full;
	} else {
		end = index;
		if (ACCESSES)
			send_access((u64)mapping, index, index, ACCESS_READ, file_read((u64)mapping));
		if (book_page(task, mapping, bytes))
			return COUNTED;
	}
	count_pages(mapping, end - index + 1, bytes);
	return COUNTED_NEW;
full:
	if (settles)
		read_event_here(mapping, index, last);
	else if (read_event(mapping, index, last))
		return DUE;
	return COUNTED_NEW;
}

SEC("raw_tp/mm_filemap_get_pages")
int BPF_PROG(on_get_pages, struct address_space *mapping, unsigned long index, unsigned long last)
{
	enum counted counted = get_pages(mapping, index, last, false);
	struct task_state *state;

	if (counted == COUNTED)
		return 0;
	if (counted == DUE) {
		state = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
		if (state)
			settle_and(ctx, state, GET_PAGES);
		return 0;
	}
	return finish(ctx);
}

/* The range that the kernel passes to readahead ends at the end of the request (6.18 and later). */
static __always_inline void announce_range(struct inode *inode, u64 index, u64 count, bool sync)
{
	CURRENT(trusted, task);
	struct task_state *state;
	struct pt_regs *regs;
	struct target target = {};
	u64 mapping, last = index + count - 1, serial;
	u32 nr;

	if (!in_scope(task) || !(state = state_at_request(trusted, task)))
		return;
	inode = PLAIN(inode, inode);
	mapping = (u64)READ(inode, i_mapping);
	regs = (void *)bpf_task_pt_regs(trusted);
	nr = syscall_nr(task, regs);
	fetch_begins(state, moment_of(task, nr));
	if (in_uring(state, nr)) {
		set_event(state, mapping, sync ? index : 0, last);
		if (announce_flight(state))
			return;
	}
	serial = read_serial(task, state, regs, nr);
	target.mapping = mapping;
	target.nr = nr;
	last = last_requested(&target, state, last);
	/* same call, same end, earlier start: another request of a worker, whose calls have no serial number */
	if (!same_call(&state->ahead, mapping, serial, nr, state->epoch) || state->ahead_hi != last ||
	    (sync && index < state->ahead_lo)) {
		state->ahead_lo = index;
		/* asynchronous: the index is the marked folio's head, maybe before the request */
		state->ahead_start = sync ? index : ~0ULL;
	}
	set_call(&state->ahead, mapping, serial, nr, state->epoch);
	state->ahead_hi = last;
	state->ahead_pos = ~0ULL;
}

/* Attached to page_cache_sync_ra, and with a cookie to page_cache_async_ra. */
SEC("raw_tp")
int BPF_PROG(on_readahead, struct inode *inode, unsigned long index, struct file_ra_state *ra, unsigned long count)
{
	announce_range(inode, index, count, !bpf_get_attach_cookie(ctx));
	return finish(ctx);
}

#endif
