/* SPDX-License-Identifier: GPL-2.0 */
/* Events of io_uring's requests between their submission and their completion: batches, inserts and writes. */
#ifndef CACHEWISE_SERVED_H
#define CACHEWISE_SERVED_H

/* Books a read with the range that its flight names. */
static __always_inline void book_flight(struct ledger *ledger, struct flight *flight)
{
	u64 pages = flight->end - flight->start + 1;

	flight->counted = 1;
	ADD(ledger, read_requests, 1);
	ADD(ledger, read_requested_pages, pages);
	ADD(ledger, read_requested_bytes, flight->bytes);
	ADD(ledger, read_hit_pages, pages);
}

/* Books a write with the range that its flight names. */
static __always_inline void book_written(struct ledger *ledger, struct flight *flight)
{
	flight->counted = 1;
	ADD(ledger, write_requests, 1);
	ADD(ledger, write_bytes, flight->bytes);
	ADD(ledger, write_pages, flight->end - flight->start + 1);
	if (flight->mapping)
		access_pages(flight->mapping, flight->start, flight->end, ACCESS_WRITE, 0);
}

/*
 * Books a read whose range only its first event gives: a splice, a direct read that falls back to the cache, a file of
 * overlayfs, a read beyond the end of its file as it was at submission, a buffer from a pool.
 */
ONCE int reach_flight(u64 id, u64 mapping, u64 last)
{
	struct flight *flight = bpf_map_lookup_elem(&flights, &id);
	struct address_space *of = PLAIN(address_space, (void *)mapping);
	struct io_kiocb *req = PLAIN(io_kiocb, (void *)id);
	struct io_rw *rw = (void *)&req->cmd;
	struct file *file;
	struct inode *inode;
	struct ledger *ledger;
	struct row_key key = {};
	u64 pos, size, end;

	if (!flight)
		return 0;
	inode = READ(of, host);
	pos = flight->pos + flight->before;
	if (flight->at_position && !flight->direct) {
		file = PLAIN(file, (void *)flight->file);
		pos = flight->splice ? READ(file, f_pos) : PEEK1(rw, kiocb.ki_pos);
	}
	size = READ(inode, i_size);
	end = pos + flight->length - flight->before;
	/* a splice moves as much as its pipe has room for, and a buffer of a pool is as long as it is */
	if (!flight->length || (flight->splice && end > (last + 1) << config.page_shift))
		end = (last + 1) << config.page_shift;
	if (end > size)
		end = size;
	if (end <= pos || !(ledger = ledger_of(inode, 0, &key)))
		return 0;
	flight->key = key;
	flight->mapping = mapping;
	flight->inode_number = READ(inode, i_ino);
	flight->left = left[watch_slot(flight->inode_number)];
	flight->pos = pos;
	flight->length -= flight->before;
	flight->bytes = end - pos;
	flight->start = pos >> config.page_shift;
	flight->end = (end - 1) >> config.page_shift;
	book_flight(ledger, flight);
	return 1;
}

/* Readahead for a read of io_uring inserts pages from state->event_lo on; the read wants those up to event_hi. */
ONCE int announce_flight(struct task_state *state)
{
	struct flight *flight;
	struct found_flight *at;
	enum found found;
	u64 id, mapping, last, end;

	if (!state)
		return 0;
	mapping = state->event_mapping;
	last = state->event_hi;
	at = &state->found;
	at->mapping = at->id = 0;
	found = find_flight(state, mapping, last);
	if (found == FOUND_NONE)
		return 0;
	end = last_page(READ(PLAIN(address_space, (void *)mapping), host));
	at->lo = state->event_lo;
	at->hi = last < end ? last : end; /* a folio can reach beyond the end of the file */
	if (found >= FOUND_BY_FILE) {
		id = at->id;
		flight = bpf_map_lookup_elem(&flights, &id);
		if (!flight || flight->write)
			return 0;
		if (!flight->counted && !reach_flight(id, mapping, last))
			return 0;
		/* a read at the file's position begins where it is when its turn comes */
		if (found == FOUND && !flight->at_position) {
			at->lo = flight->start;
			at->hi = flight->end;
		}
	}
	at->mapping = mapping;
	at->epoch = state->epoch;
	at->announced = 1;
	return 1;
}

/* A read of pages up to state->event_hi; 1: it belongs to a request of io_uring that is counted. */
ONCE int flight_event(struct task_state *state)
{
	struct flight *flight;
	enum found found;
	u64 id, mapping, last;

	if (!state)
		return 0;
	mapping = state->event_mapping;
	last = state->event_hi;
	found = find_flight(state, mapping, last);
	if (found == FOUND_NONE)
		return 0;
	state->found.mapping = 0;
	if (found == FOUND_SOME)
		return 1;
	id = state->found.id;
	flight = bpf_map_lookup_elem(&flights, &id);
	if (flight && !flight->counted && !flight->write)
		reach_flight(id, mapping, last);
	return 1;
}

/* Notes that a page may belong to another request. Unless readahead has announced its range, the row is in doubt. */
static __always_inline void doubt_flights(struct task_state *state, struct ledger *ledger)
{
	CURRENT(trusted, task);
	struct flight_key key = { state->found.mapping, ANY_PAGE, task->pid };
	struct flight_group *group = bpf_map_lookup_elem(&flight_groups, &key);

	if (group)
		__sync_fetch_and_add(&group->doubts, 1);
	if (!state->found.announced)
		ADD(ledger, unsure_reads, 1);
}

/* Finds the request that state->insert belongs to, where readahead has announced none. */
static __always_inline bool find_insert(struct task_state *state, u64 mapping)
{
	struct found_flight *at = &state->found;
	enum found found;
	struct flight *flight;
	u64 id;

	at->id = 0;
	found = find_flight(state, mapping, ANY_PAGE);
	if (found == FOUND_NONE)
		return false;
	at->mapping = mapping;
	at->epoch = state->epoch;
	at->announced = 0;
	at->lo = 1;
	at->hi = 0;
	if (found == FOUND_SOME) {
		/* the latest one is the best guess */
		if (state->submitted.mapping == mapping) {
			at->lo = state->submitted.start;
			at->hi = state->submitted.end;
		}
		return true;
	}
	id = at->id;
	flight = bpf_map_lookup_elem(&flights, &id);
	if (!flight)
		return false;
	if (flight->counted) {
		at->lo = flight->start;
		at->hi = flight->end;
	} else if (flight->length) {
		at->lo = flight->pos >> config.page_shift;
		at->hi = (flight->pos + flight->length - 1) >> config.page_shift;
	}
	return true;
}

/* A file system reports a write from byte state->event_lo on; 1: a request of io_uring that is counted makes it. */
ONCE int flight_write(struct task_state *state)
{
	CURRENT(trusted, task);
	struct inode *inode;
	u64 id = (u64)request_at_work(task), mapping, pos;
	struct flight *flight;
	struct ledger *ledger;
	struct row_key key = {};

	if (!state)
		return 0;
	inode = PLAIN(inode, (void *)state->event_inode);
	mapping = (u64)READ(inode, i_mapping);
	pos = state->event_lo;
	if (!id)
		return find_in_group(state, mapping, ANY_PAGE, true) != FOUND_NONE;
	flight = bpf_map_lookup_elem(&flights, &id);
	if (!flight || !flight->write || flight->mapping)
		return flight && flight->write;
	/* on overlayfs the inode below is known only now */
	ledger = ledger_of(inode, 0, &key);
	if (!ledger || !flight->length)
		return 1;
	flight->key = key;
	flight->mapping = mapping;
	if (flight->splice)
		return 1;
	flight->pos = pos;
	flight->bytes = flight->length;
	flight->start = pos >> config.page_shift;
	flight->end = (pos + flight->length - 1) >> config.page_shift;
	book_written(ledger, flight);
	return 1;
}

/* Is a read at the file's position still where the position was at submission? */
static __always_inline bool is_where_it_was(struct flight *flight, u64 id)
{
	struct io_kiocb *req = PLAIN(io_kiocb, (void *)id);
	struct io_rw *rw = (void *)&req->cmd;

	return !flight->splice && PEEK1(rw, kiocb.ki_pos) == flight->pos;
}

/* Books inserted pages on the request of io_uring that they came for; 0: there is none. */
ONCE int flight_insert(struct task_state *state)
{
	struct address_space *mapping;
	struct found_flight *at;
	struct insert *insert;
	struct flight *flight = NULL;
	struct ledger *ledger;
	struct inode *inode;
	struct row_key key = {};
	u64 id, from, to, inside, missed, back;

	if (!state)
		return 0;
	at = &state->found;
	insert = &state->insert;
	mapping = PLAIN(address_space, (void *)insert->target.mapping);
	inode = READ(mapping, host);
	if (at->mapping != insert->target.mapping || at->epoch != state->epoch || !at->announced) {
		if (!find_insert(state, insert->target.mapping)) {
			if (find_in_group(state, insert->target.mapping, ANY_PAGE, true) == FOUND_NONE)
				return 0;
			ledger = ledger_of(inode, insert->pages, &key);
			ADD(ledger, write_new_pages, insert->pages);
			return 1;
		}
	}
	ledger = ledger_of(inode, insert->pages, &key);
	if (!ledger)
		return 1;
	id = at->id;
	if (id)
		flight = bpf_map_lookup_elem(&flights, &id);
	if (flight && flight->write) {
		ADD(ledger, write_new_pages, insert->pages);
		return 1;
	}
	back = config.detail == DETAIL_ROWS ? gone_take(inode, &key.file, insert->lo, insert->hi) : 0;
	if (back)
		ADD(ledger, refault_pages, back);
	from = insert->lo > at->lo ? insert->lo : at->lo;
	to = insert->hi < at->hi ? insert->hi : at->hi;
	inside = to >= from ? to - from + 1 : 0;
	FORGET(inside);
	missed = inside;
	if (flight && inside)
		missed -= come_for_flight(id, flight, from, to, true);
	FORGET(missed);
	/* unless readahead announces the range, it can differ from the one at submission */
	if (!flight || (!at->announced && (flight->selects || (flight->at_position && !is_where_it_was(flight, id)))))
		doubt_flights(state, ledger);
	ADD(ledger, read_missed_pages, missed);
	if (STACKS && missed)
		weigh(stack_of_flight(state), STACK_READ, UNIT_PAGES, missed);
	ADD(ledger, read_hit_pages, -missed);
	ADD(ledger, readahead_wasted_pages, inside - missed);
	ADD(ledger, readahead_pages, insert->pages - missed);
	if (flight)
		__sync_fetch_and_add(&flight->misses, missed);
	if (!inside) {
		ahead_set(mapping, insert->lo, insert->hi);
	} else if (insert->pages > inside) {
		if (insert->lo < from)
			ahead_set(mapping, insert->lo, from - 1);
		if (insert->hi > to)
			ahead_set(mapping, to + 1, insert->hi);
	}
	return 1;
}

/* The file system gave pages event_lo..=event_hi back unread; 0: they had not come for a request of io_uring. */
ONCE int flight_cancel(struct task_state *state)
{
	struct address_space *of;
	struct found_flight *at;
	struct flight *flight;
	struct ledger *ledger;
	struct row_key key = {};
	u64 id, from, to, inside, pages, mapping, lo, hi;

	if (!state)
		return 0;
	mapping = state->event_mapping;
	lo = state->event_lo;
	hi = state->event_hi;
	pages = hi - lo + 1;
	of = PLAIN(address_space, (void *)mapping);
	at = &state->found;
	if (at->mapping != mapping || at->epoch != state->epoch)
		return 0;
	id = at->id;
	from = lo > at->lo ? lo : at->lo;
	to = hi < at->hi ? hi : at->hi;
	inside = to >= from ? to - from + 1 : 0;
	FORGET(inside);
	flight = bpf_map_lookup_elem(&flights, &id);
	if (flight && flight->write)
		return 0;
	if (flight && inside) {
		come_for_flight(id, flight, from, to, false);
		__sync_fetch_and_add(&flight->misses, -inside);
	}
	ahead_take(of, lo, hi);
	ledger = ledger_of(READ(of, host), 0, &key);
	if (!ledger)
		return 1;
	ADD(ledger, read_missed_pages, -inside);
	if (STACKS && inside)
		weigh(stack_of_flight(state), STACK_READ, UNIT_PAGES, -inside);
	ADD(ledger, read_hit_pages, inside);
	ADD(ledger, readahead_pages, inside - pages);
	ADD(ledger, readahead_cancelled_pages, pages);
	return 1;
}

#endif
