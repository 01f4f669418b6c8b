// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Children of observed processes are observed too. Needs the table `counts` and COUNT_LOST_PROCESSES.
#pragma once

// A child of an observed process is observed from its first instruction on. Where the table is full it is not.
SEC("tp_btf/sched_process_fork")
int follow_fork(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	u32 pid = child->tgid;
	u8 is_child = 1;

	if (pid == (u32)parent->tgid || !is_observed(parent))
		return 0;
	if (bpf_map_update_elem(&processes, &pid, &is_child, BPF_ANY))
		count(counts, COUNT_LOST_PROCESSES);
	return 0;
}

// A process that is gone leaves its number to others. Its first thread is freed last.
SEC("tp_btf/sched_process_free")
int forget_process(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 pid = task->tgid;

	if (task->pid == task->tgid)
		bpf_map_delete_elem(&processes, &pid);
	return 0;
}
