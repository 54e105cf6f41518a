/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io_uring: requests are counted when they are submitted, with their exact range. What they then insert
 * is booked by the read path, in the submitter or in a worker thread of the same process.
 */
#ifndef CACHEWISE_URING_H
#define CACHEWISE_URING_H

#define REQ_F_FIXED_FILE 1

static __always_inline struct file *file_of_request(struct task_struct *task, struct io_kiocb *req)
{
	struct io_rsrc_node *node = NULL;
	u64 file = 0;
	u32 fd = READ(req, cqe.fd);

	if (!(READ(req, flags) & REQ_F_FIXED_FILE))
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

SEC("raw_tp/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *raw_req)
{
	CURRENT(trusted, task);
	struct io_kiocb *req = PLAIN(io_kiocb, raw_req);
	struct io_rw *rw = (void *)&req->cmd;
	struct address_space *mapping;
	struct task_state *state;
	struct ledger *ledger;
	struct inode *inode;
	struct row_key key;
	struct file *file;
	u64 pos, len, eof;
	u8 op = READ(req, opcode);
	bool write = is_uring_write(op);

	if (!in_scope(task) || !(state = state_of(trusted)))
		return 0;
	state->epoch++;
	state->uring_counted = 0;
	if (!write && op != IORING_OP_READ && op != IORING_OP_READV && op != IORING_OP_READ_FIXED)
		return 0;
	file = file_of_request(task, req);
	if (!file)
		return 0;
	mapping = READ(file, f_mapping);
	inode = READ(mapping, host);
	if ((!S_ISREG(READ(inode, i_mode)) && !S_ISBLK(READ(inode, i_mode))) || !READ(mapping, a_ops, read_folio))
		return 0;
	pos = PEEK1(rw, kiocb.ki_pos);
	len = PEEK1(rw, len);
	if (op == IORING_OP_READV || op == IORING_OP_WRITEV)
		len = iov_length(PEEK1(rw, addr), len);
	if ((s64)pos < 0)
		pos = READ(file, f_pos);
	if (len > MAX_RW_COUNT)
		len = MAX_RW_COUNT;
	eof = READ(inode, i_size);
	if (!len || (!write && pos >= eof))
		return 0;
	if (!write && len > eof - pos)
		len = eof - pos;
	if (READ(file, f_flags) & O_DIRECT) {
		/* files are counted by iomap; one that falls back to buffered, by its events */
		if (S_ISBLK(READ(inode, i_mode))) {
			ledger = ledger_of(task, inode, 0, &key);
			count_direct(ledger, write, 1, len);
		}
		return 0;
	}
	if (write) {
		if (READ(file, f_flags) & O_APPEND)
			pos = eof;
		struct write request = { (u64)inode, 1, pos, pos + len, pos >> config.page_shift };

		count_write(&request);
		set_call(&state->write, (u64)mapping, task->ioac.syscw, NR_io_uring_enter, state->epoch);
		return 0;
	}
	state->uring_counted = 1;
	struct read *read = &state->counting;

	__builtin_memset(read, 0, sizeof(*read));
	read->mapping = (u64)mapping;
	set_call(&read->call, read->mapping, task->ioac.syscr, NR_io_uring_enter, state->epoch);
	read->start = pos >> config.page_shift;
	read->end = (pos + len - 1) >> config.page_shift;
	read->tally.requests = 1;
	/* reached as far as is known: what it inserts is taken off when it does */
	read->tally.pages = read->tally.reached = read->end - read->start + 1;
	read->tally.bytes = len;
	count_read(state);
	if (state->pending.mapping)
		pending_flush(state);
	set_call(&state->ahead, (u64)mapping, task->ioac.syscr, NR_io_uring_enter, state->epoch);
	state->ahead_start = state->ahead_lo = pos >> config.page_shift;
	state->ahead_hi = (pos + len - 1) >> config.page_shift;
	return 0;
}

#endif
