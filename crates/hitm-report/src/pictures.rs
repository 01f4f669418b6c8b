//! Data that the pictures of a run need beyond its [`Report`]: bytes by thread, hand-overs by CPU,
//! cycles by stack and by time.
//!
//! [`Pictures::plan`] selects the lines and rows that a second reading counts apart,
//! [`Pictures::build`] names the result. Everything has a bound, so that a page of a hundred lines
//! stays below 2 MB. Items beyond a bound are merged into one, so sums stay those of the report.

mod line_map;
mod stacks;
mod transfers;

use std::path::Path;

use hitm_advise::{Inputs, element_at, structure_at};
use hitm_base::{LineAddr, Topology};
use hitm_coherence::stats::{RowKey, Statistics, Traffic, TrafficPlan};
use hitm_recording::{AddressNames, Recording};

pub use line_map::{LineBox, LineCell, LineMap, Seat, cell, line_box, seat};
pub use stacks::{Frame, FrameKind, Stack, StackTime, Stacks, frame, stack, time};
pub use transfers::{Level, TransferPair, TransferTable, transfer, unknown};

use crate::model::RowReport;
use crate::names::array_member_of;
use crate::summary::{self, SummaryLine};
use crate::{Finding, Names, Report};
use stacks::StackBuilder;

/// Rows whose lost cycles are kept by time.
const ROWS_MAX: usize = 2_000;

/// Pairs of places in the transfer table of a run.
const RUN_PAIRS_MAX: usize = 4_096;

/// Pairs of places in that of a line.
const LINE_PAIRS_MAX: usize = 256;

/// Data of the pictures of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Pictures {
    /// Five sentences: what is lost, where, why, what to do, what to run next.
    pub summary: Vec<SummaryLine>,
    /// CPUs of the machine model.
    pub topology: Topology,
    /// The bytes of each line of the report, in its order.
    pub maps: Vec<LineMap>,
    /// Hand-overs of all lines; none of samples.
    pub run_transfers: Option<TransferTable>,
    /// Hand-overs of each line of the report, in its order; empty of samples.
    pub line_transfers: Vec<TransferTable>,
    /// Lost cycles by stack and by time.
    pub stacks: Stacks,
}

/// A structure on lines that a better layout helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Its name and the file that declares it.
    pub inputs: Inputs,
    /// Ranks of the lines.
    pub ranks: Vec<u64>,
}

impl Structure {
    /// Returns true if lines of a finding have the structure, and another layout is a remedy.
    pub fn is_of(&self, report: &Report, finding: &Finding) -> bool {
        let lines = report.lines.iter();
        let mut own = lines.filter(|line| self.ranks.contains(&line.rank));
        finding.kind.is_curable_by_layout() && own.any(|line| finding.lines.contains(&line.line))
    }
}

impl Pictures {
    /// The structures on lines with false sharing, by the costliest of these lines.
    pub fn structures(names: &AddressNames<'_>, report: &Report) -> Vec<Structure> {
        let mut found: Vec<Structure> = Vec::new();
        let lines = report.lines.iter();
        for line in lines.filter(|line| line.false_sharing_cycles > 0) {
            // Beside what costs most, a structure may lie that nobody fights over.
            let dearest = line.rows.iter().map(|row| row.lost_cycles).max();
            let is_dear = |row: &&RowReport| Some(row.lost_cycles.saturating_mul(2)) >= dearest;
            let rows = line.rows.iter().filter(is_dear);
            let written = rows.clone().filter(|row| row.op.is_write());
            let members: Vec<&str> = written.map(|row| row.member.as_str()).collect();
            let structure = match array_member_of(&members) {
                Some(_) => element_at,
                None => structure_at,
            };
            let first_byte = line.line.first_byte();
            let mut known = rows.filter_map(|row| {
                let addr = first_byte + u64::from(row.offset);
                structure(names, addr, row.size_bytes)
            });
            let Some(inputs) = known.next() else { continue };
            match found.iter_mut().find(|one| one.inputs == inputs) {
                Some(one) => one.ranks.push(line.rank),
                None => found.push(Structure {
                    inputs,
                    ranks: vec![line.rank],
                }),
            }
        }
        found
    }

    /// The lines and rows of a recording that a second reading counts apart: those of the report's lines,
    /// rows by what they lost.
    pub fn plan(statistics: &Statistics, report: &Report) -> TrafficPlan {
        let lines = report.lines.iter().map(|line| line.line);
        let rows = costliest_rows(statistics, report);
        TrafficPlan::new(lines, rows)
    }

    /// Names what was counted, and finds the structures that a better layout helps. `traffic` is the second
    /// reading by [`Pictures::plan`]; samples have none.
    /// `input` is the recording's path, for commands to run next.
    pub fn build(
        recording: &Recording,
        report: &Report,
        traffic: Option<&Traffic>,
        input: &Path,
    ) -> (Pictures, Vec<Structure>) {
        let names = recording.names();
        let structures = Pictures::structures(&names, report);
        let pictures = Pictures::of(&Sources {
            statistics: &recording.statistics,
            topology: &recording.machine.topology,
            names: &names,
            report,
            traffic,
            structures: &structures,
            input,
        });
        (pictures, structures)
    }

    /// Names what was counted, from parts.
    pub fn of(named: &Sources<'_>) -> Pictures {
        let topology = named.topology;
        let lines = || named.report.lines.iter();
        let table = |line: LineAddr| {
            let giving = named.traffic?.lines.get(&line)?;
            Some(TransferTable::fold(giving, topology, LINE_PAIRS_MAX))
        };
        let line_transfers = match named.traffic {
            Some(_) => lines()
                .map(|line| table(line.line).unwrap_or_default())
                .collect(),
            None => Vec::new(),
        };
        Pictures {
            summary: summary::of(named.report, named.structures, named.input),
            topology: topology.clone(),
            maps: lines().map(|line| LineMap::build(named, line)).collect(),
            run_transfers: named
                .traffic
                .map(|traffic| TransferTable::fold(&traffic.run, topology, RUN_PAIRS_MAX)),
            line_transfers,
            stacks: StackBuilder::default().build(named),
        }
    }
}

/// A report, and where the names and numbers of its pictures come from.
#[expect(
    missing_debug_implementations,
    reason = "names are asked for, and have no form of their own"
)]
pub struct Sources<'a> {
    /// The report's statistics.
    pub statistics: &'a Statistics,
    /// CPUs of the machine model.
    pub topology: &'a Topology,
    /// Names of addresses and threads.
    pub names: &'a dyn Names,
    /// The report.
    pub report: &'a Report,
    /// Hand-overs and times by [`Pictures::plan`]; samples have none.
    pub traffic: Option<&'a Traffic>,
    /// Structures on falsely shared lines.
    pub structures: &'a [Structure],
    /// Path of the recording, for commands to run next.
    pub input: &'a Path,
}

/// Rows of the report's lines that lost something, the costliest first, at most [`ROWS_MAX`].
fn costliest_rows(statistics: &Statistics, report: &Report) -> Vec<(LineAddr, RowKey)> {
    let lines = report.lines.iter().filter_map(|line| {
        let stats = statistics.lines.get(&line.line)?;
        Some((line.line, stats))
    });
    let rows = lines.flat_map(|(line, stats)| {
        let lost = stats.rows.iter();
        lost.map(move |(key, row)| (row.contention_stall.0, line, *key))
    });
    let mut rows: Vec<(u64, LineAddr, RowKey)> = rows.filter(|(lost, ..)| *lost > 0).collect();
    rows.sort_by_key(|(lost, line, key)| (std::cmp::Reverse(*lost), *line, *key));
    rows.truncate(ROWS_MAX);
    rows.into_iter().map(|(_, line, key)| (line, key)).collect()
}
