//! A recording run again: what was told, told once more.

use hitm_base::{
    Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Machine, Outcome, ThreadId,
};
use hitm_coherence::directory::Capacity;
use hitm_trace::{Adoption, Record, Step, Stretch, ThreadStart, Turn, Visitor, Waker, Work};
use hitm_weave::replay::{FRESH, Relocate, Replay, ReplayError, Unmoved};
use hitm_weave::{Position, Slot, ThreadTotals, Wake, Weave, WorkLog};
use proptest::prelude::*;

use crate::properties::{CPUS, machines, programs, small_machine};
use crate::run::Program;

/// A recorder around its weave: it runs, leaves and returns, and writes it down.
struct Recorder {
    weave: Weave,
    logs: Vec<WorkLog>,
    records: Vec<Record>,
}

impl Recorder {
    fn new(machine: Machine, thread_count: usize) -> Recorder {
        let mut recorder = Recorder {
            weave: Weave::new(machine, Capacity::Finite),
            logs: (0..thread_count as u32)
                .map(|thread| WorkLog::of(ThreadId(thread)))
                .collect(),
            records: Vec::new(),
        };
        for thread in 0..thread_count as u32 {
            recorder.start(thread);
        }
        recorder
    }

    fn start(&mut self, thread: u32) {
        let cpu = CpuId(CPUS[thread as usize]);
        self.weave.add_thread(ThreadId(thread), cpu);
        self.records.push(Record::ThreadStart(ThreadStart {
            thread: ThreadId(thread),
            tid: thread,
            cpu,
            time: self.weave.now(),
            name: String::new(),
            seat: thread,
            process: 0,
        }));
    }

    fn adopt(&mut self, line: u64, owner: u32) {
        let line = LineAddr(line);
        self.weave.adopt(line, Slot(owner as usize), true);
        let adoption = Adoption {
            line,
            owner: ThreadId(owner),
            is_written: true,
        };
        let records = &mut self.records;
        self.logs[0].note(&[adoption], &[], Position::default(), &mut |work| {
            records.push(Record::Work(work));
        });
    }

    fn push(&mut self, thread: usize, program: &Program, range: std::ops::Range<usize>) {
        let frontier = match program.events.get(range.end) {
            Some(next) => Position {
                insn: next.insn,
                stores: next.stores,
            },
            None => program.end,
        };
        let events = &program.events[range];
        self.weave.push(Slot(thread), events, frontier);
        let records = &mut self.records;
        self.logs[thread].note(&[], events, frontier, &mut |work| {
            records.push(Record::Work(work));
        });
    }

    fn price(&mut self) {
        self.records.push(Record::Turn(Turn::Priced));
        let records = &mut self.records;
        self.weave
            .advance(&mut |access, outcome| records.push(priced(access, outcome)));
    }

    fn leave(&mut self, thread: usize) {
        self.weave.leave(Slot(thread));
        let thread = ThreadId(thread as u32);
        self.records.push(Record::Turn(Turn::Left { thread }));
    }

    /// The thread returns from a system call whose end is not another thread's doing.
    fn rejoin(&mut self, thread: usize) {
        self.weave.join(Slot(thread));
        self.records.push(Record::Turn(Turn::Returned {
            thread: ThreadId(thread as u32),
            waker: None,
        }));
    }

    /// The thread returns when the time of its waker's instruction is known.
    fn wake(&mut self, thread: usize, waker: usize, insn: u64) {
        const DELAY: i64 = 70;
        let by = Wake {
            slot: Slot(waker),
            insn,
        };
        self.weave.wake(Slot(thread), by, DELAY);
        self.records.push(Record::Turn(Turn::Returned {
            thread: ThreadId(thread as u32),
            waker: Some(Waker {
                thread: ThreadId(waker as u32),
                insn,
                delay: DELAY,
            }),
        }));
    }

    fn finish(mut self) -> (Vec<Record>, Vec<ThreadTotals>) {
        let records = &mut self.records;
        self.weave
            .finish(&mut |access, outcome| records.push(priced(access, outcome)));
        let totals = (0..self.logs.len()).map(|slot| self.weave.totals(Slot(slot)));
        (self.records, totals.collect())
    }
}

fn priced(access: &Access, outcome: &Outcome) -> Record {
    Record::Access {
        access: *access,
        outcome: *outcome,
    }
}

fn record(
    programs: &[Program],
    pieces: &[usize],
    turns: &[bool],
) -> (Vec<Record>, Vec<ThreadTotals>) {
    record_on(&small_machine(), programs, pieces, turns)
}

/// Runs the programs in pieces; threads leave and return, woken by the next one, as `turns` says.
fn record_on(
    machine: &Machine,
    programs: &[Program],
    pieces: &[usize],
    turns: &[bool],
) -> (Vec<Record>, Vec<ThreadTotals>) {
    let mut recorder = Recorder::new(machine.clone(), programs.len());
    recorder.adopt(0x40, 0);
    let mut done = vec![0; programs.len()];
    let mut sizes = pieces.iter().cycle();
    let mut turns = turns.iter().cycle();
    while (0..programs.len()).any(|thread| done[thread] < programs[thread].events.len()) {
        for (thread, program) in programs.iter().enumerate() {
            let to = (done[thread] + sizes.next().unwrap()).min(program.events.len());
            recorder.push(thread, program, done[thread]..to);
            done[thread] = to;
            if *turns.next().unwrap() {
                recorder.leave(thread);
                recorder.price();
                let waker = (thread + 1) % programs.len();
                match to % 2 {
                    0 => recorder.rejoin(thread),
                    _ => recorder.wake(thread, waker, done[waker] as u64),
                }
            }
        }
        recorder.price();
    }
    recorder.finish()
}

fn replay<R: Relocate>(
    records: &[Record],
    machine: Machine,
    relocation: R,
) -> Result<(Vec<Record>, Replay<R>), ReplayError> {
    let again = run_again(records, Replay::new(machine, relocation))?;
    Ok((again.out, again.replay))
}

/// Records that were run again.
struct Again<R> {
    out: Vec<Record>,
    replay: Replay<R>,
    look_count: usize,
    waiting_bytes_max: usize,
}

fn run_again<R: Relocate>(
    records: &[Record],
    mut replay: Replay<R>,
) -> Result<Again<R>, ReplayError> {
    let (mut out, mut look_count, mut waiting_bytes_max) = (Vec::new(), 0, 0);
    let mut sink = |access: &Access, outcome: &Outcome| out.push(priced(access, outcome));
    for (number, record) in records.iter().enumerate() {
        waiting_bytes_max = waiting_bytes_max.max(replay.waiting_bytes());
        if replay.is_impatient() {
            look_ahead(&mut replay, &records[number..])?;
            look_count += 1;
        }
        match record {
            Record::Access { access, .. } => replay.access(access)?,
            Record::ThreadStart(start) => replay.start(start, start.cpu)?,
            Record::Work(work) => replay.work(work.clone())?,
            Record::Turn(turn) => replay.turn(*turn, &mut sink)?,
            other => panic!("not written here: {other:?}"),
        }
    }
    replay.finish(&mut sink)?;
    Ok(Again {
        out,
        replay,
        look_count,
        waiting_bytes_max,
    })
}

fn look_ahead<R: Relocate>(replay: &mut Replay<R>, rest: &[Record]) -> Result<(), ReplayError> {
    let mut ahead = replay.read_ahead();
    for record in rest {
        match record {
            Record::Access { access, outcome } => ahead.access(access, outcome),
            other => ahead.record(other.clone()),
        }
    }
    replay.note_ahead(ahead)
}

/// Runs the records again, once patiently and once not: the same comes out. Returns the impatient run.
fn run_both(machine: &Machine, records: &[Record], patience: usize) -> Option<Again<Unmoved>> {
    let replay = || Replay::new(machine.clone(), Unmoved);
    let patient = run_again(records, replay());
    let impatient = run_again(records, replay().with_patience(patience));
    match (patient, impatient) {
        (Ok(patient), Ok(impatient)) => {
            assert_eq!(patient.look_count, 0);
            assert_eq!(patient.out, impatient.out);
            assert!(patient.replay.totals().eq(impatient.replay.totals()));
            assert_eq!(patient.replay.counts(), impatient.replay.counts());
            Some(impatient)
        }
        (patient, impatient) => {
            assert_eq!(patient.err(), impatient.err());
            None
        }
    }
}

fn accesses(records: &[Record]) -> Vec<Record> {
    let is_access = |record: &&Record| matches!(record, Record::Access { .. });
    records.iter().filter(is_access).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_same_told_again_is_answered_the_same(
        machine in machines(),
        programs in programs(),
        pieces in prop::collection::vec(1usize..20, 1..6),
        turns in prop::collection::vec(prop::bool::weighted(0.2), 1..9),
    ) {
        let (records, totals) = record_on(&machine, &programs, &pieces, &turns);
        let (again, replay) = replay(&records, machine, Unmoved).unwrap();
        prop_assert_eq!(accesses(&records), again);
        let clocks: Vec<ThreadTotals> = replay.totals().map(|(_, totals)| totals).collect();
        prop_assert_eq!(totals, clocks);
        prop_assert_eq!(replay.counts().missing, 0);
    }

    #[test]
    fn reading_ahead_changes_nothing(
        machine in machines(),
        programs in programs(),
        pieces in prop::collection::vec(1usize..20, 1..6),
        turns in prop::collection::vec(prop::bool::weighted(0.2), 1..9),
        patience in 0usize..2000,
        cut in 0usize..40,
    ) {
        let (records, _) = record_on(&machine, &programs, &pieces, &turns);
        let end = records.len().saturating_sub(cut);
        prop_assert!(run_both(&machine, &records[..end], patience).is_some());
    }

    #[test]
    fn each_threads_accesses_leave_in_program_order(
        machine in machines(), programs in programs(),
    ) {
        let (records, _) = record_on(&machine, &programs, &[7, 3], &[false]);
        for (thread, program) in programs.iter().enumerate() {
            let of_thread = records.iter().filter_map(|record| match record {
                Record::Access { access, .. } if access.thread.index() == thread => {
                    Some((access.addr, access.op))
                }
                _ => None,
            });
            let times = records.iter().filter_map(|record| match record {
                Record::Access { access, .. } if access.thread.index() == thread => {
                    Some(access.time)
                }
                _ => None,
            });
            prop_assert!(times.is_sorted(), "clocks do not go back");
            let written = program.events.iter().filter(|event| event.op != AccessOp::Fence);
            let written: Vec<_> = written.map(|event| (event.addr, event.op)).collect();
            prop_assert_eq!(of_thread.collect::<Vec<_>>(), written);
        }
    }
}

/// Records that no recorder writes: any numbers, in any order.
fn any_record() -> impl Strategy<Value = Record> {
    let number = || prop_oneof![6 => 0..100u64, 2 => 0..1u64 << 20, 1 => 0..1u64 << 50];
    let stretch =
        move || (number(), number()).prop_map(|(insns, stores)| Stretch { insns, stores });
    let thread = || (0..4u32).prop_map(ThreadId);
    let op = prop::sample::select(vec![AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw]);
    let access = (thread(), 0..16u64, op).prop_map(|(thread, word, op)| {
        let access = Access {
            thread,
            cpu: CpuId(0),
            time: Cycles(0),
            addr: 0x1000 + word * 24 / 8 * 8,
            size: 8,
            op,
            code: CodeAddr(0),
        };
        let outcome = Outcome::by_source(DataSource::L1, Cycles(0), Cycles(0), Cycles(0));
        Record::Access { access, outcome }
    });
    let step = (stretch(), prop::bool::weighted(0.1));
    let steps = prop::collection::vec(
        step.prop_map(|(since, is_fence)| Step { since, is_fence }),
        0..9,
    );
    let adoption = (0..0x45u64, thread()).prop_map(|(line, owner)| Adoption {
        line: LineAddr(line),
        owner,
        is_written: false,
    });
    let adoptions = prop::collection::vec(adoption, 0..2);
    let work = (thread(), adoptions, steps, stretch());
    let work = work.prop_map(|(thread, adoptions, steps, ahead)| {
        let steps = steps.into_iter().collect();
        Record::Work(Work {
            thread,
            adoptions,
            steps,
            ahead,
        })
    });
    let delay = prop_oneof![-1000..1000i64, -(1i64 << 50)..1i64 << 50];
    let waker = (thread(), number(), delay).prop_map(|(thread, insn, delay)| Waker {
        thread,
        insn,
        delay,
    });
    let turn = prop_oneof![
        thread().prop_map(|thread| Turn::Left { thread }),
        (thread(), prop::option::of(waker))
            .prop_map(|(thread, waker)| Turn::Returned { thread, waker }),
        Just(Turn::Priced),
    ];
    prop_oneof![6 => access, 4 => work, 3 => turn.prop_map(Record::Turn)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn records_that_no_recorder_writes_do_no_harm(
        machine in machines(),
        records in prop::collection::vec(any_record(), 0..80),
        patience in 0usize..1000,
    ) {
        let mut recorder = Recorder::new(machine.clone(), 4);
        recorder.records.extend(records);
        if let Some(again) = run_both(&machine, &recorder.records, patience) {
            let counted: u64 = again.replay.totals().map(|(_, totals)| totals.accesses).sum();
            prop_assert_eq!(again.out.len() as u64, counted);
        }
    }
}

/// Thread 1 sleeps `count` times with four loads under way, while thread 0 stores `stores` times.
fn sleeper(count: usize, stores: usize) -> Vec<Record> {
    let loads = 4;
    let worker = (0..count * stores).fold(Program::default(), |program, _| {
        program.work(30).access(AccessOp::Store, 0x1000)
    });
    let sleeper = (0..count * loads).fold(Program::default(), |program, load| {
        program.work(3).load(0x2000 + load as u64 * 64)
    });
    let mut recorder = Recorder::new(small_machine(), 2);
    for sleep in 0..count {
        recorder.push(1, &sleeper, sleep * loads..(sleep + 1) * loads);
        recorder.leave(1);
        for part in (sleep * stores..(sleep + 1) * stores).step_by(30) {
            recorder.push(0, &worker, part..part + 30);
            recorder.price();
        }
        recorder.rejoin(1);
        recorder.price();
    }
    recorder.finish().0
}

/// Records of 30 stores wait for their prices, and half of the patience for late accesses.
#[test]
fn nothing_waits_for_a_sleeping_thread() {
    let records = sleeper(1, 1200);
    let patient = run_again(&records, Replay::new(small_machine(), Unmoved)).unwrap();
    assert!(patient.waiting_bytes_max > 1200 * 24);
    let again = run_both(&small_machine(), &records, 4000).unwrap();
    assert!(
        again.waiting_bytes_max < 6000,
        "{}",
        again.waiting_bytes_max
    );
    assert_eq!(again.look_count, 1);
}

/// The program was killed while the thread slept: its last accesses never come.
#[test]
fn nothing_waits_for_a_thread_that_sleeps_when_the_recording_ends() {
    let mut records = sleeper(1, 1200);
    let last = records.iter().rposition(|record| match record {
        Record::Access { access, .. } => access.thread == ThreadId(0),
        _ => false,
    });
    records.truncate(last.unwrap());
    records.retain(|record| match record {
        Record::Access { access, .. } => access.thread == ThreadId(0),
        _ => true,
    });
    let again = run_both(&small_machine(), &records, 4000).unwrap();
    assert!(
        again.waiting_bytes_max < 6000,
        "{}",
        again.waiting_bytes_max
    );
    assert!(again.replay.counts().missing >= 4);
}

/// Accesses read ahead take as much memory as may wait: 100 accesses of 40 bytes.
#[test]
fn many_sleeps_take_several_looks() {
    let records = sleeper(300, 240);
    let again = run_both(&small_machine(), &records, 4000).unwrap();
    let looks = again.look_count;
    assert!((300 * 4 / 100..60).contains(&looks), "{looks} looks");
    assert!(
        again.waiting_bytes_max < 6000,
        "{}",
        again.waiting_bytes_max
    );
}

/// Each word of the first kilobytes gets a line of its own.
struct Apart;

impl Relocate for Apart {
    fn pieces(&self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>) {
        let words = (addr / 8)..(addr + u64::from(size)).div_ceil(8);
        pieces.extend(words.map(|word| (FRESH + word * 64, 8)));
    }

    fn fresh_line_count(&self) -> usize {
        0x1000
    }
}

/// Two threads in two packages that store to neighbouring words, over and over.
fn false_sharers() -> Vec<Program> {
    let sharer = |addr| {
        (0..400).fold(Program::default(), |program, _| {
            program.work(30).access(AccessOp::Store, addr).load(addr)
        })
    };
    let idle = Program::default().work(1_000_000);
    vec![sharer(0x1000), idle.clone(), idle, sharer(0x1008)]
}

#[test]
fn words_moved_apart_cost_nothing_any_more() {
    let (records, totals) = record(&false_sharers(), &[50], &[false]);
    let (again, replay) = replay(&records, small_machine(), Apart).unwrap();
    let hitm = |records: &[Record]| {
        let is_hitm = |record: &&Record| match record {
            Record::Access { outcome, .. } => outcome.source.is_hitm(),
            _ => false,
        };
        records.iter().filter(is_hitm).count()
    };
    assert!(hitm(&records) > 100, "{}", hitm(&records));
    assert!(hitm(&again) <= 1, "{}", hitm(&again));
    // Thread 0 wrote both words before the other thread came: that one's first access shares its word, and
    // a long run by one thread makes the line private again.
    assert_eq!(again.len(), 300, "256 to the end of the push");
    let clocks: Vec<Cycles> = replay.totals().map(|(_, totals)| totals.clock).collect();
    for thread in [0, 3] {
        assert!(
            clocks[thread] < totals[thread].clock,
            "{clocks:?} {totals:?}"
        );
        // 400 rounds of 32 instructions, and one transfer at most.
        assert!(clocks[thread].0 < 400 * 32 + 700, "{clocks:?}");
    }
}

#[test]
fn records_that_cannot_be_are_refused() {
    let (records, _) = record(&false_sharers(), &[50], &[false]);
    let check = |change: &dyn Fn(&mut Vec<Record>), expected: &str| {
        let mut records = records.clone();
        change(&mut records);
        let error = replay(&records, small_machine(), Unmoved).err().unwrap();
        assert_eq!(error.to_string(), expected);
    };
    check(
        &|records| {
            records.remove(0);
        },
        "found a record of thread 0, which has not started",
    );
    check(
        &|records| {
            if let Record::ThreadStart(start) = &mut records[0] {
                start.cpu = CpuId(900);
            }
        },
        "thread 0 runs on CPU 900, but the machine has 128 CPUs",
    );
    check(
        &|records| {
            records.retain(|record| !matches!(record, Record::Turn(_)));
            let mut work = records.iter_mut().filter_map(|record| match record {
                Record::Work(work) => Some(work),
                _ => None,
            });
            work.next().unwrap().ahead.insns = u64::MAX;
        },
        "the instruction count of thread 0 is 18446744073709551615, expected at most 17592186044416",
    );
}

#[test]
fn a_recording_without_its_end_is_run_as_far_as_it_goes() {
    let (mut records, _) = record(&false_sharers(), &[50], &[false]);
    let last = records.len() - 30;
    records.truncate(last);
    let (again, replay) = replay(&records, small_machine(), Unmoved).unwrap();
    assert_eq!(again.len(), accesses(&records).len());
    assert!(replay.counts().missing > 0);
}
