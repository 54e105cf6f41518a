/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The census's view of super blocks and inodes. Everything is read by bpf_probe_read_kernel, through
 * addresses that are numbers to the verifier: a read through a bad one fails, and the programs load in no
 * time, on 6.1 too.
 */
#ifndef CACHEWISE_INODE_H
#define CACHEWISE_INODE_H

#define BDEVFS_MAGIC 0x62646576
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6
#define S_ISDIR(mode) (((mode) & S_IFMT) == 0040000)

/* kernel.h has some of these with other members: what stands after ___ is no part of the name. */
struct super_block___census {
	struct list_head s_list, s_inodes;
	dev_t s_dev;
	unsigned long s_magic;
	struct file_system_type *s_type;
} CORE;
struct inode___census {
	umode_t i_mode;
	struct super_block *i_sb;
	struct list_head i_sb_list;
	struct hlist_head i_dentry;
	unsigned long i_ino;
	u32 i_generation;
	dev_t i_rdev;
	loff_t i_size;
	unsigned int i_nlink;
	struct {
		int counter;
	} i_count, i_writecount;
	struct {
		unsigned long nrpages;
		struct {
			u32 xa_flags;
			void *xa_head;
		} i_pages;
		struct {
			struct {
				void *rb_node;
			} rb_root;
		} i_mmap;
	} i_data; /* its own pages: i_mapping of a device's node leads to those of the device */
} CORE;
struct xa_node___census {
	unsigned char shift, nr_values;
	void *slots[64];
} CORE;
struct task_struct___census {
	struct fs_struct *fs;
} CORE;

#define S_LIST bpf_core_field_offset(struct super_block___census, s_list)
#define S_INODES bpf_core_field_offset(struct super_block___census, s_inodes)
#define I_SB_LIST bpf_core_field_offset(struct inode___census, i_sb_list)

/* By address. It is taken first: what stands inside of BPF_CORE_READ is relocated, ours too. */
#define READ(type, from, member)                                                                   \
	({                                                                                         \
		u64 address_ = (from);                                                             \
		BPF_CORE_READ((type *)address_, member);                                           \
	})
#define SUPER(from, member) READ(struct super_block___census, from, member)
#define INODE(from, member) READ(struct inode___census, from, member)
#define NODE(from, member) READ(struct xa_node___census, from, member)
#define DENTRY(from, member) READ(struct dentry, from, member)

static __always_inline u64 word(u64 address)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/* Can it be the address of a structure of the kernel's? */
static __always_inline bool is_kernel(u64 address)
{
	return (s64)address < 0 && !(address & 7);
}

/*
 * Super blocks are allocated, the head of their list is a variable of the kernel's: what lies in its image
 * is no super block. (Its own address is not in every kernel's kallsyms, and finding it there is slow.)
 */
static __always_inline bool is_in_image(u64 address)
{
#ifdef __TARGET_ARCH_x86
	return address >= 0xffffffff80000000ULL; /* __START_KERNEL_map, with 4 and 5 levels of tables */
#else
#error "where does the kernel's image lie on this architecture?"
#endif
}

/*
 * Is this node on a list? One that was taken off points to itself, and memory that was used for something
 * else hardly has a neighbour that points back. While another CPU changes the list beside the node, one of
 * the neighbours may not point back, but not both.
 */
static __always_inline bool is_linked(u64 node)
{
	u64 next = word(node), prev = word(node + 8);

	if (next == node || !is_kernel(next) || !is_kernel(prev))
		return false;
	return word(next + 8) == node || word(prev) == node;
}

#endif
