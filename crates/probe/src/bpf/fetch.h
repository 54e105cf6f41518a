/* SPDX-License-Identifier: GPL-2.0 */
/* CPU time of bringing pages in: from the start of readahead to the wait for the pages, or to the read of them. */
#ifndef CACHEWISE_FETCH_H
#define CACHEWISE_FETCH_H

/* Tells the task's call or page fault from the one before. */
static __always_inline u64 moment_of(struct task_struct *task, u32 nr)
{
	return task->ioac.syscr + ((task->min_flt + task->maj_flt) << 24) + ((u64)nr << 54);
}

/* Readahead begins for the task's call or fault, or it inserts a page that is to be read. */
static __always_inline void fetch_begins(struct task_state *state, u64 moment)
{
	if (!config.times || (state->fetch_since && state->fetch_at == moment))
		return;
	state->fetch_at = moment;
	state->fetch_since = bpf_ktime_get_ns();
}

static __always_inline void fetch_ends(struct task_state *state)
{
	if (!config.times || !state->fetch_since)
		return;
	state->fetch_cpu += bpf_ktime_get_ns() - state->fetch_since;
	state->fetch_since = 0;
}

#endif
