/* The bare loop that `bench` is compared with: the same reads at the same places, and nothing else.
 *
 * loop ENGINE FILE CHUNK OPERATIONS SEED: prints CPU time in nanoseconds per operation. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

int main(int count, char **words)
{
	if (count != 6)
		return 2;
	int mapped = !strcmp(words[1], "mmap-copy");
	uint64_t chunk = strtoull(words[3], 0, 10), operations = strtoull(words[4], 0, 10);
	state = strtoull(words[5], 0, 10);
	int fd = open(words[2], O_RDONLY);
	struct stat found;
	char *buffer, *map = 0;
	if (fd < 0 || fstat(fd, &found) || posix_memalign((void **)&buffer, 4096, chunk))
		return 1;
	memset(buffer, 1, chunk);
	if (mapped) {
		map = mmap(0, found.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			return 1;
		/* Faults are not what is compared. */
		for (off_t place = 0; place < found.st_size; place += 4096)
			*(volatile char *)(map + place);
	}
	uint64_t places = found.st_size / chunk, before = cpu();
	for (uint64_t done = 0; done < operations; done++) {
		uint64_t place = (uint64_t)(((unsigned __int128)next() * places) >> 64) * chunk;
		if (mapped) {
			memcpy(buffer, map + place, chunk);
			__asm__ volatile("" : : "r"(buffer) : "memory");
		} else if (pread(fd, buffer, chunk, place) != (ssize_t)chunk) {
			return 1;
		}
	}
	printf("%.1f\n", (double)(cpu() - before) / operations);
	return 0;
}
