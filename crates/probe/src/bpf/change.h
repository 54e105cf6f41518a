/* SPDX-License-Identifier: GPL-2.0 */
/* Calls that remove, rename, make or truncate files: by them a command may not do the same again. Only on request. */
#ifndef CACHEWISE_CHANGE_H
#define CACHEWISE_CHANGE_H

/* Kinds of changes, in the order of `Change`, and the number of calls by tasks in scope, successful or not. */
enum change { CHANGE_NONE, CHANGE_REMOVE, CHANGE_RENAME, CHANGE_MAKE, CHANGE_TRUNCATE };
#define CHANGES 8 /* a power of two */
u64 changes[CHANGES] = {};

static const u8 changing_calls[CALLS] = {
	[NR_truncate] = CHANGE_TRUNCATE, [NR_ftruncate] = CHANGE_TRUNCATE,
	[NR_rename] = CHANGE_RENAME,	 [NR_renameat] = CHANGE_RENAME,
	[NR_renameat2] = CHANGE_RENAME,	 [NR_mkdir] = CHANGE_MAKE,
	[NR_mkdirat] = CHANGE_MAKE,	 [NR_link] = CHANGE_MAKE,
	[NR_linkat] = CHANGE_MAKE,	 [NR_symlink] = CHANGE_MAKE,
	[NR_symlinkat] = CHANGE_MAKE,	 [NR_rmdir] = CHANGE_REMOVE,
	[NR_unlink] = CHANGE_REMOVE,	 [NR_unlinkat] = CHANGE_REMOVE,
};

static __always_inline u32 changing_call(u64 nr)
{
	if (nr >= CALLS)
		return CHANGE_NONE;
	barrier_var(nr);
	return changing_calls[nr & (CALLS - 1)];
}

/* May the call change the names, sizes or number of files, or end the use of a file or mount? */
static __always_inline bool may_change_files(struct pt_regs *regs, u32 nr)
{
	switch (nr) {
	case NR_open:
		return ARG2(regs) & (O_CREAT | O_TRUNC);
	case NR_openat:
		return ARG3(regs) & (O_CREAT | O_TRUNC);
	case NR_creat:
	case NR_umount:
	case NR_close: /* the last of a file that is removed already, or of a mount */
	case NR_exit:
	case NR_exit_group:
		return true;
	}
	return changing_call(nr) != CHANGE_NONE;
}

SEC("raw_tp/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	CURRENT(trusted, task);
	u32 change;

	if (!in_scope(task) || task->thread_info.status & TS_COMPAT)
		return 0;
	change = changing_call(id);
	if (change == CHANGE_NONE)
		return 0;
	/* the verifier does not know the table's values */
	barrier_var(change);
	__sync_fetch_and_add(&changes[change & (CHANGES - 1)], 1);
	return 0;
}

#endif
