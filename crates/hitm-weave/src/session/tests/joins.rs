//! Processes and threads that begin, fork, and run other programs.

use expect_test::expect;
use hitm_trace::EndReason;

use super::*;
use crate::board::{INTERVAL_TIMER, Message};

#[test]
fn a_process_joins_and_its_threads_wait_for_one_another() {
    let mut world = World::new();
    world.attaches(1, 7, 50);
    world.asks(50, Request::Enter, &[50]);
    world.asks(50, Request::Created, &[51]);
    world.waits(50, 100);
    world.asks(51, Request::Enter, &[51, 1]);
    world.waits(51, 20_000);
    world.asks(1, Request::Close, &[]);
    expect![[r#"
        1 Attach 50
            running: [50]
            empty mailbox 0
            answer 1: 0 0 1
        50 Enter 50
            answer 50:
        50 Created 51
            answer 50:
        50 Wait
            take 50
        51 Enter 51 1
            answer 51: 1 0 1
        51 Wait
            take 51
            tell time 100
            release 50: 10000 100 100 0 19900
        1 Close
            free 1
    "#]]
    .assert_eq(&world.transcript());
}

/// A process with a thread that creates two others, of which the second one comes first.
fn with_an_early_thread() -> World {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Created, &[51]);
    world.asks(50, Request::Created, &[52]);
    world.asks(52, Request::Enter, &[52, 2]);
    world
}

#[test]
fn threads_get_their_seats_in_the_order_of_their_creation() {
    let mut world = with_an_early_thread();
    world.asks(51, Request::Enter, &[51, 1]);
    expect![[r#"
        50 Created 51
            answer 50:
        50 Created 52
            answer 50:
        52 Enter 52 2
        51 Enter 51 1
            answer 51: 1 0 1
            answer 52: 2 0 2
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_thread_that_came_early_begins_when_the_earlier_one_is_given_up() {
    let mut world = with_an_early_thread();
    world.transcript();
    world.kernel.gone.insert(51);
    world.looks(1);
    world.looks(2);
    expect![[r#"
        look at 1 s
        look at 2 s
            answer 52: 1 0 2
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_thread_that_came_early_goes_with_its_process() {
    let mut world = with_an_early_thread();
    world.transcript();
    world.does(50, 10, Request::ProcessExit, &[3]);
    expect![[r#"
        50 ProcessExit 3
            dismiss 50
            answer 52: max
            running: []
            answer 50:
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn all_wait_for_a_forked_child() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Forking, &[]);
    world.asks(50, Request::Forked, &[60]);
    world.waits(50, 100);
    world.kernel.named.insert(8, 60);
    let attach = Message::new(Request::Attach, &[60, 1, 0]).with_bytes(b"/bin/x");
    world.say(2, 8, attach);
    world.say(60, 8, Message::new(Request::Enter, &[60, 0, 1]));
    let bytes = work(90);
    world.say(60, 8, Message::new(Request::Wait, &[]).with_bytes(&bytes));
    expect![[r#"
        50 Forking
            answer 50:
        50 Forked 60
            answer 50:
        50 Wait
            take 50
        2 Attach 60 1
            running: [50, 60]
            empty mailbox 1
            answer 2: 1 1 1
        60 Enter 60 0 1
            answer 60: 1 0 1
        60 Wait
            take 60
            tell time 90
            release 50: 9990 90 100
            release 60: 10000 90 90 1 10
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_child_that_is_faster_than_its_parent_is_not_waited_for() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Forking, &[]);
    world.kernel.named.insert(8, 60);
    let attach = Message::new(Request::Attach, &[60, 1, 0]).with_bytes(b"/bin/x");
    world.say(2, 8, attach);
    world.say(60, 8, Message::new(Request::Enter, &[60, 0, 1]));
    world.asks(50, Request::Forked, &[60]);
    world.waits(50, 100);
    let bytes = work(90);
    world.say(
        60,
        8,
        Message::new(Request::ProcessExit, &[0]).with_bytes(&bytes),
    );
    expect![[r#"
        50 Forking
            answer 50:
        2 Attach 60 1
            running: [50, 60]
            empty mailbox 1
            answer 2: 1 1 1
        60 Enter 60 0 1
            answer 60: 1 0 1
        50 Forked 60
            answer 50:
        50 Wait
            take 50
        60 ProcessExit
            dismiss 60
            running: [50]
            tell time 100
            release 50: 10000 100 100 0 max
            answer 60:
    "#]]
    .assert_eq(&world.transcript());
    // It has come: the end does not wait for it.
    world.does(50, 100, Request::ProcessExit, &[0]);
    world.session.first_ends(EndReason::Exited { status: 0 });
    world.looks(1);
    assert!(world.session.is_over());
}

#[test]
fn a_child_that_never_comes_holds_nobody_up() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Forked, &[60]);
    world.waits(50, 100);
    world.looks(1);
    world.kernel.gone.insert(60);
    world.looks(2);
    world.looks(3);
    expect![[r#"
        50 Forked 60
            answer 50:
        50 Wait
            take 50
        look at 1 s
        look at 2 s
        look at 3 s
            tell time 100
            release 50: 10000 100 100 0 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_fork_that_failed_has_no_child() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Forked, &[]);
    world.waits(50, 100);
    expect![[r#"
        50 Forked
            answer 50:
        50 Wait
            take 50
            tell time 100
            release 50: 10000 100 100 0 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_program_that_takes_a_process_over_keeps_its_timer_and_its_seat() {
    let mut world = World::new().with_process(7, &[50, 51]);
    let timer = [INTERVAL_TIMER, 1, 90_000, 80_000];
    world.asks(50, Request::SetTimer, &timer);
    world.waits(51, 100);
    world.does(50, 100, Request::Exec, &[]);
    world.attaches(3, 9, 50);
    world.say(50, 9, Message::new(Request::Enter, &[50, 0, 1]));
    expect![[r#"
        50 SetTimer 0 1 90000 80000
            answer 50:
        51 Wait
            take 51
        50 Exec
            answer 50:
            tell time 100
            release 51: 10000 100 100 1 max
        3 Attach 50
            dismiss 50
            dismiss 51
            free 50
            free 51
            free all of 7
            running: []
            running: [50]
            empty mailbox 0
            answer 3: 1 0 1 90000 80000
        50 Enter 50 0 1
            answer 50: 2 100
    "#]]
    .assert_eq(&world.transcript());
    world.session.finish(EndReason::Stopped);
    expect![[r#"
        process 0 is 50, of 0
        thread 0 of 0 on seat 0
        thread 1 of 0 on seat 1
        process 0 ends: Exec
        process 1 is 50, of 0
        thread 2 of 1 on seat 0
        process 1 ends: Stopped
        exec_calls: 1
        program_cpus: 4
        end: Stopped
    "#]]
    .assert_eq(&world.records());
}

#[test]
fn an_exec_that_failed_changes_nothing() {
    let mut world = World::new().with_process(7, &[50]);
    let why = Message::new(Request::Unfollowed, &[1]).with_bytes(b"setuid:/bin/su");
    world.say(50, 7, why);
    world.does(50, 100, Request::Exec, &[]);
    world.asks(50, Request::Rejoin, &[]);
    world.asks(50, Request::Stays, &[]);
    world.waits(50, 200);
    expect![[r#"
        50 Unfollowed 1
            answer 50:
        50 Exec
            answer 50:
        50 Rejoin
            answer 50: 9900 0 100 0 max
        50 Stays
            answer 50:
        50 Wait
            take 50
            tell time 200
            release 50: 10000 200 200 0 max
    "#]]
    .assert_eq(&world.transcript());
    assert!(world.session.account.left_alone.is_empty());
}

#[test]
fn a_process_with_no_place_or_out_of_sight_runs_unrecorded() {
    let mut world = World::new();
    world.say(
        1,
        7,
        Message::new(Request::Attach, &[50]).with_bytes(b"/bin/x"),
    );
    expect![[r#"
        1 Attach 50
            answer 1:
    "#]]
    .assert_eq(&world.transcript());
    for name in 0..hitm_trace::SHARED_FIRST {
        world.attaches(1, name, 50);
    }
    world.transcript();
    world.attaches(1, hitm_trace::SHARED_FIRST, 50);
    expect![[r#"
        1 Attach 50
            free all of 8191
            running: []
            answer 1:
    "#]]
    .assert_eq(&world.transcript());
    expect![[r#"
        {
            "not to be seen in /proc:/bin/x": 1,
            "too many processes:/bin/x": 1,
        }"#]]
    .assert_eq(&format!("{:#?}", world.session.account.left_alone));
}

#[test]
fn numbers_of_a_namespace_are_those_of_the_host() {
    let mut world = World::new();
    world.kernel.own_numbers.extend([(1, 50), (2, 51), (3, 60)]);
    world.attaches(1, 7, 50);
    world.asks(50, Request::Enter, &[1]);
    world.asks(50, Request::Created, &[2]);
    world.asks(50, Request::Forked, &[3]);
    // Of nobody, and of a child that is gone.
    world.asks(50, Request::Created, &[4]);
    world.asks(50, Request::Forked, &[5]);
    let doubts = world.session.group().doubts();
    let tids: Vec<u32> = doubts.into_iter().flat_map(|(_, tids)| tids).collect();
    assert_eq!(tids, [51, 60, 4 | 1 << 30]);
}

#[test]
fn processes_share_numbers_of_objects() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Object, &[1, 2, 3]);
    world.asks(50, Request::Object, &[1, 2, 4]);
    world.asks(50, Request::Object, &[1, 2, 3]);
    world.asks(50, Request::Memory, &[9]);
    expect![[r#"
        50 Object 1 2 3
            answer 50: 8192
        50 Object 1 2 4
            answer 50: 8193
        50 Object 1 2 3
            answer 50: 8192
        50 Memory 9
            send memory to 50 by 9, answer 50
    "#]]
    .assert_eq(&world.transcript());
}
