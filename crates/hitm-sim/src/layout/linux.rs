//! The built-in table: the structs of Debian's 6.12.117 kernel for x86-64 that the model touches.
//!
//! Source: `pahole -C NAME vmlinux` on the BTF of package linux-image-6.12.117+deb12-amd64
//! (CONFIG_CPUMASK_OFFSTACK=y, NR_CPUS=8192). Members that no model touches are left out.

use super::{Layouts, Member, Per, Storage, StructLayout};

impl Layouts {
    /// The structs of Linux 6.12 as Debian builds it.
    pub fn linux_6_12() -> Layouts {
        let mut structs: Vec<StructLayout> = Vec::new();
        for line in STRUCTS.lines().filter(|line| !line.contains('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if line.starts_with(' ') {
                let last = structs.last_mut().expect("a member is of a struct");
                last.members.push(member(&words));
            } else if let [name, size, align] = words[..] {
                let layout = StructLayout::new(name, number(size), number(align), Vec::new());
                structs.push(layout);
            }
        }
        Layouts::new(structs)
    }
}

/// A row of [`STRUCTS`]: name and offset, then size and type, or what a pointer leads to.
fn member(words: &[&str]) -> Member {
    match *words {
        [name, offset, "cpumask"] => Member::cpumask(name, number(offset)),
        [name, offset, "cpus", element] => Member {
            per: Some(Per::Cpu),
            storage: Storage::Pointer {
                element_bytes: number(element),
                element_align_bytes: number(element),
            },
            ..Member::plain(name, number(offset), 8)
        },
        [name, offset, size] => Member::plain(name, number(offset), number(size)),
        [name, offset, size, of] => {
            let (type_name, count) = of.split_once('[').unwrap_or((of, "1]"));
            Member {
                type_name: (!type_name.is_empty()).then(|| type_name.to_owned()),
                ..Member::plain(name, number(offset), number(size))
            }
            .array(number(count.trim_end_matches(']')))
        }
        _ => unreachable!("a member has a row of three or four words"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("numbers are decimal")
}

/// Structs with size and alignment. Of each member offset and size, and its type in this table.
const STRUCTS: &str = "
root_domain 1816 8
    refcount 0 4
    rto_count 4 4
    overloaded 40 1
    overutilized 41 1
    dlo_mask 48 cpumask
    dlo_count 56 4
    dl_bw 64 24 dl_bw
    cpudl 88 24 cpudl
    rto_push_work 120 32
    rto_lock 152 4
    rto_loop 156 4
    rto_cpu 160 4
    rto_loop_next 164 4
    rto_loop_start 168 4
    pd 1808 8
    span 24 cpumask
    online 32 cpumask
    rto_mask 176 cpumask
    cpupri 184 1624 cpupri
dl_bw 24 8
    lock 0 4
    bw 8 8
    total_bw 16 8
cpudl 24 8
    lock 0 4
    size 4 4
    free_cpus 8 cpumask
    elements 16 cpus 16
cpupri 1624 8
    pri_to_cpu 0 1616 cpupri_vec[101]
    cpu_to_pri 1616 cpus 4
cpupri_vec 16 8
    count 0 4
    mask 8 cpumask
rq 3456 64
    __lock 0 4
    nr_running 4 4
    ttwu_pending 104 4
    nr_switches 112 8
    curr 2680 8
    idle 2696 8
    next_balance 2712 8
    clock 2736 8
    clock_task 2752 8
    rd 2816 8
    sd 2824 8
    balance_callback 2840 8
    cpu 2920 4
    online 2924 4
    idle_stamp 3072 8
    avg_idle 3080 8
    cfs 128 512 cfs_rq
    rt 640 1664 rt_rq
    dl 2304 104 dl_rq
dl_rq 104 8
    root 0 16
    dl_nr_running 16 4
    earliest_dl 24 16 dl_rq_earliest_dl
    overloaded 40 1
    pushable_dl_tasks_root 48 16
    running_bw 64 8
# The unnamed struct of `dl_rq.earliest_dl`.
dl_rq_earliest_dl 16 8
    curr 0 8
    next 8 8
rt_rq 1664 8
    rt_nr_running 1616 4
    rr_nr_running 1620 4
    overloaded 1632 1
    pushable_tasks 1640 16
    rt_queued 1656 4
    active 0 1616 rt_prio_array
    highest_prio 1624 8 rt_rq_highest_prio
# The unnamed struct of `rt_rq.highest_prio`.
rt_rq_highest_prio 8 4
    curr 0 4
    next 4 4
rt_prio_array 1616 8
    bitmap 0 16
    queue 16 1600 [100]
cfs_rq 512 64
    load 0 16
    nr_running 16 4
    h_nr_queued 20 4
    avg_vruntime 40 8
    tasks_timeline 64 16
    curr 80 8
    avg 128 64
    tg_load_avg_contrib 264 8
    on_list 320 4
    leaf_cfs_rq_list 328 16
    runtime_remaining 360 8
    throttled_clock_pelt 384 8
    throttled 416 4
    throttle_count 420 4
    throttled_list 424 16
    throttled_csd_list 440 16
    # Since v6.18, where it lies here (BTF of a 6.18 kernel); a hole in 6.12.
    throttled_limbo_list 456 16
task_group 640 64
    cfs_rq 224 8
    shares 232 8
    load_avg 256 8
    siblings 304 16
    children 320 16
    cfs_bandwidth 344 240 cfs_bandwidth
task_struct 9792 64
    __state 24 4
    on_cpu 52 4
    wake_entry 56 16
    wake_cpu 100 4
    on_rq 104 4
    prio 108 4
    policy 972 4
    nr_cpus_allowed 984 4
    cpus_mask 1008 1024
    pushable_tasks 2240 40
    pushable_dl_tasks 2280 24
    pi_lock 3252 4
    pi_waiters 3264 16
    pi_blocked_on 3288 8
    thread_info 0 24 thread_info
    se 128 256 sched_entity
    rt 384 48 sched_rt_entity
    dl 432 240 sched_dl_entity
thread_info 24 8
    flags 0 8
    cpu 20 4
sched_entity 256 64
    load 0 16
    run_node 16 24
    deadline 40 8
    on_rq 80 1
    exec_start 88 8
    sum_exec_runtime 96 8
    vruntime 112 8
    parent 152 8
    avg 192 64
sched_rt_entity 48 8
    run_list 0 16
    time_slice 32 4
    on_rq 36 2
sched_dl_entity 240 8
    rb_node 0 24
    runtime 64 8
    deadline 72 8
    dl_timer 88 64
qnode 32 32
    mcs 0 16 mcs_spinlock
mcs_spinlock 16 8
    next 0 8
    locked 8 4
rt_mutex_base 32 8
    wait_lock 0 4
    waiters 8 16
    owner 24 8
hrtimer_cpu_base 640 64
    lock 0 4
    expires_next 32 8
    clock_base 64 512
futex_hash_bucket 64 64
    waiters 0 4
    lock 4 4
    chain 8 16
# The per-CPU `call_single_queue`.
call_single_queue 64 64
    first 0 8
cfs_bandwidth 240 8
    lock 0 4
    runtime 24 8
    idle 56 1
    throttled_cfs_rq 192 16
rw_semaphore 40 8
    count 0 8
    owner 8 8
    osq 16 4
    wait_lock 20 4
    wait_list 24 16
# The per-CPU `osq_node`, which has lines of its own.
optimistic_spin_node 64 64
    next 0 8
    prev 8 8
    locked 16 4
    cpu 20 4
# Its caches hand out inodes at multiples of a line.
inode 624 64
    i_size 80 8
    i_mtime_sec 96 8
    i_rwsem 152 40 rw_semaphore
    i_data 368 192 address_space
address_space 192 8
    i_pages 8 16
page 64 64
    flags 0 8
    _refcount 52 4
mutex 32 8
    owner 0 8
    wait_lock 8 4
    osq 12 4
    wait_list 16 16
wait_queue_head 24 8
    lock 0 4
    head 8 16
pipe_inode_info 168 8
    head 80 4
    tail 84 4
    mutex 0 32 mutex
    rd_wait 32 24 wait_queue_head
    wr_wait 56 24 wait_queue_head
pipe_buffer 40 8
    len 12 4
";
