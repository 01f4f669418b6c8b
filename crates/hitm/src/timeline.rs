//! `hitm export --perfetto`: the course of a recorded run as a Perfetto trace.

mod runs;

use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use hitm_base::{Access, AccessOp, CodeAddr, Outcome, ThreadId};
use hitm_files::output_file::{OutputError, OutputFile};
use hitm_recording::{AddressNames, Recording, RecordingError, RecordingFile};
use hitm_timeline::{Names, Scene, Timeline, perfetto};
use hitm_trace::{Record, Visitor};
use runs::Runs;
use thiserror::Error;

pub use hitm_timeline::{LeftOut, Summary};

/// Reasons for which a trace is not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The output cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A trace that was written.
#[derive(Debug, Clone)]
pub struct Export {
    /// Contents of the trace.
    pub summary: Summary,
    /// Accesses of threads whose start is not known: they are not in it.
    pub without_thread: u64,
    /// Waits of threads for the system that are not in it, because too many were under way at once.
    pub without_wait: u64,
    /// Other notes on the recording, for readers of the trace.
    pub notes: Vec<String>,
}

/// Writes the recording at `from` as a trace to `to`. `progress` gets the bytes read so far and in all,
/// over all readings.
///
/// # Errors
/// A recording that cannot be read, an output that cannot be written.
pub fn export(
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Export, TimelineError> {
    // Names need all threads, mappings and heap blocks.
    let recording = Recording::load_contended(from, &mut |read, all| progress(read, 2 * all))?;
    let mut file = RecordingFile::open(from)?;
    let names = recording.names();
    let mut reader = Reader::new(&recording, &names);
    file.visit(&mut reader, &mut |read, all| progress(all + read, 2 * all))?;
    let (timeline, without_thread, without_wait) = reader.finish(&recording);
    let summary = write(timeline, &TraceNames(&names), to)?;
    Ok(Export {
        summary,
        without_thread,
        without_wait,
        notes: recording.diagnostics(),
    })
}

/// Writes the course of a simulated run to `to`.
///
/// # Errors
/// An output that cannot be written.
pub fn write_simulation(trace: crate::sim::Trace, to: &Path) -> Result<Summary, TimelineError> {
    write(trace.timeline, &trace.names, to)
}

fn write(timeline: Timeline, names: &dyn Names, to: &Path) -> Result<Summary, TimelineError> {
    let mut file = OutputFile::create(to)?;
    let buffer = BufWriter::with_capacity(1 << 20, &mut file);
    let summary = perfetto::write(timeline, names, buffer);
    let summary = summary.map_err(|source| TimelineError::Write {
        path: to.into(),
        source,
    })?;
    file.commit()?;
    Ok(summary)
}

/// The names of a recording, as a trace asks for them.
struct TraceNames<'n>(&'n AddressNames<'n>);

impl Names for TraceNames<'_> {
    fn place(&self, addr: u64, size: u8) -> String {
        match self.0.data(addr, size) {
            Some(label) => label.object + &label.member,
            None => format!("{:#x}", self.0.shown(addr)),
        }
    }

    fn function(&self, code: u64) -> String {
        self.0.code(CodeAddr(code)).function
    }
}

/// Takes the records of a recording in their order.
struct Reader {
    timeline: Timeline,
    /// Numbers of threads in the timeline.
    threads: BTreeMap<ThreadId, u32>,
    runs: Runs,
    without_thread: u64,
}

impl Reader {
    fn new(recording: &Recording, names: &AddressNames<'_>) -> Reader {
        let machine = &recording.machine;
        let mut timeline = Timeline::new(Scene {
            name: machine.name.clone(),
            clock: machine.clock,
            cpu_count: machine.topology.cpu_count(),
        });
        let mut processes = BTreeMap::new();
        for process in &recording.processes {
            let start = &process.start;
            let number = timeline.add_process(start.pid, &start.program);
            processes.insert(start.process, number);
        }
        let mut threads = BTreeMap::new();
        for thread in &recording.threads {
            let start = &thread.start;
            let process = *processes.entry(start.process).or_insert_with(|| {
                let program = recording.header.args.first();
                timeline.add_process(start.tid, program.map_or("program", String::as_str))
            });
            let name = names.thread(start.thread);
            let number = timeline.add_thread(process, start.tid, &name);
            threads.insert(start.thread, number);
        }
        Reader {
            timeline,
            threads,
            runs: Runs::new(machine.core.cpi_milli),
            without_thread: 0,
        }
    }

    fn finish(mut self, recording: &Recording) -> (Timeline, u64, u64) {
        for thread in &recording.threads {
            if let Some(exit) = thread.exit {
                self.runs.end(exit.thread, exit.time);
            }
        }
        self.draw_runs();
        (self.timeline, self.without_thread, self.runs.left_out)
    }

    /// Draws the runs that have ended.
    fn draw_runs(&mut self) {
        for run in self.runs.ended.drain(..) {
            if let Some(thread) = self.threads.get(&run.thread) {
                self.timeline.run(*thread, run.cpu, run.start..run.end);
            }
        }
    }
}

impl Visitor for Reader {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.runs.access(access, outcome.stall);
        if access.op == AccessOp::Fence {
            return;
        }
        let Some(thread) = self.threads.get(&access.thread) else {
            self.without_thread += 1;
            return;
        };
        self.timeline.access(&hitm_timeline::Access {
            thread: *thread,
            cpu: access.cpu,
            start: access.time,
            stall: outcome.stall,
            lost: outcome.lost,
            queued: outcome.queued,
            line: access.line().0,
            addr: access.addr,
            size: access.size,
            code: access.code.0,
            op: access.op,
            source: outcome.source,
        });
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::ThreadStart(start) => self.runs.start(start.thread, start.cpu, start.time),
            Record::ThreadPlaced(placed) => {
                self.runs.place(placed.thread, placed.cpu, placed.time);
            }
            Record::Work(work) => self.runs.work(&work),
            Record::Turn(turn) => self.runs.turn(&turn),
            _ => {}
        }
        self.draw_runs();
    }
}
