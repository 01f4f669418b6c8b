//! The built-in table: the structs of Debian's 6.12.117 kernel for x86-64 that the model touches.
//!
//! Source: `pahole -C NAME vmlinux` on the BTF of package linux-image-6.12.117+deb12-amd64
//! (CONFIG_CPUMASK_OFFSTACK=y, NR_CPUS=8192). Members that no model touches are left out.

use super::{Layouts, Member, Per, Storage, StructLayout};

impl Layouts {
    /// The structs of Linux 6.12 as Debian builds it.
    pub fn linux_6_12() -> Layouts {
        let mut layouts = Layouts::new([root_domain(), cpupri(), cpupri_vec()]);
        layouts.overlay([
            rq(),
            rt_rq(),
            highest_prio(),
            rt_prio_array(),
            cfs_rq(),
            task_group(),
        ]);
        layouts.overlay([
            task_struct(),
            thread_info(),
            sched_entity(),
            sched_rt_entity(),
        ]);
        layouts.overlay([qnode(), mcs_spinlock(), rt_mutex_base(), hrtimer_cpu_base()]);
        layouts.overlay([futex_hash_bucket(), llist_head(), cfs_bandwidth()]);
        layouts.overlay([rw_semaphore(), optimistic_spin_node()]);
        layouts.overlay([inode(), address_space(), page()]);
        layouts.overlay([mutex(), wait_queue_head(), pipe_inode_info(), pipe_buffer()]);
        layouts
    }
}

fn plain(list: &[(&str, u64, u64)]) -> Vec<Member> {
    let members = list.iter();
    members
        .map(|(name, offset, size)| Member::plain(name, *offset, *size))
        .collect()
}

fn root_domain() -> StructLayout {
    let mut members = plain(&[
        ("refcount", 0, 4),
        ("rto_count", 4, 4),
        ("overloaded", 40, 1),
        ("overutilized", 41, 1),
        ("dlo_count", 56, 4),
        ("rto_push_work", 120, 32),
        ("rto_lock", 152, 4),
        ("rto_loop", 156, 4),
        ("rto_cpu", 160, 4),
        ("rto_loop_next", 164, 4),
        ("rto_loop_start", 168, 4),
        ("pd", 1808, 8),
    ]);
    members.extend([
        Member::cpumask("span", 24),
        Member::cpumask("online", 32),
        Member::cpumask("rto_mask", 176),
        Member::nested("cpupri", 184, 1624, "cpupri"),
    ]);
    StructLayout::new("root_domain", 1816, 8, members)
}

fn cpupri() -> StructLayout {
    let cpu_to_pri = Member {
        per: Some(Per::Cpu),
        storage: Storage::Pointer {
            element_bytes: 4,
            element_align_bytes: 4,
        },
        ..Member::plain("cpu_to_pri", 1616, 8)
    };
    let members = vec![
        Member::nested("pri_to_cpu", 0, 1616, "cpupri_vec").array(101),
        cpu_to_pri,
    ];
    StructLayout::new("cpupri", 1624, 8, members)
}

fn cpupri_vec() -> StructLayout {
    let members = vec![Member::plain("count", 0, 4), Member::cpumask("mask", 8)];
    StructLayout::new("cpupri_vec", 16, 8, members)
}

fn rq() -> StructLayout {
    let mut members = plain(&[
        ("__lock", 0, 4),
        ("nr_running", 4, 4),
        ("ttwu_pending", 104, 4),
        ("nr_switches", 112, 8),
        ("curr", 2680, 8),
        ("idle", 2696, 8),
        ("next_balance", 2712, 8),
        ("clock", 2736, 8),
        ("clock_task", 2752, 8),
        ("rd", 2816, 8),
        ("sd", 2824, 8),
        ("balance_callback", 2840, 8),
        ("cpu", 2920, 4),
        ("online", 2924, 4),
        ("idle_stamp", 3072, 8),
        ("avg_idle", 3080, 8),
    ]);
    members.extend([
        Member::nested("cfs", 128, 512, "cfs_rq"),
        Member::nested("rt", 640, 1664, "rt_rq"),
    ]);
    StructLayout::new("rq", 3456, 64, members)
}

fn rt_rq() -> StructLayout {
    let mut members = plain(&[
        ("rt_nr_running", 1616, 4),
        ("rr_nr_running", 1620, 4),
        ("overloaded", 1632, 1),
        ("pushable_tasks", 1640, 16),
        ("rt_queued", 1656, 4),
    ]);
    members.extend([
        Member::nested("active", 0, 1616, "rt_prio_array"),
        Member::nested("highest_prio", 1624, 8, "rt_rq_highest_prio"),
    ]);
    StructLayout::new("rt_rq", 1664, 8, members)
}

/// The unnamed struct of `rt_rq.highest_prio`.
fn highest_prio() -> StructLayout {
    let members = plain(&[("curr", 0, 4), ("next", 4, 4)]);
    StructLayout::new("rt_rq_highest_prio", 8, 4, members)
}

fn rt_prio_array() -> StructLayout {
    let members = vec![
        Member::plain("bitmap", 0, 16),
        Member::plain("queue", 16, 1600).array(100),
    ];
    StructLayout::new("rt_prio_array", 1616, 8, members)
}

fn cfs_rq() -> StructLayout {
    let members = plain(&[
        ("load", 0, 16),
        ("nr_running", 16, 4),
        ("h_nr_queued", 20, 4),
        ("avg_vruntime", 40, 8),
        ("tasks_timeline", 64, 16),
        ("curr", 80, 8),
        ("avg", 128, 64),
        ("tg_load_avg_contrib", 264, 8),
        ("on_list", 320, 4),
        ("leaf_cfs_rq_list", 328, 16),
        ("runtime_remaining", 360, 8),
        ("throttled_clock_pelt", 384, 8),
        ("throttled", 416, 4),
        ("throttle_count", 420, 4),
        ("throttled_list", 424, 16),
        ("throttled_csd_list", 440, 16),
        // Since v6.18, where it lies here (BTF of a 6.18 kernel); a hole in 6.12.
        ("throttled_limbo_list", 456, 16),
    ]);
    StructLayout::new("cfs_rq", 512, 64, members)
}

fn task_group() -> StructLayout {
    let mut members = plain(&[
        ("cfs_rq", 224, 8),
        ("shares", 232, 8),
        ("load_avg", 256, 8),
        ("siblings", 304, 16),
        ("children", 320, 16),
    ]);
    members.push(Member::nested("cfs_bandwidth", 344, 240, "cfs_bandwidth"));
    StructLayout::new("task_group", 640, 64, members)
}

fn cfs_bandwidth() -> StructLayout {
    let members = plain(&[
        ("lock", 0, 4),
        ("runtime", 24, 8),
        ("idle", 56, 1),
        ("throttled_cfs_rq", 192, 16),
    ]);
    StructLayout::new("cfs_bandwidth", 240, 8, members)
}

fn task_struct() -> StructLayout {
    let mut members = plain(&[
        ("__state", 24, 4),
        ("on_cpu", 52, 4),
        ("wake_entry", 56, 16),
        ("wake_cpu", 100, 4),
        ("on_rq", 104, 4),
        ("prio", 108, 4),
        ("policy", 972, 4),
        ("nr_cpus_allowed", 984, 4),
        ("cpus_mask", 1008, 1024),
        ("pushable_tasks", 2240, 40),
        ("pi_lock", 3252, 4),
        ("pi_waiters", 3264, 16),
        ("pi_blocked_on", 3288, 8),
    ]);
    members.extend([
        Member::nested("thread_info", 0, 24, "thread_info"),
        Member::nested("se", 128, 256, "sched_entity"),
        Member::nested("rt", 384, 48, "sched_rt_entity"),
    ]);
    StructLayout::new("task_struct", 9792, 64, members)
}

fn thread_info() -> StructLayout {
    StructLayout::new(
        "thread_info",
        24,
        8,
        plain(&[("flags", 0, 8), ("cpu", 20, 4)]),
    )
}

fn sched_entity() -> StructLayout {
    let members = plain(&[
        ("load", 0, 16),
        ("run_node", 16, 24),
        ("deadline", 40, 8),
        ("on_rq", 80, 1),
        ("exec_start", 88, 8),
        ("sum_exec_runtime", 96, 8),
        ("vruntime", 112, 8),
        ("parent", 152, 8),
        ("avg", 192, 64),
    ]);
    StructLayout::new("sched_entity", 256, 64, members)
}

fn sched_rt_entity() -> StructLayout {
    let members = plain(&[("run_list", 0, 16), ("time_slice", 32, 4), ("on_rq", 36, 2)]);
    StructLayout::new("sched_rt_entity", 48, 8, members)
}

fn qnode() -> StructLayout {
    let members = vec![Member::nested("mcs", 0, 16, "mcs_spinlock")];
    StructLayout::new("qnode", 32, 32, members)
}

fn mcs_spinlock() -> StructLayout {
    StructLayout::new(
        "mcs_spinlock",
        16,
        8,
        plain(&[("next", 0, 8), ("locked", 8, 4)]),
    )
}

fn rt_mutex_base() -> StructLayout {
    let members = plain(&[("wait_lock", 0, 4), ("waiters", 8, 16), ("owner", 24, 8)]);
    StructLayout::new("rt_mutex_base", 32, 8, members)
}

fn rw_semaphore() -> StructLayout {
    let members = plain(&[
        ("count", 0, 8),
        ("owner", 8, 8),
        ("osq", 16, 4),
        ("wait_lock", 20, 4),
        ("wait_list", 24, 16),
    ]);
    StructLayout::new("rw_semaphore", 40, 8, members)
}

/// The per-CPU `osq_node`, which has lines of its own.
fn optimistic_spin_node() -> StructLayout {
    let members = plain(&[
        ("next", 0, 8),
        ("prev", 8, 8),
        ("locked", 16, 4),
        ("cpu", 20, 4),
    ]);
    StructLayout::new("optimistic_spin_node", 64, 64, members)
}

/// Its caches hand out inodes at multiples of a line.
fn inode() -> StructLayout {
    let mut members = plain(&[("i_size", 80, 8), ("i_mtime_sec", 96, 8)]);
    members.extend([
        Member::nested("i_rwsem", 152, 40, "rw_semaphore"),
        Member::nested("i_data", 368, 192, "address_space"),
    ]);
    StructLayout::new("inode", 624, 64, members)
}

fn address_space() -> StructLayout {
    StructLayout::new("address_space", 192, 8, plain(&[("i_pages", 8, 16)]))
}

fn mutex() -> StructLayout {
    let members = plain(&[
        ("owner", 0, 8),
        ("wait_lock", 8, 4),
        ("osq", 12, 4),
        ("wait_list", 16, 16),
    ]);
    StructLayout::new("mutex", 32, 8, members)
}

fn wait_queue_head() -> StructLayout {
    let members = plain(&[("lock", 0, 4), ("head", 8, 16)]);
    StructLayout::new("wait_queue_head", 24, 8, members)
}

fn pipe_inode_info() -> StructLayout {
    let mut members = plain(&[("head", 80, 4), ("tail", 84, 4)]);
    members.extend([
        Member::nested("mutex", 0, 32, "mutex"),
        Member::nested("rd_wait", 32, 24, "wait_queue_head"),
        Member::nested("wr_wait", 56, 24, "wait_queue_head"),
    ]);
    StructLayout::new("pipe_inode_info", 168, 8, members)
}

fn pipe_buffer() -> StructLayout {
    StructLayout::new("pipe_buffer", 40, 8, plain(&[("len", 12, 4)]))
}

fn page() -> StructLayout {
    let members = plain(&[("flags", 0, 8), ("_refcount", 52, 4)]);
    StructLayout::new("page", 64, 64, members)
}

fn hrtimer_cpu_base() -> StructLayout {
    let members = plain(&[
        ("lock", 0, 4),
        ("expires_next", 32, 8),
        ("clock_base", 64, 512),
    ]);
    StructLayout::new("hrtimer_cpu_base", 640, 64, members)
}

fn futex_hash_bucket() -> StructLayout {
    let members = plain(&[("waiters", 0, 4), ("lock", 4, 4), ("chain", 8, 16)]);
    StructLayout::new("futex_hash_bucket", 64, 64, members)
}

/// The per-CPU `call_single_queue`.
fn llist_head() -> StructLayout {
    StructLayout::new("call_single_queue", 64, 64, plain(&[("first", 0, 8)]))
}
