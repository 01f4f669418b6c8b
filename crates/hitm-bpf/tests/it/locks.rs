use hitm_test::process::Command;
use std::io::Write;
use std::process::Stdio;
use std::thread;

use hitm_bpf::{Filter, LockWaits};

use crate::with_bpf;

/// Four threads write to one pipe and contend for its mutex.
fn fight() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let mut writer = writer.try_clone().unwrap();
            thread::spawn(move || {
                for _ in 0..20_000 {
                    writer.write_all(&[0; 64]).unwrap();
                }
            })
        })
        .collect();
    drop(writer);
    std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    for writer in writers {
        writer.join().unwrap();
    }
}

#[test]
fn waits_of_one_process_are_counted_with_their_callers() {
    with_bpf("waits for locks", || {
        let pid = std::process::id();
        let waits = LockWaits::attach(&Filter::Processes(vec![pid])).unwrap();
        for _ in 0..100 {
            fight();
            if waits.read().unwrap().counts.ended > 0 {
                break;
            }
        }
        let table = waits.read().unwrap();
        assert!(table.counts.ended > 0);
        assert_eq!(table.counts.lost_waits + table.counts.lost_begins, 0);
        assert!(table.waits.iter().all(|wait| wait.pid == pid));
        assert!(table.waits.iter().any(|wait| !wait.stack.is_empty()));
        let ended: u64 = table.waits.iter().map(|wait| wait.count).sum();
        assert!(ended >= table.counts.ended);
        assert!(
            table
                .waits
                .iter()
                .all(|wait| wait.longest_ns <= wait.wait_ns)
        );
    });
}

#[test]
fn a_process_that_is_not_observed_has_no_rows() {
    with_bpf("filter of processes", || {
        // No process has the highest number there is.
        let waits = LockWaits::attach(&Filter::Processes(vec![1 << 30])).unwrap();
        fight();
        assert_eq!(waits.read().unwrap().waits, []);
    });
}

#[test]
fn the_root_cgroup_holds_every_task() {
    with_bpf("filter of cgroups", || {
        // kernfs numbers the root folder of each hierarchy 1.
        let waits = LockWaits::attach(&Filter::Cgroup(1)).unwrap();
        for _ in 0..100 {
            fight();
            let pid = std::process::id();
            if waits
                .read()
                .unwrap()
                .waits
                .iter()
                .any(|wait| wait.pid == pid)
            {
                return;
            }
        }
        panic!("no wait of this process in 100 attempts");
    });
}

/// A child's fight, as this test's own program: [`fight_as_child`] takes part in it.
#[test]
fn a_child_is_observed_with_its_parent() {
    with_bpf("children of a process", || {
        let waits = LockWaits::attach(&Filter::Processes(vec![std::process::id()])).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "locks::fight_as_child", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(child.wait().unwrap().success());
        let table = waits.read().unwrap();
        assert!(table.waits.iter().any(|wait| wait.pid == pid));
        assert_eq!(table.counts.lost_processes, 0);
    });
}

const CHILD: &str = "HITM_BPF_TEST_CHILD";

/// Contends until a wait occurs, when it is the child of the test above.
#[test]
fn fight_as_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let waits = LockWaits::attach(&Filter::Processes(vec![std::process::id()])).unwrap();
    for _ in 0..100 {
        fight();
        if waits.read().unwrap().counts.ended > 0 {
            break;
        }
    }
}
