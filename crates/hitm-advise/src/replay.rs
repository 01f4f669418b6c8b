//! A stream of accesses drawn from a profile and woven on the machine: checks the advisor's model
//! against the engine.
//!
//! Each CPU is a thread that works for some cycles and calls its functions at random places, each
//! as often as the profile says. A call makes each of the function's accesses with the profile's
//! share of calls. Calls are placed uniformly: a Poisson stream of a given number of events, from
//! integers only, so that it is the same on every host.

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, DataSource, Machine, Outcome, ThreadId};
use hitm_coherence::directory::Capacity;
use hitm_layout::profile::{Counts, Profile};
use hitm_weave::{Position, ThreadEvent, Weave};

/// Address of instance 0: any line but the first.
const BASE: u64 = 1 << 32;
/// Bytes between the starts of two instances.
const STRIDE: u64 = 1 << 24;

/// The engine's result for a layout, scaled to the profile's period.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Replayed {
    /// Requests that left a core.
    pub transfers: f64,
    /// Their latency, in cycles.
    pub latency: f64,
    /// Cycles that threads stalled for them.
    pub stall: f64,
}

/// One access that a function may make when it is called.
#[derive(Debug, Clone, Copy)]
struct Step {
    addr: u64,
    op: AccessOp,
    /// Number of the function's calls that make it.
    count: u64,
}

/// Weaves `periods` periods of the profile, drawn by `seed`, with the members where `locate` finds them.
/// Returns a path that is not found as the error.
pub fn replay(
    profile: &Profile,
    machine: &Machine,
    locate: &dyn Fn(&str) -> Option<(u64, u64)>,
    periods: u64,
    seed: u64,
) -> Result<Replayed, String> {
    let mut machine = machine.clone();
    // One instruction a cycle, so that places in the program are times.
    machine.core.cpi_milli = 1000;
    let mut weave = Weave::new(machine, Capacity::Infinite);
    let mut noise = Noise(seed | 1);
    let programs = programs(profile, locate)?;
    let mut works = Vec::new();
    for (index, (cpu, functions)) in (0..).zip(programs) {
        let slot = weave.add_thread(ThreadId(index), cpu);
        let work = profile.work_of(cpu).0 * periods;
        let (events, end) = drawn(&functions, work, periods, &mut noise);
        weave.push(slot, &events, end);
        works.push(work);
    }
    // A thread that stalls less ends earlier, and the others then run without contention. So only
    // accesses count that come before the earliest possible end.
    let end = works.iter().copied().min().unwrap_or(0);
    let mut sums = vec![Replayed::default(); works.len()];
    weave.finish(&mut |access: &Access, outcome: &Outcome| {
        // The caches are infinite: a request leaves the core only because of other CPUs.
        use DataSource::{FillBuffer, L1, L2, StoreBuffer};
        let is_hit = matches!(outcome.source, L1 | L2 | StoreBuffer);
        if is_hit || access.time.0 >= end {
            return;
        }
        let sum = &mut sums[access.thread.index()];
        sum.stall += outcome.stall.0 as f64;
        if outcome.source != FillBuffer {
            sum.transfers += 1.0;
            sum.latency += outcome.latency.0 as f64;
        }
    });
    let mut total = Replayed::default();
    for (sum, work) in sums.iter().zip(works) {
        // Work that the thread has done by `end`, against its work in the profile's period.
        let done = (end as f64 - sum.stall).max(1.0);
        let scale = work as f64 / periods as f64 / done;
        total.transfers += sum.transfers * scale;
        total.latency += sum.latency * scale;
        total.stall += sum.stall * scale;
    }
    Ok(total)
}

/// Functions of a CPU, with their accesses; `count` is in thousandths of an access a period.
type Functions = Vec<Vec<Step>>;

fn programs(
    profile: &Profile,
    locate: &dyn Fn(&str) -> Option<(u64, u64)>,
) -> Result<BTreeMap<CpuId, Functions>, String> {
    let mut by_cpu: BTreeMap<CpuId, BTreeMap<(&str, &str), Vec<Step>>> = BTreeMap::new();
    for (key, counts) in profile.rows() {
        let (offset, _) = locate(&key.member).ok_or_else(|| key.member.clone())?;
        let addr = BASE + u64::from(key.instance) * STRIDE + offset;
        let cpus = key.cpus.len() as u64;
        let Counts {
            loads,
            stores,
            rmws,
        } = counts;
        let kinds = [
            (loads, AccessOp::Load),
            (stores, AccessOp::Store),
            (rmws, AccessOp::LockedRmw),
        ];
        for cpu in key.cpus.iter() {
            let function = by_cpu.entry(cpu).or_default();
            let steps = function.entry((&key.function, &key.comm)).or_default();
            let wanted = kinds.iter().filter(|(count, _)| *count > 0);
            steps.extend(wanted.map(|(count, op)| Step {
                addr,
                op: *op,
                count: count * 1000 / cpus,
            }));
        }
    }
    let functions = |of: BTreeMap<(&str, &str), Vec<Step>>| of.into_values().collect();
    Ok(by_cpu
        .into_iter()
        .map(|(cpu, of)| (cpu, functions(of)))
        .collect())
}

/// Draws a thread's accesses of `periods` periods, in `work` cycles, and returns them with its end.
fn drawn(
    functions: &Functions,
    work: u64,
    periods: u64,
    noise: &mut Noise,
) -> (Vec<ThreadEvent>, Position) {
    let mut calls: Vec<(u64, u64, Step)> = Vec::new();
    for steps in functions {
        // Draws calls by the most frequent access; each other one is made in its share of them.
        let most = steps.iter().map(|step| step.count).max().unwrap_or(0);
        for _ in 0..noise.rounded(most * periods) {
            let at = noise.below(work.max(1));
            for (order, step) in (0..).zip(steps) {
                if noise.below(most) < step.count {
                    calls.push((at, order, *step));
                }
            }
        }
    }
    calls.sort_by_key(|(at, order, _)| (*at, *order));
    let mut events = Vec::with_capacity(calls.len());
    let mut position = Position { insn: 0, stores: 0 };
    for (at, _, step) in calls {
        position.insn = at.max(position.insn + 1);
        events.push(ThreadEvent {
            insn: position.insn,
            stores: position.stores,
            addr: step.addr,
            code: CodeAddr(1),
            size: 1,
            op: step.op,
        });
        position.stores += u64::from(step.op == AccessOp::Store);
    }
    let end = Position {
        insn: work.max(position.insn + 1),
        ..position
    };
    (events, end)
}

/// Xorshift: the same numbers for the same seed on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Rounds thousandths to a whole number, up or down by chance so that the mean is exact.
    fn rounded(&mut self, milli: u64) -> u64 {
        milli / 1000 + u64::from(self.below(1000) < milli % 1000)
    }
}

impl Replayed {
    /// Cost by which the advisor compares layouts, footprint excepted.
    pub fn cycles(&self) -> f64 {
        self.stall + (self.latency - self.stall).max(0.0) * hitm_layout::advise::HIDDEN_WEIGHT
    }
}

#[cfg(test)]
mod tests;
