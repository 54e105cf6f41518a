/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The same events on kernels without tracepoints for them: from the entry and the return of kernel functions,
 * by fentry and fexit or else by kprobes. The other files count them.
 *
 * A read is one event here, at its return, with its whole range; the pages that it inserts wait for that.
 */
#ifndef CACHEWISE_FUNCTION_H
#define CACHEWISE_FUNCTION_H

/*
 * Counts a lost return: the previous call of the task is still open, so its end was not seen. A kretprobe has
 * slots for two calls per CPU (at least 10), and a sleeping call keeps its slot.
 */
static __always_inline void check_ended(u64 open)
{
	if (open)
		__sync_fetch_and_add(&lost.returns, 1);
}

/* A read of `count` bytes at `pos` begins. */
static __always_inline int read_begins(struct file *file, u64 pos, u64 count)
{
	CURRENT(trusted, task);
	struct address_space *mapping;
	struct task_state *state;
	u64 shift = config.page_shift;

	if (!in_scope(task) || !(state = state_at_request(trusted, task)))
		return 0;
	check_ended(state->call_mapping);
	state->call_mapping = 0;
	mapping = READ(file, f_mapping);
	if (!count || pos >= READ(mapping, host, i_size))
		return 0;
	state->call_mapping = (u64)mapping;
	state->call_index = pos >> shift;
	state->call_last = (pos + count - 1) >> shift;
	announce_range(READ(mapping, host), state->call_index,
		       state->call_last - state->call_index + 1, true);
	return finish_here();
}

static __always_inline int read_ends(s64 result)
{
	CURRENT(trusted, task);
	struct task_state *state;
	u64 mapping;

	if (!in_scope(task) || !(state = bpf_task_storage_get(&tasks, trusted, 0, 0)))
		return 0;
	mapping = state->call_mapping;
	state->call_mapping = 0;
	/* -EAGAIN: the read would have to wait, and a read that may wait repeats the request */
	if (!mapping || !result || result == -EAGAIN)
		return 0;
	get_pages((void *)mapping, state->call_index, state->call_last, true);
	return finish_here();
}

static __always_inline int read_iocb_begins(struct kiocb *iocb, struct iov_iter *iter)
{
	iocb = PLAIN(kiocb, iocb);
	iter = PLAIN(iov_iter, iter);
	return read_begins(READ(iocb, ki_filp), READ(iocb, ki_pos), READ(iter, count));
}

static __always_inline int splice_begins(struct file *file, loff_t *pos, u64 len)
{
	u64 start = 0;

	bpf_probe_read_kernel(&start, sizeof(start), pos);
	return read_begins(PLAIN(file, file), start, len);
}

SEC("fentry/filemap_read")
int BPF_PROG(on_read_fentry, struct kiocb *iocb, struct iov_iter *iter)
{
	return read_iocb_begins(iocb, iter);
}

SEC("fexit/filemap_read")
int BPF_PROG(on_read_fexit, struct kiocb *iocb, struct iov_iter *iter, ssize_t before, ssize_t result)
{
	return read_ends(result);
}

SEC("kprobe/filemap_read")
int BPF_KPROBE(on_read_kprobe, struct kiocb *iocb, struct iov_iter *iter)
{
	return read_iocb_begins(iocb, iter);
}

SEC("kretprobe/filemap_read")
int BPF_KRETPROBE(on_read_kretprobe, ssize_t result)
{
	return read_ends(result);
}

/* 6.5 and later: before, splice(2) and similar calls go through filemap_read */
SEC("fentry/filemap_splice_read")
int BPF_PROG(on_splice_fentry, struct file *file, loff_t *pos, void *pipe, size_t len)
{
	return splice_begins(file, pos, len);
}

SEC("fexit/filemap_splice_read")
int BPF_PROG(on_splice_fexit, struct file *file, loff_t *pos, void *pipe, size_t len, unsigned int flags,
	     ssize_t result)
{
	return read_ends(result);
}

SEC("kprobe/filemap_splice_read")
int BPF_KPROBE(on_splice_kprobe, struct file *file, loff_t *pos, void *pipe, size_t len)
{
	return splice_begins(file, pos, len);
}

SEC("kretprobe/filemap_splice_read")
int BPF_KRETPROBE(on_splice_kretprobe, ssize_t result)
{
	return read_ends(result);
}

/* Readahead that a read requests. Only misses get here: a hit costs nothing. */
static __always_inline int readahead_for(struct readahead_control *control, u64 count, bool sync)
{
	struct address_space *mapping;

	if (bpf_probe_read_kernel(&mapping, sizeof(mapping),
				  (void *)control + bpf_core_field_offset(struct readahead_control, mapping)))
		return 0;
	mapping = PLAIN(address_space, mapping);
	announce_range(READ(mapping, host), PEEK1(control, _index), count, sync);
	return finish_here();
}

SEC("fentry/page_cache_sync_ra")
int BPF_PROG(on_sync_ra_fentry, struct readahead_control *control, unsigned long count)
{
	return readahead_for(control, count, true);
}

SEC("fentry/page_cache_async_ra")
int BPF_PROG(on_async_ra_fentry, struct readahead_control *control, struct folio *folio,
	     unsigned long count)
{
	return readahead_for(control, count, false);
}

SEC("kprobe/page_cache_sync_ra")
int BPF_KPROBE(on_sync_ra_kprobe, struct readahead_control *control, unsigned long count)
{
	return readahead_for(control, count, true);
}

SEC("kprobe/page_cache_async_ra")
int BPF_KPROBE(on_async_ra_kprobe, struct readahead_control *control, struct folio *folio,
	       unsigned long count)
{
	return readahead_for(control, count, false);
}

static __always_inline struct address_space *mapping_of_fault(struct vm_fault *fault)
{
	return PEEK3(fault, vma, vm_file, f_mapping);
}

/* Beyond the end of the file no page can be inserted: SIGBUS. */
static __always_inline bool is_beyond_end(struct address_space *mapping, u64 index)
{
	return index << config.page_shift >= READ(mapping, host, i_size);
}

static __always_inline int fault_begins(struct vm_fault *fault)
{
	struct address_space *mapping = PLAIN(address_space, mapping_of_fault(fault));
	u64 index = PEEK1(fault, pgoff);

	if (is_beyond_end(mapping, index))
		return 0;
	fault_on(mapping, index);
	return finish_here();
}

/* The kernel maps resident pages around the page (fault-around). */
static __always_inline int fault_looks_around(struct vm_fault *fault)
{
	struct address_space *mapping = PLAIN(address_space, mapping_of_fault(fault));

	if (!is_beyond_end(mapping, PEEK1(fault, pgoff)))
		fault_event(mapping);
	return finish_here();
}

SEC("fentry/filemap_map_pages")
int BPF_PROG(on_map_pages_fentry, struct vm_fault *fault)
{
	return fault_looks_around(fault);
}

SEC("fentry/filemap_fault")
int BPF_PROG(on_fault_fentry, struct vm_fault *fault)
{
	return fault_begins(fault);
}

SEC("kprobe/filemap_map_pages")
int BPF_KPROBE(on_map_pages_kprobe, struct vm_fault *fault)
{
	return fault_looks_around(fault);
}

SEC("kprobe/filemap_fault")
int BPF_KPROBE(on_fault_kprobe, struct vm_fault *fault)
{
	return fault_begins(fault);
}

/* Direct I/O on files, before 6.6. It has seven arguments, too many for fentry there; the last is on the stack. */
SEC("kprobe/__iomap_dio_rw")
int BPF_KPROBE(on_direct_begin_kprobe, struct kiocb *iocb, struct iov_iter *iter)
{
	u64 done_before = 0;

	bpf_probe_read_kernel(&done_before, sizeof(done_before), (void *)(ctx->sp + sizeof(u64)));
	direct_begins(iocb, iter, done_before, NULL);
	return finish_here();
}

/* Computes the result as the kernel function does, just before it returns. */
SEC("kprobe/iomap_dio_complete")
int BPF_KPROBE(on_direct_complete_kprobe, struct iomap_dio *dio)
{
	struct kiocb *iocb = PEEK1(dio, iocb);
	s64 error = PEEK1(dio, error), bytes = error ?: PEEK1(dio, size);
	s64 end = PEEK1(dio, i_size) - PEEK1(iocb, ki_pos);
	u64 id = (u64)iocb;
	struct direct *request = bpf_map_lookup_elem(&direct_requests, &id);

	if (request && !request->write && bytes > end)
		bytes = end;
	return direct_completes(iocb, bytes, true);
}

/* Direct I/O on block devices, before 6.5: a bio does not show whose pages are in it. */
static __always_inline int device_begins(struct kiocb *iocb, struct iov_iter *iter)
{
	CURRENT(trusted, task);
	struct task_state *state;
	struct file *file;
	u32 nr;

	if (!in_scope(task) || !(state = state_of(trusted)))
		return 0;
	iocb = PLAIN(kiocb, iocb);
	iter = PLAIN(iov_iter, iter);
	nr = syscall_nr(task, (void *)bpf_task_pt_regs(trusted));
	check_ended(state->device_inode);
	state->device_inode = 0;
	file = READ(iocb, ki_filp);
	/* requests of io_uring are counted at their submission */
	if (!(READ(file, f_flags) & O_DIRECT) || nr == NR_io_uring_enter ||
	    task->flags & (PF_IO_WORKER | PF_KTHREAD))
		return 0;
	state->device_inode = (u64)READ(file, f_mapping, host);
	state->device_bytes = READ(iter, count);
	state->device_write = READ(iter, data_source);
	return 0;
}

static __always_inline int device_ends(s64 result)
{
	CURRENT(trusted, task);
	struct task_state *state;
	struct ledger *ledger;
	struct row_key key;
	u64 inode;

	if (!in_scope(task) || !(state = bpf_task_storage_get(&tasks, trusted, 0, 0)))
		return 0;
	inode = state->device_inode;
	state->device_inode = 0;
	if (result == -EIOCBQUEUED)
		result = state->device_bytes;
	if (!inode || result <= 0)
		return 0;
	ledger = ledger_of(PLAIN(inode, (void *)inode), 0, &key);
	count_direct(ledger, state->device_write, 1, result);
	if (STACKS)
		weigh(stack_of_direct(state), STACK_DIRECT, UNIT_BYTES, result);
	return finish_here();
}

#define DEVICE_PROGRAMS(name, function)                                                            \
	SEC("fentry/" function)                                                                    \
	int BPF_PROG(on_device_##name##_fentry, struct kiocb *iocb, struct iov_iter *iter)         \
	{                                                                                          \
		return device_begins(iocb, iter);                                                  \
	}                                                                                          \
	SEC("fexit/" function)                                                                     \
	int BPF_PROG(on_device_##name##_fexit, struct kiocb *iocb, struct iov_iter *iter,          \
		     ssize_t result)                                                               \
	{                                                                                          \
		return device_ends(result);                                                        \
	}                                                                                          \
	SEC("kprobe/" function)                                                                    \
	int BPF_KPROBE(on_device_##name##_kprobe, struct kiocb *iocb, struct iov_iter *iter)       \
	{                                                                                          \
		return device_begins(iocb, iter);                                                  \
	}                                                                                          \
	SEC("kretprobe/" function)                                                                 \
	int BPF_KRETPROBE(on_device_##name##_kretprobe, ssize_t result)                            \
	{                                                                                          \
		return device_ends(result);                                                        \
	}

/* operations of opened devices, called by address: the compiler cannot inline them */
DEVICE_PROGRAMS(read, "blkdev_read_iter")
DEVICE_PROGRAMS(write, "blkdev_write_iter")

#endif
