//! The bytes of each kind of record, as every reader of version 1 knows them.

use std::fmt::Write;

use expect_test::expect;
use hitm_base::{AddrRange, CodeAddr, CpuId, Cycles, LineAddr, ThreadId};
use hitm_trace::{
    Adoption, BlockDecoder, BlockEncoder, Counter, End, EndReason, HeapObject, Loss, Mapping,
    ProcessExit, ProcessStart, Record, Region, RegionKind, Step, Stretch, ThreadExit, ThreadPlaced,
    ThreadStart, Totals, Turn, WaitKind, Waits, Waker, Work,
};

const THREAD: ThreadId = ThreadId(3);
const TIME: Cycles = Cycles(0x1000);

fn range() -> AddrRange {
    AddrRange::new(0x1000, 0x1080).unwrap()
}

fn stack() -> Vec<CodeAddr> {
    vec![CodeAddr(0x40_1000), CodeAddr(7)]
}

fn threads() -> Vec<Record> {
    let start = ThreadStart {
        thread: THREAD,
        tid: 4242,
        cpu: CpuId(8),
        time: TIME,
        name: "packed".to_owned(),
        seat: 5,
        process: 0,
    };
    let forked = ThreadStart {
        process: 2,
        ..start.clone()
    };
    vec![
        Record::ThreadStart(start),
        Record::ThreadStart(forked),
        Record::ThreadPlaced(ThreadPlaced {
            thread: THREAD,
            cpu: CpuId(9),
            time: TIME,
        }),
        Record::ThreadExit(ThreadExit {
            thread: THREAD,
            time: TIME,
            insns: 300,
            accesses: 200,
            stall: Cycles(100),
            contention_stall: Cycles(50),
        }),
    ]
}

fn processes() -> Vec<Record> {
    let exit = |reason| {
        Record::ProcessExit(ProcessExit {
            process: 2,
            time: TIME,
            reason,
        })
    };
    let loss = Loss::Stalled;
    let start = ProcessStart {
        process: 2,
        pid: 4242,
        parent: 1,
        time: TIME,
        program: "/bin/x".to_owned(),
    };
    vec![
        Record::ProcessStart(start),
        exit(EndReason::Exited { status: -1 }),
        exit(EndReason::Signalled { signal: 9 }),
        exit(EndReason::Stopped),
        exit(EndReason::Exec),
        exit(EndReason::Killed),
        exit(EndReason::Lost { loss }),
        exit(EndReason::Other { code: 9, value: -9 }),
        Record::End(End {
            time: TIME,
            reason: EndReason::Exited { status: 1 },
            totals: Totals {
                threads: 1,
                insns: 2,
                accesses: 3,
                stored_accesses: 4,
                stall: Cycles(5),
                contention_stall: Cycles(6),
            },
        }),
    ]
}

fn memory() -> Vec<Record> {
    let heap = HeapObject {
        range: range(),
        time: TIME,
        thread: THREAD,
        stack: stack(),
        told_type: None,
    };
    let told = HeapObject {
        told_type: Some(0x2000),
        ..heap.clone()
    };
    vec![
        Record::Mapping(Mapping {
            range: range(),
            file_offset: 0x3000,
            path: "/lib/x".to_owned(),
            build_id: vec![0xab, 0xcd],
            executable: true,
        }),
        Record::HeapObject(heap),
        Record::HeapObject(told),
        Record::Layout("schema = 1\n".to_owned()),
    ]
}

fn regions() -> impl Iterator<Item = Record> {
    let kinds = [
        RegionKind::Stack { thread: THREAD },
        RegionKind::AnonymousMap { stack: stack() },
        RegionKind::Brk,
        RegionKind::Object {
            name: "runqueues[3]".to_owned(),
            type_name: "rq".to_owned(),
        },
        RegionKind::Slab {
            cache: "dentry".to_owned(),
            type_name: String::new(),
            stride_bytes: 192,
        },
        RegionKind::PerCpu { cpu: 3 },
        RegionKind::UserMemory { address: 0x5000 },
    ];
    let range = range();
    let region = move |kind| Record::Region(Region { range, kind });
    kinds.into_iter().map(region)
}

fn clocks() -> Vec<Record> {
    let adoption = |line, is_written| Adoption {
        line: LineAddr(line),
        owner: ThreadId(4),
        is_written,
    };
    let step = |insns, stores, is_fence| Step {
        since: Stretch { insns, stores },
        is_fence,
    };
    let waker = Waker {
        thread: ThreadId(1),
        insn: 500,
        delay: -4,
    };
    let returned = |waker| {
        Record::Turn(Turn::Returned {
            thread: THREAD,
            waker,
        })
    };
    vec![
        Record::Work(Work {
            thread: THREAD,
            adoptions: vec![adoption(0x500, true), adoption(0x4ff, false)],
            steps: [step(5, 1, false), step(40, 9, true)].into_iter().collect(),
            ahead: Stretch {
                insns: 2,
                stores: 1,
            },
        }),
        Record::Turn(Turn::Left { thread: THREAD }),
        returned(None),
        returned(Some(waker)),
        Record::Turn(Turn::Priced),
        Record::Turn(Turn::Passed { span: Cycles(300) }),
    ]
}

fn others() -> Vec<Record> {
    let waits = |kind| {
        Record::Waits(Waits {
            thread: THREAD,
            kind,
            word: 0x1040,
            code: CodeAddr(0x40_1000),
            count: 7,
            cycles: Cycles(900),
        })
    };
    let counter = |name: &str, value| Counter {
        name: name.to_owned(),
        value,
    };
    vec![
        Record::Counters(vec![counter("a", 1), counter("b", u64::MAX)]),
        Record::Callers(stack().into()),
        waits(WaitKind::Spinning),
        waits(WaitKind::Asleep),
    ]
}

#[test]
fn every_kind_has_its_bytes() {
    let parts = [threads(), processes(), memory(), clocks(), others()];
    let mut shown = String::new();
    for record in parts.into_iter().flatten().chain(regions()) {
        let mut encoder = BlockEncoder::new(vec![0; 4096]);
        encoder.push(&record).unwrap();
        let bytes = encoder.bytes();
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(shown, "{}", digits.join(" ")).unwrap();
        let decoded: Result<Vec<Record>, _> = BlockDecoder::new(bytes).collect();
        assert_eq!(decoded, Ok(vec![record]));
    }
    expect![[r#"
        01 0e 03 92 21 08 80 20 06 70 61 63 6b 65 64 05
        01 0f 03 92 21 08 80 20 06 70 61 63 6b 65 64 05 02
        02 04 03 09 80 20
        03 09 03 80 20 ac 02 c8 01 64 32
        0d 0d 02 92 21 01 80 20 06 2f 62 69 6e 2f 78
        0e 05 02 80 20 00 01
        0e 05 02 80 20 01 12
        0e 05 02 80 20 02 00
        0e 05 02 80 20 03 00
        0e 05 02 80 20 04 00
        0e 05 02 80 20 05 06
        0e 05 02 80 20 09 11
        08 0a 80 20 00 02 01 02 03 04 05 06
        04 11 80 20 80 21 80 60 06 2f 6c 69 62 2f 78 02 ab cd 01
        05 0d 80 20 80 01 80 20 03 02 80 a0 80 02 07
        05 0f 80 20 80 01 80 20 03 02 80 a0 80 02 07 80 40
        0b 0c 0b 73 63 68 65 6d 61 20 3d 20 31 0a
        09 0e 03 02 80 14 09 01 08 02 29 ff 09 06 02 01
        0a 02 00 03
        0a 02 01 03
        0a 06 02 03 01 f4 03 07
        0a 01 03
        0a 03 04 ac 02
        07 10 02 01 61 01 01 62 ff ff ff ff ff ff ff ff ff 01
        0c 0a 00 02 80 c0 80 04 f1 bf 80 04
        10 0b 03 00 c0 20 80 a0 80 02 07 84 07
        10 0b 03 01 c0 20 80 a0 80 02 07 84 07
        06 06 80 20 80 21 00 03
        06 0b 80 20 80 21 01 02 80 a0 80 02 07
        06 05 80 20 80 21 02
        06 15 80 20 80 21 03 0c 72 75 6e 71 75 65 75 65 73 5b 33 5d 02 72 71
        06 0f 80 20 80 21 04 06 64 65 6e 74 72 79 00 c0 01
        06 06 80 20 80 21 05 03
        06 08 80 20 80 21 06 80 a0 01
    "#]]
    .assert_eq(&shown);
}
