/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads on kernels that have no tracepoint and refuse fentry and kprobes: counted at the end of each system
 * call, at a cost to every call of the machine. The pages that a call inserted wait for this.
 * Not seen: page faults; reads by other calls than read calls (libaio, the kernel's own); reads of io_uring
 * workers, except their inserted pages; reads through a descriptor of another file than the one with the pages
 * (overlayfs); and reads with O_DIRECT that fall back to the cache.
 */
#ifndef CACHEWISE_SYSCALL_H
#define CACHEWISE_SYSCALL_H

/* The range of the read-class call `nr` that ended with `result`, of which nothing is left to do. */
static __always_inline int finished_range(struct task_struct *task, struct pt_regs *regs, u32 nr,
					  u64 result, struct range *range)
{
	struct file *file = file_of_fd(task, nr == NR_sendfile ? ARG2(regs) : ARG1(regs));
	u64 position = 0;

	if (!file || READ(file, f_flags) & O_DIRECT)
		return 0;
	range->mapping = (u64)READ(file, f_mapping);
	range->len = result;
	range->pos = READ(file, f_pos) - result; /* it has moved on */
	switch (call_position(nr, regs, &position)) {
	case POSITION_GIVEN:
		range->pos = position;
		break;
	case POSITION_IN_MEMORY:
		if (bpf_probe_read_user(&range->pos, sizeof(range->pos), (void *)position))
			return 0;
		range->pos -= result;
		break;
	}
	switch (nr) {
	case NR_read:
	case NR_pread:
		range->len = ARG3(regs);
		break;
	case NR_readv:
	case NR_preadv:
	case NR_preadv2:
		range->len = iov_length(ARG2(regs), ARG3(regs)) ?: result;
		break;
	}
	return 1;
}

SEC("raw_tp/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *raw_regs, long result)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	struct address_space *mapping;
	struct task_state *state;
	struct inode *inode;
	struct range range = {};
	struct read *read;
	u64 eof, end, shift = config.page_shift;
	u32 nr = regs->orig_ax;

	if (!result || !(call_kind(nr) & (CALL_READ | CALL_SPLICE)) || !in_scope(task) ||
	    task->thread_info.status & TS_COMPAT)
		return 0;
	/* a read that failed after it had reached its file */
	if (result < 0) {
		if (!(call_kind(nr) & CALL_READ) ||
		    (result != -EFAULT && result != -EAGAIN && result != -EIO && result != -ENOMEM))
			return 0;
		result = 0;
	}
	if (!finished_range(task, regs, nr, result, &range))
		return 0;
	mapping = PLAIN(address_space, (void *)range.mapping);
	inode = READ(mapping, host);
	if ((!S_ISREG(READ(inode, i_mode)) && !S_ISBLK(READ(inode, i_mode))) ||
	    !READ(mapping, a_ops, read_folio) || !(state = state_of(trusted)))
		return 0;
	if (range.len > MAX_RW_COUNT)
		range.len = MAX_RW_COUNT;
	eof = READ(inode, i_size);
	end = range.pos + range.len;
	if (end > eof)
		end = eof;
	if (end <= range.pos)
		return 0;
	/* no page was inserted and none is resident: not through the cache (sysfs, FUSE with direct_io) */
	if (!READ(mapping, nrpages) && state->pending.mapping != range.mapping)
		return 0;
	read = &state->counting;
	__builtin_memset(read, 0, sizeof(*read));
	read->mapping = range.mapping;
	set_call(&read->call, range.mapping, task->ioac.syscr - 1, nr, state->epoch);
	/* inserts of a call that is not counted */
	if (state->pending.mapping && call_kind(state->pending.nr) & (CALL_READ | CALL_CHUNKED) &&
	    state->pending.serial != read->call.serial)
		pending_flush(state);
	read->start = range.pos >> shift;
	read->end = (end - 1) >> shift;
	read->tally.requests = 1;
	read->tally.pages = read->tally.reached = read->end - read->start + 1;
	read->tally.bytes = end - range.pos;
	state->read_pages = read->tally.pages;
	state->read_misses = 0;
	if (state->pending.mapping == range.mapping)
		pending_commit(state, &read->tally);
	state->read = read->call;
	state->read_end = read->end;
	if (state->pending.mapping)
		pending_flush(state);
	/* what is inserted later is not for this call */
	state->ahead.mapping = 0;
	count_read(state);
	if (result < read->tally.bytes) {
		state->read_result.call = read->call;
		open_result(&state->read_result, inode, task->ioac.rchar - result);
		state->read_result.pos = range.pos;
		state->read_result.bytes = read->tally.bytes;
		state->read_result.start = read->start;
		state->read_result.end = read->end;
		state->read_result.misses = read->tally.misses;
		state->read_result.stack = state->pending_stack;
		settle_read(state);
	}
	return finish(ctx);
}

#endif
