/* SPDX-License-Identifier: GPL-2.0 */
/* Which file: ids that hold as long as the probe counts. */
#ifndef CACHEWISE_FILE_H
#define CACHEWISE_FILE_H

static __always_inline u32 mix(u64 number)
{
	return number * 0x9E3779B97F4A7C15ULL >> 32;
}

/* Rises when other data comes into a block device. */
static __always_inline u64 sequence_of(struct block_device *device)
{
	return PEEK2(device, bd_disk, diskseq);
}

/*
 * Tells a file system from others that have had its device number: by what the device was when it was mounted, or
 * its own number where it has no device; and by its UUID, as a device may have been made anew in between.
 */
static __always_inline u32 volume_of(struct super_block *super)
{
	u64 uuid = BY_HELPER ? peek((u64)&super->s_uuid) : *(volatile u64 *)&super->s_uuid;
	u64 origin = READ(super, s_bdev) ? READ(super, s_bdev, bd_disk, diskseq) : READ(super, s_bdi, id);

	return mix(uuid ^ origin << 32 ^ origin);
}

/* btrfs gives each subvolume a device of its own, which stat(2) shows and s_dev does not. */
static __always_inline void identify_file(struct inode *inode, struct file_id *id)
{
	id->inode = 0;
	id->generation = 0;
	id->volume = 0;
	id->padding = 0;
	if (S_ISBLK(READ(inode, i_mode))) {
		id->dev = READ(inode, i_rdev);
		return;
	}
	id->inode = READ(inode, i_ino);
	id->generation = READ(inode, i_generation);
	id->dev = READ(inode, i_sb, s_dev);
	id->volume = volume_of(READ(inode, i_sb));
	if (READ(inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC && bpf_core_type_exists(struct btrfs_inode)) {
		struct btrfs_inode *b =
			(void *)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);

		id->dev = PEEK2(b, root, anon_dev);
	}
}

#if BY_HELPER
static __noinline int file_of(struct inode *inode, struct file_id *id)
{
	if (id)
		identify_file(inode, id);
	return 0;
}
#else
ONCE int file_at(u64 *address, struct file_id *id)
{
	if (address && id)
		identify_file(PLAIN(inode, (void *)*address), id);
	return 0;
}

static __always_inline int file_of(struct inode *inode, struct file_id *id)
{
	u64 address = (u64)inode;

	return file_at(&address, id);
}
#endif

#endif
