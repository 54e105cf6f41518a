/* The bare loop for comparison with `bench`: the same reads at the same kind of offsets, by the same calls, into the
 * same kind of memory, and no other work.
 *
 * loop ENGINE FILE CHUNK OPERATIONS SEED: prints CPU time in nanoseconds per operation. ENGINE is `pread`, by libc
 * as in programs, `bare-pread`, the floor, or `mmap-copy`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next(void)
{
	uint64_t mixed = state += 0x9e3779b97f4a7c15;
	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return mixed ^ (mixed >> 31);
}

static uint64_t cpu(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ull +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ull;
}

/* An inline pread(2). The kernel's mitigations against speculation clear the CPU's return predictions: returning from
 * libc's function costs 130 ns of 1,400 at 4 KiB (AMD EPYC, Safe RET), and returning from one of ours as much. */
static inline long bare_pread(int fd, void *buffer, size_t size, off_t place)
{
#if defined(__x86_64__)
	long result;
	register long fourth __asm__("r10") = place;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"((long)SYS_pread64), "D"((long)fd), "S"(buffer), "d"(size), "r"(fourth)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_pread64;
	register long first __asm__("x0") = fd;
	register void *second __asm__("x1") = buffer;
	register size_t third __asm__("x2") = size;
	register off_t fourth __asm__("x3") = place;
	__asm__ volatile("svc 0"
			 : "+r"(first)
			 : "r"(number), "r"(second), "r"(third), "r"(fourth)
			 : "memory");
	return first;
#else
	return pread(fd, buffer, size, place);
#endif
}

/* Page-aligned memory; large buffers in huge pages, if there are some. */
static char *memory(uint64_t size)
{
	uint64_t huge = 2 << 20, whole = size < 256 << 10 ? size : (size + huge - 1) / huge * huge;
	char *buffer = mmap(0, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		return 0;
	if (whole > size)
		madvise(buffer, whole, MADV_HUGEPAGE);
	return memset(buffer, 1, size);
}

int main(int count, char **words)
{
	if (count != 6)
		return 2;
	int mapped = !strcmp(words[1], "mmap-copy"), bare = !strcmp(words[1], "bare-pread");
	uint64_t chunk = strtoull(words[3], 0, 10), operations = strtoull(words[4], 0, 10);
	state = strtoull(words[5], 0, 10);
	int fd = open(words[2], O_RDONLY);
	struct stat found;
	char *buffer, *map = 0;
	if (fd < 0 || fstat(fd, &found) || !(buffer = memory(chunk)))
		return 1;
	if (mapped) {
		map = mmap(0, found.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			return 1;
		/* Faults are not part of the comparison. */
		for (off_t place = 0; place < found.st_size; place += 4096)
			*(volatile char *)(map + place);
	}
	uint64_t places = found.st_size / chunk, before = cpu();
	for (uint64_t done = 0; done < operations; done++) {
		uint64_t place = (uint64_t)(((unsigned __int128)next() * places) >> 64) * chunk;
		if (mapped) {
			memcpy(buffer, map + place, chunk);
			__asm__ volatile("" : : "r"(buffer) : "memory");
		} else if (bare) {
			if (bare_pread(fd, buffer, chunk, place) != (long)chunk)
				return 1;
		} else if (pread(fd, buffer, chunk, place) != (long)chunk) {
			return 1;
		}
	}
	printf("%.1f\n", (double)(cpu() - before) / operations);
	return 0;
}
