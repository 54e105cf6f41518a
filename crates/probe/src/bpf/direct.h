/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct I/O. File systems on iomap (ext4, xfs, btrfs, f2fs, gfs2, zonefs) tell when a request starts,
 * so that it is known whose it is, and how many bytes it moved when it ends. Block devices are seen by
 * the user's pages pinned in a bio.
 */
#ifndef CACHEWISE_DIRECT_H
#define CACHEWISE_DIRECT_H

struct direct {
	struct row_key key;
	u64 before; /* bytes of this request that were done buffered, before it came here */
	u64 stack;  /* its id */
	u32 write;
	u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct direct);
} direct_requests SEC(".maps");

static __always_inline void count_direct(struct ledger *ledger, bool write, u64 requests, u64 bytes)
{
	if (write) {
		ADD(ledger, direct_write_requests, requests);
		ADD(ledger, direct_write_bytes, bytes);
	} else {
		ADD(ledger, direct_read_requests, requests);
		ADD(ledger, direct_read_bytes, bytes);
	}
}

/* Sends the stack of the current call, which does direct I/O. */
static __always_inline u64 stack_of_direct(struct task_state *state)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);

	return stack_at(state, STACK_DIRECT, moment_of(task, syscall_nr(task, regs)));
}

/*
 * A request that moved nothing. Not -EAGAIN, where one that may wait asks again, nor -EFAULT on btrfs, which
 * goes through the cache then.
 */
static __always_inline void count_direct_failure(struct ledger *ledger, bool write, struct kiocb *raw_iocb,
						 s64 error)
{
	struct kiocb *iocb = PLAIN(kiocb, raw_iocb);
	struct file *file = READ(iocb, ki_filp);

	if (error == -EAGAIN ||
	    (error == -EFAULT && READ(file, f_inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC))
		return;
	count_direct(ledger, write, 1, 0);
	if (write)
		ADD(ledger, direct_write_failed_requests, 1);
	else
		ADD(ledger, direct_read_failed_requests, 1);
}

/* `context`: of a raw tracepoint. */
static __always_inline int direct_begins(struct kiocb *raw_iocb, struct iov_iter *raw_iter, u64 done_before,
					 void *context)
{
	CURRENT(trusted, task);
	struct kiocb *iocb = PLAIN(kiocb, raw_iocb);
	struct iov_iter *iter = PLAIN(iov_iter, raw_iter);
	struct file *file = READ(iocb, ki_filp);
	struct direct request = {};
	struct task_state *state;
	u64 id = (u64)raw_iocb;

	/* what ended without an event has left its entry, and the address is used again */
	bpf_map_delete_elem(&direct_requests, &id);
	if (!in_scope(task))
		return 0;
	/* at the end of the file there is nothing to do, and no completion */
	if (!READ(iter, count) || (!READ(iter, data_source) && READ(iocb, ki_pos) >= READ(file, f_mapping, host, i_size)))
		return 0;
	state = state_of(trusted);
	if (state) {
		/* before the bytes of this one are added */
		if (context) {
			if ((state->pending.mapping && flush_first(state)) || is_due(state))
				settle_and(context, state, DIRECT_BEGIN);
		} else {
			if (state->pending.mapping)
				pending_flush(state);
			settle_results(state);
		}
		state->direct_serial = task->ioac.syscr + 1;
	}
	if (!ledger_of(READ(file, f_mapping, host), 0, &request.key))
		return 0;
	if (STACKS && state)
		request.stack = stack_of_direct(state);
	request.before = done_before;
	request.write = READ(iter, data_source);
	if (bpf_map_update_elem(&direct_requests, &id, &request, BPF_ANY))
		__sync_fetch_and_add(&lost.direct, 1);
	return 0;
}

SEC("raw_tp/iomap_dio_rw_begin")
int BPF_PROG(on_direct_begin, struct kiocb *iocb, struct iov_iter *iter, unsigned int flags,
	     size_t done_before)
{
	direct_begins(iocb, iter, done_before, ctx);
	return finish(ctx);
}

/* `bytes` counts those that were done buffered, before it came here, unless it is `net`. */
static __always_inline int direct_completes(struct kiocb *iocb, s64 bytes, bool net)
{
	u64 id = (u64)iocb;
	struct direct *request = bpf_map_lookup_elem(&direct_requests, &id);
	struct row_key key;
	u64 before, stack;
	u32 write;
	bool again;

	if (!request)
		return 0;
	key = request->key;
	stack = request->stack;
	before = net ? 0 : request->before;
	write = request->write;
	bpf_map_delete_elem(&direct_requests, &id);
	if (bytes > 0 && bytes > before) {
		/* what io_uring reads after a file has become longer is the rest of its request */
		again = move_directly(iocb, bytes - before);
		count_direct(ledger_of_key(&key), write, !again, bytes - before);
		weigh(stack, STACK_DIRECT, UNIT_BYTES, bytes - before);
	}
	else if (bytes < 0)
		count_direct_failure(ledger_of_key(&key), write, iocb, bytes);
	return 0;
}

SEC("raw_tp/iomap_dio_complete")
int BPF_PROG(on_direct_complete, struct kiocb *iocb, int error, ssize_t bytes)
{
	return direct_completes(iocb, bytes, false);
}

/*
 * splice(2) and sendfile(2) read from and write to a device that is open with O_DIRECT by pages of the kernel's,
 * which are not pinned. The bio takes them as they are listed, and is marked like a clone for that. On other devices
 * that is the device's own business, and for files iomap tells.
 */
static __always_inline int spliced_bio(struct bio *bio, struct task_state *state, struct pt_regs *regs, u32 nr)
{
	CURRENT(trusted, task);
	u32 write = READ(bio, bi_opf) & 1, again;
	struct row_key key = {};
	struct ledger *ledger;
	struct inode *inode;
	struct file *file;
	u64 pos, serial, at = write ? ARG4(regs) : ARG2(regs);
	u32 epoch = 0;

	FORGET(write);
	if (nr == NR_sendfile)
		file = file_of_fd(task, write ? ARG1(regs) : ARG2(regs));
	else
		file = file_of_fd(task, write ? ARG3(regs) : ARG1(regs));
	if (!file || !(READ(file, f_flags) & O_DIRECT))
		return 0;
	inode = READ(file, f_mapping, host);
	if (!S_ISBLK(READ(inode, i_mode)) || READ(bio, bi_bdev, bd_dev) != READ(inode, i_rdev))
		return 0;
	if (nr == NR_splice) {
		/* it leaves the counts of reads and writes as they are: its position tells one from the next */
		pos = READ(file, f_pos);
		if (at)
			bpf_probe_read_user(&pos, sizeof(pos), (void *)at);
		epoch = pos >> 9;
	}
	ledger = ledger_of(inode, 0, &key);
	serial = write ? task->ioac.syscw : task->ioac.syscr;
	again = same_call(&state->bio, (u64)inode, serial, nr, epoch);
	FORGET(again);
	set_call(&state->bio, (u64)inode, serial, nr, epoch);
	if (!ledger)
		return 0;
	count_direct(ledger, write, !again, READ(bio, bi_iter.bi_size));
	if (STACKS)
		weigh(stack_of_direct(state), STACK_DIRECT, UNIT_BYTES, READ(bio, bi_iter.bi_size));
	return 0;
}

static __always_inline int bio_event(struct bio *raw_bio)
{
	CURRENT(trusted, task);
	struct bio *bio = PLAIN(bio, raw_bio);
	struct task_state *state;
	struct ledger *ledger;
	struct pt_regs *regs;
	struct row_key key = {};
	struct file *file;
	struct inode *inode;
	u32 write, again;
	bool pinned;
	u64 serial;
	u32 nr;

	if (!(READ(bio, bi_flags) & (1 << BIO_PAGE_PINNED | 1 << BIO_CLONED)))
		return 0;
	if (!in_scope(task) || task->flags & PF_KTHREAD)
		return 0;
	regs = (void *)bpf_task_pt_regs(trusted);
	nr = syscall_nr(task, regs);
	pinned = READ(bio, bi_flags) & 1 << BIO_PAGE_PINNED;
	if ((!pinned && nr != NR_splice && nr != NR_sendfile) || !(state = state_of(trusted)))
		return 0;
	if (!pinned)
		return spliced_bio(bio, state, regs, nr);
	write = READ(bio, bi_opf) & 1;
	if (call_kind(nr) & (CALL_READ | CALL_WRITE)) {
		file = file_of_fd(task, ARG1(regs));
		if (!file)
			return 0;
		inode = READ(file, f_mapping, host);
		if (!S_ISBLK(READ(inode, i_mode)))
			return 0; /* a file: iomap tells */
		ledger = ledger_of(inode, 0, &key);
		serial = write ? task->ioac.syscw : task->ioac.syscr;
		again = same_call(&state->bio, (u64)inode, serial, nr, 0);
		FORGET(again);
		set_call(&state->bio, (u64)inode, serial, nr, 0);
	} else if (nr == NR_io_submit) {
		if (state->direct_serial == task->ioac.syscr + 1)
			return 0;
		key.file.dev = READ(bio, bi_bdev, bd_dev);
		if (!is_wanted(&key.file))
			return 0;
		if (config.detail == DETAIL_ROWS) {
			process_of(task, &key.process);
			meet_row();
		}
		ledger = ledger_of_key(&key);
		again = false;
	} else {
		return 0;
	}
	if (!ledger)
		return 0;
	count_direct(ledger, write, !again, READ(bio, bi_iter.bi_size));
	if (STACKS)
		weigh(stack_of_direct(state), STACK_DIRECT, UNIT_BYTES, READ(bio, bi_iter.bi_size));
	return 0;
}

SEC("raw_tp/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	bio_event(bio);
	return finish(ctx);
}

#endif
