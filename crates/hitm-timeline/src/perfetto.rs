//! A timeline as a Perfetto trace, for ui.perfetto.dev and its trace processor.
//!
//! ```text
//! CPUs                 cpu 3        | worker 1 |  worker 2   |     who has the CPU
//!                      lost cycles  _/\__/\___                     by bucket of time
//! process              worker 1     | cpu 3    |                   where it runs
//!                                     |load a.x|<- the line arrives, with an arrow from its giver
//!                      worker 1: locks   |wait for m|
//! locks                m            |worker 2 |worker 1|           who has it
//! ```
//!
//! Packets of a track are in order of time, tracks one after the other: a reader sorts packets anyway.
//! Messages are encoded by hand: some ten of Perfetto's several hundred are in use.
//!
//! Invariant: slices of a track nest. CPUs and locks with several holders at once have a lane for each.
//!
//! An arrow leaves at the end of the stall in which the giver got the line and arrives inside the
//! taker's stall, at its end. A giver without such a slice has an instant at its last access to the line.

mod output;
mod threads;
mod wire;

use std::collections::BTreeMap;
use std::io::{self, Write};

use hitm_base::{CpuId, Cycles, printable};

use crate::longest::Kept;
use crate::timeline::{LockSpan, Run, Thread};
use crate::{Names, Scene, Summary, Timeline};
use output::{Arrow, Label, Output, Point};
use threads::Threads;

/// Arrows of locks have numbers from here on, those of lines below.
const LOCK_ARROWS: u64 = 1 << 62;

/// Child tracks are shown in the order of their rank (`TrackDescriptor.child_ordering`).
const ORDER_EXPLICIT: u64 = 3;

/// Writes a trace, and returns what it holds. Equal timelines and names give equal bytes.
pub fn write(timeline: Timeline, names: &dyn Names, out: impl Write) -> io::Result<Summary> {
    let mut summary = Summary {
        lost_cycles: timeline.lost_cycles(),
        unknown_givers: timeline.unknown_givers,
        hidden: timeline.hidden,
        forgotten: timeline.forgotten(),
        ..Summary::default()
    };
    let mut output = Output::new(out, timeline.scene.clock)?;
    let (stalls, left_out) = timeline.stalls.finish();
    summary.stalls = left_out;
    let (runs, left_out) = timeline.runs.finish();
    summary.runs = left_out;
    let (uses, left_out) = timeline.uses.finish();
    summary.uses = left_out;
    let (waits, left_out) = timeline.waits.finish();
    summary.waits = left_out;

    let cpu_tracks = cpu_tracks(&mut output, &timeline.scene)?;
    for (cpu, lost) in timeline.lost.cpus().iter().enumerate() {
        let counter = counter_track(
            &mut output,
            &format!("cpu {cpu}: lost cycles"),
            Some(cpu_tracks.group),
        )?;
        write_counter(&mut output, counter, timeline.lost.bucket(), lost)?;
    }
    let all = counter_track(&mut output, "lost cycles", None)?;
    write_counter(
        &mut output,
        all,
        timeline.lost.bucket(),
        &timeline.lost.sum(),
    )?;
    write_cpus(&mut output, &cpu_tracks, &runs, &timeline.threads)?;

    let tracks = thread_tracks(&mut output, &timeline.processes, &timeline.threads, &waits)?;
    let mut threads = Threads::new(&stalls, &runs, names, &tracks);
    threads.find_arrows(&output, &mut summary);
    threads.write(&mut output, &mut summary)?;
    write_waits(&mut output, &tracks, &timeline.locks, &waits, &mut summary)?;
    write_locks(
        &mut output,
        &timeline.locks,
        &uses,
        &timeline.threads,
        &mut summary,
    )?;

    let output = output.finish()?;
    summary.slices = output.slices;
    summary.instants = output.instants;
    summary.counter_samples = output.counter_samples;
    summary.tracks = output.tracks;
    summary.bytes = output.bytes;
    Ok(summary)
}

/// The group of the CPUs, and a track of each.
struct CpuTracks {
    group: u64,
    of_cpus: Vec<u64>,
}

fn cpu_tracks<W: Write>(output: &mut Output<W>, scene: &Scene) -> io::Result<CpuTracks> {
    let name = format!("CPUs: {}", scene.name);
    let group = output.track(|track| {
        track.text(2, &name).uint(11, ORDER_EXPLICIT);
    })?;
    let mut of_cpus = Vec::with_capacity(scene.cpu_count);
    for cpu in 0..scene.cpu_count {
        let name = format!("cpu {cpu}");
        of_cpus.push(child_track(output, &name, group, cpu as u64)?);
    }
    Ok(CpuTracks { group, of_cpus })
}

fn child_track<W: Write>(
    output: &mut Output<W>,
    name: &str,
    parent: u64,
    rank: u64,
) -> io::Result<u64> {
    let name = printable(name);
    output.track(|track| {
        track.text(2, &name).uint(5, parent).uint(12, rank);
    })
}

fn counter_track<W: Write>(
    output: &mut Output<W>,
    name: &str,
    parent: Option<u64>,
) -> io::Result<u64> {
    output.track(|track| {
        track.text(2, name);
        if let Some(parent) = parent {
            track.uint(5, parent);
        }
        // CounterDescriptor.unit_name
        track.message(8, |counter| {
            counter.text(6, "cycles");
        });
    })
}

fn write_counter<W: Write>(
    output: &mut Output<W>,
    track: u64,
    bucket: Cycles,
    lost: &[u64],
) -> io::Result<()> {
    for (index, lost) in lost.iter().enumerate() {
        let at = Cycles(bucket.0 * index as u64);
        output.count(Point { track, at }, *lost)?;
    }
    if lost.is_empty() {
        return Ok(());
    }
    // A viewer draws a value until the next one.
    let at = Cycles(bucket.0 * lost.len() as u64);
    output.count(Point { track, at }, 0)
}

/// Indexes of spans, so that those of one lane do not overlap.
fn lanes(mut spans: Vec<(Cycles, Cycles, usize)>) -> Vec<Vec<usize>> {
    spans.sort_unstable();
    let mut lanes: Vec<(Cycles, Vec<usize>)> = Vec::new();
    for (start, end, index) in spans {
        match lanes.iter_mut().find(|(free_at, _)| *free_at <= start) {
            Some(lane) => {
                lane.0 = end;
                lane.1.push(index);
            }
            None => lanes.push((end, vec![index])),
        }
    }
    lanes.into_iter().map(|(_, indexes)| indexes).collect()
}

fn write_cpus<W: Write>(
    output: &mut Output<W>,
    tracks: &CpuTracks,
    runs: &[Kept<Run>],
    threads: &[Thread],
) -> io::Result<()> {
    let mut of_cpus: BTreeMap<CpuId, Vec<(Cycles, Cycles, usize)>> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        let run = &run.item;
        let spans = of_cpus.entry(run.cpu).or_default();
        spans.push((run.start, run.end, index));
    }
    for (cpu, spans) in of_cpus {
        for (lane, indexes) in lanes(spans).into_iter().enumerate() {
            let own = tracks.of_cpus.get(cpu.index()).filter(|_| lane == 0);
            let track = match own {
                Some(track) => *track,
                None => {
                    let name = format!("cpu {}, at the same time", cpu.0);
                    child_track(output, &name, tracks.group, cpu.0.into())?
                }
            };
            for index in indexes {
                let run = &runs[index].item;
                let label = Label {
                    category: "cpu",
                    name: &threads[run.thread as usize].name,
                };
                let [start, end] = [run.start, run.end].map(|at| Point { track, at });
                output.begin(start, label, &[])?;
                output.end(end, [].into_iter())?;
            }
        }
    }
    Ok(())
}

/// A thread's track, and that of its waits for locks if it has any.
#[derive(Debug, Clone, Copy)]
struct ThreadTracks {
    own: u64,
    waits: Option<u64>,
}

fn thread_tracks<W: Write>(
    output: &mut Output<W>,
    processes: &[(u32, String)],
    threads: &[Thread],
    waits: &[Kept<LockSpan>],
) -> io::Result<Vec<ThreadTracks>> {
    // A viewer takes tracks with equal numbers for one, and number 0 for the idle task.
    let mut tids: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut pids: BTreeMap<u32, u32> = BTreeMap::new();
    for (pid, _) in processes {
        *pids.entry(*pid).or_default() += 1;
    }
    let pid_of = |thread: &Thread| processes.get(thread.process).map_or(0, |(pid, _)| *pid);
    for thread in threads {
        *tids.entry((0, thread.tid)).or_default() += 1;
    }
    let mut groups = Vec::with_capacity(processes.len());
    for (pid, name) in processes {
        let is_real = *pid > 0 && *pid <= i32::MAX as u32 && pids[pid] == 1;
        let name = printable(name);
        groups.push(output.track(|track| {
            if is_real {
                track.message(3, |process| {
                    process.uint(1, u64::from(*pid)).text(6, &name);
                });
            } else {
                track.text(2, &name);
            }
        })?);
    }
    let mut has_waits = vec![false; threads.len()];
    for wait in waits {
        has_waits[wait.item.thread as usize] = true;
    }
    let mut tracks = Vec::with_capacity(threads.len());
    for (index, thread) in threads.iter().enumerate() {
        let (pid, parent) = (pid_of(thread), groups.get(thread.process).copied());
        let is_real = pid > 0
            && pid <= i32::MAX as u32
            && pids[&pid] == 1
            && (1..=i32::MAX as u32).contains(&thread.tid)
            && tids[&(0, thread.tid)] == 1;
        let name = printable(&thread.name);
        let own = output.track(|track| {
            if is_real {
                track.message(4, |entry| {
                    entry.uint(1, pid.into()).uint(2, thread.tid.into());
                    entry.text(5, &name);
                });
            } else {
                track.text(2, &name).uint(5, parent.unwrap_or(0));
            }
        })?;
        let waits = match has_waits[index] {
            true => {
                let name = format!("{name}: waits for locks");
                Some(child_track(output, &name, own, 0)?)
            }
            false => None,
        };
        tracks.push(ThreadTracks { own, waits });
    }
    Ok(tracks)
}

/// Waits of a thread may lie in each other: it fights for a spinlock while it waits for a mutex.
fn write_waits<W: Write>(
    output: &mut Output<W>,
    tracks: &[ThreadTracks],
    locks: &[String],
    waits: &[Kept<LockSpan>],
    summary: &mut Summary,
) -> io::Result<()> {
    let mut order: Vec<&LockSpan> = waits.iter().map(|wait| &wait.item).collect();
    order.sort_by_key(|wait| (wait.thread, wait.start, std::cmp::Reverse(wait.end)));
    for of_thread in order.chunk_by(|a, b| a.thread == b.thread) {
        let track = tracks[of_thread[0].thread as usize].waits;
        let track = track.expect("a thread that waits for locks has a track of waits");
        let mut open: Vec<Cycles> = Vec::new();
        for wait in of_thread {
            while let Some(at) = open.pop_if(|end| *end <= wait.start) {
                output.end(Point { track, at }, [].into_iter())?;
            }
            let outer = open.last().copied().unwrap_or(Cycles::MAX);
            summary.cut += u64::from(wait.end > outer);
            let label = Label {
                category: "lock",
                name: &format!("wait for {}", locks[wait.lock as usize]),
            };
            let at = wait.start;
            output.begin(Point { track, at }, label, &[])?;
            open.push(wait.end.min(outer));
        }
        while let Some(at) = open.pop() {
            output.end(Point { track, at }, [].into_iter())?;
        }
    }
    Ok(())
}

/// A track for each lock that was held, with its holders.
fn write_locks<W: Write>(
    output: &mut Output<W>,
    locks: &[String],
    uses: &[Kept<LockSpan>],
    threads: &[Thread],
    summary: &mut Summary,
) -> io::Result<()> {
    if uses.is_empty() {
        return Ok(());
    }
    let group = output.track(|track| {
        track.text(2, "locks").uint(11, ORDER_EXPLICIT);
    })?;
    let arrows = lock_arrows(output, uses, summary);
    let mut of_locks: BTreeMap<u32, Vec<(Cycles, Cycles, usize)>> = BTreeMap::new();
    for (index, used) in uses.iter().enumerate() {
        let used = &used.item;
        let spans = of_locks.entry(used.lock).or_default();
        spans.push((used.start, used.end, index));
    }
    for (lock, spans) in of_locks {
        for indexes in lanes(spans) {
            let name = &locks[lock as usize];
            let track = child_track(output, name, group, lock.into())?;
            for index in indexes {
                let used = &uses[index];
                let label = Label {
                    category: "lock",
                    name: &threads[used.item.thread as usize].name,
                };
                let [start, end] = [used.item.start, used.item.end].map(|at| Point { track, at });
                output.begin(start, label, &[])?;
                if arrows.takers.binary_search(&used.number).is_ok() {
                    let label = Label {
                        category: "lock",
                        name: "handed over",
                    };
                    let arrow = Arrow::To(LOCK_ARROWS | used.number);
                    output.instant(start, label, arrow)?;
                }
                let first = arrows
                    .given
                    .partition_point(|(from, _)| *from < used.number);
                let given = arrows.given[first..].iter();
                let given = given.take_while(|(from, _)| *from == used.number);
                let ids = given.map(|(_, to)| LOCK_ARROWS | *to);
                output.end(end, ids)?;
            }
        }
    }
    Ok(())
}

/// Hand-overs of locks that have an arrow, by the numbers of uses.
#[derive(Default)]
struct LockArrows {
    /// Giver and taker, by giver.
    given: Vec<(u64, u64)>,
    /// Takers in ascending order.
    takers: Vec<u64>,
}

fn lock_arrows<W: Write>(
    output: &Output<W>,
    uses: &[Kept<LockSpan>],
    summary: &mut Summary,
) -> LockArrows {
    let mut arrows = LockArrows::default();
    for used in uses {
        let giver = used.item.giver;
        if giver == 0 {
            continue;
        }
        let source = uses.binary_search_by_key(&giver, |kept| kept.number);
        let source = source.ok().map(|source| &uses[source].item);
        match source {
            Some(source) if output.nanos(source.end) < output.nanos(used.item.start) => {
                arrows.given.push((giver, used.number));
                arrows.takers.push(used.number);
                summary.lock_arrows += 1;
            }
            _ => summary.lock_arrows_missing += 1,
        }
    }
    arrows.given.sort_unstable();
    arrows
}

#[cfg(test)]
mod tests;
