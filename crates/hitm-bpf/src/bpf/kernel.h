// SPDX-License-Identifier: MIT OR GPL-2.0-only
// What our programs use of the BPF machine and of the kernel's structures.
//
// The structures name only the members that we read. preserve_access_index makes clang record each access by
// name, so that the loader puts in the running kernel's offsets: one object fits many kernels.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
// A part that the verifier judges once and by itself: its arguments are numbers.
#define SUBPROGRAM __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

// Maps declared by BTF: an int's array length and a pointer's type carry the numbers.
#define MAP_INT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_STACK_TRACE 7
#define BPF_MAP_TYPE_RINGBUF 27

#define BPF_ANY 0
#define BPF_NOEXIST 1

// Helpers by their number in the kernel's table (include/uapi/linux/bpf.h).
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static void *(*bpf_ringbuf_reserve)(void *ringbuf, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
// The reader looks by itself every few milliseconds: waking it would disturb what is measured.
#define NO_WAKEUP 1ULL
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static void *(*bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

#define FIELD_BYTE_OFFSET 0
#define FIELD_BYTE_SIZE 1
#define FIELD_EXISTS 2
#define FIELD_LSHIFT_U64 4
#define FIELD_RSHIFT_U64 5
#define field_exists(field) __builtin_preserve_field_info(field, FIELD_EXISTS)
#define field_offset(type, field) __builtin_preserve_field_info(((type *)0)->field, FIELD_BYTE_OFFSET)

// Reads a member that is a bit in some kernels. Little endian.
#define read_bits(object, field)                                                                             \
	({                                                                                                      \
		u64 bits = 0;                                                                                       \
		bpf_probe_read_kernel(&bits, __builtin_preserve_field_info((object)->field, FIELD_BYTE_SIZE),       \
				      (void *)(object) + __builtin_preserve_field_info((object)->field, FIELD_BYTE_OFFSET)); \
		bits <<= __builtin_preserve_field_info((object)->field, FIELD_LSHIFT_U64);                         \
		bits >>= __builtin_preserve_field_info((object)->field, FIELD_RSHIFT_U64);                         \
		bits;                                                                                               \
	})

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_group {
	struct cgroup_subsys_state css;
};

struct cfs_rq {
	int throttle_count;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	s32 pid;
	s32 tgid;
	char comm[16];
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
};

#pragma clang attribute pop

// Levels of cgroups that a walk upwards visits. Deeper groups are found by their nearest ancestors only.
#define CGROUP_DEPTH_MAX 16

// Adds to one of the counters that user space reads.
#define count(map, index)                                                                                   \
	do {                                                                                                    \
		u32 which = index;                                                                                  \
		u64 *counter = bpf_map_lookup_elem(&map, &which);                                                   \
		if (counter)                                                                                        \
			__sync_fetch_and_add(counter, 1);                                                               \
	} while (0)

// True when `css` or one of its ancestors belongs to cgroup `id`.
INLINE int is_below(struct cgroup_subsys_state *css, u64 id)
{
	for (int level = 0; level < CGROUP_DEPTH_MAX && css; level++) {
		struct cgroup *cgroup = css->cgroup;
		// An autogroup is a task group without a cgroup.
		if (!cgroup)
			return 0;
		if (cgroup->kn->id == id)
			return 1;
		css = css->parent;
	}
	return 0;
}
