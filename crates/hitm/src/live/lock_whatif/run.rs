//! Runs of a fitted spin lock in the simulator.

use std::rc::Rc;

use hitm_base::machine::Quantity;
use hitm_base::{CpuId, Cycles, Machine, Nanos};
use hitm_coherence::directory::Capacity;
use hitm_live::place::CpuSet;
use hitm_live::rivals::{OtherGroup, Weight};
use hitm_sim::engine::{Engine, EngineConfig, Executor, SimError};
use hitm_sim::kernel::{
    Balancing, CostOverrides, CpuMask, GroupId, GroupSpec, HolderState, Kernel, KernelConfig,
    KernelCost, LoadBalancing, Mechanism, Quota, functions,
};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::program_lock::{BackOffRule, ProgramLock, ProgramLockConfig};
use hitm_sim::workload::requests::Times;

use super::super::whatif::{shares, spawn_others, spawn_tasks, spec_of};
use super::{LockInputs, LockRun, LockSetting};

/// Virtual time of a run, without and with a quota of 100 ms at most.
const SPAN: Nanos = Nanos(1e9);
const SPAN_WITH_QUOTA: Nanos = Nanos(3e9);
/// Virtual time of the run that measures the model's own costs.
const PROBE_SPAN: Nanos = Nanos(2e8);
/// Touches of a hold: more faults are simulated as so many longer ones. Assumed 8 (1 to 64): how soon a kernel without
/// preemption gives a CPU up in a fault.
const TOUCHES_MAX: f64 = 8.0;
/// Bytes of a page.
const PAGE_BYTES: f64 = 4096.0;
/// Pages of 4 KiB in a huge one.
const HUGE_PAGES: f64 = 512.0;
/// Time of a look at the taken lock. Assumed 20 ns (5 to 100): nothing hangs on it without a back-off.
const LOOK: Nanos = Nanos(20.0);

/// Times of a use of the lock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Use {
    pub(super) hold_ns: f64,
    pub(super) fault_ns: f64,
    pub(super) outside_ns: f64,
}

/// Seed of a run, and how far its times are from the means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Draw {
    pub(super) seed: u64,
    /// In errors of the times.
    pub(super) hold: f64,
    pub(super) outside: f64,
}

/// Runs of one machine and one lock.
pub(super) struct Simulation<'a> {
    pub(super) machine: &'a Machine,
    pub(super) inputs: &'a LockInputs,
}

impl Simulation<'_> {
    /// The figures under a setting.
    pub(super) fn run(
        &self,
        setting: &LockSetting,
        times: Use,
        draw: Draw,
    ) -> Result<LockRun, SimError> {
        let span = match setting.bandwidth {
            None => SPAN,
            Some(_) => SPAN_WITH_QUOTA,
        };
        let scale = 1.0 + draw.hold * self.inputs.hold_error;
        let outside = times.outside_ns + draw.outside * self.inputs.outside_error_ns;
        let times = Use {
            hold_ns: times.hold_ns * scale,
            fault_ns: times.fault_ns * scale,
            outside_ns: outside.max(0.0),
        };
        let engine = self.engine(span, draw.seed);
        let kernel = self.kernel(&engine, setting, times.fault_ns)?;
        let (own, own_place) = self.group(&kernel, setting)?;
        self.spawn_rivals(&kernel, own_place)?;
        let masks = self.masks(&kernel, setting.place.as_ref());
        let config = self.config(setting, times);
        let lock = ProgramLock::spawn(&kernel, own, &masks, config)?;
        Executor::new(Rc::clone(&engine)).run()?;
        Ok(figures(&kernel, &lock, kernel.cycles(span)))
    }

    /// Times that make a thread alone use the lock for as long as `times` says: without the model's own costs of lines
    /// and faults.
    pub(super) fn without_own_costs(
        &self,
        setting: &LockSetting,
        times: Use,
    ) -> Result<Use, SimError> {
        let engine = self.engine(PROBE_SPAN, 1);
        let alone = LockSetting {
            bandwidth: None,
            place: None,
            ..setting.clone()
        };
        let kernel = self.kernel(&engine, &alone, times.fault_ns)?;
        let masks = [CpuMask::of(kernel.cpu_count(), [CpuId(0)])];
        let config = ProgramLockConfig {
            sleep: Nanos(0.0),
            think: Nanos(0.0),
            ..self.config(&alone, times)
        };
        let lock = ProgramLock::spawn(&kernel, GroupId::ROOT, &masks, config)?;
        Executor::new(Rc::clone(&engine)).run()?;
        let counts = lock.counts();
        if counts.uses == 0 {
            return Ok(times);
        }
        let held_ns = kernel.engine().machine().clock.nanos(counts.held).0 / counts.uses as f64;
        let faults = self.faults(setting);
        let excess = held_ns - times.hold_ns - faults * times.fault_ns;
        // Each fault has some of it, and the hold the rest.
        let of_faults = excess.min(faults * times.fault_ns).max(0.0);
        Ok(Use {
            hold_ns: (times.hold_ns - (excess - of_faults)).max(0.0),
            fault_ns: match faults > 0.0 {
                true => times.fault_ns - of_faults / faults,
                false => times.fault_ns,
            },
            ..times
        })
    }

    /// Faults of a hold.
    fn faults(&self, setting: &LockSetting) -> f64 {
        match setting.huge_pages {
            true => self.inputs.faults / HUGE_PAGES,
            false => self.inputs.faults,
        }
    }

    fn engine(&self, span: Nanos, seed: u64) -> Rc<Engine> {
        Engine::new(&EngineConfig {
            end: self.machine.clock.cycles(span),
            machine: self.machine.clone(),
            capacity: Capacity::Infinite,
            seed,
            scenario_hash: 0,
            events_max: u64::MAX,
            sites: functions::NAMES,
        })
    }

    fn kernel(
        &self,
        engine: &Rc<Engine>,
        setting: &LockSetting,
        fault_ns: f64,
    ) -> Result<Rc<Kernel>, SimError> {
        let mut costs = CostOverrides::default();
        let mut set = |cost: KernelCost, ns: f64| {
            costs.set(cost.parameter(), Quantity::Picos((ns * 1e3) as u64));
        };
        // Pages count as cleared before: clearing is in the fault's own time.
        let touches = self.touches(setting);
        if touches > 0.0 {
            set(
                KernelCost::PageFault,
                fault_ns * self.faults(setting) / touches,
            );
        }
        let mut mechanisms = Vec::new();
        if let Some(ns) = setting.slice_extension_ns {
            set(KernelCost::SliceExtension, ns as f64);
            mechanisms.push(Mechanism::SliceExtension);
        }
        let config = KernelConfig {
            preemption: setting.preemption,
            hz: setting.hz,
            throttling: setting.throttling,
            load_balancing: LoadBalancing::Domains,
            costs,
            mechanisms,
            ..KernelConfig::new(Balancing::PushIpi)
        };
        Kernel::new(engine, Layouts::linux_6_12(), config)
    }

    /// Touches of a hold that fault, at least one every now and then.
    fn touches(&self, setting: &LockSetting) -> f64 {
        let faults = self.faults(setting);
        faults.clamp(faults.min(1.0), TOUCHES_MAX)
    }

    fn config(&self, setting: &LockSetting, times: Use) -> ProgramLockConfig {
        // Touches of one page after the other, or of parts of pages, make as many faults as were counted.
        let touches = self.touches(setting);
        let whole = touches.ceil();
        ProgramLockConfig {
            uses: 1,
            work: Nanos(times.outside_ns),
            work_times: Times::Fixed,
            think: Nanos(self.inputs.think_ns),
            hold: Nanos(times.hold_ns),
            sleep: Nanos(self.inputs.asleep_ns),
            spin: LOOK,
            back_off: BackOffRule::None,
            touches: whole as u64,
            touches_times: Times::Fixed,
            touch_bytes: (PAGE_BYTES * touches / whole.max(1.0)) as u64,
            processes: false,
            initialised: true,
        }
    }

    /// The group of the threads, and that of the rivals inside: a quota that is asked for is of the threads alone
    /// where they are in no group of their own.
    fn group(
        &self,
        kernel: &Rc<Kernel>,
        setting: &LockSetting,
    ) -> Result<(GroupId, GroupId), SimError> {
        let inputs = self.inputs;
        let micros = |us: u64| Nanos(us as f64 * 1e3);
        let quota = setting.bandwidth.map(|own| Quota {
            quota: micros(own.quota_us),
            period: micros(own.period_us),
            burst: micros(own.burst_us),
        });
        if !inputs.has_group && quota.is_none() {
            return Ok((GroupId::ROOT, GroupId::ROOT));
        }
        let weight = match inputs.has_group {
            true => inputs.weight,
            false => Weight::default(),
        };
        let group = kernel.create_group(&GroupSpec {
            shares: shares(weight),
            quota,
            ..GroupSpec::within(GroupId::ROOT)
        })?;
        let inside = match inputs.has_group {
            true => group,
            false => GroupId::ROOT,
        };
        Ok((group, inside))
    }

    fn spawn_rivals(&self, kernel: &Rc<Kernel>, inside: GroupId) -> Result<(), SimError> {
        let mut starts = kernel.engine().random("what-if");
        let mut spec =
            |name: &str, number: usize, nice: i8| spec_of(kernel, &mut starts, name, number, nice);
        for other in &self.inputs.rivals.others {
            spawn_others(kernel, GroupId::ROOT, other, &mut spec)?;
        }
        for rival in &self.inputs.rivals.inside {
            match rival.weight {
                // Its tasks compete one by one.
                Weight::Nice(nice) if is_process(rival) => {
                    spawn_tasks(kernel, inside, rival.runnable, nice, &mut spec)?;
                }
                _ => spawn_others(kernel, inside, rival, &mut spec)?,
            }
        }
        Ok(())
    }

    fn masks(&self, kernel: &Kernel, place: Option<&CpuSet>) -> Vec<CpuMask> {
        let count = kernel.cpu_count();
        let threads = self.inputs.threads.iter();
        let masks = threads.map(|thread| {
            let allowed = place.unwrap_or(&thread.allowed).iter();
            let allowed = allowed.filter(|cpu| usize::from(*cpu) < count);
            CpuMask::of(count, allowed.map(CpuId))
        });
        masks.collect()
    }
}

fn is_process(rival: &OtherGroup) -> bool {
    rival.name.starts_with("process ")
}

fn figures(kernel: &Kernel, lock: &ProgramLock, end: Cycles) -> LockRun {
    let counts = lock.counts();
    let seconds = kernel.engine().machine().clock.nanos(end).0 / 1e9;
    let used = lock.used(kernel, end).0.max(1) as f64;
    let waits = lock.waits();
    let all: u64 = waits.iter().map(|wait| wait.0).sum();
    let of = |states: &[HolderState]| {
        let sum: u64 = states.iter().map(|state| waits[*state as usize].0).sum();
        sum as f64 / all.max(1) as f64
    };
    LockRun {
        takes_per_s: counts.uses as f64 / seconds,
        spinning: counts.spun.0 as f64 / used,
        states: [
            of(&[HolderState::Running]),
            of(&[HolderState::Fault]),
            of(&[HolderState::Preempted, HolderState::PreemptedInFault]),
            of(&[HolderState::Asleep, HolderState::Free]),
        ],
    }
}
