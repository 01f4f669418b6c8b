//! Admission to the class: `__checkparam_dl` and `sched_dl_overflow`.

use hitm_base::{CpuId, Nanos};

use super::{DlClass, DlParams};
use crate::engine::SimError;
use crate::kernel::Kernel;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::rt::Balancing;

/// Parts of a CPU that bandwidths are counted in.
const WHOLE: u64 = 1_000_000;
/// Part of a root domain's CPUs that the class may have: `sched_rt_runtime_us` of `sched_rt_period_us`.
const LIMIT: u64 = 950_000;
/// Shortest runtime (`DL_SCALE`), and the shortest and longest period (`sched_deadline_period_{min,max}_us`), ns.
const RUNTIME_MIN: f64 = 1024.0;
const PERIOD_MIN: f64 = 100e3;
const PERIOD_MAX: f64 = (1u64 << 22) as f64 * 1e3;

impl Kernel {
    /// Admits a task that begins on a CPU, before the run.
    ///
    /// # Errors
    /// Parameters, CPUs or a sum of bandwidths that `sched_setattr` refuses; a kernel from before the class.
    pub(in crate::kernel) fn admit_dl(
        &self,
        name: &str,
        params: DlParams,
        cpu: CpuId,
        allowed: &CpuMask,
    ) -> Result<(), SimError> {
        let refused =
            |why: String| SimError::Workload(format!("task {name} of SCHED_DEADLINE: {why}"));
        let is_old = self.balancing.get() == Balancing::Passive;
        if is_old || self.config.has_overlapping_cpusets() {
            let why = "found a kernel from before 3.14, expected one that has the class";
            return Err(refused(why.to_owned()));
        }
        self.check_params(params).map_err(refused)?;
        let domain = self.rq(cpu).root_domain;
        let span = &self.root_domains[domain].span;
        if span.iter().any(|cpu| !allowed.contains(cpu)) {
            let why = "found fewer CPUs than its root domain has, expected all of them (sched_setattr refuses it, EPERM)";
            return Err(refused(why.to_owned()));
        }
        if self.deadline.get().is_none() {
            let made = DlClass::new(self)?;
            self.deadline.set(made).expect("it was not there");
        }
        let admitted = &self.dl().domains[domain].admitted;
        let own =
            (u128::from(params.runtime.0) * u128::from(WHOLE) / u128::from(params.period.0)) as u64;
        let (sum, limit) = (admitted.get() + own, span.count() as u64 * LIMIT);
        if sum > limit {
            let cpus = |part: u64| part as f64 / WHOLE as f64;
            return Err(refused(format!(
                "found {:.3} CPUs beside {:.3} that others have, expected at most {:.3} of {} in all (sched_setattr refuses it, EBUSY)",
                cpus(own),
                cpus(admitted.get()),
                cpus(limit),
                span.count()
            )));
        }
        admitted.set(sum);
        Ok(())
    }

    fn check_params(&self, params: DlParams) -> Result<(), String> {
        let nanos = |span| self.engine.machine().clock.nanos(span).0;
        let DlParams {
            runtime,
            deadline,
            period,
        } = params;
        let micros = |span: Nanos| format!("{} us", span.0 / 1e3);
        if runtime < self.cycles(Nanos(RUNTIME_MIN)) {
            let found = micros(Nanos(nanos(runtime)));
            return Err(format!(
                "found a runtime of {found}, expected at least 1.024 us"
            ));
        }
        if runtime > deadline || deadline > period {
            let [runtime, deadline, period] =
                [runtime, deadline, period].map(|span| micros(Nanos(nanos(span))));
            return Err(format!(
                "found runtime {runtime}, deadline {deadline} and period {period}, expected none longer than the next"
            ));
        }
        let (least, most) = (
            self.cycles(Nanos(PERIOD_MIN)),
            self.cycles(Nanos(PERIOD_MAX)),
        );
        if period < least || period > most {
            let found = micros(Nanos(nanos(period)));
            return Err(format!(
                "found a period of {found}, expected 100 us to 4194304 us"
            ));
        }
        Ok(())
    }
}
