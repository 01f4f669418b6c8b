//! The size of a page, and the source lines that it shows.

use std::path::Path;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_coherence::stats::{Collector, TrafficCollector};
use hitm_report::page;
use hitm_report::pictures::{Pictures, Sources};
use hitm_report::{ReportOptions, Selection};

use crate::example::{SLOTS, Symbols, machine, report};

const LINES: u64 = 100;
const THREADS: u64 = 32;
const OPTIONS: ReportOptions = ReportOptions {
    lines_max: LINES as usize,
    rows_max: ReportOptions::ROWS_MAX_DEFAULT,
    call_paths_max: 0,
};

/// Accesses of all threads to places of their own on each line, in many moments.
fn accesses() -> Vec<(Access, Outcome)> {
    let mut all = Vec::new();
    for round in 0..20 {
        for line in 0..LINES {
            for thread in 0..THREADS {
                for (op, cycles) in [(AccessOp::Load, 300), (AccessOp::LockedRmw, 350)] {
                    let access = Access {
                        time: Cycles((round * LINES + line) * 4_096 + thread * 64),
                        addr: SLOTS + 0x30 + line * 64 + thread % 16 * 4,
                        code: CodeAddr(0x40_1000 + line * 64 + thread % 16 * 4),
                        thread: ThreadId(thread as u32),
                        cpu: CpuId(thread as u16 % 8),
                        size: 4,
                        op,
                    };
                    let outcome = Outcome::by_source(
                        DataSource::RemoteHitm,
                        Cycles(cycles),
                        Cycles::ZERO,
                        Cycles(cycles),
                    );
                    all.push((access, outcome));
                }
            }
        }
    }
    all
}

/// The most that the page promises (docs/page.md), with more threads and moments than the bounds admit.
#[test]
fn a_page_of_a_hundred_lines_stays_below_two_megabytes() {
    let machine = machine();
    let accesses = accesses();
    let mut collector = Collector::default();
    accesses
        .iter()
        .for_each(|(access, outcome)| collector.add(access, outcome));
    let statistics = collector.finish();
    let report = report(&statistics, THREADS as u32, OPTIONS);
    assert_eq!(report.lines.len() as u64, LINES);
    let plan = Pictures::plan(&statistics, &report);
    let mut traffic = TrafficCollector::new(&plan);
    accesses
        .iter()
        .for_each(|(access, outcome)| traffic.add(access, outcome));
    let traffic = TrafficCollector::finish([traffic]);
    let pictures = Pictures::of(&Sources {
        statistics: &statistics,
        topology: &machine.topology,
        names: &Symbols,
        report: &report,
        traffic: Some(&traffic),
        structures: &[],
        input: Path::new("run.hitm"),
    });
    let stacks = &pictures.stacks.stacks;
    let lost: u64 = stacks.iter().map(|stack| stack.lost_cycles).sum();
    assert_eq!(lost, report.totals.lost_cycles);
    let times = stacks.iter().flat_map(|stack| &stack.times);
    assert_eq!(times.map(|time| time.lost_cycles).sum::<u64>(), lost);
    // Each line has a row for the threads that have none of their own.
    for map in &pictures.maps {
        assert_eq!(map.seats.len(), 25);
        assert_eq!(map.seats[24].thread_count, THREADS - 24);
        let hitms: u64 = map.cells.iter().map(|cell| cell.hitm_count).sum();
        assert_eq!(hitms, 20 * THREADS * 2);
    }
    let html = page::report(&report, &pictures, &[], &[]);
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
}

#[test]
fn source_lines_are_those_that_lose_most() {
    let mut collector = Collector::default();
    accesses()
        .iter()
        .for_each(|(access, outcome)| collector.add(access, outcome));
    let statistics = collector.finish();
    let report = report(&statistics, THREADS as u32, OPTIONS);
    let selection = Selection::default();
    let lines = |max| report.source_lines(&statistics, &Symbols, &selection, max);
    let named: Vec<(String, u64)> = lines(5)
        .into_iter()
        .map(|line| (line.source, line.lost_cycles))
        .collect();
    // Code of the lines from the 24th on is that of one source line, that of the first four has no name.
    let of_line = report.totals.lost_cycles / LINES;
    let expected = [("70", 76), ("50", 4), ("30", 12), ("21", 4)];
    let mut expected: Vec<(String, u64)> = expected
        .iter()
        .map(|(line, count)| (format!("examples/packed.c:{line}"), count * of_line))
        .collect();
    expected.sort_by_key(|line| std::cmp::Reverse(line.1));
    assert_eq!(named, expected);
    assert_eq!(lines(1), lines(5)[..1]);
}
