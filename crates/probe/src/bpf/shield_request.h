/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the request of a task begins. The kernel gathers the folios of a request in batches, and tells of none whose last
 * folio was still being read: it copies the folios before that one, and the first event of the request is that of the rest.
 */
#ifndef CACHEWISE_SHIELD_REQUEST_H
#define CACHEWISE_SHIELD_REQUEST_H

/*
 * The first page of a mapping that the current task's system call asks for, which is at page `index`; that page if the call
 * does not tell.
 */
__noinline u64 first_requested(u64 mapping, u64 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u32 nr = syscall_nr(task, regs), limit, fd;
	u64 table, file, position = 0, page;

	if (!(call_kind(nr) & (CALL_READ | CALL_SPLICE)))
		return index;
	fd = nr == NR_sendfile ? ARG2(regs) : ARG1(regs);
	table = (u64)BPF_CORE_READ(task, files, fdt);
	if (!table)
		return index;
	limit = GET(struct fdtable, table, max_fds);
	if (fd >= limit)
		return index;
	file = word((u64)GET(struct fdtable, table, fd) + fd * sizeof(void *));
	/* a file of overlayfs has the position, and that of the layer below has the pages */
	if (!file || ((u64)GET(struct file, file, f_mapping) != mapping &&
		      GET(struct file, file, f_inode, i_sb, s_magic) != OVERLAYFS_SUPER_MAGIC))
		return index;
	switch (call_position(nr, regs, &position)) {
	case POSITION_OF_FILE:
		position = GET(struct file, file, f_pos);
		break;
	case POSITION_IN_MEMORY:
		if (bpf_probe_read_user(&position, sizeof(position), (void *)position))
			return index;
		break;
	}
	page = position >> config.page_shift;
	return page < index ? page : index;
}

#endif
