use std::collections::BTreeMap;

use hitm_base::AccessOp;
use hitm_trace::TraceReader;

use super::super::super::LiveTarget;
use super::super::LinesTarget;
use super::super::candidates::SampledAt;
use super::super::host::Host;
use super::super::observed::SampledTask;
use super::super::touches::{Touched, Turn};
use super::*;

const LINE: Line = Line {
    space: Space::Process(1),
    at: 0x40,
};

fn touched(tid: u32, time_ns: u64) -> Touched {
    Touched {
        per_s: 1000.0,
        ..Touched::at(tid, time_ns, AccessOp::LockedRmw)
    }
}

/// Two threads that add to one word, of 500 samples each, on these CPUs.
fn observed(cpus: [u32; 2]) -> Observed {
    let target = LiveTarget::Process(1);
    let mut observed = Observed::new(
        &LinesTarget::All(target),
        Host::assumed("a test"),
        &[],
        1_000_000,
    );
    observed.duration_ns = 1_000_000_000;
    observed.sampled_ns = 500_000_000;
    observed.sample_count = 1000;
    for (tid, cpu) in (1..).zip(cpus) {
        let task = SampledTask {
            samples: 500,
            cpus: BTreeMap::from([(cpu, 500)]),
            ..SampledTask::default()
        };
        observed.threads.insert(tid, task);
        let sampled = |_| {
            observed
                .candidates
                .sampled(LINE, tid, &SampledAt::standing())
        };
        (0..500).for_each(sampled);
    }
    let turn = Turn {
        words: vec![0],
        touched: vec![touched(1, 0), touched(2, 10)],
    };
    observed.candidates.lines[&LINE].touches.add(&turn, None);
    observed
}

fn watched(mut observed: Observed) -> WatchedRun {
    let (machine, toml) = hitm_machine::resolve("broadwell-4s").expect("a preset");
    let mut recording = Vec::new();
    write(
        &mut observed,
        &HostMachine { machine, toml },
        &mut recording,
    )
    .expect("memory has room");
    let reader = TraceReader::new(recording.as_slice()).expect("a recording");
    let sampled = reader.header().sampled.clone().expect("samples");
    sampled.watched.expect("a watched run")
}

#[test]
fn a_line_costs_what_stands_at_it_at_most() {
    let run = watched(observed([0, 1]));
    assert_eq!(run.lines[0].sample_count, 1000);
    assert_eq!(run.lines[0].most_ns, run.cpu_ns);
}

/// The time in which 1,000 locked operations a second of each thread are made is no loss.
#[test]
fn a_locked_operation_alone_costs_nobody_anything() {
    let mut observed = observed([0, 1]);
    observed.host.figures.locked_ps = 20_000;
    let run = watched(observed);
    assert_eq!(run.lines[0].most_ns, run.cpu_ns - 20_000);
}

#[test]
fn on_one_cpu_a_line_costs_nothing() {
    let run = watched(observed([1, 1]));
    assert_eq!(run.lines[0].sample_count, 1000);
    assert_eq!((run.lines[0].most_ns, run.lines[0].least_ns), (0, 0));
}
