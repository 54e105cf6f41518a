/*
 * One event after the other at known functions and lines: `events KIND FILE`. With a third argument it begins after the first
 * byte of its input, and ends with its input.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define STRIDE (64 * PAGE)

static char *buffer;
static volatile long sum;

static __attribute__((noinline)) long load_index(int fd, long place)
{
	return pread(fd, buffer, PAGE, place) + 1; /* index */
}

static __attribute__((noinline)) long load_table(int fd, long place)
{
	long bytes = pread(fd, buffer, 16 * PAGE, place); /* table */

	return 2 * bytes;
}

static void reads(int fd)
{
	for (long i = 0; i < 64; i++)
		sum += load_index(fd, i * STRIDE);
	for (long i = 64; i < 80; i++)
		sum += load_table(fd, i * STRIDE);
}

static __attribute__((noinline)) long touch(const char *memory, long place)
{
	return memory[place] + 1; /* touch */
}

static void faults(int fd)
{
	long bytes = lseek(fd, 0, SEEK_END);
	char *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	madvise(memory, bytes, MADV_RANDOM);
	for (long i = 0; i < 64; i++)
		sum += touch(memory, i * STRIDE);
}

static __attribute__((noinline)) long read_around(int fd, long place)
{
	return pread(fd, buffer, 8 * PAGE, place) + 1; /* direct */
}

static __attribute__((noinline)) int flush_log(int fd)
{
	return fsync(fd) + 1; /* flush */
}

static __attribute__((noinline)) long fill(int fd)
{
	return write(fd, buffer, 16 * PAGE) + 1; /* fill */
}

static void writes(int fd)
{
	for (int i = 0; i < 16; i++) {
		sum += fill(fd);
		sum += flush_log(fd);
	}
}

static void much(int fd)
{
	for (int i = 0; i < 4096; i++)
		sum += fill(fd);
}

static __attribute__((noinline)) int drop_index(int fd, long place)
{
	return posix_fadvise(fd, place, 8 * PAGE, POSIX_FADV_DONTNEED) + 1; /* drop index */
}

static __attribute__((noinline)) int drop_table(int fd, long place)
{
	return posix_fadvise(fd, place, 16 * PAGE, POSIX_FADV_DONTNEED) + 1; /* drop table */
}

static void evictions(int fd)
{
	/* not the file's first page: there the kernel reads ahead in large folios */
	for (long i = 1; i <= 32; i++) {
		sum += pread(fd, buffer, 32 * PAGE, i * STRIDE);
		sum += drop_index(fd, i * STRIDE);
		sum += drop_table(fd, i * STRIDE + 8 * PAGE);
	}
}

int main(int count, char **arguments)
{
	const char *kind = count > 2 ? arguments[1] : "";
	int flags = O_RDWR;

	if (!strcmp(kind, "direct"))
		flags |= O_DIRECT;
	int fd = count > 2 ? open(arguments[2], flags) : -1;

	if (fd < 0 || posix_memalign((void **)&buffer, PAGE, 32 * PAGE))
		return 1;
	memset(buffer, 1, 32 * PAGE);
	char byte;
	int waits = count > 3;

	if (waits && read(0, &byte, 1) != 1)
		return 1;
	if (!strcmp(kind, "reads"))
		reads(fd);
	else if (!strcmp(kind, "faults"))
		faults(fd);
	else if (!strcmp(kind, "direct"))
		for (long i = 0; i < 32; i++)
			sum += read_around(fd, i * STRIDE);
	else if (!strcmp(kind, "writes"))
		writes(fd);
	else if (!strcmp(kind, "much"))
		much(fd);
	else if (!strcmp(kind, "evictions"))
		evictions(fd);
	else
		return 1;
	while (waits && read(0, &byte, 1) == 1)
		;
	/* mappings are read while a process lives: on a busy machine that takes a while */
	usleep(300 * 1000);
	return 0;
}
