//! The output of a weave: records, in the order in which they are priced, into a ring.

use std::collections::BTreeSet;

use hitm_base::{Access, AccessOp, CodeAddr, Cycles, LineAddr, Outcome, ThreadId};
use hitm_trace::ring::{Producer, PushError};
use hitm_trace::{Counter, End, EndReason, PATH_CALLERS_MAX, Record, ThreadExit, Totals};

use crate::REPRIVATISE_RUN;
use crate::calls::Paths;

/// Lines whose runs are watched at a time; a power of two.
const WATCHED_LINES: usize = 4096;
/// Lines that are remembered as handed over: those of a runtime's objects get names.
const HANDED_OVER_MAX: usize = 1 << 16;

/// The latest run of accesses to one line by one thread.
#[derive(Debug, Clone, Copy)]
struct Run {
    line: LineAddr,
    thread: ThreadId,
    length: u32,
    has_written: bool,
}

/// A shared line that one thread has used alone for [`REPRIVATISE_RUN`] accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lonely {
    /// The line.
    pub line: LineAddr,
    /// The thread.
    pub thread: ThreadId,
    /// Time of its last access.
    pub time: Cycles,
    /// True if the thread has written to the line meanwhile.
    pub is_written: bool,
}

/// The recording's writing end.
#[derive(Debug)]
pub struct Output {
    /// Gone after the end of the recording.
    producer: Option<Producer>,
    /// Called while the ring is full: waits a little; false when nobody empties it any more.
    wait: fn(&Producer) -> bool,
    runs: Box<[Run]>,
    /// Shared lines that may go back to one thread, since they were last taken.
    lonely: Vec<Lonely>,
    /// Lines that were handed over between threads, since somebody asked for them.
    handed_over: Option<BTreeSet<LineAddr>>,
    /// Addresses are a kernel's, cut to 48 bits: they are written in full.
    is_kernel: bool,
    stored: u64,
    reprivatised: u64,
    /// Records with numbers that no recording may hold: a model may be asked for such latencies.
    unrecordable: u64,
    /// Call chains, when threads tell them.
    paths: Option<Paths>,
}

impl Output {
    /// An output into the ring of `producer`. While that is full, `wait` is called; it returns false
    /// when nobody empties the ring any more, which ends the output.
    pub fn new(producer: Producer, wait: fn(&Producer) -> bool) -> Output {
        let run = Run {
            line: LineAddr(u64::MAX),
            thread: ThreadId(0),
            length: 0,
            has_written: false,
        };
        Output {
            producer: Some(producer),
            wait,
            runs: vec![run; WATCHED_LINES].into(),
            lonely: Vec::new(),
            handed_over: None,
            is_kernel: false,
            stored: 0,
            reprivatised: 0,
            unrecordable: 0,
            paths: None,
        }
    }

    /// The call chains of accesses; accesses have callers from here on.
    pub(crate) fn paths(&mut self) -> &mut Paths {
        self.paths.get_or_insert_default()
    }

    /// Like [`Output::new`], of a whole machine.
    pub fn of_kernel(producer: Producer, wait: fn(&Producer) -> bool) -> Output {
        Output {
            is_kernel: true,
            ..Output::new(producer, wait)
        }
    }

    /// Returns true if the user has asked the recording to end.
    pub fn stop_requested(&self) -> bool {
        self.producer.as_ref().is_none_or(Producer::stop_requested)
    }

    /// Writes a priced access.
    pub(crate) fn access(&mut self, access: &Access, outcome: &Outcome) {
        if access.op == AccessOp::Fence {
            return;
        }
        self.stored += 1;
        let written = Access {
            addr: self.written_addr(access.addr),
            ..*access
        };
        match self.paths.take() {
            None => self.push(|producer| producer.push_access(&written, outcome)),
            Some(mut paths) => {
                self.push_on_path(&mut paths, &written, outcome);
                self.paths = Some(paths);
            }
        }
        if let Some(handed_over) = &mut self.handed_over
            && outcome.source.is_contention()
            && handed_over.len() < HANDED_OVER_MAX
        {
            handed_over.insert(access.line());
        }
        self.watch(access);
    }

    /// Writes an access with its callers.
    fn push_on_path(&mut self, paths: &mut Paths, access: &Access, outcome: &Outcome) {
        let path = paths.take(access.thread);
        let callers = |out: &mut Vec<CodeAddr>| {
            if let Some(path) = path {
                paths.append_callers(path, PATH_CALLERS_MAX, out);
            }
        };
        let number = path.map(|path| path.0);
        self.push(|producer| producer.push_access_on(number, callers, access, outcome));
    }

    /// The line as it is written.
    pub(crate) fn written_line(&self, line: LineAddr) -> LineAddr {
        LineAddr::of(self.written_addr(line.first_byte()))
    }

    /// The address as it is written.
    pub(crate) fn written_addr(&self, addr: u64) -> u64 {
        match self.is_kernel {
            true => sign_extended(addr),
            false => addr,
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

    /// Counts lines that were given back to one thread.
    pub(crate) fn count_reprivatised(&mut self, count: u64) {
        self.reprivatised += count;
    }

    /// Lines that were handed over between threads since the first call, as far as there is room, in order; and room
    /// for others.
    pub(crate) fn handed_over(&mut self) -> &mut BTreeSet<LineAddr> {
        self.handed_over.get_or_insert_default()
    }

    pub(crate) fn take_lonely(&mut self) -> Vec<Lonely> {
        std::mem::take(&mut self.lonely)
    }

    /// Waits while the ring is full; when nobody is left to empty it, the output ends.
    fn push(&mut self, mut attempt: impl FnMut(&mut Producer) -> Result<(), PushError>) {
        while let Some(producer) = &mut self.producer {
            match attempt(producer) {
                Ok(()) => return,
                Err(PushError::RingFull) if (self.wait)(producer) => {}
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
        mut counters: Vec<Counter>,
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
        let own = [
            ("lines_made_private_again", self.reprivatised),
            ("unrecordable_records", self.unrecordable),
        ];
        let without_callers = self.paths.as_ref().map(|paths| paths.left_out);
        let own = own
            .into_iter()
            .chain(without_callers.map(|count| ("accesses_without_callers", count)));
        counters.extend(own.map(|(name, value)| Counter::new(name, value)));
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

    /// Notes a line that the one thread that has used it for long can have back: what an initialiser
    /// touched once must not be recorded for ever.
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
            self.lonely.push(Lonely {
                line,
                thread: access.thread,
                time: access.time,
                is_written: run.has_written,
            });
            run.line = LineAddr(u64::MAX);
        }
    }
}

/// A 48-bit address with its upper bits as the architecture demands them.
fn sign_extended(addr: u64) -> u64 {
    ((addr << 16) as i64 >> 16) as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use std::alloc::{Layout, alloc_zeroed};
    use std::ptr::NonNull;

    use hitm_trace::ring::{Consumer, RingConfig};

    use super::*;

    /// A ring in memory that is never freed, and the output into it.
    pub(crate) fn output() -> (Consumer, Output) {
        let config = RingConfig {
            slot_count: 16,
            slot_len: 4096,
        };
        let len = config.memory_len();
        let layout = Layout::from_size_align(len, 4096).expect("pages");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        // SAFETY: nobody else has the memory, and it stays.
        let (consumer, producer) = unsafe {
            let consumer = Consumer::create(base, len, config, 1).expect("a ring");
            (
                consumer,
                Producer::attach(base, len, 2).expect("a free ring"),
            )
        };
        (consumer, Output::new(producer, |_| false))
    }
}
