//! Threads that wait for others, in system calls, and for too long.

use expect_test::expect;
use hitm_trace::EndReason;

use super::world::stores;
use super::*;
use crate::REPRIVATISE_RUN;
use crate::board::{Incoming, Message};
use crate::session::Action;

const FUTEX: u64 = 0x40;

/// Two threads, of which the first waits for the second one.
fn one_waits() -> World {
    let mut world = World::new().with_process(7, &[50, 51]);
    world.waits(50, 20_000);
    world.transcript();
    world
}

#[test]
fn a_thread_that_missed_its_release_learns_of_it_when_it_asks() {
    let mut world = one_waits();
    let work = work(20_000);
    let wait = Message::new(Request::Wait, &[]).with_bytes(&work);
    let incoming = Incoming::of(51, 7, wait);
    world.session.serve(&incoming, &mut world.kernel);
    world.session.go_on();
    for action in world.session.take_actions() {
        if let Action::Release { slot, answer, .. } = action {
            world.session.misses(slot, &answer);
        }
    }
    world.asks(50, Request::TimedOut, &[]);
    world.asks(51, Request::TimedOut, &[]);
    expect![[r#"
        50 TimedOut
            answer 50: 10000 20000 20000
        51 TimedOut
            answer 51: 10000 20000 20000 1
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_thread_that_waits_for_a_sleeper_for_too_long_runs_a_block() {
    let mut world = one_waits();
    world.asks(50, Request::TimedOut, &[]);
    world.kernel.asleep.insert(51);
    world.kernel.has_requests = true;
    world.looks(1);
    world.kernel.has_requests = false;
    world.looks(2);
    expect![[r#"
        50 TimedOut
            take 50
        look at 1 s
        look at 2 s
            answer 50: 1 0 20000 0 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_thread_that_waits_again_is_late_no_more() {
    let mut world = one_waits();
    world.asks(50, Request::TimedOut, &[]);
    world.waits(51, 20_000);
    world.waits(50, 30_000);
    world.kernel.asleep.insert(51);
    world.looks(1);
    expect![[r#"
        50 TimedOut
            take 50
        51 Wait
            take 51
            tell time 20000
            release 50: 10000 20000 20000
            release 51: 10000 20000 20000 1
        50 Wait
            take 50
        look at 1 s
    "#]]
    .assert_eq(&world.transcript());
}

/// Two threads, of which the second one has woken the first, and waits.
fn one_is_woken() -> World {
    let mut world = World::new().with_process(7, &[50, 51]);
    world.does(50, 100, Request::Leave, &[1, FUTEX]);
    world.asks(51, Request::Wake, &[FUTEX, 150]);
    world.asks(51, Request::Woken, &[1, FUTEX]);
    world.waits(51, 200);
    world
}

#[test]
fn the_others_wait_for_a_woken_thread_until_it_is_back() {
    let mut world = one_is_woken();
    world.asks(50, Request::Rejoin, &[1, FUTEX]);
    expect![[r#"
        50 Leave 1 64
            answer 50:
        51 Wake 64 150
            answer 51:
        51 Woken 1 64
            answer 51:
        51 Wait
            take 51
        50 Rejoin 1 64
            take 50
            tell time 200
            release 51: 10000 200 200 1 6970
            release 50: 3030 200 7170
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_woken_thread_that_sleeps_on_is_given_up_at_the_second_look() {
    let mut world = one_is_woken();
    world.transcript();
    world.looks(1);
    world.kernel.asleep.insert(50);
    world.looks(2);
    world.kernel.asleep.remove(&50);
    world.looks(3);
    world.kernel.asleep.insert(50);
    world.calls("settle", |session, host| session.settle(host).to_string());
    world.looks(4);
    world.looks(5);
    expect![[r#"
        look at 1 s
        look at 2 s
        look at 3 s
        settle true
        look at 4 s
        look at 5 s
            tell time 200
            release 51: 10000 200 200 1 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_thread_that_could_run_and_does_not_come_is_given_up_after_long() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::Created, &[51]);
    world.waits(50, 200);
    world.looks(1);
    world.looks(31);
    world.looks(32);
    expect![[r#"
        50 Created 51
            answer 50:
        50 Wait
            take 50
        look at 1 s
        look at 31 s
        look at 32 s
            tell time 200
            release 50: 10000 200 200 0 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn whether_a_waiter_sleeps_is_found_out_when_nobody_runs() {
    let mut world = World::new().with_process(7, &[50, 51]);
    world.does(50, 100, Request::Leave, &[1, FUTEX]);
    world.asks(51, Request::Wake, &[FUTEX, 150]);
    world.asks(51, Request::Woken, &[0, FUTEX]);
    world.calls("settle", |session, host| session.settle(host).to_string());
    world.waits(51, 200);
    world.calls("settle", |session, host| session.settle(host).to_string());
    world.kernel.asleep.insert(50);
    world.kernel.has_requests = true;
    world.calls("settle", |session, host| session.settle(host).to_string());
    world.kernel.has_requests = false;
    world.calls("settle", |session, host| session.settle(host).to_string());
    expect![[r#"
        50 Leave 1 64
            answer 50:
        51 Wake 64 150
            answer 51:
        51 Woken 0 64
            answer 51:
        settle true
        51 Wait
            take 51
        settle false
        settle false
        settle true
            tell time 200
            release 51: 10000 200 200 1 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn time_passes_to_the_end_of_a_sleep_when_all_sleep() {
    let mut world = World::new().with_process(7, &[50, 51]);
    let pass = |world: &mut World| {
        world.calls("pass", |session, host| {
            session.pass_idle_time(host).to_string()
        });
    };
    world.does(50, 100, Request::Leave, &[0, 0, 1, 70_000]);
    pass(&mut world);
    world.does(51, 200, Request::Leave, &[]);
    pass(&mut world);
    world.kernel.asleep.extend([50, 51]);
    world.kernel.has_requests = true;
    pass(&mut world);
    world.kernel.has_requests = false;
    pass(&mut world);
    world.asks(50, Request::Rejoin, &[3]);
    expect![[r#"
        50 Leave 0 0 1 70000
            answer 50:
        pass true
        51 Leave
            answer 51:
        pass false
        pass false
        pass true
            tell time 70100
            ring 50
        50 Rejoin 3
            take 50
            tell time 70100
            release 50: 10000 70100 70100 0 max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_timer_rings_for_who_waits_or_asks_later() {
    let mut world = World::new().with_process(7, &[50]);
    world.asks(50, Request::SetTimer, &[5, 1, 60_000]);
    world.asks(50, Request::SetTimer, &[6, 1, 60_000]);
    world.asks(9, Request::NextTimer, &[]);
    world.does(50, 100, Request::Leave, &[]);
    world.kernel.asleep.insert(50);
    world.calls("pass", |session, host| {
        session.pass_idle_time(host).to_string()
    });
    world.asks(9, Request::NextTimer, &[]);
    world.asks(9, Request::NextTimer, &[]);
    world.asks(50, Request::Rejoin, &[]);
    world.does(50, 100, Request::ProcessExit, &[]);
    world.asks(9, Request::NextTimer, &[]);
    expect![[r#"
        50 SetTimer 5 1 60000
            answer 50:
        50 SetTimer 6 1 60000
            answer 50:
        9 NextTimer
            take 9
        50 Leave
            answer 50:
        pass true
            tell time 60000
            answer 9: 5
        9 NextTimer
            answer 9: 6
        9 NextTimer
            take 9
        50 Rejoin
            answer 50: 10000 60000 60000 0 max
        50 ProcessExit
            dismiss 50
            answer 9: max
            running: []
            answer 50:
        9 NextTimer
            answer 9: max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_wait_at_a_futex_that_changed_ends_at_the_next_round() {
    let mut world = World::new().with_process(7, &[50, 51]);
    world.does(50, 100, Request::Leave, &[1, FUTEX]);
    world.asks(50, Request::Rejoin, &[2, FUTEX]);
    world.asks(50, Request::Rejoin, &[2, FUTEX]);
    expect![[r#"
        50 Leave 1 64
            answer 50:
        50 Rejoin 2 64
            take 50
        50 Rejoin 2 64
            dismiss 50
            dismiss 51
            running: []
            answer 50: max
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn threads_are_pinned_where_the_program_may_run() {
    let mut world = World::new().with_process(7, &[50, 51]);
    let pin = |world: &mut World, tid, cpus: &[u8]| {
        let pin = Message::new(Request::Pin, &[tid]);
        world.say(50, 7, pin.with_bytes(cpus));
    };
    pin(&mut world, 0, &[3, 0]);
    pin(&mut world, 51, &[9, 0]);
    pin(&mut world, 99, &[3, 0]);
    world.asks(50, Request::Affinity, &[0]);
    world.asks(50, Request::Affinity, &[51]);
    world.asks(50, Request::Affinity, &[99]);
    expect![[r#"
        50 Pin
            answer 50: 0 3
        50 Pin 51
            answer 50: 1 3
        50 Pin 99
            answer 50: 2 3
        50 Affinity
            answer 50: 0 8
        50 Affinity 51
            answer 50: 0 15
        50 Affinity 99
            answer 50: 2
    "#]]
    .assert_eq(&world.transcript());
}

#[test]
fn a_line_that_one_thread_uses_alone_is_given_back() {
    let mut world = World::new().with_process(7, &[50]).with_process(8, &[60]);
    world.waits(50, 5_000);
    let addr = 0x5000 | 1 << hitm_trace::PROCESS_SHIFT;
    let bytes = stores(addr, 2 * u64::from(REPRIVATISE_RUN));
    world.say(60, 8, Message::new(Request::Wait, &[]).with_bytes(&bytes));
    world.session.has_given_back(1);
    expect![[r#"
        50 Wait
            take 50
        60 Wait
            take 60
            post to 1: 0x5000 of thread 1
            tell time 821
            release 50: 5821 821 5000
            release 60: 10000 821 821 1 4179
    "#]]
    .assert_eq(&world.transcript());
    world.session.finish(EndReason::Stopped);
    expect![[r#"
        process 0 is 50, of 0
        thread 0 of 0 on seat 0
        process 1 is 60, of 1
        thread 1 of 1 on seat 1
        process 0 ends: Stopped
        process 1 ends: Stopped
        program_cpus: 4
        lines_made_private_again: 1
        end: Stopped
    "#]]
    .assert_eq(&world.records());
}
