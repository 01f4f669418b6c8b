//! Asking the host's memory for what a CPU will use, before its turn comes.
//!
//! Most CPUs do nothing for thousands of cycles and then run some hundred accesses at once. What those
//! touch does not stay in the host's nearer caches while hundreds of other CPUs have their turns, and
//! each access would wait for it several times, one after the other. But whose turn comes is known a
//! microsecond before, and what a CPU and its task use is the same each time: so all of it is asked for
//! together. No result depends on it.

use hitm_base::CpuId;
use hitm_coherence::directory::LineId;
use hitm_coherence::prefetch::{prefetch, prefetch_bytes, prefetch_value};

use super::cpu::StackId;
use super::run::Engine;
use super::state::State;

/// With fewer CPUs than these, what all of them use stays in the host's second cache, and asking for it
/// costs 5 % with 64 CPUs and gains 6 % with 128.
const LEAST_CPUS: usize = 96;
/// Bytes of a stack that are asked for: an idle one has 700 in use when it goes on, that of a pool's
/// worker 1100, both at its beginning, and what says where to go on at its end.
const STACK_BYTES: usize = 1280;
/// Bytes of a store buffer: six stores. It is seldom fuller.
const STORE_BYTES: usize = 192;

/// A part of the host's memory; nothing is read from it.
#[derive(Debug, Clone, Copy)]
pub struct HostSpan {
    first: *const u8,
    len: usize,
}

impl HostSpan {
    /// Nothing.
    const EMPTY: HostSpan = HostSpan {
        first: std::ptr::null(),
        len: 0,
    };

    /// Where an item is, that stays where it is.
    pub fn of<T: ?Sized>(item: &T) -> HostSpan {
        HostSpan {
            first: (&raw const *item).cast(),
            len: size_of_val(item),
        }
    }

    fn prefetch(self) {
        prefetch_bytes(self.first, self.len);
    }
}

/// Simulated memory that was made known at one go: its words, and those of its lines that were new.
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

/// What a CPU or a stack uses each time. One cache line of the host.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Footprint {
    host: [HostSpan; 3],
    simulated: Extent,
}

impl Footprint {
    const EMPTY: Footprint = Footprint {
        host: [HostSpan::EMPTY; 3],
        simulated: Extent::EMPTY,
    };
}

/// The footprints of all CPUs and stacks.
#[derive(Debug)]
pub(super) struct Footprints {
    cpus: Vec<Footprint>,
    stacks: Vec<Footprint>,
    /// By CPU: the stack that it goes back to when it has nothing to do.
    idle_stacks: Vec<Option<StackId>>,
    /// The CPUs that came near last, the last one first.
    recent: [usize; 2],
}

impl Footprints {
    pub(super) fn new(cpu_count: usize) -> Footprints {
        Footprints {
            cpus: vec![Footprint::EMPTY; cpu_count],
            stacks: Vec::new(),
            idle_stacks: vec![None; cpu_count],
            recent: [0; 2],
        }
    }

    /// Adds the footprint of a new stack; returns its number.
    pub(super) fn add_stack(&mut self, memory: HostSpan) -> u32 {
        let len = memory.len.min(STACK_BYTES);
        let begin = HostSpan { len, ..memory };
        let end = HostSpan {
            first: memory.first.wrapping_add(memory.len.saturating_sub(1)),
            len: 1,
        };
        self.stacks.push(Footprint {
            host: [begin, end, HostSpan::EMPTY],
            ..Footprint::EMPTY
        });
        self.stacks.len() as u32 - 1
    }

    pub(super) fn set_idle_stack(&mut self, cpu: usize, stack: StackId) {
        self.idle_stacks[cpu] = Some(stack);
    }
}

impl State {
    /// Where memory begins that is made known from now on.
    fn next_extent(&self) -> Extent {
        Extent {
            first_word: self.words.len() as u32,
            words: 0,
            first_line: self.directory.next_line(),
            lines: 0,
        }
    }

    /// Whether there are enough CPUs.
    #[inline]
    fn foresees(&self) -> bool {
        self.cpus.len() >= LEAST_CPUS
    }

    /// A CPU's turn comes soon.
    #[inline]
    pub(super) fn foresee(&mut self, index: usize) {
        if self.foresees() && index != self.footprints.recent[0] {
            self.prefetch_turn(index);
        }
    }

    #[inline(never)]
    fn prefetch_turn(&mut self, index: usize) {
        let [second, third] = self.footprints.recent;
        self.footprints.recent = [index, second];
        // Each step asks for what the next one reads, which it does when other CPUs have come near.
        prefetch_value(&self.cpus[index]);
        prefetch(&self.footprints.cpus, index);
        self.prefetch_cpu(second);
        for stack in self.stacks_of(second) {
            prefetch(&self.footprints.stacks, stack.0 as usize);
        }
        for stack in self.stacks_of(third) {
            self.prefetch_stack(stack);
        }
    }

    /// The stack that a CPU is on, and its idle one.
    fn stacks_of(&self, cpu: usize) -> impl Iterator<Item = StackId> + use<> {
        let (now, idle) = (self.cpus[cpu].stack, self.footprints.idle_stacks[cpu]);
        now.into_iter()
            .chain(idle.filter(|idle| Some(*idle) != now))
    }

    fn prefetch_cpu(&self, cpu: usize) {
        self.prefetch_footprint(&self.footprints.cpus[cpu]);
        prefetch_bytes(self.cpus[cpu].buffer.first().cast(), STORE_BYTES);
    }

    fn prefetch_stack(&self, stack: StackId) {
        self.prefetch_footprint(&self.footprints.stacks[stack.0 as usize]);
    }

    fn prefetch_footprint(&self, footprint: &Footprint) {
        for span in footprint.host {
            span.prefetch();
        }
        let Extent {
            first_word,
            words,
            first_line,
            lines,
        } = footprint.simulated;
        let (words, lines) = (words as usize, lines as usize);
        prefetch_value(&self.words[first_word as usize..][..words]);
        prefetch_value(&self.parked[first_line.index()..][..lines]);
        self.directory.prefetch_run(first_line, lines);
    }
}

impl Engine {
    /// Makes something and says which simulated memory became known with it.
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

    /// What a CPU uses whenever it runs.
    pub fn set_cpu_footprint(&self, cpu: CpuId, host: HostSpan, simulated: Extent) {
        let mut state = self.state.borrow_mut();
        state.footprints.cpus[cpu.index()] = Footprint {
            host: [host, HostSpan::EMPTY, HostSpan::EMPTY],
            simulated,
        };
    }

    /// What a stack uses whenever it runs, beside its own memory.
    pub fn set_stack_footprint(&self, stack: StackId, host: HostSpan, simulated: Extent) {
        let mut state = self.state.borrow_mut();
        let footprint = &mut state.footprints.stacks[stack.0 as usize];
        footprint.host[2] = host;
        footprint.simulated = simulated;
    }

    /// Simulated code is going to look at what belongs to another CPU.
    pub fn prefetch_cpu(&self, cpu: CpuId) {
        let state = self.state.borrow();
        if state.foresees() {
            state.prefetch_cpu(cpu.index());
        }
    }

    /// Simulated code is going to look at what belongs to another stack.
    pub fn prefetch_stack(&self, stack: StackId) {
        let state = self.state.borrow();
        if state.foresees() {
            state.prefetch_stack(stack);
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
    fn a_footprint_is_one_cache_line_of_the_host() {
        assert_eq!(size_of::<Footprint>(), 64);
    }
}
