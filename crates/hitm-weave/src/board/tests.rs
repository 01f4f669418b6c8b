use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hitm_base::{AccessOp, CodeAddr};
use hitm_trace::Loss;

use super::*;
use crate::{Doings, Position, Spin, ThreadEvent};

const FUTEX: Futex = Futex {
    wait: |word, value, time| {
        let steps = time.as_micros() / 50;
        for _ in 0..steps {
            if word.load(Ordering::SeqCst) != value {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    },
    wake: |_| {},
};

fn board() -> (Board, Port) {
    board_with(Box::leak(Box::new(AtomicU32::new(1))))
}

fn board_with(lifeline: &'static AtomicU32) -> (Board, Port) {
    let layout = std::alloc::Layout::from_size_align(board_len(8), 4096).unwrap();
    // SAFETY: the layout has a size; the memory is never freed, and eight channels are all that is used.
    unsafe {
        let base = NonNull::new(std::alloc::alloc_zeroed(layout)).unwrap();
        let board = Board::create(base, 1, 8, FUTEX);
        (board, Port::attach(base, FUTEX, lifeline).unwrap())
    }
}

#[test]
fn requests_come_in_the_order_of_their_tickets_and_are_answered() {
    let (mut board, port) = board();
    let channels = [3, 1, 2].map(|hint| port.claim(77, hint).unwrap());
    for (number, channel) in channels.into_iter().enumerate() {
        port.send(
            channel,
            Message::new(Request::Wait, &[number as u64]).with_bytes(b"abc"),
        );
    }
    let found = board.collect();
    let numbers: Vec<u64> = found
        .iter()
        .map(|one| one.message().unwrap().args[0])
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(found[0].message().unwrap().bytes, b"abc");
    assert!(board.collect().is_empty());
    board.take(found[0].channel);
    board.answer(found[1].channel, &[5, 6, 7, 8]);
    assert_eq!(port.answer(channels[1]), Some([5, 6, 7, 8, 0]));
    // A thread that waited too long asks again, and the late answer is not its own.
    let asked = std::thread::spawn(move || {
        let patience = Duration::from_millis(1);
        port.answer_or(channels[0], patience, Message::new(Request::TimedOut, &[]))
    });
    let again = loop {
        if let Some(again) = board.collect().pop() {
            break again;
        }
    };
    assert_eq!(again.message().unwrap().request, Request::TimedOut);
    assert!(!board.release(again.channel, &[9; 5]));
    board.answer(again.channel, &[4; 5]);
    assert_eq!(asked.join().unwrap(), Some([4; 5]));
}

#[test]
fn a_free_channel_can_be_claimed_again_and_the_end_reaches_everybody() {
    let (mut board, port) = board();
    for _ in 0..8 {
        port.claim(5, 0).unwrap();
    }
    assert_eq!(board.free_count(), 0);
    board.free_all(5);
    assert_eq!(board.free_count(), 8);
    let channel = port.claim(6, 0).unwrap();
    port.send(channel, Message::new(Request::Wait, &[]));
    board.end();
    assert_eq!(port.answer(channel), Some([u64::MAX, 0, 0, 0, 0]));
    assert!(port.is_over());
}

#[test]
fn what_a_thread_did_comes_over_in_parts_and_nonsense_is_refused() {
    let event = |insn| ThreadEvent {
        insn,
        stores: insn / 2,
        addr: 0x40 * insn,
        code: CodeAddr(insn),
        size: 8,
        op: AccessOp::Store,
    };
    let events: Vec<ThreadEvent> = (0..1000).map(event).collect();
    let spin = Spin {
        word: 0x40,
        queue: Some(0x80),
        code: CodeAddr(7),
        count: 2,
        insns: 1999,
        locked: 1,
    };
    let done = Doings {
        events: &events,
        position: Position {
            insn: 2000,
            stores: 1000,
        },
        accesses: 1,
        spins: &[spin],
        ..Doings::default()
    };
    let mut bytes = Vec::new();
    let (_, count) = pack_doings(&done, &mut bytes);
    assert!(count < 1000 && bytes.len() <= BUFFER_LEN);
    let unpack = |bytes: &[u8]| unpack_doings(bytes, Position::default(), Position::default());
    let first = unpack(&bytes).unwrap();
    assert_eq!(first.events, events[..count]);
    assert_eq!(first.spins, [spin]);
    let longer = [Spin {
        insns: 2001,
        ..spin
    }];
    let impossible = Doings {
        events: &[],
        spins: &longer,
        ..done
    };
    pack_doings(&impossible, &mut bytes);
    assert_eq!(unpack(&bytes).unwrap_err(), BadMessage);
    let (_, rest) = pack_doings(&done.after(0, count), &mut bytes);
    assert_eq!(count + rest, 1000);
    assert_eq!(unpack(&bytes).unwrap().events, events[count..]);
    let later = Position {
        insn: 2001,
        stores: 0,
    };
    assert_eq!(unpack_doings(&bytes, later, later).unwrap_err(), BadMessage);
    assert_eq!(unpack(&bytes[..60]).unwrap_err(), BadMessage);
    let op = bytes.len() - 8 + 1;
    bytes[op] = 9;
    assert_eq!(unpack(&bytes).unwrap_err(), BadMessage);
}

#[test]
fn a_recorder_that_died_is_waited_for_by_nobody() {
    let lifeline = Box::leak(Box::new(AtomicU32::new(7)));
    let (_board, port) = board_with(lifeline);
    let channel = port.claim(5, 0).unwrap();
    // The kernel's word of a robust mutex: bit 30 is set, the holder's bits are gone.
    lifeline.store(1 << 30, Ordering::Relaxed);
    assert_eq!(port.ask(channel, Message::new(Request::Wait, &[])), None);
    for _ in 1..8 {
        port.claim(5, 0).unwrap();
    }
    assert_eq!(port.claim(5, 0), None);
}

#[test]
fn each_process_has_a_name_and_a_mark_of_its_own() {
    let (board, port) = board();
    let names = [port.name_process(), port.name_process()];
    assert_eq!(names, [1, 2]);
    assert_eq!(
        names.map(|name| port.mark_of(name)),
        ["hm0000010000001", "hm0000010000002"]
    );
    assert_eq!(board.mark_of(2), port.mark_of(2));
    assert_eq!(port.mark_of(u32::MAX).len(), 15);
}

#[test]
fn a_line_comes_back_by_mail_once() {
    let (board, port) = board();
    let mail = |addr| Mail {
        addr,
        thread: 3,
        time: 4,
        is_written: true,
    };
    assert!(board.post(2, mail(64)));
    let mut found = Vec::new();
    port.mail(2, |letter| found.push(letter));
    port.mail(2, |letter| found.push(letter));
    assert_eq!(found, [mail(64)]);
    assert!(
        (0..200).any(|addr| !board.post(2, mail(addr))),
        "it is full some day"
    );
    assert!(!board.post(9999, mail(0)));
}

/// Threads that wait one after the other wake the recorder once.
#[test]
fn only_the_last_waiter_wakes_the_recorder() {
    let (mut board, port) = board();
    let channels = [0, 1].map(|hint| port.claim(7, hint).unwrap());
    let server = std::thread::spawn(move || {
        board.wait(2, Duration::from_secs(60));
        board.collect().len()
    });
    for (number, channel) in channels.into_iter().enumerate() {
        std::thread::sleep(Duration::from_millis(30));
        assert!(!server.is_finished(), "after {number}");
        port.send(channel, Message::new(Request::Wait, &[]));
    }
    assert_eq!(server.join().unwrap(), 2);
}

#[test]
fn a_process_that_no_channel_is_left_for_is_told_once() {
    let (board, port) = board();
    assert_eq!(board.take_losses(), []);
    port.lose(7, Loss::Threads);
    port.lose(9, Loss::BadMessage);
    let losses = [(7, Loss::Threads), (9, Loss::BadMessage)];
    assert_eq!(board.take_losses(), losses);
    assert_eq!(board.take_losses(), []);
    // The recorder is gone: nobody waits for room.
    drop(board);
    for pid in 1..100 {
        port.lose(pid, Loss::Threads);
    }
}
