//! Lines as ftrace prints them, of each walk.

use hitm_bpf::{ThrottleEvent, Work};

use crate::cgroups::Tree;

/// Formats the begin and the end of a walk as two lines of ftrace; none for other events.
///
/// Interrupts are off and the context is a hard interrupt (`d.h`). A pending switch and the
/// preemption depth are not recorded (`.`). Times are CLOCK_MONOTONIC. A walk visits each group
/// below the one that it unthrottles, so `unthrottled_cfs_rq` is the number of run queues times
/// that of these groups.
pub fn trace_lines(event: &ThrottleEvent, tree: &Tree) -> Option<[String; 2]> {
    let (work, function, asked) = match event {
        ThrottleEvent::Timer(work) => {
            let function = match work.is_slack {
                true => "sched_cfs_slack_timer",
                false => "sched_cfs_period_timer",
            };
            (work, function, format!(", asked_cpus={}", work.queued))
        }
        ThrottleEvent::Handler(work) => (work, "__cfsb_csd_unthrottle", String::new()),
        _ => return None,
    };
    let queues = u64::from(work.tasks > 0);
    let groups = tree.get(work.cgroup).map_or(1, |group| group.subtree);
    let begin = line(work, work.begin_ns, function, "begins");
    let end = format!(
        "finishes: unthrottled_rqs={queues}, unthrottled_cfs_rq={}, unthrottled_task={}{asked}",
        queues * groups,
        work.tasks
    );
    Some([begin, line(work, work.end_ns, function, &end)])
}

fn line(work: &Work, at_ns: u64, function: &str, text: &str) -> String {
    let task = match work.tid {
        0 => "<idle>-0".to_owned(),
        tid => format!("{}-{tid}", work.comm),
    };
    let micros = at_ns / 1000;
    format!(
        "{task:>20} [{cpu:03}] d.h.. {:>6}.{:06}: {function}: cpu{cpu}: {text}",
        micros / 1_000_000,
        micros % 1_000_000,
        cpu = work.cpu,
    )
}
