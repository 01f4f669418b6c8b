//! A recording run again with the clocks in the loop: other prices move them.
//!
//! The recorder wrote down what it told its weave, in order: what each thread did, who left, who
//! came back, when everything was priced. Here a second weave is told the same. Between its
//! accesses a thread runs the instructions that it ran then, and what it waits for is found anew.
//!
//! **Invariant:** told the same on the same machine, the second weave answers the same, bit for bit.
//!
//! Not modelled, and why: a program that would have taken another way with other times (a lock that
//! is found free, a spin loop that ends sooner). The recording holds one way through the program.

mod ahead;
mod arrivals;
mod error;
mod relocate;

use std::collections::VecDeque;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, LineAddr, Machine, Outcome, ThreadId};
use hitm_coherence::core::{Position, split_by_line};
use hitm_coherence::directory::Capacity;
use hitm_trace::{Stretch, ThreadPlaced, ThreadStart, Turn, Waker, Work};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::filter::{Filter, Touch, Toucher};
use crate::{Slot, TemporaryFiles, ThreadEvent, ThreadTotals, Wake, Weave};
pub use ahead::ReadAhead;
use arrivals::{Arrivals, Arrived};
pub use error::ReplayError;
pub use relocate::{Relocate, Unmoved};

/// Moved objects lie from here on, up to [`FRESH_END`]: programs are below, kernels above.
pub const FRESH: u64 = 1 << 62;

/// The end of the addresses that no recorded access may have.
pub const FRESH_END: u64 = 1 << 63;

/// The most instructions or stores of a thread, and the most cycles of a delay: what a file may
/// claim without that a sum of such numbers overflows.
const COUNT_MAX: u64 = 1 << 44;

/// The most threads of a recording that is run again; each takes some 500 bytes.
const THREADS_MAX: usize = 1 << 16;

/// The most memory for records that wait for others. The file is read ahead once a third of it is in use.
/// The rest is for a block of the file, of 256 KiB where a recorder wrote it and at most 4 MiB. A queue
/// of accesses that grows by doubling is full at 48 MiB and takes no more.
const WAITING_BYTES_MAX: usize = 48 << 20;

/// The most memory for what fast threads did, encoded, before it goes to a file. Assumed, 1 to 256 MiB: less
/// costs time where programs have little to put aside.
const EVENTS_BYTES_MAX: usize = 64 << 20;

/// Memory of records that wait when the file is read ahead: some 400,000 records, so that threads which
/// sleep for less cost no look through the file. Assumed, 4 to 64 MiB: less costs looks, more costs memory,
/// and no result depends on it.
const PATIENCE_BYTES: usize = 16 << 20;

/// Call that the recorder made to its weave.
#[derive(Debug)]
enum Call {
    Start(ThreadId, CpuId),
    Place(ThreadId, CpuId),
    Work(Work),
    Turn(Turn),
}

impl Call {
    /// Memory that it takes while it waits.
    fn memory_bytes(&self) -> usize {
        match self {
            Call::Work(work) => work_bytes(work),
            _ => size_of::<Call>(),
        }
    }
}

/// Memory that a work takes while it waits.
fn work_bytes(work: &Work) -> usize {
    let own = work.steps.encoded_len() + size_of_val(work.adoptions.as_slice());
    size_of::<Call>() + own
}

#[derive(Debug)]
struct ReplayThread {
    slot: Slot,
    last: Position,
}

/// Counts of a replay beside its prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayCounts {
    /// Accesses of the recording that were run again.
    pub accesses: u64,
    /// Pieces that went to lines which one thread alone used.
    pub private: u64,
    /// Steps whose accesses the recording does not have: it was cut short.
    pub missing: u64,
}

/// A recording under way through a second weave. The records go in, in the order of the file; priced
/// accesses come out of the sink.
#[derive(Debug)]
pub struct Replay<R> {
    weave: Weave,
    relocation: R,
    filter: Filter,
    /// Length of an epoch of the filter; none where lines are not handed over.
    epoch: Option<Cycles>,
    threads: IndexMap<ThreadId, ReplayThread, FxBuildHasher>,
    /// Calls that the weave cannot be told yet: accesses of the first work among them have not
    /// arrived.
    calls: VecDeque<Call>,
    /// Memory of `calls`.
    calls_bytes: usize,
    /// Accesses that no work has taken yet.
    arrivals: Arrivals,
    /// Works that the weave was told.
    work_count: u64,
    /// The end of the works for which the file has been read ahead.
    ahead_until: u64,
    patience: usize,
    counts: ReplayCounts,
    events: Vec<ThreadEvent>,
    pieces: Vec<(u64, u8)>,
}

impl<R: Relocate> Replay<R> {
    /// A replay on `machine`.
    pub fn new(machine: Machine, relocation: R) -> Replay<R> {
        let filter = Filter::new(LineAddr::of(FRESH), relocation.fresh_line_count());
        Replay {
            weave: Weave::new(machine, Capacity::Finite),
            relocation,
            filter,
            epoch: None,
            threads: IndexMap::default(),
            calls: VecDeque::new(),
            calls_bytes: 0,
            arrivals: Arrivals::default(),
            work_count: 0,
            ahead_until: 0,
            patience: PATIENCE_BYTES,
            counts: ReplayCounts::default(),
            events: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Hands lines of moved objects over, as the recorder does in windows of this length.
    pub fn with_hand_over(mut self, window: Cycles) -> Replay<R> {
        self.epoch = Some(window.max(Cycles(1)));
        self
    }

    /// Keeps what fast threads did beyond 64 MiB in a temporary file, not in memory.
    pub fn with_temporary_files(self, files: TemporaryFiles) -> Replay<R> {
        self.weave.set_events_limit(EVENTS_BYTES_MAX, files);
        self
    }

    /// Reads ahead once so many bytes of records wait for others, not 16 MiB.
    pub fn with_patience(mut self, bytes: usize) -> Replay<R> {
        self.patience = bytes;
        self
    }

    /// The next access of the file.
    pub fn access(&mut self, access: &Access) -> Result<(), ReplayError> {
        let thread = access.thread;
        if (FRESH..FRESH_END).contains(&access.addr) {
            let (thread, addr) = (thread.0, access.addr);
            return Err(ReplayError::Address { thread, addr });
        }
        self.check_waiting(thread)?;
        self.arrivals.deliver(thread, Arrived::of(access))
    }

    /// A thread starts on `cpu`; told again of a thread that has started, it changes nothing.
    pub fn start(&mut self, start: &ThreadStart, cpu: CpuId) -> Result<(), ReplayError> {
        self.check_cpu(start.thread, cpu)?;
        self.call(start.thread, Call::Start(start.thread, cpu))
    }

    /// A thread moves to another CPU.
    pub fn place(&mut self, placed: &ThreadPlaced) -> Result<(), ReplayError> {
        self.check_cpu(placed.thread, placed.cpu)?;
        self.call(placed.thread, Call::Place(placed.thread, placed.cpu))
    }

    /// A thread did something.
    pub fn work(&mut self, work: Work) -> Result<(), ReplayError> {
        self.call(work.thread, Call::Work(work))
    }

    /// A change in who runs. `sink` takes what is priced.
    pub fn turn(
        &mut self,
        turn: Turn,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) -> Result<(), ReplayError> {
        self.call(ThreadId(0), Call::Turn(turn))?;
        self.run(false, sink)
    }

    /// The recording has ended: prices all that is left.
    pub fn finish(&mut self, sink: &mut impl FnMut(&Access, &Outcome)) -> Result<(), ReplayError> {
        self.run(true, sink)?;
        let (filter, epoch) = (&mut self.filter, self.epoch);
        self.weave.finish(&mut |access, outcome| {
            note_priced(filter, epoch, access);
            sink(access, outcome);
        });
        self.check_events()
    }

    /// Each thread's sums so far, in order of their starts.
    pub fn totals(&self) -> impl Iterator<Item = (ThreadId, ThreadTotals)> + '_ {
        let threads = self.threads.iter();
        threads.map(|(id, thread)| (*id, self.weave.totals(thread.slot)))
    }

    /// Counts beside the prices.
    pub fn counts(&self) -> ReplayCounts {
        self.counts
    }

    /// The relocation of the program's bytes.
    pub fn relocation(&self) -> &R {
        &self.relocation
    }

    /// Memory of records that wait for others.
    pub fn waiting_bytes(&self) -> usize {
        self.calls_bytes + self.arrivals.waiting_bytes()
    }

    /// Returns true if many records wait for accesses that come much later in the file: it is time for
    /// [`read_ahead`](Self::read_ahead).
    pub fn is_impatient(&self) -> bool {
        self.waiting_bytes() > self.patience && self.work_count >= self.ahead_until
    }

    /// A look through the rest of the file, which is to be shown all of it, from the next record on. Then
    /// [`note_ahead`](Self::note_ahead) takes it, and the same records follow.
    pub fn read_ahead(&self) -> ReadAhead {
        ReadAhead::new(
            self.calls.iter(),
            &self.arrivals,
            self.work_count,
            self.patience,
        )
    }

    /// Takes what a look through the rest of the file has found. Nothing waits for it any more.
    pub fn note_ahead(&mut self, ahead: ReadAhead) -> Result<(), ReplayError> {
        self.ahead_until = ahead.until_work();
        for (thread, late, total) in ahead.into_late() {
            self.arrivals.of_thread(thread)?.set_ahead(late, total);
        }
        Ok(())
    }

    fn call(&mut self, thread: ThreadId, call: Call) -> Result<(), ReplayError> {
        self.check_waiting(thread)?;
        self.calls_bytes += call.memory_bytes();
        self.calls.push_back(call);
        Ok(())
    }

    fn check_waiting(&self, thread: ThreadId) -> Result<(), ReplayError> {
        match self.waiting_bytes() < WAITING_BYTES_MAX {
            true => Ok(()),
            false => Err(ReplayError::Waiting { thread: thread.0 }),
        }
    }

    fn check_cpu(&self, thread: ThreadId, cpu: CpuId) -> Result<(), ReplayError> {
        let count = self.weave.machine().topology.cpu_count();
        if cpu.index() < count {
            return Ok(());
        }
        let (thread, cpu) = (thread.0, cpu.0);
        Err(ReplayError::NoSuchCpu { thread, cpu, count })
    }

    /// Tells the weave what can be told.
    fn run(
        &mut self,
        is_over: bool,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) -> Result<(), ReplayError> {
        while let Some(call) = self.calls.pop_front() {
            let bytes = call.memory_bytes();
            match call {
                Call::Start(thread, cpu) => self.start_now(thread, cpu)?,
                Call::Place(thread, cpu) => self.weave.place(self.slot(thread)?, cpu),
                Call::Work(work) => {
                    if !is_over && !self.has_arrived(&work)? {
                        self.calls.push_front(Call::Work(work));
                        return Ok(());
                    }
                    self.push(&work)?;
                    self.work_count += 1;
                }
                Call::Turn(turn) => self.take_turn(turn, sink)?,
            }
            self.calls_bytes -= bytes;
        }
        Ok(())
    }

    fn start_now(&mut self, thread: ThreadId, cpu: CpuId) -> Result<(), ReplayError> {
        if self.threads.contains_key(&thread) {
            return Ok(()); // It was renamed.
        }
        if self.threads.len() >= THREADS_MAX {
            return Err(ReplayError::TooManyThreads { thread: thread.0 });
        }
        let known = ReplayThread {
            slot: self.weave.add_thread(thread, cpu),
            last: Position::default(),
        };
        self.threads.insert(thread, known);
        Ok(())
    }

    fn take_turn(
        &mut self,
        turn: Turn,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) -> Result<(), ReplayError> {
        match turn {
            Turn::Left { thread } => self.weave.leave(self.slot(thread)?),
            Turn::Returned { thread, waker } => {
                let slot = self.slot(thread)?;
                match waker {
                    Some(waker) => self.wake(slot, &waker)?,
                    None => self.weave.join(slot),
                }
            }
            Turn::Passed { span } => {
                self.weave.pass(Cycles(span.0.min(COUNT_MAX)));
            }
            Turn::Priced => {
                let (filter, epoch) = (&mut self.filter, self.epoch);
                self.weave.advance(&mut |access, outcome| {
                    note_priced(filter, epoch, access);
                    sink(access, outcome);
                });
                self.check_events()?;
            }
        }
        Ok(())
    }

    fn check_events(&self) -> Result<(), ReplayError> {
        match self.weave.events_failure() {
            None => Ok(()),
            Some(error) => Err(ReplayError::Temporary {
                reason: error.to_string(),
            }),
        }
    }

    fn wake(&mut self, slot: Slot, waker: &Waker) -> Result<(), ReplayError> {
        let insn = in_range(waker.thread, "the waking instruction", waker.insn)?;
        in_range(waker.thread, "the delay", waker.delay.unsigned_abs())?;
        let by = Wake {
            slot: self.slot(waker.thread)?,
            insn,
        };
        self.weave.wake(slot, by, waker.delay);
        Ok(())
    }

    fn slot(&self, thread: ThreadId) -> Result<Slot, ReplayError> {
        self.known(thread).map(|known| known.slot)
    }

    fn known(&self, thread: ThreadId) -> Result<&ReplayThread, ReplayError> {
        let unknown = ReplayError::UnknownThread { thread: thread.0 };
        self.threads.get(&thread).ok_or(unknown)
    }

    fn has_arrived(&self, work: &Work) -> Result<bool, ReplayError> {
        let thread = self.known(work.thread).map(|_| work.thread)?;
        let wanted = work.steps.iter().filter(|step| !step.is_fence);
        let arrivals = &self.arrivals;
        Ok(arrivals.has(thread, work.steps.len()) || arrivals.has(thread, wanted.count()))
    }

    /// Pushes what a thread did.
    fn push(&mut self, work: &Work) -> Result<(), ReplayError> {
        self.adopt(work)?;
        let thread = work.thread;
        let known = self.known(thread)?;
        let (slot, mut last) = (known.slot, known.last);
        let accesses = self.arrivals.index(thread);
        self.events.clear();
        for step in work.steps.iter() {
            last = moved_on(thread, last, step.since)?;
            if step.is_fence {
                self.events.push(fence(last));
            } else if let Some(arrived) = accesses.and_then(|index| self.arrivals.take(index)) {
                self.push_access(thread, last, arrived);
            } else {
                self.counts.missing += 1;
            }
        }
        self.threads[&thread].last = last;
        let frontier = moved_on(thread, last, work.ahead)?;
        self.weave.push(slot, &self.events, frontier);
        Ok(())
    }

    fn push_access(&mut self, thread: ThreadId, at: Position, arrived: Arrived) {
        self.counts.accesses += 1;
        self.pieces.clear();
        self.relocation
            .relocate(arrived.addr, arrived.size, &mut self.pieces);
        let pieces = std::mem::take(&mut self.pieces);
        let in_lines = pieces
            .iter()
            .flat_map(|(addr, size)| split_by_line(*addr, u64::from(*size)));
        let toucher = self.toucher(thread);
        for (addr, size) in in_lines {
            let line = LineAddr::of(addr);
            match self.filter.touch(line, toucher, arrived.op.is_write()) {
                Touch::Private => {
                    self.counts.private += 1;
                    continue;
                }
                Touch::Recorded => {}
                Touch::TakenFrom(owner, is_written) => self.adopt_line(line, owner, is_written),
            }
            self.events.push(ThreadEvent {
                insn: at.insn,
                stores: at.stores,
                addr,
                code: arrived.code,
                size,
                op: arrived.op,
            });
        }
        self.pieces = pieces;
    }

    fn adopt(&mut self, work: &Work) -> Result<(), ReplayError> {
        for adoption in &work.adoptions {
            let addr = adoption.line.0.saturating_mul(hitm_base::LINE_SIZE);
            if (FRESH..FRESH_END).contains(&addr) {
                let thread = work.thread.0;
                return Err(ReplayError::Address { thread, addr });
            }
            self.pieces.clear();
            self.relocation
                .pieces(addr, hitm_base::LINE_SIZE as u8, &mut self.pieces);
            let pieces = std::mem::take(&mut self.pieces);
            let mut is_left = false;
            for (addr, size) in &pieces {
                for (addr, _) in split_by_line(*addr, u64::from(*size)) {
                    let line = LineAddr::of(addr);
                    let owner = self.toucher(adoption.owner);
                    self.filter.own(line, owner, adoption.is_written);
                    is_left |= !self.filter.covers(line);
                }
            }
            self.pieces = pieces;
            if is_left {
                self.adopt_line(adoption.line, adoption.owner, adoption.is_written);
            }
        }
        Ok(())
    }

    /// A thread at the present time: when the owner of a line touched it last was not recorded.
    fn toucher(&self, thread: ThreadId) -> Toucher {
        let epoch = epoch_of(self.epoch, self.weave.now());
        Toucher { thread, epoch }
    }

    fn adopt_line(&mut self, line: LineAddr, owner: ThreadId, is_written: bool) {
        // After a recorder's tags ran out the owner may be a thread that never was.
        if let Some(owner) = self.threads.get(&owner) {
            self.weave.adopt(line, owner.slot, is_written);
        }
    }
}

fn epoch_of(epoch: Option<Cycles>, time: Cycles) -> u64 {
    epoch.map_or(0, |epoch| time.0 / epoch.0)
}

fn note_priced(filter: &mut Filter, epoch: Option<Cycles>, access: &Access) {
    let toucher = Toucher {
        thread: access.thread,
        epoch: epoch_of(epoch, access.time),
    };
    filter.priced(access.line(), toucher, access.op.is_write());
}

fn fence(at: Position) -> ThreadEvent {
    ThreadEvent {
        insn: at.insn,
        stores: at.stores,
        addr: 0,
        code: CodeAddr(0),
        size: 0,
        op: AccessOp::Fence,
    }
}

fn moved_on(thread: ThreadId, from: Position, by: Stretch) -> Result<Position, ReplayError> {
    let insn = from.insn.saturating_add(by.insns);
    let stores = from.stores.saturating_add(by.stores);
    Ok(Position {
        insn: in_range(thread, "the instruction count", insn)?,
        stores: in_range(thread, "the store count", stores)?,
    })
}

fn in_range(thread: ThreadId, what: &'static str, found: u64) -> Result<u64, ReplayError> {
    if found <= COUNT_MAX {
        return Ok(found);
    }
    let thread = thread.0;
    Err(ReplayError::OutOfRange {
        thread,
        what,
        found,
    })
}
