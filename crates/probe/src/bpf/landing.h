/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Completions of io_uring's requests: they correct what submission has booked. A request keeps its file until it has
 * completed.
 */
#ifndef CACHEWISE_LANDING_H
#define CACHEWISE_LANDING_H

#define REFUSALS                                                                                   \
	(1ULL << EPERM | 1ULL << ENXIO | 1ULL << EBADF | 1ULL << EACCES | 1ULL << EISDIR | 1ULL << EINVAL | \
	 1ULL << ETXTBSY | 1ULL << EFBIG | 1ULL << ESPIPE | 1ULL << EROFS)

/* Does the result say that the request did not reach its file, or that it was cancelled? */
SHARED int is_refusal(s64 result)
{
	u64 error = -result;

	return (error < 64 && REFUSALS >> error & 1) || error == EOPNOTSUPP || error == ENOBUFS || error == ECANCELED;
}

/* The byte behind the last one that the request has moved. */
static __always_inline u64 position_of(u64 id)
{
	struct io_kiocb *req = PLAIN(io_kiocb, (void *)id);
	struct io_rw *rw = (void *)&req->cmd;

	return PEEK1(rw, kiocb.ki_pos);
}

/* Bytes that a read from `pos` on requested, of which it moved `moved`; the file's end cuts them off. */
SHARED u64 asked_by(struct flight *flight, u64 id, u64 pos, u64 moved)
{
	struct io_kiocb *req = PLAIN(io_kiocb, (void *)id);
	struct io_rw *rw = (void *)&req->cmd;
	struct address_space *mapping;
	u64 bytes, size;

	if (!flight)
		return 0;
	mapping = PLAIN(address_space, (void *)flight->mapping);
	bytes = flight->length;
	if (flight->splice)
		return flight->bytes > moved ? flight->bytes : moved;
	if (pos == flight->pos && moved <= flight->bytes && !flight->selects)
		return flight->bytes;
	/* the kernel sets the length when it takes a buffer from the pool */
	if (flight->selects && moved && PEEK1(rw, len) < (bytes ?: ~0ULL))
		bytes = PEEK1(rw, len);
	size = READ(mapping, host, i_size);
	size = size > pos ? size - pos : 0;
	if (bytes > size)
		bytes = size;
	return bytes > moved ? bytes : moved;
}

/* Takes a read back that requested nothing. */
static __always_inline void unbook_flight(struct ledger *ledger, struct flight *flight)
{
	u64 pages = flight->end - flight->start + 1;

	if (!flight->counted)
		return;
	ADD(ledger, read_requests, -1);
	ADD(ledger, read_requested_pages, -pages);
	ADD(ledger, read_requested_bytes, -flight->bytes);
	ADD(ledger, read_hit_pages, -pages);
}

/* Books that the read at hand did not reach pages cut..=end of it. */
ONCE int cut_flight(struct task_state *state, u64 id, u64 cut)
{
	struct flight *flight = bpf_map_lookup_elem(&flights, &id);
	struct reach_walk walk;
	struct reach *reach;
	struct ledger *ledger;
	struct row_key key;
	u64 unserved, ahead;

	if (!state || !flight)
		return 0;
	reach = &state->reach;
	__builtin_memset(reach, 0, sizeof(*reach));
	set_call(&reach->call, flight->mapping, flight->serial, NR_io_uring_enter, 0);
	reach->inode_number = flight->inode_number;
	reach->start = flight->start;
	reach->end = flight->end;
	reach->cut = cut;
	reach->task = (u32)id;
	reach->started = id >> 32;
	reach->left = flight->left;
	walk.reach = reach;
	walk.state = NULL;
	bpf_loop(1 << 14, reach_step, &walk, 0);
	/* inserted pages that the read did not reach are readahead */
	unserved = flight->end - cut + 1;
	ahead = flight->misses - reach->missed;
	key = flight->key;
	ledger = ledger_of_key(&key);
	if (!ledger)
		return 0;
	ADD(ledger, read_unserved_pages, unserved);
	ADD(ledger, read_missed_pages, -ahead);
	weigh(STACK_NONE, STACK_READ, UNIT_PAGES, -ahead);
	ADD(ledger, readahead_pages, ahead);
	ADD(ledger, read_hit_pages, ahead - unserved);
	ADD(ledger, unsure_reads, flight->doubtful | flight->skips);
	ADD(ledger, unsure_ahead_pages, reach->gone);
	return 0;
}

/* Corrects a read to the range that it had and the bytes that it moved. */
ONCE int land_read(struct task_state *state, u64 id, s64 result)
{
	struct flight *flight = bpf_map_lookup_elem(&flights, &id);
	struct ahead_range range = {};
	struct ledger *ledger;
	struct row_key key;
	u64 moved, pos, bytes, pages, cut;

	if (!state || !flight)
		return 0;
	key = flight->key;
	moved = result > (s64)flight->before ? result - flight->before : 0;
	FORGET(moved);
	if (!flight->counted && (!moved || !flight->mapping || flight->direct))
		return 0;
	ledger = ledger_of_key(&key);
	if (!ledger)
		return 0;
	pos = flight->pos;
	if (flight->at_position && !flight->splice)
		pos = position_of(id) - moved;
	FORGET(pos);
	bytes = asked_by(flight, id, pos, moved);
	if (!bytes || (result < 0 && !flight->misses && is_refusal(result)) ||
	    (!result && flight->at_position)) {
		unbook_flight(ledger, flight);
		return 0;
	}
	pages = flight->counted ? flight->end - flight->start + 1 : 0;
	flight->start = pos >> config.page_shift;
	flight->end = (pos + bytes - 1) >> config.page_shift;
	pages = flight->end - flight->start + 1 - pages;
	FORGET(pages);
	ADD(ledger, read_requests, !flight->counted);
	ADD(ledger, read_requested_pages, pages);
	ADD(ledger, read_hit_pages, pages);
	ADD(ledger, read_requested_bytes, bytes - (flight->counted ? flight->bytes : 0));
	ADD(ledger, read_failed_requests, result < 0);
	ADD(ledger, read_unserved_bytes, bytes - moved);
	cut = moved ? ((pos + moved - 1) >> config.page_shift) + 1 : flight->start;
	FORGET(cut);
	if (cut > flight->start && flight->mapping)
		access_pages(flight->mapping, flight->start, cut - 1, ACCESS_READ, flight->file);
	if (cut > flight->start && !flight->skips) {
		range.mapping = flight->mapping;
		range.inode_number = flight->inode_number;
		range.lo = flight->start;
		range.hi = cut - 1;
		if (*watch_of(range.inode_number))
			ADD(ledger, readahead_hit_pages, ahead_take_range(&range));
	}
	if (cut <= flight->end)
		cut_flight(state, id, cut);
	return 0;
}

/* Books a splice into a file. It requests what the pipe holds, which only the result shows. */
static __always_inline void land_splice(struct ledger *ledger, struct flight *flight, s64 result)
{
	struct file *file = PLAIN(file, (void *)flight->file);

	if (result <= 0)
		return;
	if (flight->at_position)
		flight->pos = READ(file, f_pos) - result;
	flight->bytes = result;
	flight->start = flight->pos >> config.page_shift;
	flight->end = (flight->pos + result - 1) >> config.page_shift;
	book_written(ledger, flight);
}

/* Corrects a write to the place that it had and the bytes that it moved. */
ONCE int land_write(u64 id, s64 result)
{
	struct flight *flight = bpf_map_lookup_elem(&flights, &id);
	struct ledger *ledger;
	struct row_key key;
	u64 pos, moved, pages;

	if (!flight || (!flight->counted && !flight->splice) || !flight->mapping)
		return 0;
	key = flight->key;
	ledger = ledger_of_key(&key);
	if (!ledger)
		return 0;
	if (flight->splice) {
		land_splice(ledger, flight, result);
		return 0;
	}
	pages = flight->end - flight->start + 1;
	if (result < 0 && is_refusal(result)) {
		ADD(ledger, write_requests, -1);
		ADD(ledger, write_bytes, -flight->bytes);
		ADD(ledger, write_pages, -pages);
		return 0;
	}
	moved = result > 0 ? result : 0;
	pos = flight->at_position ? position_of(id) - moved : flight->pos;
	ADD(ledger, write_bytes, moved - flight->bytes);
	ADD(ledger, write_pages,
	    (moved ? ((pos + moved - 1) >> config.page_shift) - (pos >> config.page_shift) + 1 : 0) - pages);
	ADD(ledger, write_unserved_bytes, flight->bytes > moved ? flight->bytes - moved : 0);
	ADD(ledger, write_failed_requests, result < 0);
	return 0;
}

/* Corrects direct I/O on a block device. A request that may not wait and would have to is none. */
ONCE int land_on_device(u64 id, s64 result)
{
	struct flight *flight = bpf_map_lookup_elem(&flights, &id);
	struct ledger *ledger;
	struct row_key key;
	u64 moved = result > 0 ? result : 0;
	bool none;

	if (!flight || !flight->counted)
		return 0;
	key = flight->key;
	ledger = ledger_of_key(&key);
	if (!ledger)
		return 0;
	none = result < 0 && (is_refusal(result) || result == -EAGAIN);
	count_direct(ledger, flight->write, -(u64)none, moved - flight->bytes);
	weigh(flight->stack, STACK_DIRECT, UNIT_BYTES, moved - flight->bytes);
	if (flight->write)
		ADD(ledger, direct_write_failed_requests, result < 0 && !none);
	else
		ADD(ledger, direct_read_failed_requests, result < 0 && !none);
	return 0;
}

SEC("raw_tp/io_uring_complete")
int BPF_PROG(on_uring_complete, void *ring, struct io_kiocb *raw_req)
{
	struct task_struct *trusted = bpf_get_current_task_btf();
	struct io_kiocb *req = PLAIN(io_kiocb, raw_req);
	struct task_state *state;
	struct flight *flight;
	u64 id = (u64)raw_req;
	s64 result;

	if (!raw_req || !(flight = bpf_map_lookup_elem(&flights, &id)))
		return 0;
	/* a task that is not followed uses the address now */
	if (flight->ring != (u64)READ(req, ctx) || flight->user_data != READ(req, cqe.user_data)) {
		forget_flight(id);
		return 0;
	}
	leave_flight(flight, id);
	result = READ(req, cqe.res);
	if (flight->device)
		land_on_device(id, result);
	else if (flight->write)
		land_write(id, result);
	else if ((state = state_of(trusted)))
		land_read(state, id, result);
	bpf_map_delete_elem(&flights, &id);
	return 0;
}

#endif
