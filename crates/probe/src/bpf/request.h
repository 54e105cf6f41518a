/* SPDX-License-Identifier: GPL-2.0 */
/* The byte range that a task requested, read from its registers, descriptors and iovecs. */
#ifndef CACHEWISE_REQUEST_H
#define CACHEWISE_REQUEST_H

#define AIO_RING_TAIL 12 /* in struct aio_ring: part of the ABI */

/* Tells the requests of a task's io_submit(2) apart: the context, and how many have ended in it, cut off. */
static __always_inline u64 aio_serial(struct task_state *state, struct pt_regs *regs)
{
	u32 tail;

	/* memory reclaim can have unmapped the ring: then as it was seen last */
	if (!bpf_probe_read_user(&tail, sizeof(tail), (void *)(ARG1(regs) + AIO_RING_TAIL)))
		state->aio_tail = tail;
	return ARG1(regs) + ((u64)state->aio_tail << 48);
}

/* Tells the task's read that is under way from the one before. */
static __always_inline u64 read_serial(struct task_struct *task, struct task_state *state,
				       struct pt_regs *regs, u32 nr)
{
	return nr == NR_io_submit ? aio_serial(state, regs) : task->ioac.syscr;
}

/* The same for a write. */
static __always_inline u64 write_serial(struct task_struct *task, struct task_state *state,
					struct pt_regs *regs, u32 nr)
{
	return nr == NR_io_submit ? aio_serial(state, regs) : task->ioac.syscw;
}

static __always_inline struct file *file_of_fd(struct task_struct *task, u32 fd)
{
	struct files_struct *files = task->files;
	struct fdtable *table;
	struct file *file = NULL;

	if (!files)
		return NULL;
	table = files->fdt;
	if (!table || fd >= table->max_fds)
		return NULL;
	if (BY_HELPER)
		bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	else
		file = (struct file *)peek((u64)(table->fd + fd));
	return file ? PLAIN(file, file) : NULL;
}

/*
 * A file of overlayfs has no pages: the call that names it goes on, with the same range, to a file of the
 * layer below, and that one's mapping is what events tell of.
 */
static __always_inline bool is_stacked(struct file *file)
{
	return READ(file, f_inode, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC;
}

static __always_inline bool reads_or_writes(struct file *file, u64 mapping)
{
	return file && ((u64)READ(file, f_mapping) == mapping || is_stacked(file));
}

#define IOV_MAX 1024 /* the kernel refuses more */

struct iov_walk {
	u64 address, sum;
};

static long iov_step(u64 index, struct iov_walk *walk)
{
	struct {
		u64 base, length;
	} iov;

	if (bpf_probe_read_user(&iov, sizeof(iov), (void *)(walk->address + index * sizeof(iov)))) {
		walk->sum = 0;
		return 1;
	}
	walk->sum += iov.length;
	return 0;
}

/* The sum of an iovec's lengths; 0: unreadable. */
ONCE u64 iov_length(u64 address, u64 segments)
{
	struct iov_walk walk = { address, 0 };

	if (segments > IOV_MAX)
		return 0;
	bpf_loop(segments, iov_step, &walk, 0);
	return walk.sum;
}

enum known { KNOWN_NOTHING, KNOWN_RANGE, KNOWN_START };

/*
 * The range that the read-class call `nr` asks for, and of which mapping. Inside read(2) the file's position is
 * still the start: the kernel works on a copy and writes it back at the end.
 */
static __always_inline int find_read_range(u32 nr, struct range *range)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u64 position = 0;
	struct file *file;

	if (!(call_kind(nr) & (CALL_READ | CALL_SPLICE)))
		return KNOWN_NOTHING;
	file = file_of_fd(task, nr == NR_sendfile ? ARG2(regs) : ARG1(regs));
	if (!file)
		return KNOWN_NOTHING;
	range->mapping = is_stacked(file) ? 0 : (u64)READ(file, f_mapping);
	range->len = ARG3(regs);
	range->pos = READ(file, f_pos);
	switch (call_position(nr, regs, &position)) {
	case POSITION_GIVEN:
		range->pos = position;
		break;
	case POSITION_IN_MEMORY:
		if (bpf_probe_read_user(&position, sizeof(position), (void *)position))
			return KNOWN_NOTHING;
		range->pos = position;
		break;
	}
	switch (nr) {
	case NR_preadv:
	case NR_preadv2:
	case NR_readv:
		range->len = iov_length(ARG2(regs), ARG3(regs));
		return range->len ? KNOWN_RANGE : KNOWN_START;
	case NR_sendfile:
		range->len = ARG4(regs);
		break;
	case NR_copy_file_range:
	case NR_splice:
		range->len = ARG5(regs);
		break;
	}
	return KNOWN_RANGE;
}

ONCE int read_range(u32 nr, struct range *range)
{
	int known;

	if (!range)
		return KNOWN_NOTHING;
	known = find_read_range(nr, range);
	if (range->len > MAX_RW_COUNT)
		range->len = MAX_RW_COUNT;
	return known;
}

static __always_inline bool same_call(const struct call *a, u64 mapping, u64 serial, u32 nr, u32 epoch)
{
	return a->mapping == mapping && a->serial == serial && a->nr == nr && a->epoch == epoch;
}

/* As write_length, of write(2) and pwrite(2) without a call: these are the most frequent. */
static __always_inline u64 plain_write_length(struct task_struct *task, struct pt_regs *regs, u64 mapping)
{
	u64 len = ARG3(regs);

	if (!reads_or_writes(file_of_fd(task, ARG1(regs)), mapping))
		return 0;
	return len < MAX_RW_COUNT ? len : MAX_RW_COUNT;
}

/* The length that the write-class call asks for, if it writes to the target; 0: unknown. */
ONCE u64 write_length(struct target *target)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u64 len;
	u32 nr;

	if (!target || !(call_kind(target->nr) & CALL_WRITE) ||
	    !reads_or_writes(file_of_fd(task, ARG1(regs)), target->mapping))
		return 0;
	nr = target->nr;
	len = nr == NR_write || nr == NR_pwrite ? ARG3(regs) : iov_length(ARG2(regs), ARG3(regs));
	return len < MAX_RW_COUNT ? len : MAX_RW_COUNT;
}

enum {
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_FALLOCATE = 17,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_FADVISE = 24,
	IORING_OP_MADVISE = 25,
	IORING_OP_SPLICE = 30,
	IORING_OP_FTRUNCATE = 55, /* 6.9 and later */
	IORING_OP_READV_FIXED = 60, /* 6.15 and later */
	IORING_OP_WRITEV_FIXED = 61,
};

static __always_inline bool is_uring_write(u8 op)
{
	return op == IORING_OP_WRITE || op == IORING_OP_WRITEV || op == IORING_OP_WRITE_FIXED ||
	       op == IORING_OP_WRITEV_FIXED;
}

static __always_inline bool is_uring_read(u8 op)
{
	return op == IORING_OP_READ || op == IORING_OP_READV || op == IORING_OP_READ_FIXED ||
	       op == IORING_OP_READV_FIXED;
}

/* Does the request's length count iovecs, and not bytes? */
static __always_inline bool is_vectored(u8 op)
{
	return op == IORING_OP_READV || op == IORING_OP_WRITEV || op == IORING_OP_READV_FIXED ||
	       op == IORING_OP_WRITEV_FIXED;
}

/* The request that the task, a worker of io_uring, is at; NULL: none. */
static __always_inline struct io_kiocb *request_at_work(struct task_struct *task)
{
	struct io_worker *worker = task->worker_private;
	struct io_wq_work *work;

	if (!(task->flags & PF_IO_WORKER) || !worker)
		return NULL;
	work = PEEK1(worker, cur_work);
	if (!work)
		return NULL;
	return PLAIN(io_kiocb, (void *)work - bpf_core_field_offset(struct io_kiocb, work));
}

static __always_inline u64 last_page(struct inode *inode)
{
	u64 size = READ(inode, i_size);

	return size ? (size - 1) >> config.page_shift : 0;
}

/* Folios of this mapping have 2^order pages at least (large blocks); 0 for most. */
static __always_inline u32 least_folio_order(struct address_space *mapping)
{
	if (!bpf_core_enum_value_exists(enum mapping_flags, AS_FOLIO_ORDER_MIN))
		return 0;
	return READ(mapping, flags) >> bpf_core_enum_value(enum mapping_flags, AS_FOLIO_ORDER_MIN) & 31;
}

/* As last_requested, where folios have several pages at least. */
ONCE u64 last_in_large_folio(struct target *target, struct task_state *state, u64 last)
{
	CURRENT(trusted, task);
	struct address_space *of;
	struct range range = {};
	u64 end, size, mapping;
	struct io_kiocb *req;
	struct io_rw *rw;
	u32 nr, order;

	if (!state || !target)
		return last;
	mapping = target->mapping;
	nr = target->nr;
	of = PLAIN(address_space, (void *)mapping);
	order = least_folio_order(of);
	if (!order)
		return last;
	size = READ(of, host, i_size);
	if (size && last > (size - 1) >> config.page_shift)
		last = (size - 1) >> config.page_shift;
	req = request_at_work(task);
	if (req) {
		rw = (void *)&req->cmd;
		range.len = PEEK1(rw, len);
		if (is_vectored(READ(req, opcode)))
			range.len = iov_length(PEEK1(rw, addr), range.len);
		if (!range.len)
			return last;
		/* exact with the first batch; later the position has moved on, and what was found then holds */
		end = (PEEK1(rw, kiocb.ki_pos) + range.len - 1) >> config.page_shift;
		if (end >= last && state->ahead.mapping == mapping &&
		    state->ahead.epoch == state->epoch && state->ahead_hi < last &&
		    state->ahead_hi + (1ULL << order) > last)
			end = state->ahead_hi;
	} else if (read_range(nr, &range) == KNOWN_RANGE && range.len &&
	    (!range.mapping || range.mapping == mapping)) {
		end = (range.pos + range.len - 1) >> config.page_shift;
	} else if (same_call(&state->ahead, mapping, read_serial(task, state, (void *)bpf_task_pt_regs(trusted), nr), nr,
			     state->epoch)) {
		end = state->ahead_hi;
	} else {
		return last;
	}
	return end < last ? end : last;
}

/*
 * The last page that the request asks for. The kernel's events name the last page of its last folio,
 * which lies beyond where folios have several pages at least.
 */
static __always_inline u64 last_requested(struct target *target, struct task_state *state, u64 last)
{
	if (!least_folio_order(PLAIN(address_space, (void *)target->mapping)))
		return last;
	return last_in_large_folio(target, state, last);
}

/*
 * Finds the write around the cache that the task, a worker of io_uring, is at. Its position is that of
 * what is left to do: the file system moves it on when a part is done.
 */
ONCE int find_direct_write(struct range *range)
{
	CURRENT(trusted, task);
	struct io_kiocb *req = request_at_work(task);
	struct io_rw *rw;
	struct file *file;

	if (!range || !req || !is_uring_write(READ(req, opcode)))
		return 0;
	rw = (void *)&req->cmd;
	file = PEEK1(rw, kiocb.ki_filp);
	if (!file || !(PEEK1(file, f_flags) & O_DIRECT))
		return 0;
	range->mapping = (u64)PEEK1(file, f_mapping);
	range->pos = PEEK1(rw, kiocb.ki_pos);
	range->len = PEEK1(rw, len);
	if (is_vectored(READ(req, opcode)))
		range->len = iov_length(PEEK1(rw, addr), range->len);
	return 1;
}

/*
 * A worker of io_uring serves one request after the other and no system call ends between them, so what
 * tells them apart is what they are: a write is not taken for the rest of the read before it, nor a file
 * for an older one whose inode stood at the same address.
 */
ONCE int enter_request(struct task_state *state)
{
	CURRENT(trusted, task);
	struct io_kiocb *req = request_at_work(task);
	struct work_id id = {};
	struct inode *inode;
	struct file *file;
	struct io_rw *rw;

	if (!state || !req)
		return 0;
	rw = (void *)&req->cmd;
	file = PEEK1(rw, kiocb.ki_filp);
	inode = PEEK2(file, f_mapping, host);
	id.request = (u64)req;
	id.file = (u64)file;
	id.opcode = READ(req, opcode);
	id.inode = PEEK1(inode, i_ino);
	id.generation = PEEK1(inode, i_generation);
	if (id.request == state->work.request && id.opcode == state->work.opcode &&
	    id.file == state->work.file && id.inode == state->work.inode &&
	    id.generation == state->work.generation)
		return 0;
	state->work = id;
	state->epoch++;
	return 0;
}

/* The state of a task that an event tells to be at a request. */
static __always_inline struct task_state *state_at_request(struct task_struct *trusted,
							   struct task_struct *task)
{
	struct task_state *state = state_of(trusted);

	if (state && task->flags & PF_IO_WORKER)
		enter_request(state);
	return state;
}

static __always_inline void set_call(struct call *a, u64 mapping, u64 serial, u32 nr, u32 epoch)
{
	a->mapping = mapping;
	a->serial = serial;
	a->nr = nr;
	a->epoch = epoch;
}

#endif
