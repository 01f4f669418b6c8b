//! What suspended CPUs will look at first when they go on, to be brought into the host's cache while
//! another one runs: hundreds of CPUs and their stacks do not fit it. No result depends on it.

use hitm_base::CpuId;
use hitm_coherence::directory::Directory;
use hitm_coherence::prefetch::{prefetch, prefetch_at};

use super::cpu::{Cpu, StackId};
use super::memory::Place;
use super::state::State;

/// Bytes of a cache line of the host.
const HOST_LINE: usize = 64;
/// Lines of a CPU that nearly every event on it looks at.
const CPU_LINES: usize = 4;
/// Lines up to the awaited future in which the innermost of its callers lie.
const FRAME_LINES: usize = 4;

/// Cycles of virtual time before an event at which its memory is asked for.
const SPAN: u64 = 40;

/// By CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Next {
    stack: Option<StackId>,
    /// The access that it is about to do.
    place: Option<Place>,
}

/// Addresses of a stack's outermost future and of the one that it awaits.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    outermost: usize,
    awaited: usize,
}

/// Tables small enough to stay in the host's cache.
#[derive(Debug)]
pub(super) struct Ahead {
    cpus: Vec<Next>,
    stacks: Vec<Frame>,
    running: StackId,
}

impl Ahead {
    pub(super) fn new(cpu_count: usize) -> Ahead {
        Ahead {
            cpus: vec![Next::default(); cpu_count],
            stacks: Vec::new(),
            running: StackId(0),
        }
    }

    /// A new stack, whose outermost future is at this address.
    pub(super) fn add_stack(&mut self, outermost: usize) {
        self.stacks.push(Frame {
            outermost,
            awaited: outermost,
        });
    }

    /// `stack` runs from now on.
    #[inline]
    pub(super) fn run(&mut self, stack: StackId) {
        self.running = stack;
    }

    /// The running stack waits for `future`.
    #[inline]
    pub(super) fn await_at<T>(&mut self, future: &T) {
        if let Some(frame) = self.stacks.get_mut(self.running.0 as usize) {
            frame.awaited = std::ptr::from_ref(future).addr();
        }
    }

    /// `cpu` is about to access `place`, or nothing that is known.
    #[inline]
    pub(super) fn access(&mut self, cpu: usize, place: Option<Place>) {
        self.cpus[cpu].place = place;
    }

    /// `cpu` goes on with `stack`.
    #[inline]
    pub(super) fn suspend(&mut self, cpu: usize, stack: Option<StackId>) {
        self.cpus[cpu].stack = stack;
    }
}

impl State {
    /// Asks the host's memory for what those CPUs will look at that come soon.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        let memory = Memory {
            ahead: &self.ahead,
            cpus: &self.cpus,
            directory: &self.directory,
            words: &self.words,
        };
        self.calendar.look_ahead(SPAN, |cpu| memory.prefetch(cpu));
    }
}

/// What CPUs look at.
struct Memory<'s> {
    ahead: &'s Ahead,
    cpus: &'s [Cpu],
    directory: &'s Directory,
    words: &'s [u64],
}

impl Memory<'_> {
    /// Asks for what `cpu` will look at when it goes on.
    #[inline]
    fn prefetch(&self, cpu: usize) {
        let next = &self.ahead.cpus[cpu];
        let first: *const u8 = self.cpus.as_ptr().wrapping_add(cpu).cast();
        for line in 0..CPU_LINES {
            prefetch_at(first.wrapping_add(line * HOST_LINE));
        }
        let stack = next
            .stack
            .and_then(|id| self.ahead.stacks.get(id.0 as usize));
        if let Some(frame) = stack {
            prefetch_at(std::ptr::without_provenance(frame.outermost));
            for line in 0..FRAME_LINES {
                let at = frame.awaited.wrapping_sub(line * HOST_LINE);
                prefetch_at(std::ptr::without_provenance(at));
            }
        }
        if let Some(place) = next.place {
            self.directory.prefetch(CpuId(cpu as u16), place.line);
            prefetch(self.words, place.word as usize);
        }
    }
}
