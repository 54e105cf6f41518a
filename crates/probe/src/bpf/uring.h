/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io_uring: requests are counted when they are submitted, with their range, and put right when they complete
 * (landing.h). served.h books the events in between.
 */
#ifndef CACHEWISE_URING_H
#define CACHEWISE_URING_H

/* The same as in the entry: IOSQE_FIXED_FILE and so on. */
#define REQ_F_FIXED_FILE 1
#define REQ_F_BUFFER_SELECT (1 << 5)
#define REQ_F_CQE_SKIP (1 << 6)
#define SPLICE_F_FD_IN_FIXED (1U << 31)

/* The file that a request names by descriptor, or by its number among the ring's own. */
static __always_inline struct file *file_of_request(struct task_struct *task, struct io_kiocb *req, u32 fd, bool fixed)
{
	struct io_rsrc_node *node = NULL;
	u64 file = 0;

	if (!fixed)
		return file_of_fd(task, fd);
	if (bpf_core_field_exists(struct io_ring_ctx___array, file_table.files)) {
		struct io_ring_ctx___array *ring = (void *)READ(req, ctx);

		if (fd >= PEEK1(ring, nr_user_files))
			return NULL;
		file = peek((u64)PEEK1(ring, file_table.files) + fd * sizeof(file)) & ~7ULL;
		return file ? PLAIN(file, (void *)file) : NULL;
	}
	/* 6.13 and later */
	if (!bpf_core_field_exists(struct io_ring_ctx, file_table.data.nodes) ||
	    fd >= READ(req, ctx, file_table.data.nr))
		return NULL;
	bpf_probe_read_kernel(&node, sizeof(node), READ(req, ctx, file_table.data.nodes) + fd);
	if (node)
		bpf_core_read(&file, sizeof(file), &node->file_ptr);
	file &= ~7ULL;
	return file ? PLAIN(file, (void *)file) : NULL;
}

/* Forgets a request in flight. */
static __always_inline void leave_flight(struct flight *flight, u64 id)
{
	if (flight->grouped) {
		count_flight(flight, id, flight->last, false);
		count_flight(flight, id, ANY_PAGE, false);
	}
}

/* A new request has the address of an old one, which therefore has ended without a completion. */
ONCE int forget_flight(u64 id)
{
	struct flight *flight = bpf_map_lookup_elem(&flights, &id);
	struct ledger *ledger;
	struct row_key key;

	if (!flight)
		return 0;
	leave_flight(flight, id);
	/* either success was not to be reported, or the completion queue was full */
	if (flight->counted && !flight->skips) {
		key = flight->key;
		ledger = ledger_of_key(&key);
		ADD(ledger, unsure_reads, !flight->write);
		ADD(ledger, unsure_writes, flight->write);
	}
	bpf_map_delete_elem(&flights, &id);
	return 0;
}

/* Puts state->submitted among the requests in flight. */
static __always_inline void enter_flight(struct flight *flight, u64 id)
{
	/* only workers serve splice and files of overlayfs, and a worker names its request */
	flight->grouped = flight->mapping && !flight->splice && !flight->device;
	if (flight->grouped) {
		count_flight(flight, id, flight->last, true);
		count_flight(flight, id, ANY_PAGE, true);
	}
	if (bpf_map_update_elem(&flights, &id, flight, BPF_ANY)) {
		__sync_fetch_and_add(&lost.flights, 1);
		leave_flight(flight, id);
	}
}

/* Books state->submitted, as far as its range is known, on the row of its file. */
ONCE int book_submitted(struct task_state *state)
{
	struct inode *inode;
	struct flight *flight;
	struct ahead_range range = {};
	struct ledger *ledger;
	struct row_key key = {};
	u64 size, end;

	if (!state)
		return 0;
	inode = PLAIN(inode, (void *)state->event_inode);
	flight = &state->submitted;
	ledger = ledger_of(inode, 0, &key);
	if (!ledger)
		return 0;
	flight->key = key;
	size = READ(inode, i_size);
	end = flight->pos + flight->length;
	if (!flight->write && end > size)
		end = size;
	if (end <= flight->pos || (flight->direct && !flight->device) || flight->splice)
		return 1;
	flight->bytes = end - flight->pos;
	flight->start = flight->pos >> config.page_shift;
	flight->end = (end - 1) >> config.page_shift;
	if (flight->device) {
		flight->counted = 1;
		count_direct(ledger, flight->write, 1, flight->bytes);
		if (STACKS) {
			flight->stack = stack_of_direct(state);
			weigh(flight->stack, STACK_DIRECT, UNIT_BYTES, flight->bytes);
		}
	} else if (flight->write) {
		book_written(ledger, flight);
	} else {
		book_flight(ledger, flight);
		if (flight->skips) {
			range.mapping = flight->mapping;
			range.inode_number = flight->inode_number;
			range.lo = flight->start;
			range.hi = flight->end;
			ADD(ledger, readahead_hit_pages, ahead_take_range(&range));
		}
	}
	return 1;
}

/* The range that a read or write asks for. */
static __always_inline void range_of_request(struct flight *flight, struct io_kiocb *req, struct file *file, u8 op)
{
	struct io_splice *splice = (void *)&req->cmd;
	struct io_rw *rw = (void *)&req->cmd;

	if (flight->splice) {
		flight->pos = flight->write ? PEEK1(splice, off_out) : PEEK1(splice, off_in);
		flight->length = PEEK1(splice, len);
	} else {
		flight->pos = PEEK1(rw, kiocb.ki_pos);
		flight->length = PEEK1(rw, len);
		if (is_vectored(op))
			flight->length = iov_length(PEEK1(rw, addr), flight->length);
	}
	if (flight->length > MAX_RW_COUNT)
		flight->length = MAX_RW_COUNT;
	flight->at_position = (s64)flight->pos < 0;
	if (flight->at_position)
		flight->pos = READ(file, f_pos);
}

/* Can the page cache serve it: a file or a block device? */
static __always_inline bool is_file(struct file *file)
{
	umode_t mode;

	if (!file)
		return false;
	mode = READ(file, f_mapping, host, i_mode);
	return S_ISREG(mode) || S_ISBLK(mode);
}

SEC("raw_tp/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *raw_req)
{
	CURRENT(trusted, task);
	struct io_kiocb *req = PLAIN(io_kiocb, raw_req);
	struct io_splice *splice = (void *)&req->cmd;
	struct address_space *mapping;
	struct task_state *state;
	struct flight *flight;
	struct inode *inode;
	struct file *file;
	u64 id = (u64)raw_req;
	u32 op = READ(req, opcode);
	u32 flags = READ(req, flags), write;

	if (!in_scope(task) || !(state = state_of(trusted)))
		return 0;
	state->epoch++;
	forget_flight(id);
	write = is_uring_write(op);
	FORGET(op);
	FORGET(write);
	if (op != IORING_OP_SPLICE && !is_uring_read(op) && !write)
		return 0;
	FORGET(op);
	FORGET(write);
	/* one end of a splice is a pipe */
	if (op == IORING_OP_SPLICE) {
		file = file_of_request(task, req, PEEK1(splice, splice_fd_in),
				       PEEK1(splice, flags) & SPLICE_F_FD_IN_FIXED);
		write = !is_file(file);
	}
	if (op != IORING_OP_SPLICE || write)
		file = file_of_request(task, req, READ(req, cqe.fd), flags & REQ_F_FIXED_FILE);
	if (!is_file(file))
		return 0;
	mapping = READ(file, f_mapping);
	inode = READ(mapping, host);
	flight = &state->submitted;
	__builtin_memset(flight, 0, sizeof(*flight));
	flight->ring = (u64)READ(req, ctx);
	flight->user_data = READ(req, cqe.user_data);
	flight->file = (u64)file;
	flight->serial = bpf_ktime_get_ns();
	flight->task = task->pid;
	flight->write = write;
	flight->splice = op == IORING_OP_SPLICE;
	flight->selects = !!(flags & REQ_F_BUFFER_SELECT);
	flight->skips = !!(flags & REQ_F_CQE_SKIP);
	flight->direct = !!(READ(file, f_flags) & O_DIRECT);
	flight->device = flight->direct && !flight->splice && S_ISBLK(READ(inode, i_mode));
	range_of_request(flight, req, file, op);
	if (flight->write && READ(file, f_flags) & O_APPEND) {
		flight->pos = READ(inode, i_size);
		flight->at_position = 1;
	}
	/* iomap's events count direct I/O on files, and the file systems' those writes that fall back to the cache */
	if (flight->direct && (flight->write || flight->splice) && !flight->device)
		return 0;
	if (is_stacked(file)) {
		/* the end of system calls does not show reads on overlayfs */
		if (!config.by_sys_exit)
			enter_flight(flight, id);
		return 0;
	}
	if (!READ(mapping, a_ops, read_folio))
		return 0;
	flight->mapping = (u64)mapping;
	flight->inode_number = READ(inode, i_ino);
	flight->left = left[watch_slot(flight->inode_number)];
	flight->last = (flight->pos + flight->length - 1) >> config.page_shift;
	flight->last |= (1ULL << least_folio_order(mapping)) - 1;
	state->event_inode = (u64)inode;
	if (book_submitted(state))
		enter_flight(flight, id);
	return finish(ctx);
}

#endif
