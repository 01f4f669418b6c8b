//! Threads, processes and recordings that end, in all the ways in which they do.

use expect_test::expect;
use hitm_trace::{EndReason, Loss};

use super::*;
use crate::board::Message;

/// Two processes with a thread each, of which the second one waits.
fn two_processes() -> World {
    let mut world = World::new().with_process(7, &[50]).with_process(8, &[60]);
    let bytes = work(90);
    world.say(60, 8, Message::new(Request::Wait, &[]).with_bytes(&bytes));
    world.transcript();
    world
}

/// Ends the recording with the first process.
fn finish(world: &mut World, reason: EndReason) -> String {
    world.session.first_ends(reason);
    world.looks(9);
    assert!(world.session.is_over());
    world.transcript();
    world.records()
}

#[test]
fn others_go_on_when_a_process_exits() {
    let mut world = two_processes();
    world.does(50, 100, Request::ProcessExit, &[3]);
    world.asks(50, Request::Wait, &[]);
    expect![[r#"
        50 ProcessExit 3
            dismiss 50
            running: [60]
            tell time 90
            release 60: 10000 90 90 1 max
            answer 50:
        50 Wait
            answer 50: max
    "#]]
    .assert_eq(&world.transcript());
    assert_eq!(
        world.session.account.end,
        Some(EndReason::Exited { status: 3 })
    );
}

#[test]
fn others_go_on_when_a_process_is_killed() {
    let mut world = two_processes();
    world.kernel.gone.insert(50);
    world.looks(1);
    expect![[r#"
        look at 1 s
    "#]]
    .assert_eq(&world.transcript());
    let end = EndReason::Signalled { signal: 9 };
    world.session.first_ends(end);
    world.looks(2);
    expect![[r#"
        look at 2 s
            dismiss 50
            running: [60]
            tell time 90
            release 60: 10000 90 90 1 max
            free 50
            free all of 7
    "#]]
    .assert_eq(&world.transcript());
    assert_eq!(world.session.account.end, Some(end));
}

#[test]
fn a_process_that_is_killed_beside_the_first_one_says_nothing() {
    let mut world = two_processes();
    world.kernel.gone.insert(60);
    world.looks(1);
    world.kernel.gone.insert(50);
    expect![[r#"
        look at 1 s
            dismiss 60
            running: [50]
            free 60
            free all of 8
    "#]]
    .assert_eq(&world.transcript());
    let end = EndReason::Signalled { signal: 15 };
    expect![[r#"
        process 0 is 50, of 0
        thread 0 of 0 on seat 0
        process 1 is 60, of 1
        thread 1 of 1 on seat 1
        process 1 ends: Killed
        process 0 ends: Signalled { signal: 15 }
        program_cpus: 4
        end: Signalled { signal: 15 }
    "#]]
    .assert_eq(&finish(&mut world, end));
}

#[test]
fn a_process_whose_threads_all_end_has_the_status_of_the_last_one() {
    let mut world = World::new().with_process(7, &[50, 51]);
    world.does(51, 100, Request::ThreadExit, &[90, 4]);
    world.asks(51, Request::Close, &[]);
    world.does(50, 100, Request::ThreadExit, &[90, 5]);
    world.asks(2, Request::ProcessGone, &[]);
    expect![[r#"
        51 ThreadExit 90 4
            answer 51:
        51 Close
            free 51
        50 ThreadExit 90 5
            answer 50:
        2 ProcessGone
            dismiss 50
            running: []
            answer 2:
    "#]]
    .assert_eq(&world.transcript());
    assert_eq!(
        world.session.account.end,
        Some(EndReason::Exited { status: 5 })
    );
}

#[test]
fn a_process_of_which_a_thread_ends_and_another_runs_is_killed() {
    let mut world = World::new().with_process(7, &[50, 51]);
    world.does(51, 100, Request::ThreadExit, &[90, 4]);
    world.asks(2, Request::ProcessGone, &[]);
    assert_eq!(world.session.account.end, Some(EndReason::Killed));
    // Once.
    world.transcript();
    world.asks(2, Request::ProcessGone, &[]);
    expect![[r#"
        2 ProcessGone
            answer 2:
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_thread_whose_end_a_signal_stops_goes_on() {
    let mut world = World::new().with_process(7, &[50]);
    world.does(50, 100, Request::ThreadExit, &[90, 4]);
    world.asks(50, Request::Rejoin, &[]);
    world.asks(2, Request::ProcessGone, &[]);
    expect![[r#"
        50 ThreadExit 90 4
            answer 50:
        50 Rejoin
            answer 50: 9900 0 100 0 max
        2 ProcessGone
            dismiss 50
            running: []
            answer 2:
    "#]]
    .assert_eq(&world.transcript());
    assert_eq!(world.session.account.end, Some(EndReason::Killed));
}

#[test]
fn a_process_that_another_program_took_over_unrecorded_is_not_waited_for() {
    let mut world = World::new().with_process(7, &[50]).with_process(8, &[60]);
    let why = Message::new(Request::Unfollowed, &[1]).with_bytes(b"setuid:/bin/su");
    world.say(60, 8, why);
    let bytes = work(100);
    world.say(60, 8, Message::new(Request::Exec, &[]).with_bytes(&bytes));
    world.does(50, 100, Request::ProcessExit, &[0]);
    let end = EndReason::Exited { status: 0 };
    expect![[r#"
        process 0 is 50, of 0
        thread 0 of 0 on seat 0
        process 1 is 60, of 1
        thread 1 of 1 on seat 1
        process 0 ends: Exited { status: 0 }
        process 1 ends: Exec
        not_followed:setuid:/bin/su: 1
        program_cpus: 4
        end: Exited { status: 0 }
    "#]]
    .assert_eq(&finish(&mut world, end));
}

#[test]
fn a_process_that_says_what_cannot_be_is_lost_and_the_others_go_on() {
    let mut world = two_processes();
    // Back from a system call in which it was not.
    world.asks(50, Request::Rejoin, &[]);
    expect![[r#"
        50 Rejoin
            dismiss 50
            running: [60]
            tell time 90
            release 60: 10000 90 90 1 max
            answer 50: max
    "#]]
    .assert_eq(&world.transcript());
    let lost = [("/bin/x".to_owned(), Loss::BadMessage)];
    assert_eq!(world.session.account.losses, lost);
}

#[test]
fn nonsense_of_nobody_is_answered_and_counted() {
    let mut world = World::new().with_process(7, &[50]);
    world.say(3, 99, Message::new(Request::Wait, &[]));
    // A thread of a process that there is not.
    world.say(4, 7, Message::new(Request::Enter, &[51, 0, 12]));
    expect![[r#"
        3 Wait
            answer 3: max
        4 Enter 51 0 12
            dismiss 50
            running: []
            answer 4: max
    "#]]
    .assert_eq(&world.transcript());
    world.session.finish(EndReason::Stopped);
    expect![[r#"
        process 0 is 50, of 0
        thread 0 of 0 on seat 0
        process 0 ends: Lost { loss: BadMessage }
        refused_messages: 2
        program_cpus: 4
        end: Stopped
    "#]]
    .assert_eq(&world.records());
}

#[test]
fn a_thread_that_is_behind_where_it_was_is_refused() {
    let mut world = World::new().with_process(7, &[50]);
    world.does(50, 100, Request::Take, &[]);
    world.does(50, 99, Request::Take, &[]);
    expect![[r#"
        50 Take
            answer 50:
        50 Take
            dismiss 50
            running: []
            answer 50: max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn losses_that_processes_tell_by_name_end_them() {
    let mut world = two_processes();
    world.calls("lose", |session, _| {
        session.lose([(7, Loss::Threads), (99, Loss::Threads)]);
        String::new()
    });
    expect![[r#"
        lose
            dismiss 50
            running: [60]
            tell time 90
            release 60: 10000 90 90 1 max
    "#]]
    .assert_eq(&world.transcript());
    expect![[r#"
        Account {
            end: Some(
                Lost {
                    loss: Threads,
                },
            ),
            losses: [
                (
                    "/bin/x",
                    Threads,
                ),
            ],
            programs: {
                50: 0,
                60: 1,
            },
            left_alone: {
                "more threads than the recorder has room for:a process": 1,
            },
            caveats: Caveats {
                counts: [
                    0,
                    0,
                    0,
                ],
            },
        }"#]]
    .assert_eq(&format!("{:#?}", world.session.account));
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let mut world = two_processes();
    world.kernel.began.insert(60, 5);
    world.looks(1);
    world.attaches(3, 9, 60);
    world.looks(2);
    expect![[r#"
        look at 1 s
            dismiss 60
            running: [50]
            free 60
            free all of 8
        3 Attach 60
            running: [50, 60]
            empty mailbox 1
            answer 3: 2 1 1
        look at 2 s
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn channels_of_a_process_that_exits_are_free_when_it_is_gone() {
    let mut world = two_processes();
    let bytes = work(100);
    world.say(60, 8, Message::new(Request::TimedOut, &[]));
    world.does(50, 100, Request::Take, &[]);
    world.say(60, 8, Message::new(Request::Rejoin, &[]).with_bytes(&bytes));
    world.looks(1);
    world.kernel.gone.insert(60);
    world.looks(2);
    world.looks(3);
    expect![[r#"
        60 TimedOut
            take 60
        50 Take
            answer 50:
        60 Rejoin
            dismiss 60
            running: [50]
            answer 60: max
        look at 1 s
        look at 2 s
            free 60
            free all of 8
        look at 3 s
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn who_asks_for_the_end_gets_it_at_the_next_round() {
    let mut world = two_processes();
    world.ring.request_stop();
    world.waits(50, 100);
    assert!(world.session.is_over());
    expect![[r#"
        50 Wait
            take 50
    "#]]
    .assert_eq(&world.transcript());
    expect![[r#"
        process 0 is 50, of 0
        thread 0 of 0 on seat 0
        process 1 is 60, of 1
        thread 1 of 1 on seat 1
        process 0 ends: Stopped
        process 1 ends: Stopped
        program_cpus: 4
        end: Stopped
    "#]]
    .assert_eq(&world.records());
}

#[test]
fn a_recording_in_which_nobody_began_ends_with_the_first_process() {
    let mut world = World::new();
    world.looks(1);
    let end = EndReason::Exited { status: 127 };
    expect![[r#"
        program_cpus: 4
        end: Exited { status: 127 }
    "#]]
    .assert_eq(&finish(&mut world, end));
}
