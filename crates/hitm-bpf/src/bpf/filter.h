// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Which tasks are observed. The loader writes the constants before it loads.
#pragma once

#include "kernel.h"

#define FILTER_ALL 0
#define FILTER_PROCESSES 1
#define FILTER_CGROUP 2

const volatile u32 filter_kind = FILTER_ALL;
const volatile u64 filter_cgroup = 0;

struct {
	MAP_INT(type, BPF_MAP_TYPE_HASH);
	MAP_INT(max_entries, 4096);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u8);
} processes SEC(".maps");

INLINE int is_observed(struct task_struct *task)
{
	if (filter_kind == FILTER_PROCESSES) {
		u32 tgid = task->tgid;
		return bpf_map_lookup_elem(&processes, &tgid) != 0;
	}
	if (filter_kind == FILTER_CGROUP)
		// The group of the cpu controller, of either version, or that of the unified hierarchy.
		return is_below(&task->sched_task_group->css, filter_cgroup) ||
		       is_below(&task->cgroups->dfl_cgrp->self, filter_cgroup);
	return 1;
}
