/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that user space runs: over all tasks, and on each CPU. */
#ifndef CACHEWISE_WALK_H
#define CACHEWISE_WALK_H

/* Purpose of the walk over all tasks; user space sets it before it starts a walk. */
u32 walk_root = 0; /* start to follow this thread group (by the owner's id for it) and those under it; 0: settle accounts */

/*
 * Marks of tasks that had nothing left to settle at the latest walk, by their ids: most tasks of a machine sleep. Eight are in a
 * line of the CPU's cache, and the walk comes to them in order, where the state of each task takes several lines.
 */
#define IDLE_TASKS (1 << 15)
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IDLE_TASKS);
	__type(key, u32);
	__type(value, u64);
} idle_tasks SEC(".maps");

/* Another one for each task, and for each time that it has run. */
static __always_inline u64 idle_mark(struct task_struct *task, u64 ran)
{
	return (task->start_time ^ (u64)task->pid << 40) * 0x9E3779B97F4A7C15ULL ^ ran * 0xC2B2AE3D27D4EB4FULL;
}

SEC("iter/task")
int walk(struct bpf_iter__task *context)
{
	struct task_struct *trusted = context->task, *task, *ancestor;
	struct task_state *state;
	u64 address, ran, *mark;
	bool timed;
	u32 place;

	if (!trusted)
		return 0;
	task = PLAIN(task_struct, trusted);
	if (!walk_root) {
		/* one that ends settles by itself, maybe at this moment */
		if (task->flags & PF_EXITING || (config.scope == SCOPE_TREE && !is_followed(task->tgid)))
			return 0;
		ran = task->se.sum_exec_runtime;
		place = task->pid & (IDLE_TASKS - 1);
		mark = config.scope == SCOPE_SYSTEM ? bpf_map_lookup_elem(&idle_tasks, &place) : NULL;
		if (mark && *mark == idle_mark(task, ran))
			return 0;
		state = bpf_task_storage_get(&tasks, trusted, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		/* one that runs may be at a request at this moment, and settles by itself */
		if (state && (task == (void *)bpf_get_current_task() || !task->on_cpu)) {
			state->self = (u64)task;
			if (state->pending.mapping && pending_is_over(trusted, task, state))
				pending_flush(state);
			settle_results(state);
		}
		settle(task, state, true);
		timed = settle_times(task);
		if (mark)
			*mark = state && !timed && state->cpu_time == ran ? idle_mark(task, ran) : 0;
		return 0;
	}
	/* processes of the owner's own are followed as they are made */
	if (config.scope == SCOPE_SYSTEM || config.children)
		return 0;
	ancestor = task;
	for (int depth = 0; depth < 64 && ancestor; depth++) {
		address = (u64)ancestor;
		if (seen_tgid(&address) == walk_root) {
			state = bpf_task_storage_get(&tasks, trusted, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
			settle(task, state, false);
			follow(task->tgid, true);
			return 0;
		}
		if (ancestor->pid == 0)
			break;
		ancestor = ancestor->real_parent;
	}
	return 0;
}

/* The first of the runs of slots that are to be booked. */
struct run_search {
	u32 runs, found;
};

static long run_step(u32 i, void *context)
{
	struct run_search *search = context;

	search->found = i;
	return search->runs >> (i & 31) & 1;
}

static long flush_step(u32 i, void *context)
{
	u32 place = *(u32 *)context + i;
	struct slot *slot = bpf_map_lookup_elem(&slots, &place);

	empty_slot(slot);
	return !slot;
}

/*
 * Books what a CPU holds back on its rows, of one run of slots, as interrupts of the CPU have to wait. Run on each CPU by user
 * space; 1: come again later; 2: at once.
 */
SEC("raw_tp")
int flush(void *context)
{
	u32 count = 1 << config.slot_bits, length = 1 << SLOT_RUN_SHIFT, first;
	struct run_search search = {};
	struct cpu *cpu = this_cpu();

	if (!cpu || cpu->busy)
		return 1;
	cpu->busy = 1;
	barrier();
	if (!cpu->flushing) {
		cpu->flushing = cpu->used;
		cpu->used = 0;
	}
	if (cpu->flushing) {
		search.runs = cpu->flushing;
		bpf_loop(SLOTS_MAX >> SLOT_RUN_SHIFT, run_step, &search, 0);
		cpu->flushing &= ~(1U << (search.found & 31));
		first = (bpf_get_smp_processor_id() << config.slot_bits) + (search.found << SLOT_RUN_SHIFT);
		bpf_loop(count < length ? count : length, flush_step, &first, 0);
	}
	barrier();
	cpu->busy = 0;
	return cpu->flushing ? 2 : 0;
}

#endif
