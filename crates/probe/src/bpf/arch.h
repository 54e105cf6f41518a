/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The system call that a task is in and its arguments, from the user's registers. The one place to
 * extend for another architecture.
 */
#ifndef CACHEWISE_ARCH_H
#define CACHEWISE_ARCH_H

#ifndef __TARGET_ARCH_x86
#error "the registers and numbers of this architecture's system calls are to be added here"
#endif

enum {
	NR_read = 0,
	NR_poll = 7,
	NR_select = 23,
	NR_msync = 26,
	NR_pause = 34,
	NR_nanosleep = 35,
	NR_connect = 42,
	NR_accept = 43,
	NR_sendto = 44,
	NR_recvfrom = 45,
	NR_sendmsg = 46,
	NR_recvmsg = 47,
	NR_clone = 56,
	NR_vfork = 58,
	NR_exit = 60,
	NR_wait4 = 61,
	NR_semop = 65,
	NR_msgrcv = 70,
	NR_fcntl = 72,
	NR_flock = 73,
	NR_fsync = 74,
	NR_fdatasync = 75,
	NR_rename = 82,
	NR_mkdir = 83,
	NR_rmdir = 84,
	NR_link = 86,
	NR_unlink = 87,
	NR_symlink = 88,
	NR_sync = 162,
	NR_umount = 166,
	NR_futex = 202,
	NR_io_getevents = 208,
	NR_semtimedop = 220,
	NR_clock_nanosleep = 230,
	NR_exit_group = 231,
	NR_epoll_wait = 232,
	NR_waitid = 247,
	NR_mkdirat = 258,
	NR_unlinkat = 263,
	NR_renameat = 264,
	NR_linkat = 265,
	NR_symlinkat = 266,
	NR_pselect6 = 270,
	NR_ppoll = 271,
	NR_sync_file_range = 277,
	NR_epoll_pwait = 281,
	NR_accept4 = 288,
	NR_recvmmsg = 299,
	NR_syncfs = 306,
	NR_sendmmsg = 307,
	NR_renameat2 = 316,
	NR_io_pgetevents = 333,
	NR_clone3 = 435,
	NR_epoll_pwait2 = 441,
	NR_futex_waitv = 449,
	NR_write = 1,
	NR_open = 2,
	NR_close = 3,
	NR_ioctl = 16,
	NR_pread = 17,
	NR_pwrite = 18,
	NR_readv = 19,
	NR_writev = 20,
	NR_madvise = 28,
	NR_sendfile = 40,
	NR_truncate = 76,
	NR_ftruncate = 77,
	NR_creat = 85,
	NR_readahead = 187,
	NR_io_submit = 209,
	NR_fadvise = 221,
	NR_openat = 257,
	NR_splice = 275,
	NR_fallocate = 285,
	NR_preadv = 295,
	NR_pwritev = 296,
	NR_copy_file_range = 326,
	NR_preadv2 = 327,
	NR_pwritev2 = 328,
	NR_io_uring_enter = 426,
	NR_openat2 = 437,
	NR_process_madvise = 440,
	NR_none = 0xffffffff,
};

#define TS_COMPAT 2 /* thread_info.status: in a 32-bit system call, which has other numbers */
#define ENOSYS 38

#define ARG1(regs) ((regs)->di)
#define ARG2(regs) ((regs)->si)
#define ARG3(regs) ((regs)->dx)
#define ARG4(regs) ((regs)->r10)
#define ARG5(regs) ((regs)->r8)
#define ARG6(regs) ((regs)->r9)

/*
 * Always 0, which the verifier does not know. FORGET makes a number any number to it: where paths with different numbers meet,
 * it explores what follows once, and not once for each number. Where programs read by a helper there is no stack left for it.
 */
u64 nothing = 0;
#if BY_HELPER
#define FORGET(number)
#else
#define FORGET(number) ((number) ^= *(volatile u64 *)&nothing)
#endif

/*
 * Inside a system call ax still holds -ENOSYS. In an exception it does not, and orig_ax is then the
 * error code: an instruction-fetch fault (20) would look like writev.
 */
static __always_inline u32 syscall_nr(struct task_struct *task, struct pt_regs *regs)
{
	u32 none = NR_none;

	if ((long)regs->ax == -ENOSYS && !(task->flags & PF_KTHREAD) && !(task->thread_info.status & TS_COMPAT))
		return regs->orig_ax;
	FORGET(none);
	return none;
}

enum call_kind {
	CALL_READ = 1,
	CALL_WRITE = 2,
	CALL_SPLICE = 4,   /* moves pages through a pipe: splice(2) once, ... */
	CALL_CHUNKED = 8,  /* ... others in chunks of the pipe's size */
	CALL_PREFETCH = 16,
	CALL_ALLOCATE = 32,
};

/* A table and not comparisons: each comparison with a number doubles what the verifier has to explore. */
#define CALLS 512
static const u8 call_kinds[CALLS] = {
	[NR_read] = CALL_READ,
	[NR_pread] = CALL_READ,
	[NR_readv] = CALL_READ,
	[NR_preadv] = CALL_READ,
	[NR_preadv2] = CALL_READ,
	[NR_write] = CALL_WRITE,
	[NR_pwrite] = CALL_WRITE,
	[NR_writev] = CALL_WRITE,
	[NR_pwritev] = CALL_WRITE,
	[NR_pwritev2] = CALL_WRITE,
	[NR_splice] = CALL_SPLICE,
	[NR_sendfile] = CALL_SPLICE | CALL_CHUNKED,
	[NR_copy_file_range] = CALL_SPLICE | CALL_CHUNKED,
	[NR_madvise] = CALL_PREFETCH,
	[NR_process_madvise] = CALL_PREFETCH,
	[NR_readahead] = CALL_PREFETCH,
	[NR_fadvise] = CALL_PREFETCH,
	[NR_fallocate] = CALL_ALLOCATE,
};

static __always_inline u32 call_kind(u32 nr)
{
	if (nr >= CALLS)
		return 0;
	/* again, for verifiers that have forgotten it: the number may have been put by in the meantime */
	barrier_var(nr);
	return call_kinds[nr & (CALLS - 1)];
}

/* Where the position is at which a call begins. */
enum position {
	POSITION_OF_FILE, /* that of the open file, until the call ends */
	POSITION_GIVEN,
	POSITION_IN_MEMORY, /* the program's, by address; until the call ends */
};

/* The position of the read-class or splice-class call `nr`, or its address. */
static __always_inline int call_position(u32 nr, struct pt_regs *regs, u64 *position)
{
	switch (nr) {
	case NR_pread:
		*position = ARG4(regs);
		return POSITION_GIVEN;
	case NR_preadv:
	case NR_preadv2:
		*position = ARG4(regs);
		return (s64)*position < 0 ? POSITION_OF_FILE : POSITION_GIVEN; /* preadv2(-1) is readv */
	case NR_sendfile:
		*position = ARG3(regs);
		return *position ? POSITION_IN_MEMORY : POSITION_OF_FILE;
	case NR_copy_file_range:
	case NR_splice:
		*position = ARG2(regs);
		return *position ? POSITION_IN_MEMORY : POSITION_OF_FILE;
	}
	return POSITION_OF_FILE;
}

#endif
