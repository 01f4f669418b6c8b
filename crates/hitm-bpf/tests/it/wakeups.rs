use std::time::Duration;

use hitm_bpf::{Filter, Wakeups, slot_start_ns};

use crate::with_bpf;

/// Number of times that this thread went to sleep, by the kernel's own count.
fn sleeps() -> u64 {
    // SAFETY: all zeroes is a valid `rusage`, which the call fills.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    };
    usage.ru_nvcsw.cast_unsigned()
}

#[test]
fn each_sleep_of_a_thread_is_one_wakeup() {
    with_bpf("wake-ups", || {
        let pid = std::process::id();
        let wakeups = Wakeups::attach(&Filter::Processes(vec![pid])).unwrap();
        // A timer that fires before its thread has left the CPU causes no wake-up, so the kernel's
        // count is the reference.
        let (tid, before, table, after) = std::thread::spawn(move || {
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(2));
            }
            // SAFETY: gettid takes nothing and always succeeds.
            let tid = unsafe { libc::gettid() }.cast_unsigned();
            let before = sleeps();
            (tid, before, wakeups.read().unwrap(), sleeps())
        })
        .join()
        .unwrap();
        let task = table.tasks.iter().find(|task| task.tid == tid).unwrap();
        // The thread's start is a wake-up, too. Under load Linux 6.18 skips the tracepoint of about
        // one switch in 600, for ftrace as for us.
        assert!(before > 25, "{before} sleeps");
        assert!(
            (before - before / 10..=after + 1).contains(&task.latencies.count),
            "{before} to {after} sleeps: {task:?}"
        );
        let latencies = &task.latencies;
        let slots: u64 = latencies.slots.iter().map(|&count| u64::from(count)).sum();
        assert_eq!(slots, latencies.count);
        let last = latencies
            .slots
            .iter()
            .rposition(|&count| count > 0)
            .unwrap();
        assert!(slot_start_ns(last) <= latencies.longest_ns);
        assert!(latencies.longest_ns < slot_start_ns(last + 1));
    });
}

#[test]
fn rows_of_tasks_and_of_cpus_add_up() {
    with_bpf("wake-ups by CPU", || {
        let wakeups = Wakeups::attach(&Filter::Processes(vec![std::process::id()])).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let table = wakeups.read().unwrap();
        assert!(table.count > 0);
        // Wake-ups may end between the reading of two tables; this thread runs and cannot.
        let by_task: u64 = table.tasks.iter().map(|task| task.latencies.count).sum();
        let by_cpu: u64 = table
            .cpus
            .iter()
            .map(|(_, latencies)| latencies.count)
            .sum();
        assert!(by_task <= by_cpu && by_cpu <= table.count);
    });
}
