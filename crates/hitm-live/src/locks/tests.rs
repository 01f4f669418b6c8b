use super::*;
use crate::recording::{LiveSample, LiveStack, LiveWait, VERSION};

/// A recording of 1 ms samples: thread, functions from the outermost on, file, number.
fn recording(samples: &[(u32, &str, Option<u32>, u64)]) -> LiveRecording {
    let mut names = indexmap::IndexSet::new();
    let mut recording = LiveRecording {
        hitm_live: VERSION,
        period_ns: 1_000_000,
        ..LiveRecording::default()
    };
    for (number, (thread, functions, object, count)) in samples.iter().enumerate() {
        let frames = functions.split(' ').rev();
        let kernel = frames.map(|name| names.insert_full(name.to_owned()).0 as u32);
        recording.stacks.push(LiveStack {
            kernel: kernel.collect(),
            ..LiveStack::default()
        });
        recording.samples.push(LiveSample {
            thread: *thread,
            stack: number as u32,
            object: *object,
            count: *count,
        });
    }
    recording.names = names.into_iter().collect();
    recording.threads = (0..4)
        .map(|thread| LiveThread {
            pid: 100 + thread / 2,
            tid: 100 + thread,
            comm: "copy".into(),
            start_ticks: 1,
        })
        .collect();
    recording.objects = ["8:1:7", "8:1:8"]
        .map(|inode| LiveObject::File {
            inode: inode.into(),
            path: "/f".into(),
        })
        .to_vec();
    recording
}

fn judge(recording: &LiveRecording) -> Vec<Lock> {
    let judged = super::judge(recording);
    assert_eq!(judged.left_out_count, 0);
    judged.locks
}

const WRITE: &str = "sys_write vfs_write ext4_buffered_write_iter";

fn write(rest: &str) -> String {
    format!("{WRITE} {rest}")
}

#[test]
fn a_hold_share_is_of_time_that_works() {
    let wait = write("down_write rwsem_down_write_slowpath osq_lock");
    let copy = write("generic_perform_write copy");
    let take = write("down_write");
    let found = judge(&recording(&[
        (0, &wait, Some(0), 30),
        (0, &copy, Some(0), 43),
        (0, "sys_write vfs_write", Some(0), 56),
        (0, &take, Some(0), 1),
        (1, &wait, Some(0), 20),
        (1, &copy, Some(0), 43),
        (1, "main", None, 57),
        (2, "main", None, 500),
    ]));
    let [lock] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(
        (lock.class, lock.name.as_str()),
        (Class::Rwsem, "inode's i_rwsem")
    );
    assert_eq!(lock.object, "inode 8:1:7 /f");
    assert_eq!((lock.held_ns, lock.other_ns), (86_000_000, 114_000_000));
    assert_eq!(lock.waited_ns, 50_000_000);
    assert_eq!(lock.hold_share(), 0.43);
    assert_eq!(lock.needed_cpus(), Some(3));
    assert_eq!(lock.threads.len(), 2);
    assert_eq!(lock.threads[0].thread.tid, 100);
    let chain = "ext4_buffered_write_iter < vfs_write < sys_write";
    let caller = LockCaller {
        chain: chain.to_owned(),
        samples: 50,
        traced_ns: 0,
    };
    assert_eq!(lock.callers, [caller]);
    assert_eq!(lock.slept_ns(), None);
}

/// Makes a function the program's, in which a thread spins for a word.
fn spins_in(recording: &mut LiveRecording, stack: usize, function: &str, word: u32) {
    recording.names.push(function.into());
    recording.stacks[stack] = LiveStack {
        user: vec![recording.names.len() as u32 - 1],
        spins: true,
        ..LiveStack::default()
    };
    recording.samples[stack].object = Some(word);
}

fn word(address: u64) -> LiveObject {
    LiveObject::Futex {
        pid: 100,
        address,
        name: if address == 0x10 { "table.lock" } else { "" }.into(),
    }
}

#[test]
fn who_spins_in_a_program_waits() {
    let samples = [(0, "a", None, 30), (1, "b", None, 40), (1, "c", None, 60)];
    let mut seen = recording(&samples);
    seen.objects = vec![word(0x10), word(0x20)];
    // The process is called by its first thread's name.
    seen.threads[1].comm = "worker".into();
    spins_in(&mut seen, 0, "my_lock", 0);
    spins_in(&mut seen, 1, "__pthread_spin_lock", 1);
    let found = judge(&seen);
    let locks: Vec<_> = found
        .iter()
        .map(|lock| (lock.title(), lock.waited_ns, lock.other_ns))
        .collect();
    let expected = [
        (
            "pthread_spinlock in pthread_spin_lock of 0x20 of process 100 (copy)",
            40_000_000,
            60_000_000,
        ),
        (
            "spin_loop in my_lock of table.lock 0x10 of process 100 (copy)",
            30_000_000,
            0,
        ),
    ];
    assert_eq!(
        locks,
        expected.map(|lock| (lock.0.to_owned(), lock.1, lock.2))
    );
    assert!(found.iter().all(|lock| !lock.is_hold_known));
    assert_eq!(found[0].slept_ns(), None);
}

#[test]
fn who_yields_again_and_again_spins() {
    let yields = "entry __x64_sys_sched_yield do_sched_yield schedule";
    let mut seen = recording(&[(0, yields, None, 20), (0, "main", None, 5)]);
    seen.names.push("sched_yield".into());
    seen.stacks[0].user = vec![seen.names.len() as u32 - 1];
    let found = judge(&seen);
    let [lock] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(
        lock.title(),
        "spin_loop in sched_yield of process 100 (copy)"
    );
    assert_eq!((lock.waited_ns, lock.other_ns), (20_000_000, 5_000_000));
}

/// A mutex that spins before it sleeps is one lock.
#[test]
fn who_spins_for_a_word_that_others_sleep_for_waits_for_one_lock() {
    let samples = [
        (0, "a", None, 30),
        (0, "futex_wait", None, 0),
        (0, "b", None, 9),
    ];
    let mut seen = recording(&samples);
    seen.objects = vec![word(0x10)];
    spins_in(&mut seen, 0, "pthread_mutex_lock", 0);
    seen.waits = Some(vec![LiveWait {
        thread: 1,
        stack: 1,
        lock: 0x10,
        object: Some(0),
        count: 3,
        wait_ns: 200_000_000,
        longest_ns: 90_000_000,
    }]);
    let found = judge(&seen);
    let [lock] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!((lock.class, lock.threads.len()), (Class::Futex, 2));
    assert_eq!((lock.waited_ns, lock.other_ns), (30_000_000, 9_000_000));
    assert_eq!(lock.traced.as_ref().map(|traced| traced.count), Some(3));
}

/// A process that ended before its name was read.
#[test]
fn a_process_without_a_name_has_its_number_alone() {
    let yields = "entry __x64_sys_sched_yield";
    let mut seen = recording(&[(0, yields, None, 20)]);
    for thread in &mut seen.threads {
        thread.comm.clear();
    }
    let title = judge(&seen)[0].title();
    assert_eq!(title, "spin_loop in __x64_sys_sched_yield of process 100");
}

#[test]
fn a_sample_without_callers_is_nobodys() {
    let wait = write("down_write rwsem_down_write_slowpath");
    let found = judge(&recording(&[
        (0, &wait, Some(0), 10),
        (0, &write("copy"), Some(0), 30),
        (0, "__x86_indirect_thunk_rax", Some(0), 20),
        (0, "srso_return_thunk", Some(0), 5),
        (0, "main", None, 10),
    ]));
    // With them the share would be 0.46.
    assert_eq!(found[0].hold_share(), 0.75);
}

#[test]
fn two_files_are_two_locks() {
    let wait = write("down_write rwsem_down_write_slowpath");
    let copy = write("copy");
    let found = judge(&recording(&[
        (0, &wait, Some(0), 10),
        (0, &copy, Some(0), 10),
        (0, &copy, Some(1), 30),
        (1, &wait, Some(1), 40),
        (1, &copy, Some(1), 40),
    ]));
    let shares: Vec<_> = found
        .iter()
        .map(|lock| (lock.object.as_str(), lock.hold_share()))
        .collect();
    assert_eq!(shares, [("inode 8:1:8 /f", 1.0), ("inode 8:1:7 /f", 0.25)]);
}

#[test]
fn locks_inside_a_wait_belong_to_it_and_waits_inside_a_hold_to_the_hold() {
    let inner = write(
        "down_write rwsem_down_write_slowpath _raw_spin_lock_irq native_queued_spin_lock_slowpath",
    );
    let nested = write("commit _raw_spin_lock native_queued_spin_lock_slowpath");
    let found = judge(&recording(&[
        (0, &inner, Some(0), 20),
        (0, &nested, Some(0), 15),
        (0, "main", None, 15),
    ]));
    let locks: Vec<_> = found
        .iter()
        .map(|lock| (lock.class, lock.name.as_str(), lock.waited_ns, lock.held_ns))
        .collect();
    assert_eq!(
        locks,
        [
            (Class::Rwsem, "inode's i_rwsem", 20_000_000, 15_000_000),
            (Class::Spinlock, "taken by commit", 15_000_000, 0),
        ]
    );
    assert_eq!(found[1].needed_cpus(), None);
}

#[test]
fn who_wakes_the_next_one_has_given_the_lock_back() {
    let wait = write("down_write rwsem_down_write_slowpath");
    let found = judge(&recording(&[
        (0, &wait, Some(0), 10),
        (0, &write("up_write"), Some(0), 10),
        (
            0,
            &write("up_write rwsem_wake.isra.0 wake_up_q"),
            Some(0),
            30,
        ),
    ]));
    assert_eq!(found[0].hold_share(), 0.25);
}

#[test]
fn a_lock_taken_for_a_caller_is_held_by_the_caller() {
    let fault = "asm_exc_page_fault exc_page_fault do_user_addr_fault";
    let wait = format!("{fault} lock_mm_and_find_vma down_read_killable rwsem_down_read_slowpath");
    let hold = format!("{fault} handle_mm_fault");
    let found = judge(&recording(&[
        (0, &wait, None, 10),
        (0, &hold, None, 10),
        (1, &wait, None, 10),
        (2, &wait, None, 12),
    ]));
    let objects: Vec<_> = found
        .iter()
        .map(|lock| (lock.name.as_str(), lock.object.as_str(), lock.held_ns))
        .collect();
    assert_eq!(
        objects,
        [
            ("mm's mmap_lock", "process 100 (copy)", 10_000_000),
            ("mm's mmap_lock", "process 101 (copy)", 0),
        ]
    );
}

#[test]
fn a_few_samples_are_no_lock() {
    let wait = write("down_write rwsem_down_write_slowpath");
    let judged = super::judge(&recording(&[(0, &wait, Some(0), WAITING_MIN - 1)]));
    assert_eq!((judged.locks.len(), judged.few_count), (0, 1));
}

fn wait(thread: u32, stack: u32, lock: u64, wait_ms: u64) -> LiveWait {
    LiveWait {
        object: None,
        thread,
        stack,
        lock,
        count: 3,
        wait_ns: wait_ms * 1_000_000,
        longest_ns: 2_000_000,
    }
}

#[test]
fn sleepers_are_added_to_the_lock_that_their_threads_spin_for() {
    let waiting = write("down_write rwsem_down_write_slowpath");
    let mut seen = recording(&[
        (0, &waiting, Some(0), 10),
        (0, &write("copy"), Some(0), 10),
        (1, "main", None, 1),
    ]);
    seen.waits = Some(vec![
        wait(0, 0, 0xa0, 20),
        wait(1, 0, 0xb0, 40),
        wait(1, 0, 0xb0, 5),
    ]);
    let found = judge(&seen);
    let traced = |lock: &Lock| lock.traced.clone().unwrap();
    assert_eq!(found[0].object, "inode 8:1:7 /f");
    assert_eq!(
        (found[0].waited_ns, traced(&found[0]).wait_ns),
        (10_000_000, 20_000_000)
    );
    assert_eq!(found[1].object, "at 0xb0");
    assert_eq!(
        (found[1].waited_ns, traced(&found[1]).wait_ns),
        (0, 45_000_000)
    );
    assert_eq!(traced(&found[1]).addresses, BTreeSet::from([0xb0]));
    assert_eq!(found[0].callers[0].traced_ns, 20_000_000);
    // A rwsem's tracepoints begin when its waiter sleeps.
    assert_eq!(found[0].slept_ns(), Some(20_000_000));
}

/// A pool's threads sleep for work.
#[test]
fn words_at_which_threads_wait_for_work_are_no_locks() {
    let mut seen = recording(&[(0, "futex_wait", None, 0), (0, "futex_wait", None, 0)]);
    seen.objects = vec![word(0x10), word(0x20)];
    for (stack, function) in [(0, "__lll_lock_wait"), (1, "___pthread_cond_wait")] {
        seen.names.push(function.into());
        seen.stacks[stack].user = vec![seen.names.len() as u32 - 1];
    }
    let sleep = |stack, word| LiveWait {
        object: Some(word),
        ..wait(1, stack, 0x10 * (1 + u64::from(word)), 500)
    };
    // Of one thread the caller is not known.
    seen.waits = Some(vec![
        sleep(0, 0),
        sleep(1, 1),
        LiveWait {
            thread: 2,
            ..sleep(0, 1)
        },
    ]);
    let judged = super::judge(&seen);
    let [lock] = &judged.locks[..] else {
        panic!("{judged:#?}");
    };
    assert!(lock.object.starts_with("table.lock "), "{lock:?}");
    assert_eq!(judged.idle_count, 1);
}

/// An address space has one mmap_lock, whatever function takes it.
#[test]
fn a_function_without_a_named_lock_waits_for_the_one_at_its_address() {
    let named = "sys_mmap vm_mmap_pgoff down_write rwsem_down_write_slowpath";
    let other = "sys_other a_driver down_write rwsem_down_write_slowpath";
    let mut seen = recording(&[(0, other, None, 0), (0, named, None, 0)]);
    seen.waits = Some(vec![wait(0, 0, 0xf0, 30), wait(1, 1, 0xf0, 40)]);
    let found = judge(&seen);
    let [lock] = &found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(lock.title(), "rwsem mm's mmap_lock of process 100 (copy)");
    assert_eq!(lock.slept_ns(), Some(70_000_000));
    assert_eq!(lock.threads.len(), 2);
}

#[test]
fn a_mutex_waiter_sleeps_for_what_it_does_not_spin() {
    let waiting = "sys_x f mutex_lock __mutex_lock";
    let mut seen = recording(&[(0, waiting, None, 30), (0, "sys_x f", None, 10)]);
    seen.waits = Some(vec![wait(0, 0, 0xa0, 50)]);
    assert_eq!(judge(&seen)[0].slept_ns(), Some(20_000_000));
    seen.waits = Some(vec![wait(0, 0, 0xa0, 20)]);
    assert_eq!(judge(&seen)[0].slept_ns(), Some(0));
}

#[test]
fn a_futex_is_known_by_its_word_and_its_holder_by_nobody() {
    let mut seen = recording(&[(0, "sys_futex futex_wait", Some(0), 0)]);
    seen.names.push("pthread_mutex_lock".into());
    let taker = seen.names.len() as u32 - 1;
    seen.stacks[0].user.push(taker);
    let futex = |name: &str, address| LiveObject::Futex {
        pid: 100,
        address,
        name: name.into(),
    };
    seen.objects = vec![futex("busy", 0x40), futex("", 0x80)];
    let wait = |object, lock| LiveWait {
        object: Some(object),
        ..wait(0, 0, lock, 20)
    };
    seen.waits = Some(vec![wait(0, 0x40), wait(0, 0x40), wait(1, 0x80)]);
    let found = judge(&seen);
    let titles: Vec<String> = found.iter().map(Lock::title).collect();
    assert_eq!(
        titles,
        [
            "futex word of busy 0x40 of process 100 (copy)",
            "futex word of 0x80 of process 100 (copy)"
        ]
    );
    assert_eq!(found[0].slept_ns(), Some(40_000_000));
    assert_eq!(found[0].callers[0].chain, "pthread_mutex_lock");
    assert!(!found[0].is_hold_known);
    assert_eq!(found[0].needed_cpus(), None);
}

#[test]
fn a_lock_inside_of_a_wait_is_no_second_wait() {
    let waiting = write("down_write rwsem_down_write_slowpath");
    let inner = format!("{waiting} _raw_spin_lock_irq native_queued_spin_lock_slowpath");
    let mut seen = recording(&[(0, &waiting, Some(0), 10), (0, &inner, Some(0), 1)]);
    seen.stacks[0].user.push(0);
    seen.waits = Some(vec![wait(0, 0, 0xa0, 20), wait(0, 1, 0xa8, 15)]);
    let found = judge(&seen);
    let traced = found[0].traced.clone().unwrap();
    let addresses = BTreeSet::from([0xa0]);
    assert_eq!((traced.wait_ns, traced.addresses), (20_000_000, addresses));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].callers[0].traced_ns, 20_000_000);
}

#[test]
fn a_writer_of_a_percpu_rwsem_waits_where_it_takes_it() {
    let mut seen = recording(&[(0, "sys_x freeze percpu_down_write", None, 0)]);
    seen.waits = Some(vec![wait(0, 0, 0xa0, 20)]);
    let found = judge(&seen);
    assert_eq!(found[0].class, Class::PercpuRwsem);
    assert_eq!(found[0].name, "taken by freeze");
    assert_eq!(found[0].slept_ns(), Some(20_000_000));
}

#[test]
fn spinning_without_interrupts_is_no_hold() {
    let spin = "sys_x f _raw_spin_lock_irqsave native_queued_spin_lock_slowpath";
    let mut seen = recording(&[
        (0, "sys_x f _raw_spin_unlock_irqrestore", None, 60),
        (0, "sys_x", None, 40),
        (1, spin, None, 0),
    ]);
    seen.waits = Some(vec![wait(0, 2, 0xa0, 40)]);
    let found = judge(&seen);
    assert_eq!(
        (found[0].waited_ns, found[0].held_ns),
        (40_000_000, 20_000_000)
    );
    assert_eq!(found[0].hold_share(), 20.0 / 60.0);
}

#[test]
fn locks_without_room_are_those_that_matter_least_and_are_counted() {
    let spin = "sys_x f _raw_spin_lock native_queued_spin_lock_slowpath";
    let mut seen = recording(&[(1, spin, None, 0)]);
    let addresses = 1..LOCKS_MAX as u64 + 3;
    seen.waits = Some(
        addresses
            .map(|address| wait(0, 0, address, 20 + address))
            .collect(),
    );
    let judged = super::judge(&seen);
    assert_eq!((judged.locks.len(), judged.left_out_count), (LOCKS_MAX, 2));
    assert_eq!(judged.locks.last().unwrap().object, "at 0x3");
}

#[test]
fn a_period_without_end_is_no_panic() {
    let mut seen = recording(&[]);
    seen.period_ns = u64::MAX;
    assert_eq!(judge(&seen), []);
}

/// Two threads with 100 ticks each, of which one has the lock for 30 and the other for 50, and spins for 20 ms.
#[test]
fn a_word_that_names_its_owner_has_a_hold_share() {
    let samples = [(0, "a", None, 20), (0, "futex_wait", None, 0)];
    let mut seen = recording(&samples);
    seen.objects = vec![word(0x40)];
    spins_in(&mut seen, 0, "lock_slowly", 0);
    let wait = |thread| LiveWait {
        object: Some(0),
        ..wait(thread, 1, 0x40, 20)
    };
    seen.waits = Some(vec![wait(0), wait(1)]);
    let held = |times| crate::recording::LiveHeld {
        pid: 100,
        lock: 0x40,
        times,
        ..Default::default()
    };
    let ticks = |tid, word, count| crate::recording::LiveTicks {
        pid: 100,
        tid,
        word,
        count,
    };
    let named = crate::recording::HolderTimes {
        running_ns: 1,
        unknown_ns: 5,
        ..Default::default()
    };
    seen.holders = Some(crate::recording::LiveHolders {
        locks: vec![held(named)],
        tick_ns: 1_000_000,
        ticks: vec![
            ticks(100, None, 100),
            ticks(100, Some(0x40), 30),
            ticks(100, Some(0x80), 7),
            ticks(101, None, 100),
            ticks(101, Some(0x40), 50),
        ],
        ..Default::default()
    });
    let found = judge(&seen);
    let lock = &found[0];
    assert!(lock.is_hold_known);
    let times = (lock.held_ns, lock.other_ns, lock.working_samples);
    assert_eq!(times, (80_000_000, 100_000_000, 200));
    assert_eq!(lock.needed_cpus(), Some(3));
    // A word that never named one.
    let holders = seen.holders.as_mut().unwrap();
    holders.locks[0].times.running_ns = 0;
    assert!(!judge(&seen)[0].is_hold_known);
}
