//! A toy kernel for tests of the engine: one task a CPU, written as a closure.

use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Cycles, Machine};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{
    Engine, EngineConfig, Executor, MemberKey, Place, RunTotals, SimError, Site,
};

pub(crate) const TEST: Site = Site(0);

/// 64 CPUs in two packages; CPU 32 is in the second.
pub(crate) fn icelake() -> Machine {
    Machine::from_toml(preset("icelake-2s").unwrap(), "icelake-2s").unwrap()
}

/// An engine, its executor and some words.
pub(crate) struct Toy {
    pub(crate) engine: Rc<Engine>,
    pub(crate) executor: Executor,
}

impl Toy {
    pub(crate) fn new(machine: Machine) -> Toy {
        Toy::of(&Toy::config(machine, Capacity::Infinite))
    }

    pub(crate) fn with(machine: Machine, end: Cycles, events_max: u64) -> Toy {
        Toy::of(&EngineConfig {
            end,
            events_max,
            ..Toy::config(machine, Capacity::Infinite)
        })
    }

    /// Caches of their real sizes, or of no end.
    pub(crate) fn config(machine: Machine, capacity: Capacity) -> EngineConfig {
        EngineConfig {
            machine,
            capacity,
            seed: 1,
            scenario_hash: 0,
            end: Cycles(1_000_000_000),
            events_max: 10_000_000,
            sites: &["test"],
        }
    }

    pub(crate) fn of(config: &EngineConfig) -> Toy {
        let engine = Engine::new(config);
        Toy {
            executor: Executor::new(Rc::clone(&engine)),
            engine,
        }
    }

    /// The word at this address, its memory on the node of CPU 0.
    pub(crate) fn word(&self, addr: u64) -> Place {
        self.word_near(addr, 0)
    }

    /// The word at this address, its memory on the node of `cpu`.
    pub(crate) fn word_near(&self, addr: u64, cpu: u16) -> Place {
        let key = MemberKey {
            type_name: "toy".to_owned(),
            path: format!("{addr:#x}"),
            offset_bytes: addr,
        };
        self.engine.place(addr, CpuId(cpu), key)
    }

    /// Runs `task` on `cpu` from time 0.
    pub(crate) fn task<F, T>(&self, cpu: u16, task: T)
    where
        F: Future<Output = ()> + 'static,
        T: FnOnce(Rc<Engine>) -> F,
    {
        let stack = self.engine.spawn(task(Rc::clone(&self.engine)));
        self.engine.boot(CpuId(cpu), stack, None);
    }

    /// As [`Toy::task`], and `handler` handles the CPU's interrupts.
    pub(crate) fn task_with_handler<F, T, G, H>(&self, cpu: u16, task: T, handler: H)
    where
        F: Future<Output = ()> + 'static,
        T: FnOnce(Rc<Engine>) -> F,
        G: Future<Output = ()> + 'static,
        H: FnOnce(Rc<Engine>) -> G,
    {
        let stack = self.engine.spawn(task(Rc::clone(&self.engine)));
        let irq_stack = self.engine.spawn(handler(Rc::clone(&self.engine)));
        self.engine.boot(CpuId(cpu), stack, Some(irq_stack));
    }

    pub(crate) fn run(&mut self) -> Result<RunTotals, SimError> {
        self.executor.run()?;
        Ok(self.executor.totals())
    }
}

/// A log that tasks share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Rc<std::cell::RefCell<Vec<(u64, String)>>>);

impl Log {
    pub(crate) fn add(&self, engine: &Engine, what: impl Into<String>) {
        self.0.borrow_mut().push((engine.now().0, what.into()));
    }

    pub(crate) fn take(&self) -> Vec<(u64, String)> {
        self.0.borrow_mut().drain(..).collect()
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.take().into_iter().map(|(_, what)| what).collect()
    }
}
