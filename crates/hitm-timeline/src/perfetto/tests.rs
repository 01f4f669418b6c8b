//! Timelines written, and read back with another reader.

use hitm_base::{AccessOp, Clock, CpuId, Cycles, DataSource, Outcome};
use hitm_test::perfetto::{PerfettoTrace, read};
use proptest::prelude::*;

use crate::background::{BATCH, BATCHES_MAX};
use crate::perfetto::write;
use crate::{Access, BackgroundTimeline, Names, Scene, Summary, Timeline, Use};

struct Numbers;

impl Names for Numbers {
    fn place(&self, addr: u64, _size: u8) -> String {
        format!("object{addr}.x")
    }

    fn function(&self, code: u64) -> String {
        format!("function{code}")
    }
}

/// One nanosecond a cycle.
fn scene(cpu_count: usize) -> Scene {
    Scene {
        name: "test".into(),
        clock: Clock::from_khz(1_000_000),
        cpu_count,
    }
}

fn written(timeline: Timeline) -> (PerfettoTrace, Summary) {
    let mut bytes = Vec::new();
    let summary = write(timeline, &Numbers, &mut bytes).expect("memory takes all");
    assert_eq!(summary.bytes, bytes.len() as u64);
    let trace = read(&bytes);
    assert_eq!(trace.slices.len() as u64, summary.slices);
    assert_eq!(trace.instants.len() as u64, summary.instants);
    assert_eq!(trace.counters.len() as u64, summary.counter_samples);
    assert_eq!(trace.tracks.len() as u64, summary.tracks);
    let arrows = summary.line_arrows + summary.lock_arrows;
    assert_eq!(trace.arrows.len() as u64, arrows);
    (trace, summary)
}

fn access(cpu: u16, line: u64, start: u64, stall: u64) -> Access {
    Access {
        thread: cpu.into(),
        cpu: CpuId(cpu),
        start: Cycles(start),
        stall: Cycles(stall),
        lost: Cycles(stall),
        queued: Cycles(stall / 2),
        line,
        addr: line,
        size: 8,
        code: 7,
        op: AccessOp::LockedRmw,
        source: DataSource::LocalHitm,
    }
}

fn two_threads(mut timeline: Timeline) -> Timeline {
    let process = timeline.add_process(10, "program");
    timeline.add_thread(process, 11, "first");
    timeline.add_thread(process, 12, "second");
    timeline
}

#[test]
fn a_line_passes_from_stall_to_stall() {
    let mut timeline = two_threads(Timeline::new(scene(2)));
    timeline.run(0, CpuId(0), Cycles(0)..Cycles(1000));
    timeline.run(1, CpuId(1), Cycles(0)..Cycles(1000));
    let first = Access {
        source: DataSource::LocalDram,
        lost: Cycles::ZERO,
        ..access(0, 5, 10, 100)
    };
    timeline.access(&first);
    timeline.access(&access(1, 5, 50, 150));
    timeline.access(&access(0, 5, 300, 100));
    let (trace, summary) = written(timeline);
    let lost: u64 = trace.counters.iter().map(|(_, _, lost)| lost).sum();
    assert_eq!(
        (summary.lost_cycles, lost),
        (250, 500),
        "of the CPUs, and of all"
    );
    // The first giver did not stall for another CPU: its end of the arrow is an instant.
    let names: Vec<&str> = trace.instants.iter().map(|instant| &*instant.2).collect();
    assert_eq!(names, ["line leaves", "line arrives", "line arrives"]);
    let times: Vec<(u64, u64)> = trace
        .arrows
        .iter()
        .map(|(from, to)| (from.0, to.0))
        .collect();
    assert_eq!(times, [(110, 200), (200, 400)]);
    let stalls = trace
        .slices
        .iter()
        .filter(|slice| slice.3 == "locked object5.x");
    let stalls: Vec<(u64, u64)> = stalls.map(|slice| (slice.1, slice.2)).collect();
    assert_eq!(stalls, [(300, 400), (50, 200)]);
    assert!(
        trace
            .annotations
            .contains(&("function".into(), "function7".into()))
    );
    assert!(
        trace
            .annotations
            .contains(&("source".into(), "local HITM".into()))
    );
}

#[test]
fn a_lock_passes_from_holder_to_holder() {
    let mut timeline = two_threads(Timeline::new(scene(2)));
    let lock = timeline.add_lock("m");
    let hold = |thread, start, end, is_handed_over| Use {
        lock,
        thread,
        start: Cycles(start),
        end: Cycles(end),
        is_handed_over,
    };
    timeline.lock_use(&hold(0, 10, 100, false));
    timeline.lock_wait(lock, 1, Cycles(40)..Cycles(110));
    timeline.lock_use(&hold(1, 110, 200, true));
    let (trace, summary) = written(timeline);
    assert_eq!(summary.lock_arrows, 1);
    assert_eq!((trace.arrows[0].0.0, trace.arrows[0].1.0), (100, 110));
    let names: Vec<&str> = trace.slices.iter().map(|slice| &*slice.3).collect();
    assert_eq!(names, ["wait for m", "first", "second"]);
}

/// More calls than batches on their way hold.
#[test]
fn calls_made_by_another_thread_give_the_same_trace() {
    let turns = (BATCH * (BATCHES_MAX + 3)) as u64 / 2;
    let mut here = Timeline::new(scene(2));
    let mut there = BackgroundTimeline::new(scene(2));
    macro_rules! fill {
        ($timeline:ident) => {
            let process = $timeline.add_process(7, "p");
            let threads = [1, 2].map(|tid| $timeline.add_thread(process, tid, "worker"));
            let lock = $timeline.add_lock("mutex");
            for turn in 0..turns {
                // The line goes to and fro between both.
                let access = Access {
                    queued: Cycles(turn % 7),
                    code: turn % 3,
                    ..access((turn % 2) as u16, 1, 100 * turn, 50)
                };
                let thread = threads[turn as usize % 2];
                let span = Cycles(100 * turn)..Cycles(100 * turn + 60);
                $timeline.grant(&access);
                $timeline.store_wait(&access);
                $timeline.run(thread, CpuId(0), span.clone());
                $timeline.lock_wait(lock, thread, span.clone());
                $timeline.lock_use(&Use {
                    lock,
                    thread,
                    start: span.end,
                    end: Cycles(span.end.0 + 5),
                    is_handed_over: turn % 3 > 0,
                });
            }
        };
    }
    fill!(here);
    fill!(there);
    let [mut one, mut other] = [Vec::new(), Vec::new()];
    let summary = write(here, &Numbers, &mut one).expect("memory takes it");
    assert!(summary.slices > turns && summary.line_arrows > 0);
    let again = write(there.finish(), &Numbers, &mut other);
    assert_eq!(again.expect("memory takes it"), summary);
    assert!(one == other, "the traces differ");
}

#[test]
fn what_does_not_fit_is_counted() {
    let mut timeline = two_threads(Timeline::small(scene(2), 10));
    for index in 0..100_u64 {
        let cpu = (index % 2) as u16;
        timeline.access(&access(cpu, 5, index * 100, index + 1));
    }
    let (_, summary) = written(timeline);
    assert_eq!((summary.stalls.shown, summary.stalls.count), (10, 90));
    assert_eq!(summary.stalls.longest, Cycles(90));
    assert_eq!(summary.stalls.cycles, Cycles((1..=90).sum()));
    assert_eq!(summary.lost_cycles, (1..=100).sum::<u64>());
}

#[derive(Debug, Clone)]
enum Event {
    Access(Access),
    Run(u32, u16, u64, u64),
    Wait(u32, u64, u64),
    Use(Use),
}

fn event() -> impl Strategy<Value = Event> {
    let time = 0..2000_u64;
    let span = 0..300_u64;
    let sources = (0..DataSource::ALL.len()).prop_map(|index| DataSource::ALL[index]);
    prop_oneof![
        (0..4_u16, 0..3_u64, time.clone(), span.clone(), sources).prop_map(
            |(cpu, line, start, stall, source)| {
                let all = access(cpu, line, start, stall);
                let outcome = Outcome::by_source(source, all.stall, all.queued, all.stall);
                let lost = outcome.lost;
                Event::Access(Access {
                    source,
                    lost,
                    ..all
                })
            }
        ),
        (0..4_u32, 0..3_u16, time.clone(), span.clone())
            .prop_map(|(thread, cpu, start, span)| Event::Run(thread, cpu, start, start + span)),
        (0..4_u32, time.clone(), span.clone()).prop_map(|(thread, start, span)| Event::Wait(
            thread,
            start,
            start + span
        )),
        (0..2_u32, 0..4_u32, time, span, any::<bool>()).prop_map(
            |(lock, thread, start, span, is_handed_over)| Event::Use(Use {
                lock,
                thread,
                start: Cycles(start),
                end: Cycles(start + span),
                is_handed_over,
            })
        ),
    ]
}

fn of_events(events: &[Event], max: usize, khz: u64) -> Timeline {
    let mut timeline = Timeline::small(
        Scene {
            clock: Clock::from_khz(khz),
            ..scene(4)
        },
        max,
    );
    let process = timeline.add_process(0, "program");
    for thread in 0..4 {
        // Numbers that are 0 or there twice are no names of threads.
        timeline.add_thread(process, thread / 2, "thread");
    }
    timeline.add_lock("a");
    timeline.add_lock("b");
    for event in events {
        match event {
            Event::Access(access) => timeline.access(access),
            Event::Run(thread, cpu, start, end) => {
                timeline.run(*thread, CpuId(*cpu), Cycles(*start)..Cycles(*end));
            }
            Event::Wait(thread, start, end) => {
                timeline.lock_wait(0, *thread, Cycles(*start)..Cycles(*end));
            }
            Event::Use(used) => timeline.lock_use(used),
        }
    }
    timeline
}

proptest! {
    /// Whatever a run says, also in no order of time: the reader checks nesting, times and arrows.
    #[test]
    fn any_run_is_a_trace(
        events in proptest::collection::vec(event(), 0..80),
        max in 1_usize..60,
        khz in prop_oneof![Just(1_000_000_u64), Just(2_100_000), Just(3_000)],
    ) {
        let (trace, summary) = written(of_events(&events, max, khz));
        let contended = events.iter().filter_map(|event| match event {
            Event::Access(access) => Some(access.lost.0),
            _ => None,
        });
        prop_assert_eq!(summary.lost_cycles, contended.sum::<u64>());
        let counted: u64 = trace.counters.iter().map(|(_, _, lost)| lost).sum();
        prop_assert_eq!(counted, 2 * summary.lost_cycles);
        let (again, _) = written(of_events(&events, max, khz));
        prop_assert_eq!(trace, again);
    }
}

/// More of everything than is kept, on 480 CPUs for a second of virtual time.
#[test]
fn the_largest_trace_is_below_80_mb() {
    const CPUS: u64 = 480;
    let mut timeline = Timeline::new(scene(CPUS as usize));
    let process = timeline.add_process(10, "program");
    for cpu in 0..CPUS as u32 {
        timeline.add_thread(process, 11 + cpu, "a thread");
    }
    let lock = timeline.add_lock("a lock");
    for index in 0..800_000_u64 {
        let (cpu, start) = ((index % CPUS) as u16, 1250 * index);
        timeline.access(&access(cpu, index % 7, start, 500 + index % 500));
        if index % 4 == 0 {
            let (thread, end) = (u32::from(cpu), start + 600);
            timeline.run(thread, CpuId(cpu), Cycles(start)..Cycles(end));
            timeline.lock_wait(lock, thread, Cycles(start)..Cycles(end));
            timeline.lock_use(&Use {
                lock,
                thread,
                start: Cycles(start),
                end: Cycles(end),
                is_handed_over: true,
            });
        }
    }
    let summary = write(timeline, &Numbers, std::io::sink()).expect("a sink takes all");
    assert_eq!(summary.stalls.shown, 350_000);
    assert_eq!(summary.slices, 350_000 + 2 * 100_000 + 2 * 100_000);
    assert!(summary.line_arrows > 300_000, "{summary:?}");
    assert!(summary.bytes < 80_000_000, "{} bytes", summary.bytes);
}
