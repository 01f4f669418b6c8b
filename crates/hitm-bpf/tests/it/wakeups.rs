use std::time::Duration;

use hitm_bpf::{Filter, Wakeups, slot_start_ns};

use crate::with_bpf;

#[test]
fn each_sleep_of_a_thread_is_one_wakeup() {
    with_bpf("wake-ups", || {
        let pid = std::process::id();
        let wakeups = Wakeups::attach(&Filter::Processes(vec![pid])).unwrap();
        let tid = std::thread::spawn(|| {
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(2));
            }
            // SAFETY: gettid takes nothing and always succeeds.
            unsafe { libc::gettid() }.cast_unsigned()
        });
        let tid = tid.join().unwrap();
        let table = wakeups.read().unwrap();
        let task = table.tasks.iter().find(|task| task.tid == tid).unwrap();
        // 50 sleeps and its start, and now and then a lock that it sleeps for.
        assert!((51..60).contains(&task.latencies.count), "{task:?}");
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
