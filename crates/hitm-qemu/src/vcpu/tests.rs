use hitm_base::{AccessOp, CodeAddr};

use super::*;

const ADDR: u64 = 0x7fff_1234_5640;
const INSN: MemInsn = MemInsn {
    code: CodeAddr(0x1000),
    index: 0,
    locked: false,
    is_look: true,
    len: 4,
    is_observers: false,
};

const STORE: GuestAccess = GuestAccess {
    addr: ADDR,
    op: AccessOp::Store,
    size: 8,
};

fn threads() -> [Vcpu; 2] {
    let epoch = Cycles(10_000);
    let first_touch = Box::leak(Box::new(FirstTouch::with_hand_over(epoch)));
    let first_touch: &'static FirstTouch = first_touch;
    [0, 1].map(|number| {
        let tag = Tag::of_thread(number as u32);
        Vcpu::new(Slot(number), tag, Cycles::ZERO, first_touch)
    })
}

#[test]
fn each_reader_of_a_read_shared_line_is_recorded_once() {
    let mut threads = threads();
    let mut counts = |op: AccessOp, by: usize| {
        threads[by].start_block(1);
        threads[by].access(&INSN, GuestAccess { op, ..STORE }, || None);
        [0, 1].map(|index| threads[index].events.len())
    };
    assert_eq!(counts(AccessOp::Load, 0), [0, 0], "private");
    assert_eq!(counts(AccessOp::Load, 1), [0, 1], "read-shared");
    assert_eq!(counts(AccessOp::Load, 0), [1, 1]);
    // The read that shared the line was no read of a read-shared one yet.
    assert_eq!(counts(AccessOp::Load, 1), [1, 2]);
    for _ in 0..9 {
        assert_eq!(counts(AccessOp::Load, 0), [1, 2]);
        assert_eq!(counts(AccessOp::Load, 1), [1, 2]);
    }
    assert_eq!(counts(AccessOp::Store, 1), [1, 3], "shared");
    assert_eq!(counts(AccessOp::Load, 0), [2, 3]);
    assert_eq!(counts(AccessOp::Load, 0), [3, 3]);
}

#[test]
fn what_a_thread_does_while_the_recording_is_off_is_forgotten() {
    let [mut thread, _] = threads();
    thread.release(100, Cycles::ZERO);
    assert!(thread.start_block(90));
    thread.access(&INSN, STORE, || None);
    thread.pause();
    assert!(thread.start_block(PAUSED_INSNS), "further than its budget");
    assert!(!thread.start_block(1), "it looks again");
    thread.run_paused();
    assert!(thread.start_block(1));
    thread.access(&INSN, STORE, || None);
    // An unwinding under way, which ends after the recording is on again.
    thread.set_aside();
    thread.resume(thread.block_insns());
    thread.take_up();
    let counted = (thread.insns, thread.accesses(), thread.stores, thread.limit);
    assert_eq!(counted, (91, 1, 1, 100), "it is in a block of one");
    thread.access(&INSN, STORE, || None);
    assert!(thread.start_block(9) && !thread.is_paused());
    assert_eq!((thread.block_start, thread.stores), (91, 2));
}

#[test]
fn accesses_that_qemu_makes_by_helpers_are_not_the_programs() {
    let [mut thread, mut other] = threads();
    other.start_block(1);
    other.access(&INSN, STORE, || None);
    let at = |index| MemInsn { index, ..INSN };
    let count = |thread: &mut Vcpu, index| {
        thread.access(&at(index), STORE, || None);
        thread.events.len()
    };
    thread.start_block(4);
    assert_eq!(count(&mut thread, 2), 1);
    assert_eq!(count(&mut thread, 1), 1, "before the last one");
    assert_eq!(count(&mut thread, 4), 1, "of a longer block");
    assert_eq!(count(&mut thread, 3), 2);
    thread.begin_syscall(InSyscall {
        kind: crate::guest::Syscall::Short,
        args: [0; 6],
    });
    assert_eq!(count(&mut thread, 3), 2, "no block has begun");
    thread.start_block(4);
    assert_eq!(count(&mut thread, 0), 3);
}

#[test]
fn what_a_thread_did_aside_is_forgotten_unless_it_goes_to_the_barrier() {
    let [mut thread, _] = threads();
    thread.release(100, Cycles::ZERO);
    let work = |thread: &mut Vcpu| {
        assert!(thread.start_block(90));
        thread.access(&INSN, STORE, || None);
        thread.push_event(&INSN, ADDR, 8, AccessOp::Store);
        (
            thread.insns,
            thread.stores,
            thread.accesses(),
            thread.events.len(),
        )
    };
    assert_eq!(work(&mut thread), (90, 1, 1, 1));
    thread.set_aside();
    work(&mut thread);
    assert_eq!(work(&mut thread), (270, 3, 3, 3), "without a budget");
    thread.take_up();
    assert_eq!(work(&mut thread), (180, 2, 2, 2));
    thread.set_aside();
    thread.keep_aside();
    thread.take_up();
    assert!(!thread.start_block(1), "the budget is used up");
    assert_eq!((thread.stores, thread.events.len()), (2, 2));
}
