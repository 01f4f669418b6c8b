//! Small programs for the weave.

use hitm_base::machine::preset;
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, Machine, Outcome, ThreadId};
use hitm_coherence::directory::Capacity;
use hitm_weave::{Position, Slot, ThreadEvent, Weave};

/// A preset whose instructions take a cycle each.
pub(crate) fn machine(name: &str) -> Machine {
    let mut machine = Machine::from_toml(preset(name).unwrap(), name).unwrap();
    machine.core.cpi_milli = 1000;
    machine
}

/// The events of one thread, with its instructions and stores counted along.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) events: Vec<ThreadEvent>,
    pub(crate) end: Position,
}

impl Program {
    /// Instructions that touch nothing shared.
    pub(crate) fn work(mut self, insns: u64) -> Program {
        self.end.insn += insns;
        self
    }

    /// Stores to lines that nobody else uses, one an instruction.
    pub(crate) fn private_stores(mut self, count: u64) -> Program {
        self.end.insn += count;
        self.end.stores += count;
        self
    }

    pub(crate) fn access(mut self, op: AccessOp, addr: u64) -> Program {
        let size = if op == AccessOp::Fence { 0 } else { 8 };
        let Position { insn, stores } = self.end;
        let code = CodeAddr(0x40_0000 + op as u64);
        self.events.push(ThreadEvent {
            insn,
            stores,
            addr,
            code,
            size,
            op,
        });
        self.end.insn += 1;
        self.end.stores += u64::from(op == AccessOp::Store);
        self
    }

    /// The same, with instructions that touch nothing shared before it.
    pub(crate) fn after(mut self, insns: u64) -> Program {
        for event in &mut self.events {
            event.insn += insns;
        }
        self.end.insn += insns;
        self
    }

    pub(crate) fn load(self, addr: u64) -> Program {
        self.access(AccessOp::Load, addr)
    }

    pub(crate) fn store(self, addr: u64) -> Program {
        self.access(AccessOp::Store, addr)
    }

    pub(crate) fn fence(self) -> Program {
        self.access(AccessOp::Fence, 0)
    }
}

/// A weave and what has come out of it.
pub(crate) struct Run {
    pub(crate) weave: Weave,
    pub(crate) slots: Vec<Slot>,
    pub(crate) log: Vec<(Access, Outcome)>,
}

impl Run {
    /// One thread on each of the CPUs.
    pub(crate) fn new(machine: &Machine, cpus: &[u16]) -> Run {
        let mut weave = Weave::new(machine.clone(), Capacity::Finite);
        let threads = (0..).zip(cpus);
        let add = |(id, cpu): (u32, &u16)| weave.add_thread(ThreadId(id), CpuId(*cpu));
        Run {
            slots: threads.map(add).collect(),
            weave,
            log: Vec::new(),
        }
    }

    /// The line of `addr` was written by this thread before anything was recorded.
    pub(crate) fn written_by(mut self, thread: usize, addr: u64) -> Run {
        self.weave
            .adopt(hitm_base::LineAddr::of(addr), self.slots[thread], true);
        self
    }

    /// Runs one program a thread to their ends.
    pub(crate) fn programs(mut self, programs: &[Program]) -> Run {
        for (slot, program) in self.slots.iter().zip(programs) {
            self.weave.push(*slot, &program.events, program.end);
        }
        self.finish();
        self
    }

    pub(crate) fn advance(&mut self) {
        let log = &mut self.log;
        self.weave
            .advance(&mut |access, outcome| log.push((*access, *outcome)));
    }

    pub(crate) fn finish(&mut self) {
        let log = &mut self.log;
        self.weave
            .finish(&mut |access, outcome| log.push((*access, *outcome)));
    }

    pub(crate) fn clock(&self, thread: usize) -> Cycles {
        self.weave.totals(self.slots[thread]).clock
    }

    /// The outcomes of one thread's accesses, in order of issue.
    pub(crate) fn outcomes(&self, thread: u32) -> Vec<Outcome> {
        let mut own: Vec<&(Access, Outcome)> = self
            .log
            .iter()
            .filter(|(access, _)| access.thread == ThreadId(thread))
            .collect();
        own.sort_by_key(|(access, _)| access.time);
        own.into_iter().map(|(_, outcome)| *outcome).collect()
    }
}
