//! The functions of the model, by the names of the kernel's: what statistics are counted under.

use crate::engine::Site;

macro_rules! functions {
    ($($site:ident = $name:literal,)*) => {
        #[expect(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            reason = "the names of the constants"
        )]
        enum Index { $($site),* }
        $(
            #[doc = concat!("`", $name, "`.")]
            pub const $site: Site = Site(Index::$site as u16);
        )*
        /// The names, by [`Site`].
        pub const NAMES: &[&str] = &[$($name),*];
    };
}

functions! {
    SPIN_LOCK = "_raw_spin_lock",
    SPIN_LOCK_SLOWPATH = "native_queued_spin_lock_slowpath",
    SPIN_UNLOCK = "_raw_spin_unlock",
    SPIN_TRYLOCK = "_raw_spin_trylock",
    SCHEDULE = "__schedule",
    FINISH_TASK_SWITCH = "finish_task_switch",
    CONTEXT_SWITCH = "context_switch",
    UPDATE_RQ_CLOCK = "update_rq_clock",
    TRY_TO_WAKE_UP = "try_to_wake_up",
    TTWU_DO_ACTIVATE = "ttwu_do_activate",
    TTWU_QUEUE_WAKELIST = "ttwu_queue_wakelist",
    SCHED_TTWU_PENDING = "sched_ttwu_pending",
    RESCHED_CURR = "resched_curr",
    SET_TASK_CPU = "set_task_cpu",
    SCHED_TICK = "sched_tick",
    RT_MUTEX_SETPRIO = "rt_mutex_setprio",
    ENQUEUE_TASK_RT = "enqueue_task_rt",
    DEQUEUE_TASK_RT = "dequeue_task_rt",
    ENQUEUE_PUSHABLE_TASK = "enqueue_pushable_task",
    DEQUEUE_PUSHABLE_TASK = "dequeue_pushable_task",
    SELECT_TASK_RQ_RT = "select_task_rq_rt",
    WAKEUP_PREEMPT_RT = "wakeup_preempt_rt",
    TASK_WOKEN_RT = "task_woken_rt",
    PICK_TASK_RT = "pick_task_rt",
    PUT_PREV_TASK_RT = "put_prev_task_rt",
    SET_NEXT_TASK_RT = "set_next_task_rt",
    UPDATE_CURR_RT = "update_curr_rt",
    TASK_TICK_RT = "task_tick_rt",
    BALANCE_RT = "balance_rt",
    PULL_RT_TASK = "pull_rt_task",
    PUSH_RT_TASK = "push_rt_task",
    FIND_LOWEST_RQ = "find_lowest_rq",
    FIND_LOCK_LOWEST_RQ = "find_lock_lowest_rq",
    RTO_PUSH_IRQ_WORK_FUNC = "rto_push_irq_work_func",
    CPUPRI_SET = "cpupri_set",
    CPUPRI_FIND = "cpupri_find_fitness",
    ENQUEUE_TASK_FAIR = "enqueue_task_fair",
    DEQUEUE_TASK_FAIR = "dequeue_task_fair",
    PICK_NEXT_TASK_FAIR = "pick_next_task_fair",
    PUT_PREV_TASK_FAIR = "put_prev_task_fair",
    UPDATE_CURR = "update_curr",
    UPDATE_CFS_GROUP = "update_cfs_group",
    UPDATE_TG_LOAD_AVG = "update_tg_load_avg",
    ACCOUNT_CFS_RQ_RUNTIME = "account_cfs_rq_runtime",
    ASSIGN_CFS_RQ_RUNTIME = "__assign_cfs_rq_runtime",
    RETURN_CFS_RQ_RUNTIME = "__return_cfs_rq_runtime",
    THROTTLE_CFS_RQ = "throttle_cfs_rq",
    THROTTLE_CFS_RQ_WORK = "throttle_cfs_rq_work",
    TG_THROTTLE_DOWN = "tg_throttle_down",
    UNTHROTTLE_CFS_RQ = "unthrottle_cfs_rq",
    TG_UNTHROTTLE_UP = "tg_unthrottle_up",
    DISTRIBUTE_CFS_RUNTIME = "distribute_cfs_runtime",
    CFSB_CSD_UNTHROTTLE = "__cfsb_csd_unthrottle",
    START_CFS_BANDWIDTH = "start_cfs_bandwidth",
    SCHED_CFS_PERIOD_TIMER = "sched_cfs_period_timer",
    SCHED_CFS_SLACK_TIMER = "sched_cfs_slack_timer",
    LIST_ADD_LEAF_CFS_RQ = "list_add_leaf_cfs_rq",
    TASK_TICK_FAIR = "task_tick_fair",
    WAKEUP_PREEMPT_FAIR = "check_preempt_wakeup_fair",
    SELECT_TASK_RQ_FAIR = "select_task_rq_fair",
    SCHED_BALANCE_NEWIDLE = "sched_balance_newidle",
    SCHED_BALANCE_RQ = "sched_balance_rq",
    DO_IDLE = "do_idle",
    IRQ_WORK_QUEUE_ON = "irq_work_queue_on",
    FLUSH_SMP_CALL_FUNCTION_QUEUE = "__flush_smp_call_function_queue",
    HRTIMER_START = "hrtimer_start_range_ns",
    HRTIMER_INTERRUPT = "hrtimer_interrupt",
    ENTRY_SYSCALL = "do_syscall_64",
    EXIT_TO_USER = "syscall_exit_to_user_mode",
    IRQENTRY = "irqentry_enter",
    FUTEX_WAIT = "futex_wait",
    FUTEX_WAKE = "futex_wake",
    FUTEX_LOCK_PI = "futex_lock_pi",
    FUTEX_UNLOCK_PI = "futex_unlock_pi",
    DOWN_READ = "down_read",
    DOWN_WRITE = "down_write",
    UP_RWSEM = "rwsem_wake",
    RT_MUTEX_SLOWLOCK = "rt_mutex_slowlock",
    RT_MUTEX_SLOWUNLOCK = "rt_mutex_slowunlock",
    USER = "[user]",
    SCHED_SETSCHEDULER = "__sched_setscheduler",
    FIND_LOWEST_CPUS = "find_lowest_cpus",
}
