//! Prints the shape of a recording: how its accesses spread over lines, CPUs and instructions.
//!
//! `cargo run --release -p hitm-trace --example shape FILE.hitm`. The benchmark of replays takes its
//! stream from this.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, LineAddr, Outcome};
use hitm_trace::{Record, TraceReader, Visitor};

/// One line.
#[derive(Default)]
struct Line {
    accesses: u64,
    /// Runs of accesses by one CPU.
    visits: u64,
    last: Option<CpuId>,
    /// By CPU: places, operations and instructions.
    sites: BTreeMap<CpuId, BTreeSet<(u64, AccessOp, CodeAddr)>>,
}

#[derive(Default)]
struct Lines(BTreeMap<LineAddr, Line>);

impl Visitor for Lines {
    fn access(&mut self, access: &Access, _: &Outcome) {
        let line = self.0.entry(access.line()).or_default();
        line.accesses += 1;
        line.visits += u64::from(line.last.replace(access.cpu) != Some(access.cpu));
        let sites = line.sites.entry(access.cpu).or_default();
        sites.insert((access.addr, access.op, access.code));
    }

    fn record(&mut self, _: Record) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: shape FILE.hitm")?;
    let mut reader = TraceReader::new(BufReader::new(File::open(path)?))?;
    let mut lines = Lines::default();
    reader.visit(&mut lines)?;
    let mut lines: Vec<Line> = lines.0.into_values().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.accesses));
    let total: u64 = lines.iter().map(|line| line.accesses).sum();
    println!("{total} accesses to {} lines", lines.len());
    println!("ranks         share  CPUs  instructions a CPU  accesses a visit");
    let mut start = 0;
    for end in [4, 16, 64, 256, 1024, 2048, 4096, lines.len()] {
        let band = &lines[start.min(lines.len())..end.min(lines.len())];
        let sum = |count: fn(&Line) -> u64| band.iter().map(count).sum::<u64>() as f64;
        let (accesses, visits) = (sum(|line| line.accesses), sum(|line| line.visits));
        let cpus = sum(|line| line.sites.len() as u64);
        let sites = sum(|line| line.sites.values().map(|sites| sites.len() as u64).sum());
        println!(
            "{start:>5}..{end:<5} {:>5.3} {:>6.1} {:>19.1} {:>17.1}",
            accesses / total as f64,
            cpus / band.len() as f64,
            sites / cpus,
            accesses / visits
        );
        start = end;
    }
    Ok(())
}
