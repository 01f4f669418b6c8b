//! Screens to the character.

use expect_test::expect;
use hitm_live::throttle::Source;
use hitm_live::wakeups::{Measured, RunDelay, WakeupReport};
use ratatui::style::{Color, Modifier};

use super::windows::*;
use super::*;

#[test]
fn locks_fit_80_columns() {
    check(
        view_of([two_locks()], &[]),
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s (4 CPUs, Linux 6.12.1)
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines
              CPUs lost   u% CPUs of use    slept threads class lock           of
            >      0.25 43.0           3 300.0 ms       2 rwsem inode'.._rwsem inod..path.db
                   0.01 43.0           3 300.0 ms       2 rwsem mmap_lock      proces..copy)


















            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn wide_screens_have_all_columns() {
    check(
        view_of([two_locks()], &[Key::Down]),
        Size::new(120, 40),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s (4 CPUs, Linux 6.12.1)
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines
              CPUs lost waited% held%   u% +-% CPUs of use bound    slept threads class lock            of
                   0.25    20.0  34.4 43.0 1.1           3  2.33 300.0 ms       2 rwsem inode's i_rwsem ..data/of a/long/path.db
            >      0.01     1.0  42.6 43.0 1.1           3  2.33 300.0 ms       2 rwsem mmap_lock       process 100 (copy)


































            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn a_lock_has_a_detail() {
    check(
        view_of([two_locks()], &[Key::Enter]),
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s (4 CPUs, Linux 6.12.1)
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines
            rwsem inode's i_rwsem of inode 8:1:7 /srv/data/of a/long/path.db

            Callers
              samples    waits called by
                  500 300.0 ms ext4_buffered_write_iter < vfs_write

            Threads
                  held   waited pid tid thread
              430.0 ms 500.0 ms 100 101 copy
              430.0 ms     0 ns 100 102 evil\x1b[2J\n

            Figures
              threads                2  Threads that waited for it
              CPUs lost           0.25  CPUs that its waiters kep..ed_ns over the run's time
              waited          500.0 ms  CPU time that its threads spent waiting for it
              waited%            20.0%  waited_ns as a part of its threads' CPU time
              held%              34.4%  Time for which its thread.. a part of their CPU time
              u%                 43.0%  Time for which its thread.. CPU time without waiting
              +-%                 1.1%  The standard error of hol.. by the number of samples
              CPUs of use            3  CPUs of use to its threads: 1/u - 0.05, rounded up
              bound               2.33  Speed of all threads at m..tiple of that of one: 1/u
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
    check(
        view_of([two_locks()], &[Key::Enter]),
        Size::new(120, 40),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s (4 CPUs, Linux 6.12.1)
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines
            rwsem inode's i_rwsem of inode 8:1:7 /srv/data/of a/long/path.db

            Callers
              samples    waits called by
                  500 300.0 ms ext4_buffered_write_iter < vfs_write

            Threads
                  held   waited pid tid thread
              430.0 ms 500.0 ms 100 101 copy
              430.0 ms     0 ns 100 102 evil\x1b[2J\n

            Figures
              threads                2  Threads that waited for it
              CPUs lost           0.25  CPUs that its waiters kept from other work: waited_ns over the run's time
              waited          500.0 ms  CPU time that its threads spent waiting for it
              waited%            20.0%  waited_ns as a part of its threads' CPU time
              held%              34.4%  Time for which its threads held it, as a part of their CPU time
              u%                 43.0%  Time for which its threads held it, as a part of their CPU time without waiting
              +-%                 1.1%  The standard error of hold_share, by the number of samples
              CPUs of use            3  CPUs of use to its threads: 1/u - 0.05, rounded up
              bound               2.33  Speed of all threads at most, as a multiple of that of one: 1/u
              waits                 12  Waits that the kernel's tracepoints saw: all .. only spun for a rwsem; of a futex, all of it
              waits           300.0 ms  Time of those waits in all, spinning and asleep
              longest          40.0 ms  The longest of those waits
              slept           300.0 ms  Time for which its waiters slept: wait_ns, without waited_ns where waiters spin in it
              at          0xffff888001234560  Addresses that those waits were for: sever..ere locks of one name cannot be told apart











            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn throttled_groups_are_the_second_table() {
    check(
        view_of([groups(by_bpf())], &[Key::Tab]),
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
             1 Locks by CPUs lost  [2 Throttled groups]  3 Late wake-ups   4 Lines
              throttled used up% quota CPUs     p99 longest cpu.stat group
            >     2.1 s     99.0       0.20 16.0 ms 16.0 ms    1.5 s /hogs\x1b]0;x


















            1 tasks are throttled still: they count when they run again.
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
    let keys = [Key::Character('2'), Key::Enter];
    check(
        view_of([groups(by_bpf())], &keys),
        Size::new(120, 40),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
             1 Locks by CPUs lost  [2 Throttled groups]  3 Late wake-ups   4 Lines
            Group /hogs\x1b]0;x

            Tasks
              throttled quota  timer interrupt      CPU longest thread name
                  2.1 s 1.8 s 2.0 ms    1.0 ms 300.0 ms 17.0 ms     11 hog

            Figures
              quota us            4000  CPU time that it may use in a period, in microseconds
              period us          20000  Length of a period, in microseconds
              burst us               0  Unused time of earlier periods that it may use besides, in microseconds
              quota CPUs          0.20  CPUs that the quota is worth: quota_us over period_us
              periods              100  Periods in which it ran
              used up               99  Periods in which it used its quota up
              used up%           99.0%  throttled_periods as a part of periods
              cpu.stat           1.5 s  Time that its queues were throttled, each CPU's once, as cpu.stat counts it
              bursts                 0  Periods in which it used unused time of earlier ones
              times                 99  Times that a task of it was throttled
              throttled          2.1 s  Time for which its tasks stood still, each throttling from leaving the CPU to running again
              quota              1.8 s  Its part until the timer was due that gave the quota
              timer             2.0 ms  Its part until the timer reached the task's CPU: late, or walking
              interrupt         1.0 ms  Its part until that CPU had put its tasks back
              CPU             300.0 ms  Its part until the task had a CPU
              no cause            0 ns  Its part without a known cause
              p50              16.0 ms  Time that half of the throttlings do not exceed
              p99              16.0 ms  Time that 99 of 100 throttlings do not exceed
              p50 stopped         0 ns  p50_ns without the wait for a CPU afterwards
              p99 stopped         0 ns  p99_ns without the wait for a CPU afterwards
              longest          16.0 ms  The longest throttling of a task
              queues             1.5 s  Time for which its queues were seen throttled with a task that stood still, each CPU's once
              walks                  0  Walks of its timers
              delay                  -  Without BPF: time for which its tasks were ready and did not run





            1 tasks are throttled still: they count when they run again.
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn late_wakeups_are_the_third_table() {
    check(
        view_of([wakeups()], &[Key::BackTab]),
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
             1 Locks by CPUs lost   2 Throttled groups   3 Late wake-ups  [4 Lines]
            The first window ends in 2.0 s.




















            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
    let keys = [Key::Character('3'), Key::Down, Key::Enter];
    check(
        view_of([wakeups()], &keys),
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
             1 Locks by CPUs lost   2 Throttled groups  [3 Late wake-ups]  4 Lines
            task 7 7

            From waking to running (ns):
            [16K, 32K)               3 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@

            Figures
              thread                 7  Its number
              process                7  Its process
              wake-ups               3  Times that it was woken and ran
              in all           60.0 us  Time from waking to running in all
              p50              18.0 us  Time that half of them do not exceed
              p99              18.0 us  Time that 99 of 100 do not exceed
              longest          18.0 us  The longest; of a window ..r window had a longer one








            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn missing_layers_are_named_with_the_reason() {
    let reason = "tracepoints of locks: BPF programs need CAP_BPF and CAP_PERFMON, or root, and this \
                  process has neither";
    check(
        view_of([locks(vec![], &[reason])], &[]),
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s (4 CPUs, Linux 6.12.1)
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines
            No contended lock was seen. Threads that sleep for a lock of their program were
            not looked at.

















            not used: tracepoints of locks: BPF programs need CAP_BPF and CAP_PERFMON, or
            root, and this process has neither
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
    let no_samples = Sent {
        layer: 0,
        window: Err("cannot sample all CPUs: \x1b[31m".into()),
    };
    check(
        view_of([no_samples], &[]),
        Size::new(80, 6),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines
            Not seen: cannot sample all CPUs: \x1b[31m


            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
    let counted = groups(Source::Counters("not root".into()));
    check(
        view_of([counted], &[Key::Tab]),
        Size::new(80, 8),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
             1 Locks by CPUs lost  [2 Throttled groups]  3 Late wake-ups   4 Lines
              cpu.stat used up% quota CPUs delay group
            >    1.5 s     99.0       0.20     - /hogs\x1b]0;x

            not used: BPF programs: not root
            1 tasks are throttled still: they count when they run again.
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
    let delays = sent(
        2,
        WakeupReport {
            duration_ns: 1,
            measured: Measured::RunDelays {
                reason: "not root".into(),
                delays: vec![RunDelay {
                    tid: 4,
                    comm: "busy".into(),
                    run_delay_ns: 80 * MS,
                    runs: 40,
                }],
            },
        },
    );
    check(
        view_of([delays], &[Key::Character('3')]),
        Size::new(80, 8),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s
             1 Locks by CPUs lost   2 Throttled groups  [3 Late wake-ups]  4 Lines
                delay runs thread name
            > 80.0 ms   40      4 busy


            not used: BPF programs: not root; these are run delays
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn help_and_messages() {
    let mut state = view_of([two_locks()], &[Key::Character('?')]);
    state.tell("placed 3 threads on CPUs 0-1\nby affinity");
    state.set_placed(true);
    check(
        state,
        Size::new(80, 24),
        expect![[r#"
            hitm live: everything on this host, every 2.0 s (4 CPUs, Linux 6.12.1)
            [1 Locks by CPUs lost]  2 Throttled groups   3 Late wake-ups   4 Lines  (placed)
            Tab, 1, 2, 3, 4  locks by CPUs lost, throttled groups, late wake-ups, lines
            Up, Down, k, j   select a row, or scroll a detail; PageUp, PageDown, Home, End
            Enter            show the selected row closely, and go back
            p                place the selected lock's threads on the CPUs that it feeds
            u                put them back
            q, Esc, Ctrl-C   end the view, and put placed threads back

            Each table is that of the last window of time. docs/live.md says what the
            figures mean, docs/place.md where threads are placed.











            placed 3 threads on CPUs 0-1\nby affinity
            Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
        "#]],
    );
}

#[test]
fn every_size_is_drawn() {
    let windows = || [two_locks(), groups(by_bpf()), wakeups()];
    for keys in [
        &[][..],
        &[Key::Enter],
        &[Key::Tab, Key::Enter],
        &[Key::Character('?')],
    ] {
        for (width, height) in [
            (1, 1),
            (2, 3),
            (7, 2),
            (10, 5),
            (79, 4),
            (500, 1),
            (500, 200),
        ] {
            let mut state = view_of(windows(), keys);
            state.tell("a message that is longer than a line of some of the screens");
            let screen = drawn(&mut state, Size::new(width, height), true);
            assert_eq!(screen.buffer().area.height, height);
        }
    }
}

#[test]
fn no_name_acts_on_the_terminal() {
    for keys in [&[][..], &[Key::Enter], &[Key::Tab], &[Key::Tab, Key::Enter]] {
        let mut state = view_of([two_locks(), groups(by_bpf())], keys);
        state.tell("\x1b[2J");
        let screen = drawn(&mut state, Size::new(120, 60), true);
        let cells = screen.buffer().content.iter();
        let mut text = cells.flat_map(|cell| cell.symbol().chars());
        assert!(text.all(|character| !character.is_control()));
        // Escaped, not left out.
        assert!(screen.to_string().contains(r"\x1b[2J"), "{screen}");
    }
}

#[test]
fn colors_are_of_sixteen_or_none() {
    let reason = "tracepoints of locks: not root";
    let window = || locks(vec![lock("a", "", 20)], &[reason]);
    let styles = |has_colors| {
        let screen = drawn(&mut view_of([window()], &[]), Size::new(80, 24), has_colors);
        let cells = screen.buffer().content.iter();
        let styles = cells.map(|cell| (cell.fg, cell.bg, cell.modifier));
        let mut styles: Vec<_> = styles.collect();
        styles.dedup();
        styles
    };
    let colored = styles(true);
    assert!(colored.iter().any(|style| style.0 == Color::Yellow));
    let is_simple = |color| matches!(color, Color::Reset | Color::Yellow);
    assert!(
        colored
            .iter()
            .all(|style| is_simple(style.0) && style.1 == Color::Reset)
    );
    let plain = styles(false);
    assert!(
        plain
            .iter()
            .all(|style| (style.0, style.1) == (Color::Reset, Color::Reset))
    );
    // The selected row is told without colours as well.
    assert!(
        plain
            .iter()
            .any(|style| style.2.contains(Modifier::REVERSED))
    );
}

#[test]
fn lines_are_the_fourth_table() {
    let fourth = Key::Character('4');
    let of = |keys: &[Key]| view_of([lines(vec![line()])], keys);
    check(of(&[fourth]), Size::new(80, 24), expect![[r#"
        hitm live: everything on this host, every 2.0 s
         1 Locks by CPUs lost   2 Throttled groups   3 Late wake-ups  [4 Lines]
          at most% at least% process    kind          what
        >     20.1       3.1 server 100 false sharing stats[].calls

















        This look took 42 ms of a CPU. hitm takes a hundredth of one: the next look
        begins in 2.2 s.
        Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
    "#]]);
    check(of(&[fourth]), Size::new(120, 24), expect![[r#"
        hitm live: everything on this host, every 2.0 s
         1 Locks by CPUs lost   2 Throttled groups   3 Late wake-ups  [4 Lines]
          at most% +-% at least% threads process    kind          what          written in
        >     20.1 0.9       3.1       4 server 100 false sharing stats[].calls server.c:42 count


















        This look took 42 ms of a CPU. hitm takes a hundredth of one: the next look begins in 2.2 s.
        Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
    "#]]);
    check(of(&[fourth, Key::Enter]), Size::new(80, 24), expect![[r#"
        hitm live: everything on this host, every 2.0 s
         1 Locks by CPUs lost   2 Throttled groups   3 Late wake-ups  [4 Lines]
        stats[].calls of server 100
        false sharing, in server.c:42 count.

        Give each thread's stats a cache line (align to 64 bytes).

        Figures
          at most%           20.1%  Part of the CPU time of t..es: what it costs at most
          +-%                 0.9%  The standard error of mos.. by the number of samples
          at least%           3.1%  Part of it that its hand-..t: what it costs at least
          hand-overs/s     481,234  Hand-overs of its lines in a second, at least
          lines                  2  Lines that are contended
          threads                4  Threads that access them







        This look took 42 ms of a CPU. hitm takes a hundredth of one: the next look
        begins in 2.2 s.
        Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
    "#]]);
    check(view_of([lines(vec![])], &[fourth]), Size::new(80, 24), expect![[r#"
        hitm live: everything on this host, every 2.0 s
         1 Locks by CPUs lost   2 Throttled groups   3 Late wake-ups  [4 Lines]
        No line is contended by server 100, evil\x1b[2J 7.


















        This look took 42 ms of a CPU. hitm takes a hundredth of one: the next look
        begins in 2.2 s.
        Tab 1 2 3 4 table  Up Down row  Enter detail  p place  u undo  ? help  q quit
    "#]]);
}
