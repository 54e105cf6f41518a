/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffered writes. The kernel has no common event for them, and one for every system call would slow
 * all system calls of the machine, so the file systems' own events are used: they say that a write
 * reached the cache, and where; the registers say how long it is.
 */
#ifndef CACHEWISE_WRITE_H
#define CACHEWISE_WRITE_H

struct write {
	u64 inode; /* its address */
	u64 requests;
	u64 pos, end;
	u64 first_page; /* that of `pos`, or the next one if that was counted before */
};

ONCE int count_write(struct write *write)
{
	CURRENT(trusted, task);
	struct ledger *ledger;
	struct row_key key;
	struct inode *inode;
	u64 last_page, pages;

	if (!write)
		return 0;
	inode = PLAIN(inode, (void *)write->inode);
	last_page = (write->end - 1) >> config.page_shift;
	pages = last_page >= write->first_page ? last_page - write->first_page + 1 : 0;
	if (!book_write_in_slot(task, inode, write->requests, pages, write->end - write->pos)) {
		ledger = ledger_of(inode, 0, &key);
		ADD(ledger, write_requests, write->requests);
		ADD(ledger, write_bytes, write->end - write->pos);
		ADD(ledger, write_pages, pages);
	}
	access_pages((u64)READ(inode, i_mapping), write->first_page, last_page, ACCESS_WRITE, 0);
	return 0;
}

static __always_inline int write_event(struct inode *inode, u64 pos, u64 event_len)
{
	CURRENT(trusted, task);
	struct address_space *mapping = READ(inode, i_mapping);
	struct task_state *state;
	struct pt_regs *regs;
	u64 m = (u64)mapping, serial, shift = config.page_shift, len, end;
	u64 first_page = pos >> shift, event_pos = pos;
	struct range direct = {};
	u32 nr, requests = 1;
	bool same;

	if (!in_scope(task) || !event_len || !(state = state_at_request(trusted, task)))
		return 0;
	regs = (void *)bpf_task_pt_regs(trusted);
	nr = syscall_nr(task, regs);
	serial = write_serial(task, state, regs, nr);
	if (in_uring(state, nr)) {
		state->event_inode = (u64)inode;
		state->event_lo = pos;
		if (flight_write(state))
			return 0;
	}
	if (nr == NR_io_uring_enter || task->flags & PF_IO_WORKER) {
		/* counted at submission, unless it is direct I/O that falls back to the cache */
		if (!find_direct_write(&direct))
			return 0;
		struct write fallen = { (u64)inode, pos == direct.pos, pos, pos + event_len, first_page };

		count_write(&fallen);
		set_call(&state->write, m, serial, nr, state->epoch);
		return 0;
	}
	same = same_call(&state->write, m, serial, nr, state->epoch);
	struct target target = { m, nr };

	len = nr == NR_pwrite || nr == NR_write ? plain_write_length(task, regs, m) : write_length(&target);
	if (len) {
		if (same)
			return 0; /* counted as a whole with its first event */
		end = pos + len;
	} else {
		/* no registers to ask: as far as the events tell, one folio after the other */
		end = pos + event_len;
		if (same && pos > state->write_pos && pos <= state->write_end) {
			state->write_pos = pos;
			if (end <= state->write_end)
				return 0;
			pos = state->write_end;
			first_page = (pos + (1 << shift) - 1) >> shift;
			requests = 0;
		}
	}
	struct write write = { (u64)inode, requests, pos, end, first_page };

	count_write(&write);
	set_call(&state->write, m, serial, nr, state->epoch);
	state->write_pos = event_pos;
	state->write_end = end;
	/* without a call where all has moved, as mostly */
	if (state->write_result.open && task->ioac.wchar - state->write_result.account < state->write_result.bytes)
		settle_write(state);
	if (len) {
		state->write_result.call = state->write;
		open_result(&state->write_result, inode, task->ioac.wchar);
		state->write_result.pos = pos;
		state->write_result.bytes = len;
		state->write_result.start = first_page;
		state->write_result.end = (end - 1) >> shift;
	}
	return 0;
}

/* Attached to ext4_da_write_begin and to ext4_write_begin, without delayed allocation. */
SEC("raw_tp")
int BPF_PROG(on_ext4_write, struct inode *inode, loff_t pos, unsigned int len)
{
	write_event(PLAIN(inode, inode), pos, len);
	return finish(ctx);
}

SEC("raw_tp/xfs_file_buffered_write")
int BPF_PROG(on_xfs_write, struct kiocb *iocb, struct iov_iter *from)
{
	iocb = PLAIN(kiocb, iocb);
	from = PLAIN(iov_iter, from);
	write_event(READ(iocb, ki_filp, f_inode), READ(iocb, ki_pos), READ(from, count));
	return finish(ctx);
}

/* A write call on a file of btrfs has reached the cache. */
static __always_inline int btrfs_write_event(struct file *file, struct pt_regs *regs, u32 nr)
{
	u64 pos = ARG4(regs);

	if (nr == NR_write || nr == NR_writev || (nr == NR_pwritev2 && (s64)pos < 0))
		pos = READ(file, f_pos);
	if (READ(file, f_flags) & O_APPEND)
		pos = READ(file, f_mapping, host, i_size);
	return write_event(READ(file, f_mapping, host), pos, 1);
}

/* Marks the row of a file that the current task writes to: the write is not counted. */
static __always_inline void mark_rangeless_write(struct inode *inode)
{
	struct row_key key;
	struct ledger *ledger = ledger_of(inode, 0, &key);

	ADD(ledger, rangeless_writes, 1);
}

/*
 * btrfs has no event of its own for a write; marking the range in the inode's extent tree is one. The
 * tree is compared with that of the file in the descriptor, so no bit's value has to be known. Direct I/O
 * marks it too; where that falls back to the cache, the pages that it makes dirty tell.
 */
SEC("raw_tp/btrfs_set_extent_bit")
int BPF_PROG(on_btrfs_write, const struct extent_io_tree *tree, u64 start, u64 len, unsigned int bits)
{
	CURRENT(trusted, task);
	struct target target;
	struct pt_regs *regs;
	struct file *file;
	struct inode *inode;

	if (!in_scope(task))
		return 0;
	regs = (void *)bpf_task_pt_regs(trusted);
	target.nr = syscall_nr(task, regs);
	if (!(call_kind(target.nr) & (CALL_WRITE | CALL_SPLICE)) && target.nr != NR_io_submit)
		return 0;
	/* of trees that are not an inode's, an address that is no mapping */
	inode = PLAIN(inode, (void *)tree - bpf_core_field_offset(struct btrfs_inode, io_tree) +
				     bpf_core_field_offset(struct btrfs_inode, vfs_inode));
	target.mapping = (u64)READ(inode, i_mapping);
	if (!(call_kind(target.nr) & CALL_WRITE)) {
		if (is_output(&target))
			mark_rangeless_write(inode);
		return finish(ctx);
	}
	file = file_of_fd(task, ARG1(regs));
	if (!file || (u64)READ(file, f_mapping) != target.mapping || READ(file, f_flags) & O_DIRECT)
		return 0;
	btrfs_write_event(file, regs, target.nr);
	return finish(ctx);
}

SEC("raw_tp/writeback_dirty_folio")
int BPF_PROG(on_dirty, struct folio *folio, struct address_space *mapping)
{
	CURRENT(trusted, task);
	struct ledger *ledger;
	struct row_key key;

	if (!mapping || !in_scope(task))
		return 0;
	mapping = PLAIN(address_space, mapping);
	ledger = ledger_of(READ(mapping, host), 0, &key);
	ADD(ledger, dirtied_pages, folio_pages(PLAIN(folio, folio)));
	return finish(ctx);
}

/* Direct writes that btrfs falls back to write through the cache. */
SEC("raw_tp/writeback_dirty_folio")
int BPF_PROG(on_btrfs_dirty, struct folio *raw_folio, struct address_space *raw_mapping)
{
	CURRENT(trusted, task);
	struct address_space *mapping = PLAIN(address_space, raw_mapping);
	struct folio *folio = PLAIN(folio, raw_folio);
	struct range direct = {};
	struct pt_regs *regs;
	struct file *file;
	u64 start, end;
	u32 nr;

	if (!raw_mapping || !in_scope(task) ||
	    READ(mapping, host, i_sb, s_magic) != BTRFS_SUPER_MAGIC)
		return 0;
	if (find_direct_write(&direct)) {
		start = READ(folio, index) << config.page_shift;
		end = start + ((u64)folio_pages(folio) << config.page_shift);
		if (start < direct.pos)
			start = direct.pos;
		if (end > direct.pos + direct.len)
			end = direct.pos + direct.len;
		struct write fallen = { (u64)READ(mapping, host), start == direct.pos, start, end,
					start >> config.page_shift };

		if (direct.mapping == (u64)mapping && start < end)
			count_write(&fallen);
		return finish(ctx);
	}
	regs = (void *)bpf_task_pt_regs(trusted);
	nr = syscall_nr(task, regs);
	if (!(call_kind(nr) & CALL_WRITE))
		return 0;
	file = file_of_fd(task, ARG1(regs));
	if (file && READ(file, f_flags) & O_DIRECT && READ(file, f_mapping) == mapping)
		btrfs_write_event(file, regs, nr);
	return finish(ctx);
}

#endif
