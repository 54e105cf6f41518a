/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CPU time of bringing pages in: from the start of readahead to the read of the pages, or to the end of the page fault,
 * without the waits in between. Switching to another task and back is a part of it.
 */
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

/* The pages are there, or the task gives up its CPU; `now` is 0 where the time has not been read. */
SHARED int fetch_ends(struct task_state *state, u64 moment, u64 now)
{
	struct cpu *cpu;
	u32 zero = 0;
	u64 since;

	if (!config.times || !state)
		return 0;
	since = state->fetch_since;
	if (!since && !state->fetch_resumes)
		return 0;
	if (!since) {
		cpu = bpf_map_lookup_elem(&cpus, &zero);
		since = cpu ? cpu->entered : 0;
	}
	if (since && state->fetch_at == moment)
		state->fetch_cpu += (now ?: bpf_ktime_get_ns()) - since;
	state->fetch_since = 0;
	state->fetch_resumes = 0;
	return 0;
}

/* The task waits for pages that its call or fault will use. */
static __always_inline void fetch_waits(struct task_state *state, u64 moment)
{
	state->fetch_at = moment;
	state->fetch_resumes = 1;
}

#endif
