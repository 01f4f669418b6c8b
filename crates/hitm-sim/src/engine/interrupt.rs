//! Interrupts: when they are taken, what they interrupt, and how that resumes.
//!
//! A CPU takes an interrupt while it runs code without accesses, spins, waits for the others to
//! catch up or has nothing to do. It takes none in the middle of an access. The handler runs on a
//! stack of its own with interrupts off; what it interrupted resumes as much later as the handler
//! took. User code comes back early instead, so that the kernel may reschedule before it returns to
//! it.

use hitm_base::Cycles;

use super::cpu::{Interrupted, Mode, Vector, Wait};
use super::state::State;

impl State {
    /// The CPU leaves what it does for its interrupt handler. Work that its clock has already, ahead of
    /// `now`, is done afterwards.
    pub(super) fn deliver(&mut self, index: usize, now: Cycles) {
        if let Wait::Parked(line) = self.cpus[index].wait {
            self.unpark(index, line);
        }
        let cpu = &mut self.cpus[index];
        let (wait, left) = match cpu.wait {
            // A spinner looks again afterwards.
            Wait::Parked(_) => (Wait::Sync, Cycles::ZERO),
            Wait::Off => (Wait::Off, Cycles::MAX),
            wait => (wait, cpu.resume_at.saturating_sub(now)),
        };
        let mode = cpu.set_mode(Mode::Irq, now);
        cpu.interrupted = Some(Interrupted {
            wait,
            left,
            result: cpu.result,
            mode,
        });
        cpu.switch_irqs(false, now);
        cpu.clock = now;
        cpu.wait = Wait::Sync;
        cpu.resume_at = now;
    }

    /// The handler has nothing more to do.
    pub(super) fn return_from_interrupt(&mut self) {
        let cpu = &mut self.cpus[self.current];
        let interrupted = cpu.interrupted.take();
        let Interrupted {
            wait,
            left,
            result,
            mode,
        } = interrupted.expect("a handler returns to what it interrupted");
        let now = cpu.clock;
        cpu.switch_irqs(true, now);
        cpu.set_mode(mode, now);
        cpu.result = result;
        cpu.wait = wait;
        match wait {
            Wait::Off => cpu.resume_at = Cycles::MAX,
            Wait::Run => {
                cpu.run_left = left;
                cpu.wait = Wait::Sync;
                cpu.resume_at = now;
            }
            _ => {
                cpu.clock = now + left;
                cpu.resume_at = cpu.clock;
            }
        }
    }

    /// The next vector for the running handler.
    pub(super) fn next_vector(&mut self) -> Option<Vector> {
        let cpu = &mut self.cpus[self.current];
        cpu.take_irq(cpu.clock)
    }

    /// `vector` reaches CPU `index` at `at`, or when it was to come anyway if that is earlier.
    pub(super) fn raise(&mut self, index: usize, vector: Vector, at: Cycles) {
        let cpu = &mut self.cpus[index];
        let at = at.min(cpu.irq_at[usize::from(vector.0)]);
        cpu.set_irq(vector, at);
        self.note_irq(index);
    }

    /// `vector` reaches the running CPU at `at` and at no other time.
    pub(super) fn set_timer(&mut self, vector: Vector, at: Cycles) {
        let index = self.current;
        self.cpus[index].set_irq(vector, at);
        self.note_irq(index);
    }

    fn note_irq(&mut self, index: usize) {
        if index == self.current {
            self.rebound();
        } else {
            self.rekey(index);
            self.foresee(index);
        }
    }

    /// Switches the running CPU's interrupts.
    pub(super) fn switch_irqs(&mut self, on: bool) -> bool {
        let cpu = &mut self.cpus[self.current];
        let before = cpu.irqs_on;
        assert!(
            !(on && cpu.interrupted.is_some()),
            "a handler runs with interrupts off"
        );
        cpu.switch_irqs(on, cpu.clock);
        if on {
            self.rebound();
        }
        before
    }
}
