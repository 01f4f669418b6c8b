//! The engine as simulated code sees it, and the executor that runs the stacks.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use hitm_base::{CpuId, Cycles, LineAddr, Machine};

use super::config::{EngineConfig, MODEL_VERSION, RunHeader, SimError};
use super::cpu::{CpuTotals, Mode, StackId, Vector, Wait};
use super::futures::{
    FenceFuture, InterruptFuture, JoinFuture, KnownFuture, LoadFuture, ParkFuture, RmwFuture,
    RunFuture, StoreFuture, SwitchFuture, TouchFuture,
};
use super::join::JoinKind;
use super::memory::{Opaque, Place, Rmw, Site};
use super::profile::{MemberKey, Profile};
use super::state::State;
use super::store_buffer::Posted;
use hitm_base::Random;

pub(super) type Stack = Pin<Box<dyn Future<Output = ()>>>;

/// Virtual time, CPUs and memory: what simulated code talks to.
pub struct Engine {
    pub(super) state: RefCell<State>,
    machine: Arc<Machine>,
    seed: u64,
    scenario_hash: u64,
    events_max: u64,
    /// Members without a modelled content, by their numbers.
    pub(super) opaque: RefCell<BTreeSet<u16>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// A machine on which nothing runs.
    pub fn new(config: &EngineConfig) -> Rc<Engine> {
        let state = State::new(config);
        Rc::new(Engine {
            machine: Arc::clone(&state.machine),
            state: RefCell::new(state),
            seed: config.seed,
            scenario_hash: config.scenario_hash,
            events_max: config.events_max,
            opaque: RefCell::default(),
        })
    }

    /// Returns the machine that is simulated.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the identity of the run, to repeat it.
    pub fn header(&self) -> RunHeader {
        RunHeader {
            model_version: MODEL_VERSION,
            machine: self.machine.name.clone(),
            cpu_count: self.machine.topology.cpu_count(),
            seed: self.seed,
            scenario_hash: self.scenario_hash,
        }
    }

    /// The random stream `name` of this run.
    pub fn random(&self, name: &str) -> Random {
        Random::stream(self.seed, name)
    }

    /// A new word of memory at `addr`, counted as `member`; the first word of a line places the
    /// line's memory on the node of `cpu`. Its value is 0.
    pub fn place(&self, addr: u64, cpu: CpuId, member: MemberKey) -> Place {
        let member = self.member(member);
        self.place_as(addr, cpu, member)
    }

    /// The same for a member whose number is known.
    pub(super) fn place_as(&self, addr: u64, cpu: CpuId, member: u16) -> Place {
        let mut state = self.state.borrow_mut();
        let line = state.line(LineAddr::of(addr), cpu);
        state.words.push(0);
        Place {
            line,
            word: (state.words.len() - 1) as u32,
            member,
            offset: (addr % hitm_base::LINE_SIZE) as u8,
        }
    }

    /// The number under which a member is counted.
    pub(super) fn member(&self, member: MemberKey) -> u16 {
        self.state.borrow_mut().profile.member(member)
    }

    /// Counts an object of a type.
    pub(super) fn count_object(&self, type_name: &str) {
        self.state.borrow_mut().profile.add_object(type_name);
    }

    /// Counts an object that has this member.
    pub(super) fn count_object_with(&self, member: u16) {
        self.state.borrow_mut().profile.add_object_with(member);
    }

    /// A line of memory, without a word or a member of its own.
    pub(super) fn line_place(&self, addr: u64, cpu: CpuId) -> Place {
        Place {
            line: self.state.borrow_mut().line(LineAddr::of(addr), cpu),
            word: 0,
            member: 0,
            offset: 0,
        }
    }

    /// New words of memory, all 0; returns the first.
    pub(super) fn add_words(&self, count: usize) -> u32 {
        let words = &mut self.state.borrow_mut().words;
        let first = words.len();
        words.resize(first + count, 0);
        first as u32
    }

    /// Sets a value without an access, before the run.
    pub fn set(&self, place: Place, value: u64) {
        self.state.borrow_mut().words[place.word as usize] = value;
    }

    /// The committed value of a word, without an access: for checks and results, not for
    /// simulated code.
    pub fn value(&self, place: Place) -> u64 {
        self.state.borrow().words[place.word as usize]
    }

    /// The CPU that runs the calling code.
    #[inline]
    pub fn cpu(&self) -> CpuId {
        CpuId(self.state.borrow().current as u16)
    }

    /// Local time of that CPU.
    #[inline]
    pub fn now(&self) -> Cycles {
        let state = self.state.borrow();
        state.cpus[state.current].clock
    }

    /// Virtual time at which the run ends.
    pub fn end(&self) -> Cycles {
        self.state.borrow().end
    }

    /// Loads a word.
    #[inline]
    pub fn load(&self, site: Site, place: Place) -> LoadFuture<'_> {
        LoadFuture {
            engine: self,
            place,
            site,
            is_under_way: false,
        }
    }

    /// Loads a member whose content is not modelled.
    #[inline]
    pub fn touch(&self, site: Site, member: Opaque) -> TouchFuture<'_> {
        TouchFuture(self.load(site, member.into()))
    }

    /// Stores to one.
    #[inline]
    pub fn dirty(&self, site: Site, member: Opaque) -> StoreFuture<'_> {
        self.store(site, member.into(), 0)
    }

    /// Loads a word whose value the caller knows, since it holds the lock under which the word is written.
    #[inline]
    pub fn load_known(&self, site: Site, place: Place, known: u64) -> KnownFuture<'_> {
        let load = self.load(site, place);
        KnownFuture { load, known }
    }

    /// Makes a member opaque, and lists it as such.
    pub fn opaque(&self, place: Place) -> Opaque {
        self.opaque.borrow_mut().insert(place.member);
        Opaque::of(place)
    }

    /// The opaque members that were made so far: type and path.
    pub fn opaque_members(&self) -> BTreeSet<(String, String)> {
        let (state, opaque) = (self.state.borrow(), self.opaque.borrow());
        let keys = opaque
            .iter()
            .filter_map(|number| state.profile.member_key(usize::from(*number)));
        keys.map(|key| (key.type_name.clone(), key.path.clone()))
            .collect()
    }

    /// A locked operation; its output is the value before it.
    #[inline]
    pub fn rmw(&self, site: Site, place: Place, rmw: Rmw) -> RmwFuture<'_> {
        RmwFuture {
            engine: self,
            place,
            site,
            rmw,
            is_under_way: false,
        }
    }

    /// Adds to a word; the output is the value before.
    #[inline]
    pub fn fetch_add(&self, site: Site, place: Place, value: i64) -> RmwFuture<'_> {
        self.rmw(site, place, Rmw::Add(value as u64))
    }

    /// Writes `new` if the word is `expected`; the output is the value before.
    #[inline]
    pub fn compare_swap(&self, site: Site, place: Place, expected: u64, new: u64) -> RmwFuture<'_> {
        self.rmw(site, place, Rmw::CompareSwap { expected, new })
    }

    /// Stores a word.
    #[inline]
    pub fn store(&self, site: Site, place: Place, value: u64) -> StoreFuture<'_> {
        self.store_bits(site, place, u64::MAX, value)
    }

    /// Stores the bits of `mask` (a byte of a lock word, a member that shares a word).
    #[inline]
    pub fn store_bits(&self, site: Site, place: Place, mask: u64, value: u64) -> StoreFuture<'_> {
        StoreFuture {
            engine: self,
            posted: Posted {
                place,
                site,
                mask,
                value,
            },
        }
    }

    /// Loads independent words, overlapped as far as the core's fill buffers allow; `use_value`
    /// gets each index and value when all are there. One access is counted a line.
    pub fn load_all<'p, F: FnMut(usize, u64) + Unpin>(
        &self,
        site: Site,
        places: &'p [Place],
        use_value: F,
    ) -> JoinFuture<'_, 'p, F> {
        JoinFuture::new(self, site, places, JoinKind::default(), use_value)
    }

    /// Like [`Engine::load_all`], but skips `places[skipped]`.
    pub fn load_others<'p, F: FnMut(usize, u64) + Unpin>(
        &self,
        site: Site,
        places: &'p [Place],
        skipped: usize,
        use_value: F,
    ) -> JoinFuture<'_, 'p, F> {
        let kind = JoinKind {
            skipped: Some(skipped),
            ..JoinKind::default()
        };
        JoinFuture::new(self, site, places, kind, use_value)
    }

    /// Overwrites whole lines, as a copy of a block does, overlapped as far as the core's fill buffers
    /// allow. The values of their words stay: nobody looks at them. One access is counted a line.
    pub fn overwrite_all<'p>(
        &self,
        site: Site,
        places: &'p [Place],
    ) -> JoinFuture<'_, 'p, impl FnMut(usize, u64) + Unpin + use<>> {
        let kind = JoinKind {
            overwrites: true,
            ..JoinKind::default()
        };
        JoinFuture::new(self, site, places, kind, |_, _| {})
    }

    /// A full fence. `near` is any place of the fencing code.
    pub fn fence(&self, site: Site, near: Place) -> FenceFuture<'_> {
        FenceFuture {
            engine: self,
            site,
            place: near,
        }
    }

    /// Advances this CPU's local clock by code without shared accesses.
    #[inline]
    pub fn work(&self, site: Site, span: Cycles) {
        let mut state = self.state.borrow_mut();
        let current = state.current;
        state.cpus[current].clock += span;
        state.profile.add_work(site, span);
    }

    /// A call of a function: counted, and its code without shared accesses.
    #[inline]
    pub fn call(&self, site: Site, span: Cycles) {
        self.work(site, span);
        self.state.borrow_mut().profile.add_call(site);
    }

    /// Runs code that an interrupt may stop; the output is what is left of it then.
    pub fn run(&self, span: Cycles) -> RunFuture<'_> {
        RunFuture {
            engine: self,
            span,
            is_started: false,
        }
    }

    /// Spins on a place that was seen with the value `seen`, until its line is written or an
    /// interrupt has been handled. The caller loads again and decides.
    pub fn wait_for_write(&self, place: Place, seen: u64) -> ParkFuture<'_> {
        self.wait_for_write_until(place, seen, Cycles::MAX)
    }

    /// As [`Engine::wait_for_write`], and no longer than until `until`.
    pub fn wait_for_write_until(&self, place: Place, seen: u64, until: Cycles) -> ParkFuture<'_> {
        ParkFuture {
            engine: self,
            place,
            seen,
            until,
            is_parked: false,
        }
    }

    /// Wakes spinners on a place's line because another condition that they poll has changed.
    pub fn look_again(&self, place: Place) {
        let mut state = self.state.borrow_mut();
        let now = state.cpus[state.current].clock;
        state.wake_parked(place.line, now);
    }

    /// Leaves this CPU to the stack `next`.
    pub fn switch_to(&self, next: StackId) -> SwitchFuture<'_> {
        SwitchFuture {
            engine: self,
            next,
            is_left: false,
        }
    }

    /// For the interrupt stack of a CPU: the next vector that has arrived. Awaiting it when none
    /// has ends the handler.
    pub fn next_interrupt(&self) -> InterruptFuture<'_> {
        InterruptFuture { engine: self }
    }

    /// Adds a stack that runs `future` when a CPU switches to it.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> StackId {
        let mut state = self.state.borrow_mut();
        StackId(state.footprints.add_stack(Box::pin(future)))
    }

    /// Before the run: the stack that `cpu` starts on, at time 0, and the one that handles its
    /// interrupts.
    pub fn boot(&self, cpu: CpuId, stack: StackId, irq_stack: Option<StackId>) {
        let mut state = self.state.borrow_mut();
        let entry = &mut state.cpus[cpu.index()];
        entry.stack = Some(stack);
        entry.irq_stack = irq_stack;
        entry.wait = Wait::Sync;
        entry.resume_at = Cycles::ZERO;
        let key = entry.key();
        state.calendar.set(cpu.index(), key);
        state.footprints.set_idle_stack(cpu.index(), stack);
    }

    /// Sends `vector` to `cpu`; it arrives after `delay`. One that is on its way already absorbs
    /// later ones.
    pub fn send_ipi(&self, cpu: CpuId, vector: Vector, delay: Cycles) {
        let mut state = self.state.borrow_mut();
        let at = state.cpus[state.current].clock + delay;
        state.raise(cpu.index(), vector, at);
    }

    /// Sets this CPU's one-shot timer `vector`; `Cycles::MAX` stops it.
    pub fn set_timer(&self, vector: Vector, at: Cycles) {
        self.state.borrow_mut().set_timer(vector, at);
    }

    /// Switches this CPU's interrupts; returns whether they were on.
    pub fn set_irqs(&self, on: bool) -> bool {
        self.state.borrow_mut().switch_irqs(on)
    }

    /// Accounts this CPU's time to `mode` from now on; returns the mode before.
    pub fn set_mode(&self, mode: Mode) -> Mode {
        let mut state = self.state.borrow_mut();
        let current = state.current;
        let cpu = &mut state.cpus[current];
        cpu.set_mode(mode, cpu.clock)
    }

    /// Ends the run at the present time, once the running code suspends.
    pub fn stop(&self) {
        let mut state = self.state.borrow_mut();
        let now = state.cpus[state.current].clock;
        state.end = state.end.min(now);
        state.rebound();
    }
}

/// Totals of a run.
#[derive(Debug, Clone)]
pub struct RunTotals {
    /// Identity of the run, to repeat it.
    pub header: RunHeader,
    /// Virtual time at its end.
    pub end: Cycles,
    /// Accesses that were priced.
    pub accesses: u64,
    /// Accesses and suspensions.
    pub events: u64,
    /// Hash over every access with its time, CPU, price and value: equal runs have equal hashes.
    pub event_hash: u64,
    /// Hash over every access with its address, function, CPU, time and price: what declarations,
    /// their order and values that decide nothing do not change.
    pub timing_hash: u64,
    /// By CPU.
    pub cpus: Vec<CpuTotals>,
    /// By member and function.
    pub profile: Profile,
}

/// Runs the stacks of an [`Engine`].
pub struct Executor {
    engine: Rc<Engine>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

impl Executor {
    /// For the stacks of `engine`.
    pub fn new(engine: Rc<Engine>) -> Executor {
        Executor { engine }
    }

    /// Runs until `until`, the end of the run, or until nothing is left to do. Returns the virtual
    /// time reached.
    pub fn run_until(&mut self, until: Cycles) -> Result<Cycles, SimError> {
        let engine = Rc::clone(&self.engine);
        let mut context = Context::from_waker(Waker::noop());
        let mut state = engine.state.borrow_mut();
        loop {
            let Some(next) = state.next_stack(until) else {
                return Ok(until.min(state.end));
            };
            if state.events > engine.events_max {
                return Err(SimError::TooManyEvents {
                    max: engine.events_max,
                    at: next.1,
                });
            }
            let id = state.begin(next.0, next.1);
            let stack = state.footprints.stack(id).take();
            let mut stack = stack.expect("a stack that has ended is not switched to");
            // Simulated code borrows the state itself.
            drop(state);
            let has_ended = stack.as_mut().poll(&mut context).is_ready();
            state = engine.state.borrow_mut();
            if !has_ended {
                *state.footprints.stack(id) = Some(stack);
            }
            state.finish(next.0, has_ended);
        }
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Result<(), SimError> {
        self.run_until(Cycles::MAX).map(|_| ())
    }

    /// The sums of the run so far.
    pub fn totals(&self) -> RunTotals {
        let mut state = self.engine.state.borrow_mut();
        state.settle_all();
        let cpus = state.cpus.iter().enumerate().map(|(index, cpu)| {
            let [user, kernel, spin, irq, idle] = cpu.mode_sums(state.end);
            CpuTotals {
                cpu: CpuId(index as u16),
                user,
                kernel,
                spin,
                irq,
                idle,
                irqs_off_max: cpu.irqs_off_max,
            }
        });
        RunTotals {
            header: self.engine.header(),
            end: state.end,
            accesses: state.accesses,
            events: state.events,
            event_hash: state.hashes.events(),
            timing_hash: state.hashes.timing(),
            cpus: cpus.collect(),
            profile: state.profile.settled(),
        }
    }
}

impl Drop for Executor {
    /// Stacks hold the engine that holds them.
    fn drop(&mut self) {
        let stacks = match self.engine.state.try_borrow_mut() {
            Ok(mut state) => state.footprints.take_stacks(),
            Err(_) => return, // Simulated code has panicked.
        };
        drop(stacks);
    }
}

impl State {
    #[inline]
    /// Serves lines, drains store buffers and takes interrupts until the code of a CPU has to run;
    /// `None` when that is after `until` or the end.
    fn next_stack(&mut self, until: Cycles) -> Option<(usize, Cycles)> {
        let last = until.min(self.end);
        loop {
            let (index, key) = self.calendar.first();
            // A line is served when no CPU can request it earlier any more, so that all requesters
            // compete.
            let before = key.min(Cycles(last.0.saturating_add(1)));
            if let Some((_, line)) = self.services.take_before(&self.directory, before) {
                self.serve(line);
                continue;
            }
            if key > last || key == Cycles::MAX {
                return None;
            }
            let cpu = &self.cpus[index];
            if cpu.drain_at <= key {
                self.events += 1;
                self.drain(index, key);
                continue;
            }
            let takes_irq = cpu.irq_time <= key && cpu.irq_stack.is_some();
            if takes_irq && cpu.wait.may_be_interrupted_at_end() {
                self.deliver(index, key);
            }
            return Some((index, key));
        }
    }
}
