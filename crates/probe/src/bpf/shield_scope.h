/* SPDX-License-Identifier: GPL-2.0 */
/* The tasks that the shield is for. */
#ifndef CACHEWISE_SHIELD_SCOPE_H
#define CACHEWISE_SHIELD_SCOPE_H

/* The current task, to the shield. */
static __always_inline bool under_cgroup(struct task_struct *task)
{
	struct cgroup *cgroup, *ancestor = NULL;
	u64 place, css;

	if (config.cgroup_v1) {
		place = bpf_core_field_offset(struct css_set, subsys) +
			bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof(void *);
		css = word((u64)BPF_CORE_READ(task, cgroups) + place);
		cgroup = css ? GET(struct cgroup_subsys_state, css, cgroup) : NULL;
	} else {
		cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	}
	if (!cgroup || BPF_CORE_READ(cgroup, level) < (int)config.cgroup_level)
		return false;
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors) +
				      config.cgroup_level * sizeof(ancestor));
	return ancestor && BPF_CORE_READ(ancestor, kn, id) == config.cgroup_id;
}

static __always_inline bool is_followed(u32 tgid)
{
	return followed[(tgid >> 6) & (PID_WORDS - 1)] >> (tgid & 63) & 1;
}

static __always_inline void follow(u32 tgid, bool on)
{
	u64 *of = &followed[(tgid >> 6) & (PID_WORDS - 1)], bit = 1ULL << (tgid & 63);

	if (on)
		__sync_fetch_and_or(of, bit);
	else if (*of & bit)
		__sync_fetch_and_and(of, ~bit);
}

/* Whether the current process, to which a thread may have given another name, is called config.name. */
static __always_inline bool has_name(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	u64 name[2] = {};

	BPF_CORE_READ_INTO(&name, task, group_leader, comm);
	return name[0] == config.name[0] && name[1] == config.name[1];
}

static __always_inline bool is_ours(u32 tgid)
{
	if (tgid == owner.tgid || !tgid)
		return false;
	if (config.whole_machine)
		return true;
	if (config.cgroup_filter)
		return under_cgroup((struct task_struct *)bpf_get_current_task());
	return is_followed(tgid) && (!config.by_name || has_name());
}

/* The owner's id for a process; 0: it has none. */
static __always_inline u32 seen_pid(struct task_struct *task)
{
	struct pid *pid;
	struct upid *upid;

	if (!owner.level)
		return BPF_CORE_READ(task, tgid);
	pid = BPF_CORE_READ(task, group_leader, thread_pid);
	upid = (void *)pid + bpf_core_field_offset(struct pid, numbers) + owner.level * bpf_core_type_size(struct upid);
	if (BPF_CORE_READ(pid, level) < owner.level || (u64)BPF_CORE_READ(upid, ns) != owner.namespace)
		return 0;
	return BPF_CORE_READ(upid, nr);
}

#endif
