use std::collections::BTreeSet;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use hitm_bpf::{Filter, Neighbours, Taker};
use hitm_test::process::{Command, wait_for};

use crate::with_bpf;

/// CPU time of this thread.
fn ran_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec, which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Binds this thread to the first CPU that it may use.
fn bind() {
    // SAFETY: all zeroes is a valid set of CPUs, which outlives the calls.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let mut allowed = std::mem::zeroed::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut allowed), 0);
        let first = (0..1024).find(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        let mut one = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(first.unwrap(), &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
    }
}

/// Runs on the bound CPU for so much CPU time; returns the time for which it could not.
fn spin(cpu_time: Duration) -> u64 {
    bind();
    let (begun, before) = (Instant::now(), ran_ns());
    while u128::from(ran_ns() - before) < cpu_time.as_nanos() {}
    let elapsed = u64::try_from(begun.elapsed().as_nanos()).unwrap();
    elapsed.saturating_sub(ran_ns() - before)
}

/// Threads that never sleep wait for a CPU whenever they do not run.
#[test]
fn the_time_of_waits_is_what_threads_miss() {
    with_bpf("neighbours", || {
        let pid = std::process::id();
        let neighbours = Neighbours::attach(&Filter::Processes(vec![pid])).unwrap();
        let threads: Vec<_> = (0..3)
            .map(|_| thread::spawn(|| spin(Duration::from_millis(200))))
            .collect();
        let missed: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        let table = neighbours.read().unwrap();
        let waited: u64 = table.takings.iter().map(|taking| taking.ns).sum();
        let share = waited as f64 / missed as f64;
        // Other tests of this process wait as well.
        assert!(share > 0.9, "{waited} of {missed} ns: {table:?}");
        let own = |taker: &Taker| matches!(taker, Taker::Process { pid: by, .. } if *by == pid);
        let own = table.takings.iter().filter(|taking| own(&taking.taker));
        let by_own: u64 = own.map(|taking| taking.ns).sum();
        assert!(by_own as f64 > 0.2 * missed as f64, "{by_own}: {table:?}");
        assert_eq!(table.lost_places + table.lost_tasks + table.lost_rows, 0);
    });
}

#[test]
fn a_process_that_is_not_observed_waits_for_nobody() {
    with_bpf("filter of neighbours", || {
        // No process has the highest number there is.
        let neighbours = Neighbours::attach(&Filter::Processes(vec![1 << 30])).unwrap();
        thread::sleep(Duration::from_millis(20));
        assert_eq!(neighbours.read().unwrap().takings, []);
    });
}

const CHILD: &str = "HITM_BPF_TEST_NEIGHBOURS";

/// The kernel's numbers of the programs of this layer.
fn programs() -> BTreeSet<u32> {
    let loaded = aya::programs::loaded_programs().filter_map(Result::ok);
    let ours = loaded.filter(|program| {
        program
            .name_as_str()
            .is_some_and(|name| name.starts_with("neighbours"))
    });
    ours.map(|program| program.id()).collect()
}

#[test]
fn a_killed_observer_leaves_no_program() {
    with_bpf("neighbours, killed", || {
        let before = programs();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "neighbours::observe_as_child", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Those of the other tests come and go meanwhile.
        wait_for("programs", || {
            programs().difference(&before).count() >= PROGRAMS
        });
        let its = programs();
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("their end", || {
            its.difference(&before).all(|id| !programs().contains(id))
        });
    });
}

/// Programs that are attached on every kernel.
const PROGRAMS: usize = 4;

/// Observes until it is killed, when it is the child of the test above.
#[test]
fn observe_as_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let _neighbours = Neighbours::attach(&Filter::All).unwrap();
    loop {
        thread::park();
    }
}
