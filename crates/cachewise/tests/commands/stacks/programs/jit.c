/* Calls pread(2) from code in no file, as a JIT compiler makes it, and writes the perf map of it: `jit FILE`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char buffer[4096];

int main(int count, char **arguments)
{
	/* push rbp; mov rbp, rsp; mov eax, 17 (pread64); mov r10, rcx; syscall; pop rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xb8, 17, 0, 0, 0, 0x49, 0x89, 0xca,
					      0x0f, 0x05, 0x5d, 0xc3 };
	char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long (*read_at)(long, void *, long, long) = (void *)memory;
	int fd = open(arguments[1], O_RDONLY);
	char name[64];

	memcpy(memory, code, sizeof(code));
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx %zx app::read at\n", (long)memory, sizeof(code));
	fclose(map);
	puts(name);
	for (long i = 0; i < 64; i++)
		if (read_at(fd, buffer, 4096, i * 64 * 4096) != 4096)
			return 1;
	/* mappings are read while a process lives: on a busy machine that takes a while */
	usleep(300 * 1000);
	return 0;
}
