//! One run of a recording: the recorded one, or a replay.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use hitm_base::{Access, AccessOp, CpuId, Cycles, LineAddr, Machine, Outcome, ThreadId};
use hitm_coherence::stats::{Collector, Statistics};
use hitm_files::temporary;
use hitm_recording::KERNEL_PATH;
use hitm_recording::{Recording, RecordingFile};
use hitm_trace::{ChunkDecoder, Record, ThreadStart, Visitor};
use hitm_weave::replay::{Replay, ReplayCounts, ReplayError};
use hitm_weave::{Placement, TemporaryFiles, ThreadTotals};
use rustc_hash::FxHashSet;

use super::moves::Moves;
use super::{Run, Sums, WhatifConfig, WhatifError, legacy};

/// Temporary files of a replay.
const TEMPORARY: TemporaryFiles = TemporaryFiles {
    open: temporary::unnamed_file,
    explain: temporary::explain,
};

/// Result of a run.
#[derive(Debug)]
pub(super) struct SecondRun<'r> {
    pub(super) run: Run,
    pub(super) cpi_milli: u64,
    pub(super) threads: Vec<(ThreadId, ThreadTotals)>,
    /// Borrowed from the recording: a copy could take gigabytes.
    pub(super) statistics: Cow<'r, Statistics>,
    pub(super) moves: Moves,
    counts: ReplayCounts,
}

/// Extent of a replay's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Rows of all lines, or of moved objects and of lines with rows in the recording.
    Rows,
    /// Sums over all lines.
    Sums,
}

/// Statistics of a replay.
struct Kept {
    rows: Collector,
    /// Lines with rows, unless all have some. Lines of moved objects always have.
    only: Option<FxHashSet<LineAddr>>,
    moved: Range<u64>,
    others: Sums,
}

impl Kept {
    fn of(recording: &Recording, moves: &Moves, keep: Keep) -> Kept {
        let lines = recording.statistics.lines.keys().copied();
        let (only, moved) = match keep {
            Keep::Rows => (recording.is_cut().then(|| lines.collect()), moves.fresh()),
            Keep::Sums => (Some(FxHashSet::default()), 0..0),
        };
        Kept {
            rows: Collector::default(),
            only,
            moved,
            others: Sums::default(),
        }
    }

    #[inline]
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        if access.op == AccessOp::Fence {
            return; // It touches no line.
        }
        let line = access.line();
        let is_moved = self.moved.contains(&line.first_byte());
        let has_rows = |only: &FxHashSet<LineAddr>| is_moved || only.contains(&line);
        if self.only.as_ref().is_none_or(has_rows) {
            self.rows.add(access, outcome);
        } else {
            self.others += &Sums::of_access(access, outcome);
        }
    }
}

/// Placement of a replay's threads.
struct Seats {
    /// CPUs in the order in which threads get them; none for the recorded CPUs.
    order: Option<Vec<CpuId>>,
    cpu_count: usize,
}

impl Seats {
    fn of_thread(&self, start: &ThreadStart) -> CpuId {
        match &self.order {
            Some(order) => order[start.seat as usize % order.len()],
            None => start.cpu,
        }
    }

    /// Returns true if a thread's own choice of a CPU is followed, by the recorder's rule.
    fn admits(&self, cpu: CpuId) -> bool {
        self.order.is_none() || cpu.index() < self.cpu_count
    }
}

/// Feeds a replay with records.
pub(super) struct Feed {
    replay: Replay<Moves>,
    seats: Seats,
    kept: Kept,
    record_count: u64,
    error: Option<(u64, ReplayError)>,
}

impl Feed {
    fn note(&mut self, result: Result<(), ReplayError>) {
        if let Err(error) = result
            && self.error.is_none()
        {
            self.error = Some((self.record_count, error));
        }
        self.record_count += 1;
    }
}

impl Visitor for Feed {
    #[inline]
    fn access(&mut self, access: &Access, _: &Outcome) {
        let result = self.replay.access(access);
        self.note(result);
    }

    fn record(&mut self, record: Record) {
        if self.error.is_some() {
            return;
        }
        let kept = &mut self.kept;
        let result = match record {
            Record::ThreadStart(start) => {
                let cpu = self.seats.of_thread(&start);
                self.replay.start(&start, cpu)
            }
            Record::ThreadPlaced(placed) if self.seats.admits(placed.cpu) => {
                self.replay.place(&placed)
            }
            Record::Work(work) => self.replay.work(work),
            Record::Turn(turn) => self.replay.turn(turn, &mut |access, outcome| {
                kept.add(access, outcome);
            }),
            _ => Ok(()),
        };
        self.note(result);
    }
}

impl<'r> SecondRun<'r> {
    /// Takes the recorded run as it is.
    pub(super) fn recorded(recording: &'r Recording) -> SecondRun<'r> {
        let exits = recording.threads.iter().filter_map(|thread| thread.exit);
        let threads = exits.map(|exit| {
            let totals = ThreadTotals {
                insns: exit.insns,
                accesses: 0,
                clock: exit.time,
                stall: exit.stall,
                contention_stall: exit.contention_stall,
                ..ThreadTotals::default()
            };
            (exit.thread, totals)
        });
        let threads: Vec<_> = threads.collect();
        let statistics = &recording.statistics;
        SecondRun {
            run: run(
                &recording.machine,
                recording.header.placement.clone(),
                &threads,
                Sums::of_lines(statistics),
            ),
            cpi_milli: recording.machine.core.cpi_milli.into(),
            threads,
            statistics: Cow::Borrowed(statistics),
            moves: Moves::default(),
            counts: ReplayCounts::default(),
        }
    }

    /// Replays the file.
    pub(super) fn of_file(
        recording: &Recording,
        config: &WhatifConfig,
        moves: Moves,
        keep: Keep,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SecondRun<'r>, WhatifError> {
        let path = &config.input;
        let mut file = RecordingFile::open(path)?;
        let mut decoder = ChunkDecoder::new().map_err(|error| file.failed(error.into()))?;
        let (mut feed, setting) = feed(recording, config, moves, keep)?;
        while let Some((block, read, all)) = file.next_block(&mut decoder)? {
            block.visit(&mut feed).map_err(|error| file.failed(error))?;
            check(&mut feed, path)?;
            progress(read, all);
            if feed.replay.is_impatient() {
                read_ahead(&mut feed, path, read, &mut || progress(read, all))?;
            }
        }
        finish(feed, setting, path)
    }

    /// Replays records that [`legacy`] makes.
    pub(super) fn of_log(
        recording: &Recording,
        config: &WhatifConfig,
        log: &legacy::Log,
        moves: Moves,
    ) -> Result<SecondRun<'r>, WhatifError> {
        let (mut feed, setting) = feed(recording, config, moves, Keep::Rows)?;
        log.visit(&mut feed);
        finish(feed, setting, &config.input)
    }

    /// Notes on the replay's figures.
    pub(super) fn notes(&self, config: &WhatifConfig) -> Vec<String> {
        let mut notes = Vec::new();
        if self.counts.missing > 0 {
            notes.push(format!(
                "{} accesses were under way when the recording was cut short: they are left out",
                self.counts.missing
            ));
        }
        if self.moves.counts.in_holes > 0 {
            notes.push(format!(
                "{} accesses touch bytes between members: they moved with the member before",
                self.moves.counts.in_holes
            ));
        }
        if config.machine.is_some() {
            notes.push("the program runs the cycles per instruction of the recording".into());
        }
        notes
    }
}

/// Scans the file from byte `from` on for accesses that the replay waits for.
fn read_ahead(
    feed: &mut Feed,
    path: &Path,
    from: u64,
    progress: &mut dyn FnMut(),
) -> Result<(), WhatifError> {
    let mut ahead = feed.replay.read_ahead();
    let mut file = RecordingFile::open(path)?;
    file.skip_to(from)?;
    file.visit(&mut ahead, &mut |_, _| progress())?;
    let noted = feed.replay.note_ahead(ahead);
    noted.map_err(|source| failed(path, feed.record_count, source))
}

/// Machine and placement of a replay.
struct Setting {
    machine: Machine,
    placement: String,
}

fn feed(
    recording: &Recording,
    config: &WhatifConfig,
    moves: Moves,
    keep: Keep,
) -> Result<(Feed, Setting), WhatifError> {
    let mut machine = config.machine.clone().unwrap_or(recording.machine.clone());
    // Cycles per instruction depend more on the program than on the machine.
    machine.core.cpi_milli = recording.machine.core.cpi_milli;
    let mut setting = Setting {
        machine: machine.clone(),
        placement: recording.header.placement.clone(),
    };
    let cpu_count = machine.topology.cpu_count();
    let mut order = None;
    if config.machine.is_some() || config.placement.is_some() {
        let placement = match &config.placement {
            Some(placement) => placement.clone(),
            None => recorded_placement(recording, &config.input)?,
        };
        let cpus = placement
            .order(&machine.topology)
            .map_err(|cpu| WhatifError::NoSuchCpu {
                cpu: cpu.0,
                machine: machine.name.clone(),
                last: cpu_count - 1,
            })?;
        setting.placement = placement.to_string();
        order = Some(cpus);
    }
    let kept = Kept::of(recording, &moves, keep);
    let mut replay = Replay::new(machine, moves).with_temporary_files(TEMPORARY);
    // The recorder of a whole machine has no hand-over of lines.
    let mut mappings = recording.mappings().iter();
    if mappings.all(|mapping| mapping.path != KERNEL_PATH) {
        replay = replay.with_hand_over(recording.header.window);
    }
    let feed = Feed {
        kept,
        replay,
        seats: Seats { order, cpu_count },
        record_count: 0,
        error: None,
    };
    Ok((feed, setting))
}

fn recorded_placement(recording: &Recording, path: &Path) -> Result<Placement, WhatifError> {
    let text = &recording.header.placement;
    text.parse().map_err(|error| WhatifError::Placement {
        path: path.into(),
        message: format!("{error}"),
    })
}

fn check(feed: &mut Feed, path: &Path) -> Result<(), WhatifError> {
    match feed.error.take() {
        Some((record, source)) => Err(failed(path, record, source)),
        None => Ok(()),
    }
}

fn failed(path: &Path, record: u64, source: ReplayError) -> WhatifError {
    WhatifError::Replay {
        path: path.into(),
        record,
        source,
    }
}

fn finish(
    mut feed: Feed,
    setting: Setting,
    path: &Path,
) -> Result<SecondRun<'static>, WhatifError> {
    check(&mut feed, path)?;
    let kept = &mut feed.kept;
    let result = feed
        .replay
        .finish(&mut |access, outcome| kept.add(access, outcome));
    feed.note(result);
    check(&mut feed, path)?;
    let threads: Vec<_> = feed.replay.totals().collect();
    let statistics = feed.kept.rows.finish();
    let mut totals = Sums::of_lines(&statistics);
    totals += &feed.kept.others;
    Ok(SecondRun {
        run: run(&setting.machine, setting.placement, &threads, totals),
        cpi_milli: setting.machine.core.cpi_milli.into(),
        threads,
        statistics: Cow::Owned(statistics),
        counts: feed.replay.counts(),
        moves: feed.replay.relocation().clone(),
    })
}

fn run(
    machine: &Machine,
    placement: String,
    threads: &[(ThreadId, ThreadTotals)],
    totals: Sums,
) -> Run {
    let clocks = threads.iter().map(|(_, totals)| totals.clock);
    Run {
        machine: machine.name.clone(),
        machine_description: machine.description.clone(),
        clock: machine.clock,
        placement,
        end: clocks.max().unwrap_or(Cycles::ZERO),
        totals,
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{CodeAddr, DataSource};
    use hitm_weave::replay::FRESH;

    use super::*;

    /// Sums cover all lines, whichever have rows.
    #[test]
    fn lines_without_rows_are_in_the_totals() {
        let kept = |only: Option<FxHashSet<LineAddr>>| Kept {
            rows: Collector::default(),
            only,
            moved: FRESH..FRESH + 64,
            others: Sums::default(),
        };
        let one = [LineAddr::of(0x1000)].into_iter().collect();
        let (mut all, mut some) = (kept(None), kept(Some(one)));
        for number in 0..600 {
            let ops = [
                AccessOp::Load,
                AccessOp::Store,
                AccessOp::LockedRmw,
                AccessOp::Fence,
            ];
            let source = DataSource::ALL[number % DataSource::ALL.len()];
            let access = Access {
                thread: ThreadId(0),
                cpu: CpuId(0),
                time: Cycles(0),
                addr: [0x1000, 0x2000, FRESH, FRESH + 64][number % 4],
                size: 8,
                op: ops[number / 4 % 4],
                code: CodeAddr(0x40_1000),
            };
            let outcome = Outcome::by_source(
                source,
                Cycles(number as u64),
                Cycles(0),
                Cycles(number as u64),
            );
            all.add(&access, &outcome);
            some.add(&access, &outcome);
        }
        let (all, listed) = (all.rows.finish(), some.rows.finish());
        let lines: Vec<LineAddr> = listed.lines.keys().copied().collect();
        assert_eq!(lines, [LineAddr::of(0x1000), LineAddr::of(FRESH)]);
        let mut sums = Sums::of_lines(&listed);
        sums += &some.others;
        assert_eq!(sums, Sums::of_lines(&all));
    }
}
