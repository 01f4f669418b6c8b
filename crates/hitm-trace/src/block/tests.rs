use expect_test::{Expect, expect};
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};

use super::*;
use crate::wire::push_varint;
use crate::{CALLERS_MAX, COUNT_MAX, Counter, LATENCY_MAX, PATH_CALLERS_MAX, Record, ThreadPlaced};

const LOAD: Access = Access {
    thread: ThreadId(1),
    cpu: CpuId(8),
    time: Cycles(1000),
    addr: 0x5555_0048,
    size: 8,
    op: AccessOp::Load,
    code: CodeAddr(0x40_1000),
};

const HITM: Outcome = Outcome::by_source(
    DataSource::RemoteHitm,
    Cycles(700),
    Cycles(200),
    Cycles(700),
);

fn encode(records: &[Record]) -> Vec<u8> {
    let mut encoder = BlockEncoder::new(vec![0; 4096]);
    for record in records {
        encoder.push(record).unwrap();
    }
    encoder.bytes().to_vec()
}

fn decode(bytes: &[u8]) -> Result<Vec<Record>, DecodeError> {
    BlockDecoder::new(bytes).collect()
}

fn access(access: Access, outcome: Outcome) -> Record {
    Record::Access { access, outcome }
}

/// Encodes, compares the bytes of each record with `expected`, and decodes again.
fn check(records: &[Record], expected: Expect) {
    let mut lines = String::new();
    let mut at = 0;
    for end in 1..=records.len() {
        let bytes = encode(&records[..end]);
        lines += &format!("{}\n", crate::header::hex(&bytes[at..]));
        at = bytes.len();
    }
    expected.assert_eq(&lines);
    assert_eq!(decode(&encode(records)).unwrap(), records);
}

#[test]
fn what_repeats_takes_few_bytes() {
    let later = |cycles: u64| Access {
        time: Cycles(1000 + cycles),
        ..LOAD
    };
    let store = Access {
        thread: ThreadId(2),
        cpu: CpuId(9),
        addr: 0x5555_0040,
        op: AccessOp::Store,
        code: CodeAddr(0x40_1010),
        ..later(4)
    };
    let hidden = Outcome {
        queued: Cycles(0),
        latency: Cycles(500),
        stall: Cycles(0),
        lost: Cycles(0),
        ..HITM
    };
    check(
        &[
            access(LOAD, HITM),
            access(later(2), HITM), // All but time and queueing as before.
            access(store, hidden),  // Another thread and instruction, the same line.
            access(later(3), HITM), // The first thread again, a cycle earlier.
        ],
        expect![[r#"
            8c da d0 0f 00 01 08 00 80 c0 80 04 88 82 d0 aa 15 f4 03 c8 01
            cc 5a 04 01 08 c8 01
            8d 0a 04 00 02 09 00 20 00
            8c 5a 01 01 01 08 c8 01
        "#]],
    );
}

#[test]
fn a_call_chain_is_told_once() {
    let callers =
        |codes: &[u64]| Record::Callers(codes.iter().map(|code| CodeAddr(*code)).collect());
    let (one, other) = (callers(&[0x40_1100, 0x40_1000]), callers(&[]));
    check(
        &[
            one.clone(),
            access(LOAD, HITM),
            other,
            one.clone(),
            access(LOAD, HITM),
        ],
        expect![[r#"
            0c 08 00 02 80 c4 80 04 ff 03
            8c da d0 0f 00 01 08 00 80 c0 80 04 88 82 d0 aa 15 f4 03 c8 01
            0c 02 00 00
            0c 01 01
            cc 5a 00 01 08 c8 01
        "#]],
    );
    // A block decodes on its own: the next one tells the chain again.
    let mut encoder = BlockEncoder::new(vec![0; 4096]);
    encoder.push(&one).unwrap();
    let first = encoder.bytes().to_vec();
    encoder.clear();
    encoder.push(&one).unwrap();
    assert_eq!(encoder.bytes(), first);
    let unknown = DecodeFault::UnknownReference {
        what: "call chain",
        found: 4,
        known: 0,
    };
    assert_eq!(decode(&[12, 1, 5]).unwrap_err().fault, unknown);
}

/// Pushes an access on a path.
fn push_on(
    encoder: &mut BlockEncoder<Vec<u8>>,
    path: Option<(u32, &[u64])>,
    access: Access,
) -> Result<(), EncodeError> {
    let chain = |out: &mut Vec<CodeAddr>| {
        let (_, codes) = path.expect("a path that is not known has no chain");
        out.extend(codes.iter().map(|code| CodeAddr(*code)));
    };
    encoder.push_access_on(path.map(|(path, _)| path), chain, &access, &HITM)
}

#[test]
fn a_path_holds_for_the_accesses_of_its_thread() {
    let mut encoder = BlockEncoder::new(vec![0; 4096]);
    let other = Access {
        thread: ThreadId(9),
        ..LOAD
    };
    let (long, short): (&[u64], &[u64]) = (&[0x40_1100, 0x40_1000], &[]);
    let pushes = [
        (Some((7, long)), LOAD),
        (Some((7, long)), LOAD),
        (Some((3, short)), other),
        (Some((7, long)), LOAD),
        (None, LOAD),
        (None, LOAD),
        (Some((7, long)), other),
    ];
    for (path, access) in pushes {
        push_on(&mut encoder, path, access).unwrap();
    }
    let known = |codes: &[u64]| Record::Callers(codes.iter().map(|code| CodeAddr(*code)).collect());
    let access = |access| Record::Access {
        access,
        outcome: HITM,
    };
    let expected = [
        known(long),
        access(LOAD),
        known(long),
        access(LOAD),
        known(short),
        access(other),
        known(long),
        access(LOAD),
        access(LOAD),
        access(LOAD),
        known(long),
        access(other),
    ];
    assert_eq!(decode(encoder.bytes()).unwrap(), expected);
    // Seven accesses, and four changes of a path.
    assert_eq!(encoder.meta().record_count, 11);
    // The next block knows nothing of this one.
    encoder.clear();
    push_on(&mut encoder, Some((7, long)), LOAD).unwrap();
    assert_eq!(decode(encoder.bytes()).unwrap(), expected[..2]);
}

#[test]
fn a_path_is_cut_and_an_access_on_it_is_whole_or_not_there() {
    let deep: Vec<u64> = (0..400).map(|call| call << 40).collect();
    for len in 0..3000 {
        let mut encoder = BlockEncoder::new(vec![0; len]);
        match push_on(&mut encoder, Some((0, &deep)), LOAD) {
            Ok(()) => {
                let records = decode(encoder.bytes()).unwrap();
                let Record::Callers(callers) = &records[0] else {
                    panic!("{records:?}");
                };
                assert_eq!(callers.len(), PATH_CALLERS_MAX);
                assert_eq!((callers[1].0, records.len()), (1 << 40, 2));
            }
            Err(_) => assert!(encoder.is_empty()),
        }
    }
    let unknown = DecodeFault::UnknownReference {
        what: "call chain",
        found: 0,
        known: 0,
    };
    assert_eq!(decode(&[15, 2, 3, 1]).unwrap_err().fault, unknown);
}

#[test]
fn an_access_and_its_callers_are_in_one_block() {
    let chain = [CodeAddr(0x40_1100), CodeAddr(0x40_1000)];
    let whole = encode(&[Record::Callers(chain.into()), access(LOAD, HITM)]);
    for len in 0..200 {
        let mut encoder = BlockEncoder::new(vec![0; len]);
        match encoder.push_access_of(&chain, &LOAD, &HITM) {
            Ok(()) => assert_eq!(encoder.bytes(), whole),
            Err(error) => {
                let too_large = matches!(error, EncodeError::TooLarge { .. });
                assert!(too_large || len == 0, "{error}");
                assert!(
                    encoder.is_empty(),
                    "nothing is written of what does not fit"
                );
                assert!(len < 200 - whole.len());
            }
        }
    }
}

#[test]
fn the_next_line_needs_no_address() {
    let at = |addr: u64| {
        access(
            Access { addr, ..LOAD },
            Outcome {
                queued: Cycles(0),
                ..HITM
            },
        )
    };
    let bytes = encode(&[at(0x1000), at(0x1040), at(0x1080)]);
    let two = encode(&[at(0x1000), at(0x1040)]);
    assert_eq!(crate::header::hex(&bytes[two.len()..]), "cc 1a 00 01 c0");
    assert_eq!(decode(&bytes).unwrap()[2], at(0x1080));
}

#[test]
fn odd_sizes_fences_and_extreme_numbers_survive() {
    let extreme = Access {
        thread: ThreadId(u32::MAX),
        cpu: CpuId(u16::MAX),
        time: Cycles(COUNT_MAX),
        // The end of the line before the last.
        addr: u64::MAX - 66,
        size: 3,
        op: AccessOp::LockedRmw,
        code: CodeAddr(u64::MAX),
    };
    let fence = Access {
        addr: 0,
        size: 0,
        op: AccessOp::Fence,
        ..LOAD
    };
    let impossible = Outcome {
        latency: Cycles(0),
        queued: Cycles(LATENCY_MAX),
        stall: Cycles(1),
        lost: Cycles(1),
        ..HITM
    };
    let records = [
        access(extreme, impossible),
        access(fence, HITM),
        access(extreme, HITM),
    ];
    assert_eq!(decode(&encode(&records)).unwrap(), records);
}

/// Bytes of a record that no encoder takes, but a hostile file may hold.
fn raw(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut payload = Vec::new();
    numbers
        .iter()
        .for_each(|number| push_varint(&mut payload, *number));
    let mut bytes = vec![kind];
    push_varint(&mut bytes, payload.len() as u64);
    bytes.extend(payload);
    bytes
}

fn fault_of(bytes: &[u8]) -> String {
    decode(bytes).expect_err("no reader takes this").to_string()
}

#[test]
fn ranges_that_wrap_are_refused_with_their_place() {
    let [mapping, heap_block, region] = [4, 5, 6];
    let place = raw(2, &[1, 2, 3]);
    let after_one = |record: Vec<u8>| fault_of(&[&place[..], &record].concat());
    assert_eq!(
        after_one(raw(heap_block, &[u64::MAX - 7, 9, 0, 0, 0])),
        "record 1 at byte 5 of the block: a heap block from 0xfffffffffffffff8 to 0x1 ends before \
         it begins"
    );
    assert_eq!(
        after_one(raw(mapping, &[0x2000, 0x1000, 0, 0, 0, 0])),
        "record 1 at byte 5 of the block: a mapping from 0x2000 to 0x1000 ends before it begins"
    );
    assert_eq!(
        after_one(raw(region, &[2, 1, 2])),
        "record 1 at byte 5 of the block: a region from 0x2 to 0x1 ends before it begins"
    );
    // The machine's addresses are sound, the program's are not.
    assert_eq!(
        after_one(raw(region, &[0x1000, 0x2000, 6, u64::MAX - 1])),
        "record 1 at byte 5 of the block: memory of a program from 0xfffffffffffffffe to 0xffe ends \
         before it begins"
    );
}

#[test]
fn numbers_that_nobody_could_add_up_are_refused() {
    let too_many = CALLERS_MAX as u64 + 1;
    let line_after_all = u64::MAX / 64;
    let chain: Vec<u64> = [0, too_many]
        .into_iter()
        .chain((0..too_many).map(|_| 2))
        .collect();
    let beyond = |what: &str, number: u64| {
        format!("record 0 at byte 0 of the block: {what} is {number}, which is out of range")
    };
    assert_eq!(
        fault_of(&raw(12, &chain)),
        beyond("number of callers", too_many)
    );
    assert_eq!(
        fault_of(&raw(2, &[1, 2, COUNT_MAX + 1])),
        beyond("time", COUNT_MAX + 1)
    );
    // A thread, one adoption of the last line, of thread 0.
    let adoption = [1, 1, line_after_all << 1, 0, 0, 0, 0];
    assert_eq!(fault_of(&raw(9, &adoption)), beyond("line", line_after_all));
    assert_eq!(
        fault_of(&raw(3, &[1, 0, u64::MAX, 0, 0, 0])),
        beyond("instructions of a thread", u64::MAX)
    );
    // Accesses: head, outcome, time, actor, code, place, line, base.
    let access = |time: u64, line: u64, base: u64| {
        let mut bytes = vec![HEAD_ACCESS, OUTCOME_BASE];
        for number in [time << 1, 0, 0, 0, 0, 0] {
            push_varint(&mut bytes, number);
        }
        bytes.push(LINE_NEW << PLACE_LINE_SHIFT);
        for number in [line << 1, base] {
            push_varint(&mut bytes, number);
        }
        bytes
    };
    assert_eq!(decode(&access(COUNT_MAX, 1, LATENCY_MAX)).unwrap().len(), 1);
    for (bytes, expected) in [
        (access(COUNT_MAX + 1, 1, 1), beyond("time", COUNT_MAX + 1)),
        (access(1, line_after_all, 1), beyond("line", line_after_all)),
        (
            access(1, 1, LATENCY_MAX + 1),
            beyond("latency, wait or stall", LATENCY_MAX + 1),
        ),
    ] {
        assert_eq!(fault_of(&bytes), expected);
    }
}

#[test]
fn an_encoder_takes_no_more_than_a_decoder() {
    let mut encoder = BlockEncoder::new(vec![0; 1 << 20]);
    let mut refused =
        |record: &Record| matches!(encoder.push(record), Err(EncodeError::OutOfRange { .. }));
    let late = Cycles(COUNT_MAX + 1);
    let long = Cycles(LATENCY_MAX + 1);
    assert!(refused(&access(Access { time: late, ..LOAD }, HITM)));
    assert!(refused(&access(
        LOAD,
        Outcome {
            stall: long,
            ..HITM
        }
    )));
    assert!(refused(&access(
        Access {
            addr: u64::MAX - 7,
            ..LOAD
        },
        HITM
    )));
    let callers = vec![CodeAddr(1); CALLERS_MAX + 1];
    assert!(refused(&Record::Callers(callers.into())));
    assert!(refused(&Record::ThreadPlaced(ThreadPlaced {
        thread: ThreadId(3),
        cpu: CpuId(4),
        time: late,
    })));
    assert!(encoder.is_empty());
}

#[test]
fn a_record_of_an_unknown_kind_is_passed_over_and_counted() {
    let placed = Record::ThreadPlaced(ThreadPlaced {
        thread: ThreadId(3),
        cpu: CpuId(4),
        time: Cycles(5),
    });
    let mut bytes = vec![0x7f, 2, 0xaa, 0xbb];
    bytes.extend(encode(std::slice::from_ref(&placed)));
    let mut decoder = BlockDecoder::new(&bytes);
    assert_eq!(decoder.next(), Some(Ok(placed)));
    assert_eq!(decoder.next(), None);
    assert_eq!(
        decoder.summary(),
        BlockSummary {
            record_count: 2,
            unknown_count: 1
        }
    );
}

#[test]
fn errors_name_record_place_and_fault() {
    let good = encode(&[access(LOAD, HITM)]);
    let check = |tail: &[u8], expected: Expect| {
        let mut bytes = good.clone();
        bytes.extend_from_slice(tail);
        expected.assert_eq(&decode(&bytes).unwrap_err().to_string());
    };
    check(
        &[0xcc, 0x0a],
        expect!["record 1 at byte 21 of the block: the record is cut off"],
    );
    check(
        &[0xcc, 0x0f, 0x04, 0x01, 0x08],
        expect!["record 1 at byte 21 of the block: source has the reserved value 0xf"],
    );
    check(
        &[0xcc, 0x0a, 0x04, 0x03, 0x08],
        expect![
            "record 1 at byte 21 of the block: code address 2 is referred to, but the block has introduced 1"
        ],
    );
    check(
        &[0xcc, 0x0a, 0x04, 0x01, 0x3c],
        expect![
            "record 1 at byte 21 of the block: an access of 8 bytes at offset 60 of a line cannot be"
        ],
    );
    check(
        &[0, 0],
        expect!["record 1 at byte 21 of the block: record kind has the reserved value 0x0"],
    );
    check(
        &[2, 3, 1, 0x80, 0x80],
        expect!["record 1 at byte 21 of the block: the record is cut off"],
    );
}

#[test]
fn full_comes_before_anything_is_written() {
    let mut encoder = BlockEncoder::new(vec![0; 200]);
    let record = access(LOAD, HITM);
    let mut count = 0;
    while encoder.push(&record) == Ok(()) {
        count += 1;
    }
    assert_eq!(encoder.push(&record), Err(EncodeError::Full));
    assert_eq!(encoder.meta().record_count, count);
    assert_eq!(decode(encoder.bytes()).unwrap().len(), count as usize);
    encoder.clear();
    assert_eq!(encoder.push(&record), Ok(()));
    assert_eq!(
        decode(encoder.bytes()).unwrap(),
        std::slice::from_ref(&record)
    );
}

#[test]
fn what_can_never_be_recorded_is_said_to_be_so() {
    let mut encoder = BlockEncoder::new(vec![0; 200]);
    let counters = Record::Counters(vec![Counter {
        name: "x".repeat(300),
        value: 1,
    }]);
    assert_eq!(
        encoder.push(&counters),
        Err(EncodeError::TooLarge {
            needed: 307,
            capacity: 200
        })
    );
    let straddling = Access {
        addr: 0x103c,
        ..LOAD
    };
    assert_eq!(
        encoder.push_access(&straddling, &HITM),
        Err(EncodeError::InvalidAccess {
            offset: 60,
            size: 8
        })
    );
    assert!(encoder.is_empty());
}

#[test]
fn times_of_a_block_are_its_earliest_and_latest() {
    let mut encoder = BlockEncoder::new(vec![0; 1000]);
    for time in [50, 20, 70] {
        let access = Access {
            time: Cycles(time),
            ..LOAD
        };
        encoder.push_access(&access, &HITM).unwrap();
    }
    assert_eq!(
        encoder.meta(),
        BlockMeta {
            record_count: 3,
            first_time: Cycles(20),
            last_time: Cycles(70)
        }
    );
}
