/* SPDX-License-Identifier: GPL-2.0 */
/* Tells user space what files are called, and where their file systems are mounted. */
#ifndef CACHEWISE_NAMING_H
#define CACHEWISE_NAMING_H

struct name_walk {
	struct scratch *scratch;
	struct dentry *dentry;
	struct mount *mount; /* in which it is; NULL: the names end at the root of the file system */
	u64 directory;	     /* where it begins, if its levels are to be kept */
};

/* Copies a dentry's name with its NUL to `to`, where NAME_MAX + 1 bytes are free; returns their number. */
static __always_inline long copy_name(char *to, struct dentry *dentry)
{
	const unsigned char *name = READ(dentry, d_name.name);

#if !BY_HELPER
	/* of known length it is copied by words, and not by bytes */
	u64 length = READ(dentry, d_name.len) & NAME_MAX;

	if (!bpf_probe_read_kernel(to, length, name) && READ(dentry, d_name.name) == name &&
	    (READ(dentry, d_name.len) & NAME_MAX) == length) {
		to[length] = 0;
		return length + 1;
	}
	/* it has been renamed meanwhile */
#endif
	return bpf_probe_read_kernel_str(to, NAME_MAX + 1, name);
}

/* How much is used stands in the record and not in the walk: the verifier need not follow it there. */
static long name_step(u32 i, void *context)
{
	struct name_walk *walk = context;
	struct file_record *record = &walk->scratch->record;
	struct dentry *dentry = PLAIN(dentry, walk->dentry), *parent = READ(dentry, d_parent), *above = parent;
	struct mount *mount = walk->mount;
	struct level *level = &walk->scratch->levels[i & (LEVELS_KEPT - 1)];
	long length;
	u32 used;

	if (mount && (u64)mount == owner.root_mount && (u64)dentry == owner.root)
		parent = NULL;
	else if (mount && dentry == PEEK1(mount, mnt.mnt_root)) {
		walk->dentry = PEEK1(mount, mnt_mountpoint);
		walk->mount = PEEK1(mount, mnt_parent);
		if (walk->mount != mount)
			return 0;
		parent = NULL;
	}
	level->parent = (u64)above;
	level->name_hash = READ(dentry, d_name.hash_len);
	level->version = READ(dentry, d_seq.seqcount.sequence);
	barrier();
	if (!parent || parent == dentry) {
		record->whole = 1;
		if (i < LEVELS_KEPT) {
			walk->scratch->depth = i + 1;
			walk->scratch->directory = walk->directory;
		}
		return 1;
	}
	used = record->length;
	if (i == LEVELS_MAX || used >= NAMES_MAX)
		return 1;
	/* older verifiers forget the bounds of what was kept on the stack: they are set here again */
	barrier_var(used);
	used &= NAMES_MAX - 1;
	length = copy_name(&record->names[used], dentry);
	if (length <= 0)
		return 1;
	barrier();
	/* renamed at this moment: the next file's walk comes here again */
	if (level->version & 1 || level->version != READ(dentry, d_seq.seqcount.sequence))
		walk->directory = 0;
	record->length = used + length;
	walk->dentry = parent;
	return 0;
}

/* Adds the names from there up to the root to those that the CPU's record has. */
SHARED int spell(struct name_walk *from)
{
#if BY_HELPER
	from->scratch->directory = 0;
	bpf_loop(LEVELS_MAX + 1, name_step, from, 0);
#else
	struct name_walk walk = {};
	u32 zero = 0;

	walk.scratch = bpf_map_lookup_elem(&scratch, &zero);
	if (!from || !walk.scratch)
		return 0;
	walk.scratch->directory = 0;
	walk.dentry = from->dentry;
	walk.mount = from->mount;
	walk.directory = from->directory;
	bpf_loop(LEVELS_MAX + 1, name_step, &walk, 0);
#endif
	return 0;
}

/* Are the levels that were kept those above their directory now? */
static __always_inline bool levels_are_same(struct scratch *kept)
{
	struct dentry *dentry = PLAIN(dentry, (void *)kept->directory);

	for (u32 i = 0; i < LEVELS_KEPT; i++) {
		struct level *level = &kept->levels[i];

		if (i >= kept->depth)
			return true;
		if ((u64)READ(dentry, d_parent) != level->parent || READ(dentry, d_name.hash_len) != level->name_hash ||
		    READ(dentry, d_seq.seqcount.sequence) != level->version)
			return false;
		dentry = PLAIN(dentry, (void *)level->parent);
	}
	return true;
}

/*
 * Makes the names of a directory, by its dentry's address, the first part of those that the CPU's record has: files that
 * are met one after the other are often in one directory, and its names are there since the file before.
 */
ONCE int spell_directory(u64 *address)
{
	struct name_walk walk = {};
	struct scratch *kept;
	u32 zero = 0;

	kept = bpf_map_lookup_elem(&scratch, &zero);
	if (!address || !kept)
		return 0;
	if (kept->directory == *address && levels_are_same(kept)) {
		kept->record.whole = 1;
		kept->record.length = kept->record.first_length;
		return 0;
	}
	kept->record.whole = kept->record.length = 0;
	walk.scratch = kept;
	walk.dentry = (void *)*address;
	walk.directory = *address;
	spell(&walk);
	kept->record.first_length = kept->record.length;
	return 0;
}

/* Makes the names of a file those that the CPU's record has. */
ONCE int spell_file(u64 *address)
{
	struct file_record *record;
	struct dentry *dentry;
	u32 zero = 0, used;
	u64 directory;
	long length;

	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!address || !record)
		return 0;
	dentry = PLAIN(dentry, (void *)*address);
	directory = (u64)READ(dentry, d_parent);
	spell_directory(&directory);
	if (directory == (u64)dentry)
		return 0; /* the root has no name */
	used = record->first_length;
	barrier_var(used);
	if (used > NAMES_MAX + 255)
		return 0;
	length = copy_name(&record->names[used], dentry);
	record->length = length > 0 ? used + length : 0;
	return 0;
}

/*
 * Notes that a file has a row: at the end of the event it is named, if it has had no record in this round of naming. Returns
 * whether it has had no row before.
 */
ONCE int want_name(struct subject *subject, struct file_id *file)
{
	struct cpu *cpu = this_cpu();
	u32 round = naming_round, *known = NULL, place;
	int failed = -EEXIST; /* before 6.4 only the lower half of what is returned is set */
	struct file_id id;

	if (!subject || !file || !cpu)
		return 0;
	id = *file; /* a map's key has to be on the stack */
	/* mostly it has had none: one step instead of two */
	if (subject->just_added != AGAIN)
		failed = bpf_map_update_elem(&files, &id, &round, BPF_NOEXIST);
	if (failed == -EEXIST) {
		known = bpf_map_lookup_elem(&files, &id);
		if (!known || (subject->just_added != AGAIN && *known == round))
			return 0;
		*known = round; /* two CPUs at once: the record comes twice */
	}
	place = cpu->waiting;
	if ((failed && !known) || place >= WAITING) {
		__sync_fetch_and_add(&lost.names, 1);
		if (!failed)
			bpf_map_delete_elem(&files, &id);
	} else {
		struct unnamed *unnamed;

		/* the compiler knows this bound, and Linux 6.1 may have forgotten it */
		barrier_var(place);
		unnamed = &cpu->unnamed[place & (WAITING - 1)];
		unnamed->subject = *subject;
		unnamed->file = id;
		unnamed->is_known = !!known;
		barrier();
		cpu->waiting = place + 1;
	}
	return !failed;
}

static __always_inline u64 mount_key(struct inode *inode, const struct file_id *id)
{
	return (u64)READ(inode, i_sb, s_dev) << 32 | id->volume;
}

/* Looks for the mount of a file system that the owner of the probe sees: the first that shows all of it, or else any. */
struct mount_walk {
	struct super_block *super;
	struct mount *next, *found;
};

#define MOUNTS_SEEN 256

static long mount_step(u32 i, void *context)
{
	struct mount_walk *walk = context;
	struct mount *mount = walk->next;
	u64 node;

	if (!mount)
		return 1;
	if ((u64)PEEK1(mount, mnt_ns) == owner.mounts) {
		walk->found = mount;
		if (PEEK1(mount, mnt.mnt_root) == PEEK1(walk->super, s_root))
			return 1;
	}
	if (bpf_core_field_exists(struct mount, mnt_next_for_sb)) {
		walk->next = PEEK1(mount, mnt_next_for_sb);
		return 0;
	}
	node = PEEK1((struct mount___listed *)mount, mnt_instance.next);
	/* the list ends where it began: in the super block */
	walk->next = node == (u64)&((struct super_block___listed *)walk->super)->s_mounts ?
			     NULL :
			     (void *)node - bpf_core_field_offset(struct mount___listed, mnt_instance);
	return 0;
}

static __always_inline struct mount *mount_of(struct super_block *super)
{
	struct mount_walk walk = { super };
	u64 node;

	if (bpf_core_field_exists(struct mount, mnt_next_for_sb)) {
		walk.next = PEEK1(super, s_mounts);
	} else {
		node = PEEK1((struct super_block___listed *)super, s_mounts.next);
		if (node != (u64)&((struct super_block___listed *)super)->s_mounts)
			walk.next = (void *)node - bpf_core_field_offset(struct mount___listed, mnt_instance);
	}
	bpf_loop(MOUNTS_SEEN, mount_step, &walk, 0);
	return walk.found;
}

/* So that a ring whose CPUs all have sent as much is not full before one of them looks at it again. */
#define RECORDS_BETWEEN_LOOKS 8192

static __always_inline long send(struct cpu *cpu, struct file_record *record)
{
	u32 used = record->length;
	u64 flags = BPF_RB_NO_WAKEUP;

	if (used > sizeof(record->names))
		record->length = used = sizeof(record->names);
	/* user space empties the ring when it looks at the rows; waking it for each record would cost more
	 * than the rest */
	cpu->sent += __builtin_offsetof(struct file_record, names) + used;
	if (cpu->sent >= RECORDS_BETWEEN_LOOKS) {
		cpu->sent = 0;
		if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) >= RECORDS_BYTES / 4)
			flags = BPF_RB_FORCE_WAKEUP;
	}
	return bpf_ringbuf_output(&records, record, __builtin_offsetof(struct file_record, names) + used, flags);
}

/*
 * Tells user space where a file system is mounted: it may be unmounted before user space looks, and another one be
 * there. One that the owner does not see is looked for again with its next file.
 */
ONCE int announce_mount(struct subject *subject, struct file_id *id)
{
	struct cpu *cpu = this_cpu();
	u32 zero = 0, round = naming_round, *known;
	struct name_walk walk = {};
	struct file_record *record;
	struct scratch *own;
	struct super_block *super;
	struct inode *inode;
	struct mount *mount;
	bool failed;
	u64 key;

	if (!subject || !id || !cpu || cpu->naming)
		return 0;
	inode = PLAIN(inode, (void *)subject->inode);
	super = READ(inode, i_sb);
	key = mount_key(inode, id);
	known = bpf_map_lookup_elem(&file_systems, &key);
	if (known && *known == round)
		goto named;
	own = bpf_map_lookup_elem(&scratch, &zero);
	mount = mount_of(super);
	if (!own || !mount)
		return 0;
	record = &own->record;
	cpu->naming = 1;
	barrier();
	record->id = *id;
	record->kind = RECORD_MOUNT;
	record->super_dev = READ(super, s_dev);
	record->whole = record->length = record->first_length = 0;
	walk.scratch = own;
	walk.dentry = PEEK1(mount, mnt.mnt_root);
	spell(&walk);
	record->first_length = record->length;
	record->whole = 0;
	walk.dentry = PEEK1(mount, mnt.mnt_root);
	walk.mount = mount;
	spell(&walk);
	bpf_probe_read_kernel_str(record->type, sizeof(record->type), PEEK2(super, s_type, name));
	failed = !record->whole || send(cpu, record);
	barrier();
	cpu->naming = 0;
	if (failed)
		return 0;
	bpf_map_update_elem(&file_systems, &key, &round, BPF_ANY);
named:
	cpu->named = key;
	cpu->named_round = round;
	return 0;
}

#define ALIASES_SEEN 64

/*
 * Looks for the oldest of a file's names that are cached (new ones come to the head) and have not been taken away.
 * `found` is not NULL to begin with: verifiers before 6.7 look at the first step alone, and leave out what a value
 * known there does not lead to.
 */
struct alias_walk {
	struct hlist_node *next;
	struct dentry *found;
};

static __always_inline struct dentry *alias_of(struct hlist_node *node)
{
	return (void *)node - bpf_core_field_offset(struct dentry, d_u.d_alias);
}

static long alias_step(u32 i, void *context)
{
	struct alias_walk *walk = context;
	struct dentry *dentry = PLAIN(dentry, alias_of(walk->next));

	if (READ(dentry, d_hash.pprev) || !READ(PLAIN(dentry, walk->found), d_hash.pprev))
		walk->found = dentry;
	walk->next = READ(dentry, d_u.d_alias.next);
	return !walk->next;
}

/*
 * Is the inode in use? Where one stands that is freed, other memory may have taken the place of its list of names. An
 * event comes from an inode in use; one that is looked at again may be gone.
 */
static __always_inline bool is_in_use(struct subject *subject, struct inode *inode)
{
	return subject->just_added != AGAIN || READ(inode, i_count.counter) > 0;
}

/* Sends the record of a file: its name as the dentries have it, and what it had in the cache; 0: its mount has none. */
ONCE int announce(struct unnamed *unnamed)
{
	CURRENT(trusted, task);
	struct cpu *cpu = this_cpu();
	struct file_record *record;
	struct alias_walk aliases = {};
	struct subject *subject;
	struct inode *inode;
	struct file_id id;
	u32 zero = 0;
	u64 resident, name;
	bool sent = false;

	if (!unnamed || !cpu)
		return 1;
	subject = &unnamed->subject;
	inode = PLAIN(inode, (void *)subject->inode);
	id = unnamed->file; /* a map's key has to be on the stack */
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record || cpu->naming)
		goto unsent;
	cpu->naming = 1;
	barrier();
	resident = READ(inode, i_mapping, nrpages);
	record->id = id;
	record->kind = RECORD_FILE;
	record->address = subject->inode;
	record->size = READ(inode, i_size);
	record->resident_pages = resident > subject->just_added ? resident - subject->just_added : 0;
	record->magic = READ(inode, i_sb, s_magic);
	record->super_dev = READ(inode, i_sb, s_dev);
	record->mode = READ(inode, i_mode);
	record->unlinked = !READ(inode, i_nlink);
	record->alone = task->signal->live.counter == 1;
	record->whole = record->length = 0;
	aliases.next = READ(inode, i_dentry.first);
	if (aliases.next && !S_ISBLK(record->mode)) {
		aliases.found = alias_of(aliases.next);
		bpf_loop(ALIASES_SEEN, alias_step, &aliases, 0);
		if (!PEEK1(aliases.found, d_hash.pprev))
			record->unlinked = 1;
		name = (u64)aliases.found;
		spell_file(&name);
	}
	/* of one that went meanwhile, what was read of it may be anything */
	sent = is_in_use(subject, inode) && !send(cpu, record);
	barrier();
	cpu->naming = 0;
unsent:
	if (!sent && subject->just_added != AGAIN) {
		__sync_fetch_and_add(&lost.names, 1);
		/* the next row of this file tries again; of one that has a name, in the next round */
		if (!unnamed->is_known)
			bpf_map_delete_elem(&files, &id);
	}
	return S_ISBLK(READ(inode, i_mode)) ||
	       (cpu->named == mount_key(inode, &id) && cpu->named_round == naming_round);
}

/* Names the file that has waited least; side by side, as older kernels give programs and all that they call 512 bytes. */
static __always_inline void name_next(struct cpu *cpu)
{
	struct unnamed next;
	u32 last = (cpu->waiting - 1) & (WAITING - 1);

	next = cpu->unnamed[last];
	cpu->waiting = last;
	if (!announce(&next))
		announce_mount(&next.subject, &next.file);
}

/* Ends an event of a raw tracepoint: the files that it has met are named. */
static __always_inline int finish(void *context)
{
	struct cpu *cpu;

	if (config.detail == DETAIL_TOTALS)
		return 0;
	cpu = this_cpu();
	if (cpu && cpu->waiting)
		bpf_tail_call(context, &services, service_numbers[NAME]);
	return 0;
}

/* Names a file, and the others that wait. A program of its own: the verifier looks at it once, and not in each other one. */
SEC("raw_tp")
int name_waiting(void *context)
{
	struct cpu *cpu = this_cpu();

	if (!cpu || !cpu->waiting)
		return 0;
	name_next(cpu);
	return finish(context);
}

/* Ends an event of another kind. */
ONCE int finish_here(void)
{
	struct cpu *cpu = this_cpu();

	if (config.detail == DETAIL_TOTALS || !cpu)
		return 0;
	if (cpu->waiting)
		name_next(cpu);
	if (cpu->waiting)
		name_next(cpu);
	return 0;
}

/* Run by user space for a file, by the address of its inode, that had no name or one for the time being. */
SEC("raw_tp")
int look_again(u64 *context)
{
	struct subject subject = { context[0], AGAIN };
	struct inode *inode = PLAIN(inode, (void *)subject.inode);
	struct file_id id;

	if (!is_in_use(&subject, inode))
		return 0;
	file_of(inode, &id);
	want_name(&subject, &id);
	return finish(context);
}

#endif
