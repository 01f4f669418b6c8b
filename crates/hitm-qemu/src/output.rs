//! What leaves the recorded process: records, in the order in which they are priced.

use std::time::Duration;

use hitm_base::{Access, AccessOp, Cycles, LineAddr, Outcome, ThreadId};
use hitm_trace::ring::{Producer, PushError};
use hitm_trace::{Counter, End, EndReason, Record, ThreadExit, Totals};
use hitm_weave::REPRIVATISE_RUN;

use crate::first_touch::{FirstTouch, Tag};

/// How long the recorder sleeps while the ring is full.
const RING_FULL_WAIT: Duration = Duration::from_micros(100);

/// Lines whose runs are watched at a time; a power of two.
const WATCHED_LINES: usize = 4096;

/// The latest run of accesses to one line by one thread.
#[derive(Debug, Clone, Copy)]
struct Run {
    line: LineAddr,
    thread: ThreadId,
    length: u32,
    has_written: bool,
}

/// The recording's writing end.
#[derive(Debug)]
pub(crate) struct Output {
    /// Gone after the end of the recording.
    producer: Option<Producer>,
    first_touch: &'static FirstTouch,
    runs: Box<[Run]>,
    /// Addresses are a kernel's, cut to 48 bits: they are written in full.
    is_kernel: bool,
    pub(crate) stored: u64,
    reprivatised: u64,
    /// Records with numbers that no recording may hold: a model may be asked for such latencies.
    unrecordable: u64,
}

impl Output {
    pub(crate) fn new(producer: Producer, first_touch: &'static FirstTouch) -> Output {
        let run = Run {
            line: LineAddr(u64::MAX),
            thread: ThreadId(0),
            length: 0,
            has_written: false,
        };
        Output {
            producer: Some(producer),
            first_touch,
            runs: vec![run; WATCHED_LINES].into(),
            is_kernel: false,
            stored: 0,
            reprivatised: 0,
            unrecordable: 0,
        }
    }

    /// The same, of a whole machine.
    pub(crate) fn of_kernel(producer: Producer, first_touch: &'static FirstTouch) -> Output {
        Output {
            is_kernel: true,
            ..Output::new(producer, first_touch)
        }
    }

    /// Whether the user has asked the recording to end.
    pub(crate) fn stop_requested(&self) -> bool {
        self.producer.as_ref().is_none_or(Producer::stop_requested)
    }

    /// Writes a priced access.
    pub(crate) fn access(&mut self, access: &Access, outcome: &Outcome) {
        if access.op == AccessOp::Fence {
            return;
        }
        self.stored += 1;
        let mut written = *access;
        if self.is_kernel {
            written.addr = sign_extended(access.addr);
        }
        self.push(|producer| producer.push_access(&written, outcome));
        self.watch(access);
    }

    /// The line as it is written.
    pub(crate) fn written_line(&self, line: LineAddr) -> LineAddr {
        match self.is_kernel {
            true => LineAddr::of(sign_extended(line.first_byte())),
            false => line,
        }
    }

    /// Writes any record.
    pub(crate) fn record(&mut self, record: &Record) {
        self.push(|producer| producer.push(record));
    }

    /// Makes what has been written so far visible to the reader, come what may.
    pub(crate) fn commit(&mut self) {
        if let Some(producer) = &mut self.producer {
            producer.commit();
        }
    }

    /// Waits while the ring is full; when nobody is left to empty it, the output ends.
    fn push(&mut self, mut attempt: impl FnMut(&mut Producer) -> Result<(), PushError>) {
        while let Some(producer) = &mut self.producer {
            match attempt(producer) {
                Ok(()) => return,
                Err(PushError::RingFull) if is_alive(producer) => {
                    std::thread::sleep(RING_FULL_WAIT)
                }
                Err(PushError::RingFull) => self.producer = None,
                Err(_) => {
                    self.unrecordable += 1;
                    return;
                }
            }
        }
    }

    /// The clean end: counters, totals, nothing after.
    pub(crate) fn finish(
        &mut self,
        threads: &[ThreadExit],
        reason: EndReason,
        counters: Vec<Counter>,
    ) {
        let mut totals = Totals {
            threads: threads.len() as u64,
            ..Totals::default()
        };
        let mut time = Cycles::ZERO;
        for exit in threads {
            self.record(&Record::ThreadExit(*exit));
            totals.insns += exit.insns;
            totals.accesses += exit.accesses;
            totals.stall += exit.stall;
            totals.contention_stall += exit.contention_stall;
            time = time.max(exit.time);
        }
        totals.stored_accesses = self.stored;
        let mut counters = counters;
        let own = [
            ("lines_made_private_again", self.reprivatised),
            ("unrecordable_records", self.unrecordable),
        ];
        counters.extend(own.map(|(name, value)| Counter {
            name: name.into(),
            value,
        }));
        self.record(&Record::Counters(counters));
        self.record(&Record::End(End {
            time,
            reason,
            totals,
        }));
        if let Some(producer) = self.producer.take() {
            producer.finish();
        }
    }

    /// Gives a line back to the thread that alone has used it for long: what an initialiser touched
    /// once must not be recorded for ever.
    fn watch(&mut self, access: &Access) {
        let line = access.line();
        let run = &mut self.runs[line.0 as usize % WATCHED_LINES];
        if run.line != line || run.thread != access.thread {
            *run = Run {
                line,
                thread: access.thread,
                length: 0,
                has_written: false,
            };
        }
        run.length += 1;
        run.has_written |= access.op.is_write();
        if run.length == REPRIVATISE_RUN {
            let tag = Tag::of_thread(access.thread.0);
            let owner = self.first_touch.toucher(tag, access.time);
            let is_done = self
                .first_touch
                .make_private(line.first_byte(), owner, run.has_written);
            self.reprivatised += u64::from(is_done);
            run.line = LineAddr(u64::MAX);
        }
    }
}

/// A 48-bit address with its upper bits as the architecture demands them.
fn sign_extended(addr: u64) -> u64 {
    ((addr << 16) as i64 >> 16) as u64
}

/// Whether somebody still reads the ring.
fn is_alive(producer: &Producer) -> bool {
    let pid = producer.consumer_pid() as libc::pid_t;
    // SAFETY: signal 0 only asks whether the process exists.
    !producer.is_consumer_gone() && unsafe { libc::kill(pid, 0) } == 0
}
