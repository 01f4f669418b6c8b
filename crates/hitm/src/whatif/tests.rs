//! Recordings made without a program: two threads that store to neighbouring words.

use std::path::Path;

use hitm_base::machine::preset;
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, Machine, Outcome, ThreadId};
use hitm_coherence::directory::Capacity;
use hitm_trace::{
    BlockEncoder, EncodeError, Header, Record, ThreadExit, ThreadStart, TraceWriter, Turn,
};
use hitm_weave::{Position, Slot, ThreadEvent, Weave, WorkLog};

use super::*;

const CPUS: [u16; 2] = [0, 32];
const ROUNDS: u64 = 2000;

/// A store to the thread's own word every 40 instructions.
fn events(thread: u32, from: u64, to: u64) -> (Vec<ThreadEvent>, Position) {
    let event = |round: u64| ThreadEvent {
        insn: round * 40,
        stores: round,
        addr: 0x1000 + u64::from(thread) * 8,
        code: CodeAddr(0x40_1000),
        size: 8,
        op: AccessOp::Store,
    };
    let end = Position {
        insn: to * 40,
        stores: to,
    };
    ((from..to).map(event).collect(), end)
}

/// What a recorder writes of it.
fn records(machine: &Machine) -> Vec<Record> {
    let mut weave = Weave::new(machine.clone(), Capacity::Finite);
    let mut out = Vec::new();
    let threads = [ThreadId(0), ThreadId(1)];
    for thread in threads {
        let cpu = CpuId(CPUS[thread.index()]);
        weave.add_thread(thread, cpu);
        out.push(Record::ThreadStart(ThreadStart {
            thread,
            tid: 100 + thread.0,
            cpu,
            time: weave.now(),
            name: "words".to_owned(),
        }));
    }
    let mut logs = [WorkLog::default(); 2];
    for from in (0..ROUNDS).step_by(100) {
        for thread in threads {
            let (events, end) = events(thread.0, from, from + 100);
            weave.push(Slot(thread.index()), &events, end);
            logs[thread.index()].note(thread, &[], (&events, end), &mut |work| {
                out.push(Record::Work(work));
            });
        }
        out.push(Record::Turn(Turn::Priced));
        weave.advance(&mut |access, outcome| out.push(priced(access, outcome)));
    }
    weave.finish(&mut |access, outcome| out.push(priced(access, outcome)));
    for thread in threads {
        let totals = weave.totals(Slot(thread.index()));
        out.push(Record::ThreadExit(ThreadExit {
            thread,
            time: totals.clock,
            insns: totals.insns,
            accesses: totals.accesses,
            stall: totals.stall,
            contention_stall: totals.contention_stall,
        }));
    }
    out
}

fn priced(access: &Access, outcome: &Outcome) -> Record {
    Record::Access {
        access: *access,
        outcome: *outcome,
    }
}

fn write(path: &Path, machine: &Machine, text: &str, records: &[Record]) {
    let header = Header {
        hitm_version: "0.1.0".to_owned(),
        args: vec!["./words".to_owned()],
        machine_toml: text.to_owned(),
        window: Cycles(10_000),
        placement: "0,32".to_owned(),
        seed: 0,
        arch: "x86_64".to_owned(),
        qemu_version: "none".to_owned(),
        clock: machine.clock,
        page_size_bytes: 4096,
        sampled: None,
    };
    let file = std::fs::File::create(path).expect("a temporary file");
    let mut writer = TraceWriter::new(file, &header).expect("the file takes it");
    let mut encoder = BlockEncoder::new(vec![0; 1 << 14]);
    for record in records {
        if encoder.push(record) == Err(EncodeError::Full) {
            let written = writer.write_block(encoder.meta(), encoder.bytes());
            written.expect("the file takes it");
            encoder.clear();
            encoder.push(record).expect("an empty block has room");
        }
    }
    let written = writer.write_block(encoder.meta(), encoder.bytes());
    written.expect("the file takes it");
    writer.finish().expect("the file takes it");
}

/// Runs the recording again as it is, with positions or without.
fn again(machine: Option<&str>, has_positions: bool) -> WhatifReport {
    let text = preset("icelake-2s").expect("it is a preset");
    let recorded = Machine::from_toml(text, "icelake-2s").expect("presets are right");
    let mut records = records(&recorded);
    if !has_positions {
        records.retain(|record| !matches!(record, Record::Work(_) | Record::Turn(_)));
    }
    let name = format!(
        "hitm-whatif-{}-{has_positions}-{machine:?}",
        std::process::id()
    );
    let path = std::env::temp_dir().join(name.replace('"', ""));
    write(&path, &recorded, text, &records);
    let config = WhatifConfig {
        input: path.clone(),
        layouts: Vec::new(),
        instances: Vec::new(),
        machine: machine.map(|name| crate::machine::resolve(name).expect("it is a preset").0),
        placement: None,
    };
    let report = run(&config, &mut |_, _| {});
    std::fs::remove_file(&path).expect("the file was written");
    report.expect("the recording is whole")
}

#[test]
fn nothing_changed_is_nothing_changed() {
    let report = again(None, true);
    assert_eq!(report.run.before, report.run.after);
    assert!(report.run.before.totals.accesses == 2 * ROUNDS);
    for thread in &report.threads {
        assert_eq!(thread.cycles.before, thread.cycles.after);
        assert_eq!(thread.insns, ROUNDS * 40);
    }
    assert_eq!(report.notes, [""; 0]);
}

#[test]
fn another_machine_has_other_prices() {
    let report = again(Some("milan-2s"), true);
    assert_eq!(report.run.after.machine, "milan-2s");
    assert_eq!(report.run.after.placement, "0,32");
    assert_eq!(report.run.after.totals.accesses, 2 * ROUNDS);
    assert_ne!(report.run.before.end, report.run.after.end);
}

#[test]
fn without_positions_the_times_tell_roughly() {
    let (exact, roughly) = (again(None, true), again(None, false));
    let ratio = roughly.run.after.end.0 as f64 / exact.run.after.end.0 as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    // Both sides are replays, so nothing changes between them.
    assert_eq!(roughly.run.before, roughly.run.after);
    assert!(
        roughly.notes[0].contains("format 1.0"),
        "{:?}",
        roughly.notes
    );
}
