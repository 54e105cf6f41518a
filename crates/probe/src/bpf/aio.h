/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libaio: io_submit(2) serves requests through the cache one after the other, and raises no count of the task
 * meanwhile. But the kernel notes in the context's ring, at the address that names the context, each request
 * that has ended: the next one has another number. The array of requests says what it asks for.
 */
#ifndef CACHEWISE_AIO_H
#define CACHEWISE_AIO_H

#define AIO_BATCH 256	 /* requests of one call that are looked at */
#define IOCB_CMD_PREAD 0
#define IOCB_CMD_PWRITE 1
#define IOCB_CMD_PREADV 7
#define IOCB_CMD_PWRITEV 8

struct aio_walk {
	struct aio_read *read;
};

static long aio_step(u32 i, void *context)
{
	CURRENT(trusted, task);
	struct aio_read *read = ((struct aio_walk *)context)->read;
	struct iocb *iocb = &read->iocb;
	u64 shift = config.page_shift;

	if (bpf_probe_read_user(&read->address, sizeof(read->address),
				(void *)(read->array + i * sizeof(read->address))) ||
	    bpf_probe_read_user(iocb, sizeof(*iocb), (void *)read->address))
		return 1;
	if (iocb->opcode == IOCB_CMD_PREADV)
		iocb->bytes = iov_length(iocb->buffer, iocb->bytes);
	else if (iocb->opcode != IOCB_CMD_PREAD)
		return 0;
	if (!iocb->bytes || (iocb->offset + iocb->bytes - 1) >> shift != read->last ||
	    iocb->offset >> shift > read->index || !reads_or_writes(file_of_fd(task, iocb->fd), read->mapping))
		return 0;
	/* of several with the same end the last to begin: the first page of most has an event */
	if (i != read->turn && read->len && iocb->offset <= read->pos)
		return 0;
	read->pos = iocb->offset;
	read->len = iocb->bytes;
	read->at = i;
	return i == read->turn;
}

/* Finds state->aio among the reads of the io_submit(2) that the task is in; 0: it is none of them. */
ONCE int find_aio_read(struct task_state *state)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 serial, count = ARG2(regs), turn = 0;
	struct aio_walk walk;
	struct aio_read *read;

	if (!state || !count || count > AIO_BATCH)
		return 0;
	serial = aio_serial(state, regs);
	read = &state->aio;
	read->array = ARG3(regs);
	read->pos = read->len = 0;
	/* they are served in their order, also when the same array is submitted again */
	if (state->aio_array == read->array && state->aio_count == count)
		turn = state->aio_at + (u16)((serial >> 48) - (state->aio_serial >> 48));
	read->turn = turn % count;
	walk.read = read;
	bpf_loop(count, aio_step, &walk, 0);
	if (!read->len)
		return 0;
	state->aio_array = read->array;
	state->aio_count = count;
	state->aio_at = read->at;
	state->aio_serial = serial;
	return 1;
}

/* The opcode and the descriptor of a request of io_submit(2): a part of struct iocb. */
struct aio_operation {
	u16 opcode;
	u16 priority;
	u32 fd;
};

struct aio_writes {
	u64 mapping, array, address;
	struct aio_operation operation;
	u64 found;
};

SHARED int look_at_write(struct aio_writes *writes, u32 i)
{
	CURRENT(trusted, task);
	u16 opcode;

	if (!writes)
		return 1;
	if (bpf_probe_read_user(&writes->address, sizeof(writes->address),
				(void *)(writes->array + i * sizeof(writes->address))) ||
	    bpf_probe_read_user(&writes->operation, sizeof(writes->operation),
				(void *)(writes->address + offsetof(struct iocb, opcode))))
		return 1;
	opcode = writes->operation.opcode;
	if (opcode == IOCB_CMD_PWRITE || opcode == IOCB_CMD_PWRITEV)
		writes->found |= reads_or_writes(file_of_fd(task, writes->operation.fd), writes->mapping);
	return !!writes->found;
}

static long aio_write_step(u32 i, void *context)
{
	return !!look_at_write(context, i);
}

/* Does the task write to the target by copy_file_range, splice, sendfile or libaio? */
ONCE int is_output(struct target *target)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	struct aio_writes writes = {};
	u64 count = ARG2(regs);
	u32 fd;

	if (!target)
		return 0;
	if (target->nr == NR_io_submit) {
		writes.mapping = target->mapping;
		writes.array = ARG3(regs);
		bpf_loop(count < AIO_BATCH ? count : AIO_BATCH, aio_write_step, &writes, 0);
		return writes.found;
	}
	if (!(call_kind(target->nr) & CALL_SPLICE))
		return 0;
	fd = target->nr == NR_sendfile ? ARG1(regs) : ARG3(regs);
	return reads_or_writes(file_of_fd(task, fd), target->mapping);
}

#endif
