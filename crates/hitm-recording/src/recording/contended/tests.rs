use std::collections::BTreeMap;

use hitm_base::{
    Access, AccessOp, AddrRange, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId,
};
use hitm_coherence::stats::{LineStats, RestOfLines, SourceCounts};
use hitm_trace::{
    BlockEncoder, EncodeError, Header, HeapObject, Record, ThreadExit, ThreadStart, TraceWriter,
};

use super::super::RecordingFile;
use super::*;

/// The recording with every row, read without a look at how many there are.
fn with_all_rows(path: &Path) -> Recording {
    let mut file = RecordingFile::open(path).unwrap();
    let machine = file.machine().unwrap();
    Recording::read(&mut file.reader, machine, &mut |_| {}).unwrap()
}

fn header() -> Header {
    Header {
        machine_toml: hitm_base::machine::preset("broadwell-4s").unwrap().into(),
        ..hitm_test::recording::header()
    }
}

fn access(number: u64, addr: u64, stall: u64) -> Record {
    let thread = (number % 3) as u32;
    Record::Access {
        access: Access {
            thread: ThreadId(thread),
            cpu: CpuId(thread as u16),
            time: Cycles(number),
            addr,
            size: 4,
            op: [AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw][number as usize % 3],
            code: CodeAddr(0x40_1000 + number % 7),
        },
        outcome: Outcome::by_source(
            DataSource::ALL[number as usize % DataSource::ALL.len()],
            Cycles(stall),
            Cycles(0),
            Cycles(stall),
        ),
    }
}

/// Three threads: two lines that cost most of their time, one of them in a heap block, and a thousand
/// that cost next to nothing.
fn records() -> Vec<Record> {
    let mut records = vec![Record::HeapObject(HeapObject {
        range: AddrRange::with_len(0x9000, 256).unwrap(),
        time: Cycles(0),
        thread: ThreadId(0),
        stack: vec![CodeAddr(0x40_2000)],
        told_type: None,
    })];
    for thread in 0..3 {
        let thread = ThreadId(thread);
        records.push(Record::ThreadStart(ThreadStart {
            thread,
            tid: 100 + thread.0,
            cpu: CpuId(thread.0 as u16),
            time: Cycles(0),
            name: "worker".into(),
            seat: thread.0,
            process: 0,
        }));
        records.push(Record::ThreadExit(ThreadExit {
            thread,
            time: Cycles(1_000_000),
            insns: 500_000,
            accesses: 5000,
            stall: Cycles(400_000),
            contention_stall: Cycles(390_000),
        }));
    }
    for number in 0..6000 {
        records.push(match number % 3 {
            0 => access(number, 0x8000 + number % 8 * 4, 400),
            1 => access(number, 0x9040 + number % 8 * 4, 300),
            _ => access(number, 0x10_0000 + number % 4000 * 64, 1),
        });
    }
    records
}

fn written() -> tempfile::NamedTempFile {
    written_of(&records())
}

fn written_of(records: &[Record]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::new(file.reopen().unwrap(), &header()).unwrap();
    let mut encoder = BlockEncoder::new(vec![0; 4096]);
    for record in records {
        if encoder.push(record) == Err(EncodeError::Full) {
            writer.write_block(encoder.meta(), encoder.bytes()).unwrap();
            encoder.clear();
            encoder.push(record).unwrap();
        }
    }
    writer.write_block(encoder.meta(), encoder.bytes()).unwrap();
    writer.finish().unwrap();
    file
}

fn loaded(file: &tempfile::NamedTempFile, limits: &Limits) -> Recording {
    let mut source = RecordingAt(file.path().into());
    load_within(&mut source, OF_REPORT, limits, &mut |_, _| {}).unwrap()
}

/// Sums over lines and the rest.
fn sums(recording: &Recording) -> (u64, SourceCounts, u64, u64) {
    let statistics = &recording.statistics;
    let mut loads = statistics.rest.loads;
    let lines = statistics.lines.values();
    lines.for_each(|line| loads.merge(&line.loads));
    let sum = |of: fn(&LineStats) -> u64| statistics.lines.values().map(of).sum::<u64>();
    (
        sum(LineStats::access_count) + statistics.rest.access_count(),
        loads,
        sum(|line| line.stall.0) + statistics.rest.stall.0,
        statistics.lines.len() as u64 + statistics.rest.line_count,
    )
}

/// However little is kept, the lines that matter have all their rows, and the sums are those of all.
#[test]
fn lines_that_matter_have_their_rows_and_nothing_is_lost() {
    let file = written();
    let all = with_all_rows(file.path());
    assert_eq!(all.statistics.lines.len(), 2002);
    for lines in [100_000, 500, 20] {
        let limits = Limits {
            rows: 160,
            lines,
            wanted_rows: 16_000,
        };
        let some = loaded(&file, &limits);
        let kept: Vec<u64> = some.statistics.lines.keys().map(|line| line.0).collect();
        assert_eq!(kept, [0x8000 / 64, 0x9040 / 64], "{lines} lines at a time");
        for (line, stats) in &some.statistics.lines {
            assert_eq!(stats, &all.statistics.lines[line]);
        }
        assert_eq!(sums(&some), sums(&all));
        assert_eq!(some.threads, all.threads);
        assert_eq!(some.accesses_without_row, 0);
    }
}

#[test]
fn rows_for_which_there_is_no_room_are_counted() {
    let file = written();
    let limits = Limits {
        rows: 160,
        lines: 100_000,
        wanted_rows: 80,
    };
    let all = with_all_rows(file.path());
    let some = loaded(&file, &limits);
    assert!(some.accesses_without_row > 0);
    assert_eq!(sums(&some), sums(&all));
    let said = some.diagnostics().join("\n");
    assert!(said.contains("are in the totals only"), "{said}");
}

/// Of lines that all may matter the costliest have all their rows, and the others none.
#[test]
fn where_there_is_no_room_for_all_wanted_lines_the_costliest_have_their_rows() {
    const LINES: u64 = 400;
    // Nobody says how long the threads ran. Line 0 is the costliest, and the last to be met.
    let lines = (0..LINES).rev();
    let records: Vec<Record> = lines
        .flat_map(|line| (0..21).map(move |number| (line, number)))
        .map(|(line, number)| access(number, 0x8000 + line * 64, 1000 - line))
        .collect();
    let file = written_of(&records);
    let all = with_all_rows(file.path());
    let kept_of = |wanted_rows| {
        let limits = Limits {
            rows: 160,
            lines: 100_000,
            wanted_rows,
        };
        let some = loaded(&file, &limits);
        assert_eq!(sums(&some), sums(&all));
        for (line, stats) in &some.statistics.lines {
            assert_eq!(stats, &all.statistics.lines[line]);
        }
        let left_out = some.statistics.rest.access_count();
        assert_eq!(some.accesses_without_row, left_out);
        let kept = some.statistics.lines.keys();
        kept.map(|line| line.0 - 0x8000 / 64).collect::<Vec<u64>>()
    };
    assert_eq!(kept_of(1_000_000).len(), LINES as usize);
    let some = kept_of(4000);
    assert!(some.len() > 8 && some.len() < LINES as usize, "{some:?}");
    assert!(some.contains(&0), "{some:?}");
}

/// A file of samples: 300 lines, each with rows of three threads.
fn samples() -> tempfile::NamedTempFile {
    use hitm_test::perf_data::{Layout, bits, generate, vendors};
    let words = vendors::intel();
    let mut content = vendors::content("x86_64", "GenuineIntel,6,85,7", &words, bits::WEIGHT);
    let of_line = |line: u64| {
        let samples = content.samples.iter().skip(line as usize % 7);
        samples.map(move |(event, sample)| {
            let mut sample = *sample;
            sample.addr += line * 64;
            sample.weight += 1000 - line;
            (*event, sample)
        })
    };
    content.samples = (0..300).rev().flat_map(of_line).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), generate(&content, Layout::PLAIN)).unwrap();
    file
}

/// perf.data is read lines first as well, however many lines are tallied at a time.
#[test]
fn samples_have_rows_for_the_costliest_lines_and_sums_of_all() {
    let file = samples();
    let of = |rows, lines, wanted_rows| {
        let limits = Limits {
            rows,
            lines,
            wanted_rows,
        };
        let mut samples = crate::perf_data::SamplesAt::new(file.path().into(), None);
        load_within(&mut samples, OF_REPORT, &limits, &mut |_, _| {}).unwrap()
    };
    let all = of(1_000_000, 1_000_000, 1_000_000);
    assert_eq!(all.statistics.lines.len(), 300);
    assert_eq!(all.statistics.rest, RestOfLines::default());
    for lines in [100_000, 60] {
        let some = of(1000, lines, 4000);
        assert_eq!(sums(&some), sums(&all));
        assert_eq!(some.threads, all.threads);
        assert!(some.accesses_without_row > 0);
        let kept = &some.statistics.lines;
        assert!(kept.len() >= 8 && kept.len() < 300, "{}", kept.len());
        for (line, stats) in kept {
            assert_eq!(stats, &all.statistics.lines[line]);
        }
        let least = kept.values().map(|line| line.contention_stall).min();
        let others = all.statistics.lines.iter();
        let others = others.filter(|(line, _)| !kept.contains_key(line));
        let most = others.map(|(_, line)| line.contention_stall).max();
        assert!(least >= most, "{least:?} {most:?}");
    }
}

#[test]
fn rows_that_are_added_leave_the_sums() {
    let file = written();
    let limits = Limits {
        rows: 160,
        lines: 100_000,
        wanted_rows: 16_000,
    };
    let all = with_all_rows(file.path());
    let mut some = loaded(&file, &limits);
    assert!(some.is_cut());
    let lines = [0x8000 / 64, 0x10_0000 / 64 + 2, 0x7000].map(LineAddr);
    some.add_rows(file.path(), lines.into_iter(), &mut |_, _| {})
        .unwrap();
    assert_eq!(some.statistics.lines.len(), 3);
    assert_eq!(
        some.statistics.lines[&lines[1]],
        all.statistics.lines[&lines[1]]
    );
    assert_eq!(sums(&some), sums(&all));
}

/// A line that costs too little for a report has no rows there, and a replay may make it dear.
#[test]
fn a_report_with_the_rows_of_a_replay_is_what_a_replay_reads() {
    const CHEAP: u64 = 0x7000;
    let mut records = records();
    records.extend((6000..6060).map(|number| access(number, CHEAP, 20)));
    let file = written_of(&records);
    let limits = Limits {
        rows: 160,
        lines: 100_000,
        wanted_rows: 16_000,
    };
    let mut some = loaded(&file, &limits);
    assert!(!some.statistics.lines.contains_key(&LineAddr(CHEAP / 64)));
    some.add_rows_for_replay(file.path(), &mut |_, _| {})
        .unwrap();
    let mut source = RecordingAt(file.path().into());
    let wanted = Wanted::CyclesPerLost(OF_REPLAY);
    let of_replay = load_within(&mut source, wanted, &limits, &mut |_, _| {}).unwrap();
    assert!(some.statistics.lines.contains_key(&LineAddr(CHEAP / 64)));
    assert_eq!(some.statistics, of_replay.statistics);
}

/// However few rows there is room for at a time: each line comes once, with all its rows.
#[test]
fn parts_are_the_whole() {
    let file = written();
    let all = with_all_rows(file.path());
    for rows_max in [1_000_000, 2000, 1500] {
        let mut parts = 0;
        let mut lines = BTreeMap::new();
        let mut each = |part: &Recording| {
            parts += 1;
            assert_eq!(part.threads, all.threads);
            assert_eq!(part.accesses_without_row, 0);
            for (line, stats) in &part.statistics.lines {
                let before = lines.insert(*line, stats.clone());
                assert!(before.is_none(), "{line:?} comes twice");
            }
        };
        parts::load(file.path(), rows_max, &mut |_, _| {}, &mut each).unwrap();
        assert_eq!(parts > 1, rows_max < 10_000, "{parts} parts");
        assert_eq!(lines, all.statistics.lines);
    }
}

/// A line with more rows than there is room for cannot be split.
#[test]
fn rows_of_a_line_that_have_no_room_are_counted() {
    let file = written();
    let mut left_out = 0;
    let mut each = |part: &Recording| left_out = part.accesses_without_row;
    parts::load(file.path(), 2, &mut |_, _| {}, &mut each).unwrap();
    assert!(left_out > 0);
}
