/* Buffered reads by io_uring, a page each, without a library: `uring FILE`. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define STRIDE (64 * PAGE)

static char buffer[PAGE];

static __attribute__((noinline)) long submit(int ring)
{
	return syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) + 1; /* submit */
}

int main(int count, char **words)
{
	struct io_uring_params params = {};
	int ring = syscall(SYS_io_uring_setup, 4, &params), file = open(words[1], O_RDONLY);
	struct io_uring_sqe *entries;
	unsigned *tail, *head, *array;
	char *queue, *completions;

	if (ring < 0) {
		puts("skipped");
		return 0;
	}
	posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
	queue = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	completions = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
			   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	entries = mmap(NULL, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		       ring, IORING_OFF_SQES);
	tail = (unsigned *)(queue + params.sq_off.tail);
	array = (unsigned *)(queue + params.sq_off.array);
	head = (unsigned *)(completions + params.cq_off.head);
	for (long i = 0; i < 64; i++) {
		unsigned place = *tail & (params.sq_entries - 1);

		memset(&entries[place], 0, sizeof(entries[place]));
		entries[place].opcode = IORING_OP_READ;
		entries[place].fd = file;
		entries[place].addr = (unsigned long)buffer;
		entries[place].len = PAGE;
		entries[place].off = i * STRIDE;
		array[place] = place;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		if (submit(ring) != 2)
			return 1;
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	/* mappings are read while a process lives: on a busy machine that takes a while */
	usleep(300 * 1000);
	return 0;
}
