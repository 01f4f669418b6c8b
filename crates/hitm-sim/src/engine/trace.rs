//! The course of a run for a trace. Nothing here decides a price or an order: a traced run is the same run.
//!
//! A CPU's accesses belong to the task that it runs, those of its interrupt handlers included. Independent
//! loads overlap: each is a stall from where the one before it ended.

use std::ops::Range;

use hitm_base::{AccessOp, CpuId, Cycles, DataSource, Machine};
use hitm_coherence::directory::Grant;
use hitm_timeline::{Access, BackgroundTimeline, Names, Scene, Timeline, Use};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::memory::{Place, Site};
use super::profile::Profile;
use super::run::Engine;

/// A task for [`Tracer::switch`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct TracedTask<'a> {
    pub(crate) number: usize,
    pub(crate) name: &'a str,
    pub(crate) is_idle: bool,
}

/// An access for [`Tracer::granted`].
#[derive(Debug, Clone, Copy)]
pub(super) struct TracedAccess {
    pub(super) place: Place,
    pub(super) site: Site,
    pub(super) op: AccessOp,
    /// Time at which the CPU asked for the line.
    pub(super) issued: Cycles,
}

/// A lock by its number among those with statistics, or by its word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TracedLock<'a> {
    Sleeping(usize, &'a str),
    Spinning(Place, &'a Profile),
}

#[derive(Debug)]
struct Lock {
    number: u32,
    /// Holder, time, and whether the lock was handed over.
    held: Option<(u32, Cycles, bool)>,
}

#[derive(Debug, Clone, Copy)]
struct Cpu {
    thread: u32,
    since: Cycles,
    is_idle: bool,
    /// End of the last stall.
    busy_until: Cycles,
    /// The last store that had to wait for its line.
    store: Option<(Place, Site, DataSource)>,
}

/// Takes what happens on the CPUs.
#[derive(Debug)]
pub(crate) struct Tracer {
    timeline: BackgroundTimeline,
    cpus: Vec<Cpu>,
    /// Numbers in the timeline, by number of the task.
    threads: Vec<Option<u32>>,
    processes: [usize; 2],
    locks: IndexMap<(bool, u64), Lock, FxBuildHasher>,
    /// Spinlocks of each member, to tell them apart.
    lock_counts: IndexMap<u16, u32, FxBuildHasher>,
}

impl Tracer {
    fn new(machine: &Machine) -> Tracer {
        let mut timeline = BackgroundTimeline::new(Scene {
            name: machine.name.clone(),
            clock: machine.clock,
            cpu_count: machine.topology.cpu_count(),
        });
        let processes = [
            timeline.add_process(0, "tasks"),
            timeline.add_process(0, "idle tasks"),
        ];
        let cpu = Cpu {
            thread: 0,
            since: Cycles::ZERO,
            is_idle: true,
            busy_until: Cycles::ZERO,
            store: None,
        };
        Tracer {
            timeline,
            cpus: vec![cpu; machine.topology.cpu_count()],
            threads: Vec::new(),
            processes,
            locks: IndexMap::default(),
            lock_counts: IndexMap::default(),
        }
    }

    fn thread(&mut self, task: TracedTask<'_>) -> u32 {
        if self.threads.len() <= task.number {
            self.threads.resize(task.number + 1, None);
        }
        let known = &mut self.threads[task.number];
        let process = self.processes[usize::from(task.is_idle)];
        let timeline = &mut self.timeline;
        *known.get_or_insert_with(|| timeline.add_thread(process, 0, task.name))
    }

    /// The CPU runs another task from now on.
    pub(crate) fn switch(&mut self, cpu: CpuId, task: TracedTask<'_>, now: Cycles) {
        self.end_run(cpu, now);
        let thread = self.thread(task);
        let state = &mut self.cpus[cpu.index()];
        state.thread = thread;
        state.since = now;
        state.is_idle = task.is_idle;
    }

    /// Idle tasks run all the time that nobody else does: they have stalls only.
    fn end_run(&mut self, cpu: CpuId, now: Cycles) {
        let state = &self.cpus[cpu.index()];
        if !state.is_idle {
            self.timeline.run(state.thread, cpu, state.since..now);
        }
    }

    /// A line was granted to a CPU that had asked for it.
    pub(super) fn granted(&mut self, index: usize, access: TracedAccess, grant: &Grant) {
        let TracedAccess {
            place,
            site,
            op,
            issued,
        } = access;
        let cpu = &mut self.cpus[index];
        let start = issued.max(cpu.busy_until);
        let is_contended = grant.source.is_contention();
        let stall = match op {
            // The store buffer waits, not the CPU.
            AccessOp::Store => Cycles::ZERO,
            _ => grant.done.saturating_sub(start),
        };
        if op == AccessOp::Store && is_contended {
            cpu.store = Some((place, site, grant.source));
        } else if op != AccessOp::Store {
            cpu.busy_until = cpu.busy_until.max(grant.done);
        }
        let access = Access {
            thread: cpu.thread,
            cpu: CpuId(index as u16),
            start,
            stall,
            lost: grant.outcome(stall, stall, Cycles::ZERO).lost,
            queued: grant.queued,
            line: place.line.index() as u64,
            addr: place.member.into(),
            size: 0,
            code: site.0.into(),
            op,
            source: grant.source,
        };
        self.timeline.grant(&access);
    }

    /// A CPU waited for its older stores.
    pub(super) fn waited_for_stores(&mut self, index: usize, span: Range<Cycles>) {
        let cpu = &mut self.cpus[index];
        let Some((place, site, source)) = cpu.store.take() else {
            return;
        };
        let start = span.start.max(cpu.busy_until);
        let waited = span.end.saturating_sub(start);
        cpu.busy_until = cpu.busy_until.max(span.end);
        let access = Access {
            thread: cpu.thread,
            cpu: CpuId(index as u16),
            start,
            stall: waited,
            lost: waited,
            queued: Cycles::ZERO,
            line: place.line.index() as u64,
            addr: place.member.into(),
            size: 0,
            code: site.0.into(),
            op: AccessOp::Store,
            source,
        };
        self.timeline.store_wait(&access);
    }

    /// A task has got a lock at the end of `wait`.
    pub(crate) fn lock_taken(
        &mut self,
        lock: TracedLock<'_>,
        cpu: CpuId,
        wait: Range<Cycles>,
        is_contended: bool,
    ) {
        let thread = self.cpus[cpu.index()].thread;
        let lock = self.lock(lock);
        lock.held = Some((thread, wait.end, is_contended));
        let number = lock.number;
        if is_contended {
            self.timeline.lock_wait(number, thread, wait);
        }
    }

    /// A lock was given back.
    pub(crate) fn lock_released(&mut self, lock: TracedLock<'_>, now: Cycles) {
        let lock = self.lock(lock);
        let (number, held) = (lock.number, lock.held.take());
        if let Some((thread, start, is_handed_over)) = held {
            self.timeline.lock_use(&Use {
                lock: number,
                thread,
                start,
                end: now,
                is_handed_over,
            });
        }
    }

    fn lock(&mut self, lock: TracedLock<'_>) -> &mut Lock {
        let key = match lock {
            TracedLock::Sleeping(number, _) => (true, number as u64),
            TracedLock::Spinning(place, _) => (false, place.word.into()),
        };
        let (timeline, counts) = (&mut self.timeline, &mut self.lock_counts);
        self.locks.entry(key).or_insert_with(|| {
            let name = match lock {
                TracedLock::Sleeping(_, name) => name.to_owned(),
                TracedLock::Spinning(place, profile) => {
                    let count = counts.entry(place.member).or_default();
                    *count += 1;
                    format!("{} #{count}", member_name(profile, place.member.into()))
                }
            };
            Lock {
                number: timeline.add_lock(&name),
                held: None,
            }
        })
    }
}

fn member_name(profile: &Profile, member: u64) -> String {
    match profile.member_key(member as usize) {
        Some(key) => format!("{}.{}", key.type_name, key.path),
        None => format!("member {member}"),
    }
}

/// The course of a run, and names for it.
#[derive(Debug)]
pub struct Trace {
    /// The course.
    pub timeline: Timeline,
    /// Names of its places and functions.
    pub names: TraceNames,
}

/// Names of members and functions of a run.
#[derive(Debug)]
pub struct TraceNames {
    profile: Profile,
    sites: &'static [&'static str],
}

impl Names for TraceNames {
    fn place(&self, addr: u64, _size: u8) -> String {
        member_name(&self.profile, addr)
    }

    fn function(&self, code: u64) -> String {
        let site = self.sites.get(code as usize);
        site.map_or_else(|| format!("function {code}"), |name| (*name).to_owned())
    }
}

impl Engine {
    /// Traces the run from now on: before it begins.
    pub(crate) fn start_trace(&self) {
        let mut state = self.state.borrow_mut();
        state.directory.tell_taken(true);
        state.tracer = Some(Box::new(Tracer::new(&state.machine)));
    }

    /// Tells the tracer, if there is one, what happens on this CPU now.
    #[inline]
    pub(crate) fn trace(&self, tell: impl FnOnce(&mut Tracer, &Profile, (CpuId, Cycles))) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(tracer) = &mut state.tracer {
            let now = state.cpus[state.current].clock;
            tell(tracer, &state.profile, (CpuId(state.current as u16), now));
        }
    }

    /// Ends the trace at the present end of the run, and returns it.
    pub(crate) fn take_trace(&self, sites: &'static [&'static str]) -> Option<Trace> {
        let mut state = self.state.borrow_mut();
        let mut tracer = state.tracer.take()?;
        let end = state.end;
        for cpu in 0..tracer.cpus.len() {
            tracer.end_run(CpuId(cpu as u16), end);
        }
        Some(Trace {
            timeline: tracer.timeline.finish(),
            names: TraceNames {
                profile: state.profile.clone(),
                sites,
            },
        })
    }
}
