//! Tracks of threads: where they run, their stalls, and the arrows of lines between them.

use std::cmp::Reverse;
use std::io::{self, Write};

use hitm_base::{AccessOp, Cycles, DataSource};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::ThreadTracks;
use super::output::{Annotation, Arrow, Label, Output, Point};
use crate::longest::Kept;
use crate::timeline::{Run, Stall};
use crate::{Names, Summary};

/// Contents of the tracks of threads.
pub(super) struct Threads<'a> {
    stalls: &'a [Kept<Stall>],
    runs: &'a [Kept<Run>],
    names: &'a dyn Names,
    tracks: &'a [ThreadTracks],
    /// Numbers of the stalls that got a line from one, by its number: sorted.
    given: Vec<(u64, u64)>,
    /// By stall: its line has an arrow.
    has_arrow: Vec<bool>,
    /// Givers without a stall of their own, by thread: index of the taker's stall.
    instants: Vec<(u32, Cycles, usize)>,
    labels: IndexMap<(u64, u8, AccessOp), String, FxBuildHasher>,
    functions: IndexMap<u64, String, FxBuildHasher>,
}

/// Kind of an item of a thread's track, with its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ItemKind {
    Run(usize),
    Stall(usize),
    /// The giver's end of an arrow, by the taker's stall.
    Give(usize),
}

/// A slice or an instant of a thread's track. In their order, one that holds others comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    thread: u32,
    start: Cycles,
    end: Reverse<Cycles>,
    kind: ItemKind,
}

impl<'a> Threads<'a> {
    pub(super) fn new(
        stalls: &'a [Kept<Stall>],
        runs: &'a [Kept<Run>],
        names: &'a dyn Names,
        tracks: &'a [ThreadTracks],
    ) -> Threads<'a> {
        Threads {
            stalls,
            runs,
            names,
            tracks,
            given: Vec::new(),
            has_arrow: vec![false; stalls.len()],
            instants: Vec::new(),
            labels: IndexMap::default(),
            functions: IndexMap::default(),
        }
    }

    /// Decides which hand-overs have an arrow: those that take a nanosecond of time, which a viewer
    /// needs to tell its two ends apart.
    pub(super) fn find_arrows<W: Write>(&mut self, output: &Output<W>, summary: &mut Summary) {
        for (index, stall) in self.stalls.iter().enumerate() {
            let Some(giver) = stall.item.giver else {
                continue;
            };
            let source = self
                .stalls
                .binary_search_by_key(&giver.stall, |kept| kept.number);
            let source = source.ok().map(|source| &self.stalls[source]);
            let at = source.map_or(giver.at, |source| source.item.end);
            if output.nanos(at) >= output.nanos(stall.item.end) {
                summary.line_arrows_missing += 1;
                continue;
            }
            summary.line_arrows += 1;
            self.has_arrow[index] = true;
            match source {
                Some(source) => self.given.push((source.number, stall.number)),
                None => self.instants.push((giver.thread, giver.at, index)),
            }
        }
        self.given.sort_unstable();
    }

    pub(super) fn write<W: Write>(
        &mut self,
        output: &mut Output<W>,
        summary: &mut Summary,
    ) -> io::Result<()> {
        let mut items = Vec::new();
        for (index, stall) in self.stalls.iter().enumerate() {
            let stall = &stall.item;
            items.push(Item {
                thread: stall.thread,
                start: stall.start,
                end: Reverse(stall.end),
                kind: ItemKind::Stall(index),
            });
        }
        items.sort_unstable();
        let fitted = self.fit_runs(&items, summary);
        items.extend(fitted);
        for (thread, at, index) in std::mem::take(&mut self.instants) {
            items.push(Item {
                thread,
                start: at,
                end: Reverse(at),
                kind: ItemKind::Give(index),
            });
        }
        items.sort_unstable();
        for of_thread in items.chunk_by(|a, b| a.thread == b.thread) {
            self.write_thread(output, of_thread)?;
        }
        Ok(())
    }

    /// Runs whose ends lie in no stall, so that slices nest: a recording tells the ends of runs only to
    /// the instruction. `stalls` are sorted, and do not overlap within a thread.
    fn fit_runs(&self, stalls: &[Item], summary: &mut Summary) -> Vec<Item> {
        let mut runs: Vec<(u32, Cycles, Cycles, usize)> = Vec::with_capacity(self.runs.len());
        for (index, run) in self.runs.iter().enumerate() {
            runs.push((run.item.thread, run.item.start, run.item.end, index));
        }
        runs.sort_unstable();
        let mut fitted = Vec::with_capacity(runs.len());
        for of_thread in runs.chunk_by(|a, b| a.0 == b.0) {
            let mut free_from = Cycles::ZERO;
            for (thread, start, end, index) in of_thread {
                let mut start = (*start).max(free_from);
                let mut end = *end;
                if let Some((from, to)) = stall_at(stalls, *thread, start) {
                    start = if from >= free_from { from } else { to };
                }
                if let Some((_, to)) = stall_at(stalls, *thread, end) {
                    end = to;
                }
                if start >= end {
                    summary.cut += 1;
                    continue;
                }
                free_from = end;
                fitted.push(Item {
                    thread: *thread,
                    start,
                    end: Reverse(end),
                    kind: ItemKind::Run(*index),
                });
            }
        }
        fitted
    }

    fn write_thread<W: Write>(&mut self, output: &mut Output<W>, items: &[Item]) -> io::Result<()> {
        let track = self.tracks[items[0].thread as usize].own;
        let mut open: Vec<Item> = Vec::new();
        for item in items {
            while let Some(last) = open.pop_if(|last| last.end.0 <= item.start) {
                self.end(output, track, &last)?;
            }
            assert!(
                open.last().is_none_or(|last| item.end.0 <= last.end.0),
                "slices of a thread nest"
            );
            let point = Point {
                track,
                at: item.start,
            };
            match item.kind {
                ItemKind::Run(index) => {
                    let name = format!("on cpu {}", self.runs[index].item.cpu.0);
                    let label = Label {
                        category: "cpu",
                        name: &name,
                    };
                    output.begin(point, label, &[])?;
                    open.push(*item);
                }
                ItemKind::Stall(index) => {
                    self.begin_stall(output, point, index)?;
                    open.push(*item);
                }
                ItemKind::Give(index) => {
                    let label = Label {
                        category: "line",
                        name: "line leaves",
                    };
                    let arrow = Arrow::From(self.stalls[index].number);
                    output.instant(point, label, arrow)?;
                }
            }
        }
        while let Some(last) = open.pop() {
            self.end(output, track, &last)?;
        }
        Ok(())
    }

    fn begin_stall<W: Write>(
        &mut self,
        output: &mut Output<W>,
        point: Point,
        index: usize,
    ) -> io::Result<()> {
        let stall = &self.stalls[index].item;
        let names = self.names;
        let label = self.labels.entry((stall.addr, stall.size, stall.op));
        let label = label.or_insert_with(|| {
            format!(
                "{} {}",
                op_name(stall.op),
                names.place(stall.addr, stall.size)
            )
        });
        let function = self.functions.entry(stall.code);
        let function = function.or_insert_with(|| names.function(stall.code));
        let annotations = [
            Annotation::Text("function", function),
            Annotation::Text("source", source_name(stall.source)),
            Annotation::Uint("queued_cycles", stall.queued.0),
        ];
        let label = Label {
            category: "line",
            name: label,
        };
        output.begin(point, label, &annotations)
    }

    fn end<W: Write>(&self, output: &mut Output<W>, track: u64, item: &Item) -> io::Result<()> {
        let point = Point {
            track,
            at: item.end.0,
        };
        let ItemKind::Stall(index) = item.kind else {
            return output.end(point, [].into_iter());
        };
        let number = self.stalls[index].number;
        if self.has_arrow[index] {
            let label = Label {
                category: "line",
                name: "line arrives",
            };
            output.instant(point, label, Arrow::To(number))?;
        }
        let first = self.given.partition_point(|(giver, _)| *giver < number);
        let given = self.given[first..].iter();
        let given = given.take_while(|(giver, _)| *giver == number);
        output.end(point, given.map(|(_, taker)| *taker))
    }
}

/// The stall of a thread that has begun before `at` and ends after it.
fn stall_at(stalls: &[Item], thread: u32, at: Cycles) -> Option<(Cycles, Cycles)> {
    let end = stalls.partition_point(|stall| (stall.thread, stall.start) < (thread, at));
    let before = stalls[..end].iter().rev();
    let before = before.take_while(|stall| stall.thread == thread);
    // Stalls of no length may lie in a longer one.
    let found = before.into_iter().find(|stall| stall.end.0 > stall.start)?;
    (found.end.0 > at).then_some((found.start, found.end.0))
}

fn op_name(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Load => "load",
        AccessOp::Store => "store",
        AccessOp::LockedRmw => "locked",
        AccessOp::Fence => "fence",
    }
}

fn source_name(source: DataSource) -> &'static str {
    match source {
        DataSource::StoreBuffer => "store buffer",
        DataSource::FillBuffer => "fill buffer",
        DataSource::L1 => "L1",
        DataSource::L2 => "L2",
        DataSource::Llc => "LLC",
        DataSource::LocalUpgrade => "local upgrade",
        DataSource::RemoteUpgrade => "remote upgrade",
        DataSource::LocalPeer => "local peer",
        DataSource::RemotePeer => "remote peer",
        DataSource::LocalHitm => "local HITM",
        DataSource::RemoteHitm => "remote HITM",
        DataSource::LocalDram => "local DRAM",
        DataSource::RemoteDram => "remote DRAM",
    }
}
