/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page faults on mapped files. Touching a page that is mapped is no event at all; a fault is, and maps
 * its neighbours too. One hardware fault may come here several times: it counts once.
 */
#ifndef CACHEWISE_FAULT_H
#define CACHEWISE_FAULT_H

static __always_inline struct task_state *fault_event(struct address_space *raw_mapping)
{
	CURRENT(trusted, task);
	struct address_space *mapping = PLAIN(address_space, raw_mapping);
	u64 serial = task->min_flt + task->maj_flt;
	struct task_state *state;

	/* without read_folio it is shared memory: nothing that a fault could have to fetch */
	if (!in_scope(task) || !READ(mapping, a_ops, read_folio) || !(state = state_of(trusted)))
		return NULL;
	/* it has waited, and begins anew */
	if (config.times && state->fetch_resumes)
		fetch_ends(state, moment_of(task, syscall_nr(task, (void *)bpf_task_pt_regs(trusted))), 0);
	if (state->fault_mapping != (u64)mapping || state->fault_serial != serial) {
		struct row_key key;
		struct ledger *ledger = ledger_of(READ(mapping, host), 0, &key);

		state->fault_mapping = (u64)mapping;
		state->fault_serial = serial;
		state->fault_known = state->fault_missed = 0;
		ADD(ledger, fault_requests, 1);
	}
	return state;
}

SEC("raw_tp/mm_filemap_map_pages")
int BPF_PROG(on_map_pages, struct address_space *mapping, unsigned long start, unsigned long end)
{
	if (fault_event(mapping) && config.fault_around)
		access_pages((u64)mapping, start, end, ACCESS_AROUND, 0);
	return finish(ctx);
}

/*
 * Sends the access of a page fault. A resident page that is charged to another group takes none of the memory of the
 * watched one, and that does not evict it: it is no access then, but requested.
 */
static __noinline int access_of_fault(u64 mapping, u64 index)
{
	CURRENT(trusted, task);
	u64 folio = resident_folio(mapping, index);
	struct cgroup *group;

	if (folio && config.cgroup_filter) {
		group = memory_group_in(READ(task, cgroups));
		if (!group || group_charged(PLAIN(folio, (void *)folio)) != (u32)READ(group, kn, id)) {
			add_to_sample(SAMPLE_REQUESTED, 1);
			return 0;
		}
	}
	if (folio)
		send_access(mapping, index, index, ACCESS_RESIDENT, 0);
	return send_access(mapping, index, index, ACCESS_FAULT, 0);
}

static __always_inline int fault_on(struct address_space *mapping, u64 index)
{
	struct task_state *state = fault_event(mapping);

	if (!state)
		return 0;
	if (ACCESSES)
		access_of_fault((u64)mapping, index);
	state->fault_index = index;
	state->fault_known = 1;
	return 0;
}

SEC("raw_tp/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space *mapping, unsigned long index)
{
	fault_on(mapping, index);
	return finish(ctx);
}

#endif
