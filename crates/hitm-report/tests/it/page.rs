//! The size of a page.

use std::path::Path;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_coherence::stats::{Collector, TrafficCollector};
use hitm_report::ReportOptions;
use hitm_report::page;
use hitm_report::pictures::{Pictures, Sources};

use crate::example::{SLOTS, Symbols, machine, report};

const LINES: u64 = 100;
const THREADS: u64 = 32;

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
    let options = ReportOptions {
        lines_max: LINES as usize,
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: 0,
    };
    let report = report(&statistics, THREADS as u32, options);
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
    let html = page::report(&report, &pictures, &[]);
    assert!(html.len() < 2 << 20, "{} bytes", html.len());
}
