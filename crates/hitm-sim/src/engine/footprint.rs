//! Prefetches of what a CPU will use of the host's memory, before its turn comes.
//!
//! Most CPUs do nothing for thousands of cycles and then run some hundred accesses at once. What
//! those touch does not stay in the host's nearer caches while hundreds of other CPUs have their
//! turns. Each access would wait for it several times, one after the other. But a turn is known a
//! microsecond before it comes, and what a CPU and its task use is the same each time. So all of it
//! is prefetched together. No result depends on it.

use std::collections::VecDeque;
use std::fmt;

use hitm_base::CpuId;
use hitm_coherence::directory::LineId;
use hitm_coherence::prefetch::{HOST_LINE_BYTES, prefetch_bytes, prefetch_value};

use super::cpu::StackId;
use super::run::{Engine, Stack};
use super::state::State;

/// With fewer CPUs than these, what all of them use stays in the host's second cache. Prefetching
/// it costs 5 % with 64 CPUs and gains 6 % with 128.
const LEAST_CPUS: usize = 96;
/// Bytes of a stack that are prefetched. An idle one has 700 in use when it resumes, that of a
/// pool's worker 1100, both at its beginning; what says where to resume lies at its end.
const STACK_BYTES: usize = 1280;
/// Events for which prefetched memory is taken to stay in the host's second cache.
const STAYS_EVENTS: u64 = 4000;
const HOST_LINE: u64 = HOST_LINE_BYTES as u64;
/// Bytes of a store buffer: six stores. It is seldom fuller.
const STORE_BYTES: usize = 192;

/// A part of the host's memory, in whole cache lines: the first in the upper bits, how many in the lower
/// 16. Nothing is read from it.
#[derive(Debug, Clone, Copy)]
pub struct HostSpan(u64);

const COUNT_BITS: u32 = 16;

impl HostSpan {
    /// Nothing.
    const EMPTY: HostSpan = HostSpan(0);

    fn new(first: *const u8, len: usize) -> HostSpan {
        let first = first.addr() as u64;
        let lines = (first % HOST_LINE + len as u64).div_ceil(HOST_LINE);
        HostSpan((first / HOST_LINE) << COUNT_BITS | lines.min((1 << COUNT_BITS) - 1))
    }

    /// Memory of an item that does not move.
    pub fn of<T: ?Sized>(item: &T) -> HostSpan {
        HostSpan::new((&raw const *item).cast(), size_of_val(item))
    }

    /// Memory that a vector has room in. Its place after the vector has grown is not known.
    pub fn of_buffer<T>(items: &Vec<T>) -> HostSpan {
        HostSpan::new(items.as_ptr().cast(), items.capacity() * size_of::<T>())
    }

    #[inline]
    fn prefetch(self) {
        let first = (self.0 >> COUNT_BITS) * HOST_LINE;
        let len = (self.0 & ((1 << COUNT_BITS) - 1)) * HOST_LINE;
        prefetch_bytes(std::ptr::without_provenance(first as usize), len as usize);
    }
}

/// Simulated memory that was registered at one go: its words, and those of its lines that were new.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    first_word: u32,
    words: u32,
    first_line: LineId,
    lines: u32,
}

impl Extent {
    /// Nothing.
    pub const EMPTY: Extent = Extent {
        first_word: 0,
        words: 0,
        first_line: LineId::FIRST,
        lines: 0,
    };
}

/// Memory that a CPU or a stack uses each time.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    host: [HostSpan; 8],
    simulated: [Extent; 3],
}

impl Footprint {
    const EMPTY: Footprint = Footprint {
        host: [HostSpan::EMPTY; 8],
        simulated: [Extent::EMPTY; 3],
    };

    /// Adds what there is room for.
    fn add(&mut self, host: &[HostSpan], simulated: &[Extent]) {
        let free = self.host.iter_mut().filter(|span| span.0 == 0);
        free.zip(host).for_each(|(free, span)| *free = *span);
        let free = self.simulated.iter_mut().filter(|extent| extent.words == 0);
        free.zip(simulated)
            .for_each(|(free, extent)| *free = *extent);
    }
}

/// A stack and what it uses: two cache lines of the host.
#[repr(align(64))]
struct StackEntry {
    /// None while it runs, and when it has ended.
    stack: Option<Stack>,
    footprint: Footprint,
}

/// The footprint of a CPU: two cache lines of the host.
#[derive(Debug)]
#[repr(align(64))]
struct CpuEntry {
    footprint: Footprint,
    /// The stack that it goes back to when it has nothing to do.
    idle_stack: Option<StackId>,
    /// The number of the event before which it was prefetched last.
    asked_at: u64,
}

/// A CPU or a stack that has its turn soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    Cpu(u32),
    Stack(StackId),
}

/// Most turns that may come at once; more are not prefetched for.
const COMING_MAX: usize = 32;

/// All stacks, and the footprints of all CPUs and stacks.
pub(super) struct Footprints {
    cpus: Vec<CpuEntry>,
    stacks: Vec<StackEntry>,
    coming: VecDeque<Coming>,
}

impl Footprints {
    pub(super) fn new(cpu_count: usize) -> Footprints {
        let entry = || CpuEntry {
            footprint: Footprint::EMPTY,
            idle_stack: None,
            asked_at: 0,
        };
        Footprints {
            cpus: std::iter::repeat_with(entry).take(cpu_count).collect(),
            stacks: Vec::new(),
            coming: VecDeque::with_capacity(COMING_MAX),
        }
    }

    /// Adds a stack; returns its number.
    pub(super) fn add_stack(&mut self, stack: Stack) -> u32 {
        let memory: *const u8 = (&raw const *stack).cast();
        let len = size_of_val(&*stack);
        let begin = HostSpan::new(memory, len.min(STACK_BYTES));
        let end = HostSpan::new(memory.wrapping_add(len.saturating_sub(1)), 1);
        let mut footprint = Footprint::EMPTY;
        footprint.add(&[begin, end], &[]);
        self.stacks.push(StackEntry {
            stack: Some(stack),
            footprint,
        });
        self.stacks.len() as u32 - 1
    }

    /// The stack itself, while it does not run.
    #[inline]
    pub(super) fn stack(&mut self, id: StackId) -> &mut Option<Stack> {
        &mut self.stacks[id.0 as usize].stack
    }

    pub(super) fn set_idle_stack(&mut self, cpu: usize, stack: StackId) {
        self.cpus[cpu].idle_stack = Some(stack);
    }

    #[inline]
    fn note_coming(&mut self, item: Coming) {
        if self.coming.len() < COMING_MAX && self.coming.back() != Some(&item) {
            self.coming.push_back(item);
        }
    }

    /// Removes all stacks and returns them.
    pub(super) fn take_stacks(&mut self) -> Vec<Stack> {
        self.stacks
            .iter_mut()
            .filter_map(|entry| entry.stack.take())
            .collect()
    }
}

impl fmt::Debug for Footprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Footprints").finish_non_exhaustive()
    }
}

impl State {
    /// Start of the memory that is registered from now on.
    fn next_extent(&self) -> Extent {
        Extent {
            first_word: self.words.len() as u32,
            words: 0,
            first_line: self.directory.next_line(),
            lines: 0,
        }
    }

    /// Returns true if there are enough CPUs for prefetches to pay.
    #[inline]
    fn foresees(&self) -> bool {
        self.cpus.len() >= LEAST_CPUS
    }

    /// A CPU's turn comes soon.
    #[inline]
    pub(super) fn foresee(&mut self, index: usize) {
        if self.foresees() {
            prefetch_value(&self.cpus[index]);
            prefetch_value(&self.footprints.cpus[index]);
            self.footprints.note_coming(Coming::Cpu(index as u32));
        }
    }

    /// A stack's turn comes soon.
    fn foresee_stack(&mut self, stack: StackId) {
        prefetch_value(&self.footprints.stacks[stack.0 as usize]);
        self.footprints.note_coming(Coming::Stack(stack));
    }

    /// One step for what comes: it prefetches what the next one reads, and something else happens
    /// between the two.
    #[inline]
    pub(super) fn prefetch_step(&mut self) {
        if let Some(coming) = self.footprints.coming.pop_front() {
            self.prefetch_coming(coming);
        }
    }

    #[inline(never)]
    fn prefetch_coming(&mut self, coming: Coming) {
        match coming {
            Coming::Cpu(cpu) => {
                let cpu = cpu as usize;
                let asked_at = &mut self.footprints.cpus[cpu].asked_at;
                if *asked_at + STAYS_EVENTS > self.events {
                    return;
                }
                *asked_at = self.events;
                self.prefetch_footprint(&self.footprints.cpus[cpu].footprint);
                prefetch_bytes(self.cpus[cpu].buffer.first().cast(), STORE_BYTES);
                for stack in self.stacks_of(cpu) {
                    self.foresee_stack(stack);
                }
            }
            Coming::Stack(stack) => {
                self.prefetch_footprint(&self.footprints.stacks[stack.0 as usize].footprint);
            }
        }
    }

    /// The stack that a CPU is on, and its idle one.
    fn stacks_of(&self, cpu: usize) -> impl Iterator<Item = StackId> + use<> {
        let (now, idle) = (self.cpus[cpu].stack, self.footprints.cpus[cpu].idle_stack);
        now.into_iter()
            .chain(idle.filter(|idle| Some(*idle) != now))
    }

    fn prefetch_footprint(&self, footprint: &Footprint) {
        footprint.host.iter().for_each(|span| span.prefetch());
        for extent in footprint.simulated {
            let (words, lines) = (extent.words as usize, extent.lines as usize);
            prefetch_value(&self.words[extent.first_word as usize..][..words]);
            prefetch_value(&self.parked[extent.first_line.index()..][..lines]);
            self.directory.prefetch_run(extent.first_line, lines);
        }
    }
}

impl Engine {
    /// Makes something and returns the simulated memory that was registered with it.
    pub fn extent_of<T>(&self, make: impl FnOnce() -> T) -> (T, Extent) {
        let begin = self.state.borrow().next_extent();
        let made = make();
        let end = self.state.borrow().next_extent();
        let extent = Extent {
            words: end.first_word - begin.first_word,
            lines: (end.first_line.index() - begin.first_line.index()) as u32,
            ..begin
        };
        (made, extent)
    }

    /// Adds memory that a CPU uses whenever it runs; what there is no room for is not prefetched.
    pub fn add_cpu_footprint(&self, cpu: CpuId, host: &[HostSpan], simulated: &[Extent]) {
        let mut state = self.state.borrow_mut();
        let entry = &mut state.footprints.cpus[cpu.index()];
        entry.footprint.add(host, simulated);
    }

    /// The same for a stack, beside its own memory.
    pub fn add_stack_footprint(&self, stack: StackId, host: &[HostSpan], simulated: &[Extent]) {
        let mut state = self.state.borrow_mut();
        let entry = &mut state.footprints.stacks[stack.0 as usize];
        entry.footprint.add(host, simulated);
    }

    /// Simulated code is going to look at what belongs to another CPU.
    pub fn foresee_cpu(&self, cpu: CpuId) {
        self.state.borrow_mut().foresee(cpu.index());
    }

    /// Simulated code is going to look at what belongs to another stack.
    pub fn foresee_stack(&self, stack: StackId) {
        let mut state = self.state.borrow_mut();
        if state.foresees() {
            state.foresee_stack(stack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Arena, EngineConfig};
    use crate::layout::Layouts;

    #[test]
    fn an_extent_has_what_became_known_and_nothing_else() {
        let engine = Engine::new(&EngineConfig::at_rest("broadwell-4s"));
        let mut arena = Arena::new(std::rc::Rc::clone(&engine), Layouts::linux_6_12());
        let mut rq = || {
            let object = arena.allocate("rq", CpuId(0)).unwrap();
            let lock = arena.place(&object, "__lock").unwrap();
            let clock = arena.place(&object, "clock").unwrap();
            [lock, clock, arena.place(&object, "__lock").unwrap()]
        };
        let (_, before) = engine.extent_of(&mut rq);
        let ([lock, clock, _], extent) = engine.extent_of(&mut rq);
        // The third place is the first again.
        assert_eq!((extent.first_word, extent.words), (lock.word, 2));
        let lines = 1 + u32::from(lock.line() != clock.line());
        assert_eq!((extent.first_line, extent.lines), (lock.line(), lines));
        assert_eq!(extent.first_word, before.first_word + before.words);
        assert_eq!(engine.extent_of(|| ()).1.lines, 0);
    }

    #[test]
    fn an_entry_is_two_cache_lines_of_the_host() {
        assert_eq!(size_of::<StackEntry>(), 128);
        assert_eq!(size_of::<CpuEntry>(), 128);
    }
}
