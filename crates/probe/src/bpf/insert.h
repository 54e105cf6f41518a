/* SPDX-License-Identifier: GPL-2.0 */
/* Insertion of pages into the cache and their eviction: the request that caused it. */
#ifndef CACHEWISE_INSERT_H
#define CACHEWISE_INSERT_H

/* The file system's own data: block-device mappings that no descriptor reads, btrfs's tree inode. */
static __always_inline bool is_metadata(struct inode *inode)
{
	return S_ISBLK(READ(inode, i_mode)) ||
	       (READ(inode, i_ino) == 1 && READ(inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC);
}

/* The number of pages lo..=hi that were requested: from..=to. */
static __always_inline u64 asked_for(struct task_state *state, u64 lo, u64 hi, u64 *from, u64 *to)
{
	*from = lo > state->ahead_lo ? lo : state->ahead_lo;
	*to = hi < state->ahead_hi ? hi : state->ahead_hi;
	return *to >= *from ? *to - *from + 1 : 0;
}

/* Makes state->ahead the range of the read in progress; false: no read of mapping `m` is in progress. */
static __always_inline bool find_range(struct task_state *state, struct inode *inode, u64 m,
				       u64 serial, u32 nr)
{
	struct target target = { m, nr };
	struct range range = {};
	enum known known;

	/* a call in chunks requests its whole range; the kernel's events show one chunk at a time */
	if (!(call_kind(nr) & CALL_CHUNKED) && same_call(&state->ahead, m, serial, nr, state->epoch)) {
		if (nr != NR_splice || state->ahead_pos == ~0ULL)
			return true;
		/* splice(2) does not raise the count of reads: the position tells one call from the next */
		read_range(nr, &range);
		if (range.pos == state->ahead_pos)
			return true;
	}
	known = read_range(nr, &range);
	state->ahead_pos = range.pos;
	if (known && (range.mapping ? range.mapping == m : !is_metadata(inode))) {
		state->ahead_start = state->ahead_lo = range.pos >> config.page_shift;
		state->ahead_hi =
			known == KNOWN_START ? ~0ULL : (range.pos + range.len - 1) >> config.page_shift;
		state->ahead_hi = last_requested(&target, state, state->ahead_hi);
	} else if (same_call(&state->read, m, serial, nr, state->epoch)) {
		state->ahead_lo = state->read_index;
		state->ahead_hi = state->read_last;
	} else {
		return false;
	}
	set_call(&state->ahead, m, serial, nr, state->epoch);
	return true;
}

/* Starts to collect the inserts of a read, until an event confirms them. */
static __always_inline void pending_open(struct task_state *state, struct inode *inode, u64 m, u64 serial,
					 u32 nr, const struct row_key *key, u64 account)
{
	u32 kind = call_kind(nr);

	__sync_fetch_and_add(watch_of(READ(inode, i_ino)), 1);
	set_call(&state->pending, m, serial, nr, state->epoch);
	state->pending_key = *key;
	state->pending_stack = STACK_NONE;
	state->pending_account = account;
	state->pending_bytes = state->pending_length = 0;
	state->pending_inode = READ(inode, i_ino);
	state->pending_left = left[watch_slot(state->pending_inode)];
	state->pending_lo = state->ahead_start != ~0ULL ? state->ahead_start : state->ahead_lo;
	state->pending_hi = state->ahead_hi;
	if (state->pending_hi > last_page(inode))
		state->pending_hi = last_page(inode);
	state->pending_chunks = kind & CALL_CHUNKED;
	/*
	 * Only plain reads, and only if this request was not counted before. None with by_sys_exit: there a
	 * hit of such a request has no event either, and misses alone would give a wrong ratio.
	 */
	state->pending_counts = !config.by_sys_exit && kind & CALL_READ &&
				!same_call(&state->read, m, serial, nr, state->epoch);
	if (!state->pending_counts || read_range(nr, &state->range) != KNOWN_RANGE ||
	    state->range.pos >= READ(inode, i_size))
		return;
	state->pending_pos = state->range.pos;
	if (!state->range.mapping || state->range.mapping == m)
		state->pending_length = state->range.len;
	state->pending_bytes = READ(inode, i_size) - state->range.pos;
	if (state->pending_bytes > state->range.len)
		state->pending_bytes = state->range.len;
}

/* Is the task in a page fault on mapping `m`? */
static __always_inline bool in_fault(struct task_state *state, struct task_struct *task, u64 m)
{
	return state->fault_mapping == m && state->fault_known &&
	       state->fault_serial == task->min_flt + task->maj_flt;
}

/* io_uring passes advice that reads to its workers. */
static __always_inline bool is_advice_at_work(struct task_state *state, struct task_struct *task)
{
	return task->flags & PF_IO_WORKER &&
	       (state->work.opcode == IORING_OP_FADVISE || state->work.opcode == IORING_OP_MADVISE);
}

/* Books refaults: pages of the insert, one of the read being collected, that had been resident before. */
ONCE int refault_pending(struct task_state *state)
{
	struct address_space *mapping;
	struct row_key key;
	struct inode *inode;
	u64 back;

	if (!state)
		return 0;
	mapping = PLAIN(address_space, (void *)state->insert.target.mapping);
	inode = READ(mapping, host);
	key = state->pending_key;
	back = gone_take(inode, &key.file, state->insert.lo, state->insert.hi);
	if (back) {
		state->back_at = state->insert.moment;
		struct ledger *ledger = row_of(&key);

		ADD(ledger, refault_pages, back);
	}
	return 0;
}

/* Books an insert that is not for a read. 1: it is for a read, whose range and row are now in `state`. */
ONCE int book_insert(struct task_state *state)
{
	CURRENT(trusted, task);
	struct address_space *mapping;
	struct insert *insert;
	struct inode *inode;
	struct ledger *ledger;
	struct row_key key;
	u64 m, lo, hi, pages, serial, back;
	u32 nr, kind;

	if (!state)
		return 0;
	insert = &state->insert;
	m = insert->target.mapping;
	lo = insert->lo;
	hi = insert->hi;
	pages = insert->pages;
	serial = insert->serial;
	nr = insert->target.nr;
	kind = call_kind(nr);
	if (is_advice_at_work(state, task))
		kind = CALL_PREFETCH;
	FORGET(kind);
	mapping = PLAIN(address_space, (void *)m);
	inode = READ(mapping, host);
	ledger = ledger_of(inode, pages, &key);
	if (!ledger)
		return 0;
	back = config.detail == DETAIL_ROWS ? gone_take(inode, &key.file, lo, hi) : 0;
	if (back) {
		state->back_at = state->insert.moment;
		ADD(ledger, refault_pages, back);
	}
	if (in_fault(state, task, m)) {
		fetch_begins(state, state->insert.moment);
		/*
		 * Not entered among the pages inserted ahead: the probe does not see touches of mapped
		 * pages, so it cannot know whether they are used.
		 */
		if (!state->fault_missed && lo <= state->fault_index && state->fault_index <= hi) {
			state->fault_missed = 1;
			ADD(ledger, fault_miss_pages, 1);
			weigh(stack_at(state, STACK_FAULT, state->insert.moment), STACK_FAULT, UNIT_PAGES, 1);
			pages--;
		}
		ADD(ledger, fault_readahead_pages, pages);
		return 0;
	}
	if (kind & (CALL_WRITE | CALL_ALLOCATE)) {
		if (is_metadata(inode) && !write_length(&insert->target))
			ADD(ledger, metadata_pages, pages);
		else
			ADD(ledger, write_new_pages, pages);
		return 0;
	}
	if (kind & CALL_PREFETCH) {
		if (is_metadata(inode) && !S_ISBLK(READ(inode, i_mode))) {
			ADD(ledger, metadata_pages, pages);
			return 0;
		}
		ADD(ledger, prefetch_pages, pages);
		ahead_set(mapping, lo, hi);
		access_pages(m, lo, hi, ACCESS_AHEAD, 0);
		return 0;
	}
	/* splice(2) has no number: do not take its writes for the read of the call before */
	if (nr == NR_splice && is_output(&insert->target)) {
		ADD(ledger, write_new_pages, pages);
		return 0;
	}
	if (!find_range(state, inode, m, serial, nr)) {
		if (state->write.mapping == m || is_output(&insert->target))
			ADD(ledger, write_new_pages, pages);
		else if (is_metadata(inode))
			ADD(ledger, metadata_pages, pages);
		else
			ADD(ledger, other_pages, pages);
		return 0;
	}
	insert->key = key;
	return 1;
}

/* Adds an insert to the read that it is for. Apart from book_insert, so that its stack is not added to that of a flush. */
ONCE int open_insert(struct task_state *state)
{
	CURRENT(trusted, task);
	struct address_space *mapping;
	struct insert *insert;

	if (!state)
		return 0;
	insert = &state->insert;
	mapping = PLAIN(address_space, (void *)insert->target.mapping);
	if (state->pending.mapping && !same_call(&state->pending, insert->target.mapping, insert->serial,
						 insert->target.nr, state->epoch))
		pending_flush_of(state);
	if (!state->pending.mapping)
		pending_open(state, READ(mapping, host), insert->target.mapping, insert->serial, insert->target.nr,
			     &insert->key, task->ioac.rchar);
	fetch_begins(state, insert->moment);
	return 0;
}

/* Counts pages that a task out of scope inserted into a file that has had a row. */
ONCE int insert_outside(struct subject *subject)
{
	static const u64 none;
	struct file_id id;
	u64 *pages;

	if (!subject)
		return 0;
	file_of(PLAIN(inode, (void *)subject->inode), &id);
	if (!bpf_map_lookup_elem(&files, &id))
		return 0;
	bpf_map_update_elem(&outside, &id, &none, BPF_NOEXIST);
	pages = bpf_map_lookup_elem(&outside, &id);
	if (pages)
		__sync_fetch_and_add(pages, subject->just_added);
	else
		__sync_fetch_and_add(&lost.names, 1);
	return 0;
}

static __always_inline int insert_event(struct folio *raw_folio, void *context)
{
	CURRENT(trusted, task);
	struct folio *folio = PLAIN(folio, raw_folio);
	struct address_space *mapping = READ(folio, mapping);
	struct task_state *state;
	struct insert *insert;
	struct pt_regs *regs;
	u64 m = (u64)mapping, lo = READ(folio, index), pages = folio_pages(folio), hi = lo + pages - 1;
	u64 from, to, inside, again;

	/* several CPUs may insert at once, so none of them may find only its own pages; twice does not matter */
	if (config.detail == DETAIL_ROWS && READ(mapping, nrpages) <= 8 * pages)
		begun[watch_slot(READ(mapping, host, i_ino))]++;
	if (!in_scope(task)) {
		if (config.outside && !folio_is_shmem(folio)) {
			struct subject subject = { (u64)READ(mapping, host), pages };

			insert_outside(&subject);
		}
		return 0;
	}
	if (folio_is_shmem(folio) || !(state = state_at_request(trusted, task)))
		return 0;
	/* settle the read before its pages are forgotten; it can be known by its inserts alone */
	if (is_due(state))
		settle_and(context, state, INSERT);
	insert = &state->insert;
	insert->target.mapping = m;
	insert->lo = lo;
	insert->hi = hi;
	insert->pages = pages;
	regs = (void *)bpf_task_pt_regs(trusted);
	insert->target.nr = syscall_nr(task, regs);
	if (config.times || STACKS)
		insert->moment = moment_of(task, insert->target.nr);
	if (in_uring(state, insert->target.nr) && !in_fault(state, task, m) && !is_advice_at_work(state, task) &&
	    flight_insert(state))
		return 0;
	insert->serial = read_serial(task, state, regs, insert->target.nr);
	if (!in_fault(state, task, m) && !(call_kind(insert->target.nr) & CALL_CHUNKED) &&
	    same_call(&state->pending, m, insert->serial, insert->target.nr, state->epoch) &&
	    state->ahead.mapping == m) {
		/* the next folio of a read whose row and range are known */
		fetch_begins(state, state->insert.moment);
		if (config.detail == DETAIL_ROWS)
			refault_pending(state);
	} else {
		if (!book_insert(state))
			return 0;
		open_insert(state);
	}
	inside = asked_for(state, lo, hi, &from, &to);
	again = inside ? book_again(state, from, to, insert->target.nr) : 0;
	if (STACKS && inside > again && !state->pending_stack)
		state->pending_stack = stack_at(state, STACK_READ, state->insert.moment);
	state->pending_miss += inside - again;
	state->pending_ahead += pages - inside + again;
	if (!inside) {
		ahead_set(mapping, lo, hi);
	} else if (pages > inside) {
		if (lo < from)
			ahead_set(mapping, lo, from - 1);
		if (hi > to)
			ahead_set(mapping, to + 1, hi);
	}
	return 0;
}

SEC("raw_tp/mm_filemap_add_to_page_cache")
int BPF_PROG(on_insert, struct folio *folio)
{
	insert_event(folio, ctx);
	return finish(ctx);
}

#define ADVICE_WILLNEED 3 /* of fadvise(2), madvise(2) and process_madvise(2) */

/* The file system gave pages event_lo..=event_hi back unread; 0: neither advice nor a page fault had inserted them. */
ONCE int cancel_insert(struct task_state *state)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	struct address_space *mapping;
	struct ledger *ledger;
	struct row_key key;
	u64 pages;
	bool fault;
	u32 nr;

	if (!state)
		return 0;
	mapping = PLAIN(address_space, (void *)state->event_mapping);
	nr = syscall_nr(task, regs);
	fault = in_fault(state, task, state->event_mapping);
	/* other advice evicts pages */
	if (!fault && nr != NR_readahead &&
	    (!(call_kind(nr) & CALL_PREFETCH) || (nr == NR_madvise ? ARG3(regs) : ARG4(regs)) != ADVICE_WILLNEED))
		return 0;
	pages = state->event_hi - state->event_lo + 1;
	ahead_take(mapping, state->event_lo, state->event_hi);
	ledger = ledger_of(READ(mapping, host), 0, &key);
	if (!ledger)
		return 1;
	if (fault)
		ADD(ledger, fault_readahead_pages, -pages);
	else
		ADD(ledger, prefetch_pages, -pages);
	ADD(ledger, readahead_cancelled_pages, pages);
	return 1;
}

SEC("raw_tp/mm_filemap_delete_from_page_cache")
int BPF_PROG(on_delete, struct folio *raw_folio)
{
	CURRENT(trusted, task);
	struct folio *folio = PLAIN(folio, raw_folio);
	struct address_space *mapping = READ(folio, mapping);
	u64 m = (u64)mapping, lo = READ(folio, index), pages = folio_pages(folio), hi = lo + pages - 1;
	u64 wasted;
	struct row_key key = {};
	struct ledger *ledger;
	struct task_state *state;
	bool other;

	if (folio_is_shmem(folio))
		return 0;
	state = bpf_task_storage_get(&tasks, trusted, 0, 0);
	/* a failed read leaves pages that came in ahead: before it is forgotten that they did */
	if (state && is_due(state))
		settle_and(ctx, state, DELETE);
	/* a page that no read has filled, such as one with the edge of a hole, can also be reclaimed in the middle of a read */
	if (!(task->flags & (PF_KSWAPD | PF_MEMALLOC)) &&
	    !folio_flag(folio, bpf_core_enum_value(enum pageflags, PG_uptodate))) {
		u32 nr = syscall_nr(task, (void *)bpf_task_pt_regs(trusted));

		if (state)
			set_event(state, m, lo, hi);
		if (state && in_uring(state, nr) && flight_cancel(state))
			return finish(ctx);
		if (state && state->pending.mapping == m && state->pending.nr == nr) {
			/* the file system gave the folio back unread: the insert did not happen */
			u64 from, to, inside = asked_for(state, lo, hi, &from, &to);

			FORGET(inside);
			if (inside)
				cancel_again(state, from, to);
			if (state->pending_miss >= inside)
				state->pending_miss -= inside;
			if (state->pending_ahead >= pages - inside)
				state->pending_ahead -= pages - inside;
			ahead_take(mapping, lo, hi);
			key = state->pending_key;
			ledger = ledger_of_key(&key);
			if (!ledger)
				return 0;
			ADD(ledger, readahead_cancelled_pages, pages);
			/* of inline data, whose pages the file system then reads one by one */
			if (call_kind(nr) & CALL_SPLICE || nr == NR_io_submit)
				ADD(ledger, rangeless_reads, 1);
			return 0;
		}
		if (state && cancel_insert(state))
			return finish(ctx);
	}
	wasted = ahead_take(mapping, lo, hi);
	/* truncated or deleted: in no memory, whatever its size, would they have stayed */
	if (ACCESSES && (!READ(mapping, host, i_nlink) ||
				lo << config.page_shift >= READ(mapping, host, i_size)))
		access_pages(m, lo, hi, ACCESS_REMOVE, 0);
	left[watch_slot(READ(mapping, host, i_ino))]++;
	file_of(READ(mapping, host), &key.file);
	if (!is_wanted(&key.file))
		return 0;
	if (config.detail == DETAIL_TOTALS) {
		/* pages belong to files: for chosen tasks there is no such number */
		if ((config.scope == SCOPE_TREE || config.cgroup_filter) && !config.file_filter)
			return 0;
		ledger = cpu_total();
		if (!ledger)
			return 0;
	} else {
		if (!bpf_map_lookup_elem(&files, &key.file))
			return 0;
		/* of what was cut off, deleted or unmounted nothing comes back: other data takes its place */
		if (READ(mapping, host, i_nlink) && lo << config.page_shift < READ(mapping, host, i_size) &&
		    READ(mapping, host, i_sb, s_flags) & SB_ACTIVE)
			gone_set(READ(mapping, host), &key.file, lo, hi);
		/* one side for both, so that the culprits of an interval add up to its rows */
		other = on_other_side();
		book_eviction(&key, (u64)raw_folio, other);
		ledger = row_on(other, &key);
		if (STACKS)
			stack_of_eviction(pages);
	}
	if (!ledger)
		return 0;
	if (task->flags & (PF_KSWAPD | PF_MEMALLOC))
		ADD(ledger, evicted_reclaim_pages, pages);
	else
		ADD(ledger, evicted_other_pages, pages);
	if (wasted)
		ADD(ledger, readahead_wasted_pages, wasted);
	return 0;
}

#endif
