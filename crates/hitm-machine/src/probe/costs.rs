//! From times of kernel paths to the costs of a machine file. On a busy host some cannot be
//! measured: a CPU that others use is not idle, and a thread that does not run gets no interrupt.

use std::time::Duration;

use hitm_base::machine::{Item, MachineCost, Quantity};

use super::measure::{Spread, spread};
use super::{Cpu, ProbeError, Run, kernel_paths};

/// Idle times before a wake-up: within the residency of deep states, and beyond.
const SHORT_IDLE: Duration = Duration::from_micros(200);
const LONG_IDLE: Duration = Duration::from_millis(4);

impl Run<'_> {
    /// Measures costs of kernel paths on the first CPU, and between it and the second.
    pub(super) fn kernel_costs(&mut self) -> Result<(), ProbeError> {
        self.say("system calls, switches and timers");
        let Some(first) = self.cpus.first().copied() else {
            return Ok(());
        };
        let count = self.options.sample_count;
        let syscall = spread(kernel_paths::syscall(first.number, count)?);
        self.cost(MachineCost::Syscall, 0.0, &syscall, "getppid");
        let switch = self.context_switch(first)?;
        let Some(second) = self.second_core() else {
            return Ok(());
        };
        self.say("interrupts and idle states");
        self.interrupts(first, second)?;
        let idle = self.idle_states(first, second, syscall.median_ns + switch)?;
        let lateness = spread(kernel_paths::timer_lateness(first.number, count)?);
        let rest = idle + switch + syscall.median_ns + self.known(MachineCost::IrqEntry);
        let how =
            "lateness of a sleep of 200 us, less idle exit, switch, system call and interrupt";
        self.cost(MachineCost::TimerDelivery, rest, &lateness, how);
        Ok(())
    }

    /// Returns the ns of a switch.
    fn context_switch(&mut self, cpu: Cpu) -> Result<f64, ProbeError> {
        let count = self.options.sample_count;
        let futex = spread(kernel_paths::switch_by_futex(cpu.number, count)?);
        let pipe = kernel_paths::switch_by_pipe(cpu.number, count)?.map(spread);
        let pipe = pipe.map_or(String::new(), |pipe| {
            format!("; by two pipes {}", pipe.words("ns"))
        });
        let how = format!(
            "two threads of one process in turn by a futex, less its calls, an upper bound with wake-up \
             and both passes through the scheduler{pipe}; by futex"
        );
        self.cost(MachineCost::ContextSwitch, 0.0, &futex, &how);
        Ok(futex.median_ns)
    }

    fn interrupts(&mut self, first: Cpu, second: Cpu) -> Result<(), ProbeError> {
        let cpus = [first.number, second.number];
        let Some(samples) = kernel_paths::interrupt(cpus, self.options.sample_count)? else {
            return Ok(());
        };
        let send = self.known(MachineCost::IpiSend);
        let entry = self.known(MachineCost::IrqEntry) / 2.0;
        let syscall = self.known(MachineCost::Syscall);
        let how = "membarrier with one other CPU running, less system call, send and half of an \
                   interrupt, an upper bound with the answer's line";
        self.cost(
            MachineCost::IpiDelivery,
            send + entry + syscall,
            &spread(samples),
            how,
        );
        Ok(())
    }

    /// Returns the ns of the shallow state's exit.
    fn idle_states(&mut self, waker: Cpu, sleeper: Cpu, rest_ns: f64) -> Result<f64, ProbeError> {
        let cpus = [waker.number, sleeper.number];
        let count = self.options.sample_count.div_ceil(4);
        let mut shallow = 0.0;
        for (cost, idle, words) in [
            (MachineCost::IdleExit, SHORT_IDLE, "200 us"),
            (MachineCost::DeepIdleExit, LONG_IDLE, "4 ms"),
        ] {
            let samples = spread(kernel_paths::wake_of_idle(cpus, idle, count)?);
            let how = format!(
                "futex wake of a CPU that was idle for {words}, less system call and switch, an upper \
                 bound with the wake-up's lines and interrupt"
            );
            self.cost(cost, rest_ns, &samples, &how);
            if cost == MachineCost::IdleExit {
                shallow = (samples.median_ns - rest_ns).max(0.0);
            }
        }
        Ok(shallow)
    }

    /// Cost in ns from the file, or else its declared default.
    fn known(&self, cost: MachineCost) -> f64 {
        let stated = self.file.get(Item::Cost(cost));
        let value = stated.unwrap_or(cost.parameter().default);
        value.picos(self.file.clock()) as f64 / 1e3
    }

    /// Stores the median less `rest_ns`. A difference that is not positive, or samples that other
    /// programs disturbed, leave the cost unchanged.
    fn cost(&mut self, cost: MachineCost, rest_ns: f64, samples: &Spread, how: &str) {
        let nanos = samples.median_ns - rest_ns;
        if nanos <= 0.0 || !samples.is_steady() {
            return;
        }
        let picos = Quantity::Picos((nanos * 1e3).round() as u64);
        let how = format!("{how}, {}", samples.words("ns"));
        self.measured(Item::Cost(cost), picos, &how);
    }

    /// A CPU of another core than the first.
    fn second_core(&self) -> Option<Cpu> {
        let first = self.cpus.first()?;
        let core = |cpu: &Cpu| self.topology.core_of(cpu.id);
        let others = self.cpus.iter();
        others.copied().find(|cpu| core(cpu) != core(first))
    }
}
