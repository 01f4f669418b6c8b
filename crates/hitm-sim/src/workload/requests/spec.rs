//! Requests as a scenario states them.

use std::rc::Rc;

use hitm_base::{CpuId, Nanos};

use super::{FIGURES, Load, Requests, RequestsConfig, Service, Times};
use crate::engine::SimError;
use crate::kernel::Policy;
use crate::scenario::ScenarioError;
use crate::scenario::check::Check;
use crate::scenario::quantity::nanos;
use crate::scenario::start::Start;
use crate::workload::WorkloadKind;
use crate::workload::figures::Figures;
use crate::workload::keys::{self, Table};
use crate::workload::kind::{Kind, Program};
use crate::workload::placed::{CpuChoice, Placed};

/// Most arrivals a second.
const ARRIVALS_MAX: u64 = 10_000_000;

/// Requests, as a scenario states them.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestsSpec {
    /// Options. Requests of a trace, and CPUs for arrivals that are not stated, come later.
    pub placed: Placed<RequestsConfig>,
    /// The trace, by its path from the scenario's folder.
    pub trace: Option<String>,
}

pub(in crate::workload) const KIND: Kind = Kind {
    name: "requests",
    default_name: "requests",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
rate = "500/s" | "10000000/s"
service = "1ms" | "100ns"
"#,
    optional: r#"
batch = 4 | 1
service_times = "fixed" | "uniform" | "exponential"
threads = 2 | 64
cpus = "0-3" | "3"
nice = 0 | 19
arrival_cpus = "0" | "1-2"
group = "pod" | "app"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let (load, trace) = load(table)?;
    let mean = keys::time(table, "service", *keys::SHORT.start(), keys::TIME_MAX)?;
    let has_long = table.get("long_service").is_some();
    let service = match (mean, trace.is_some()) {
        // Those of a trace have their own.
        (None, true) => Service::ZERO,
        (Some(_), true) => {
            return Err(table.error("service", "`service` and `trace`", "one of them"));
        }
        (mean, false) => Service {
            mean: nanos(keys::needed(
                table,
                "service",
                "a time, such as \"2ms\"",
                mean,
            )?),
            times: table
                .one_of("service_times", &Times::WORDS)?
                .unwrap_or(Times::Fixed),
            long: match has_long {
                true => Some((
                    keys::span(table, "long_service", keys::SHORT, Nanos(0.0))?,
                    keys::required(table, "long_percent", 1, 99)?,
                )),
                false => None,
            },
        },
    };
    let cpus = keys::cpu_choice(table)?;
    let arrival_cpus = keys::cpus(table, "arrival_cpus")?;
    let config = RequestsConfig {
        load,
        service,
        nice: keys::nice(table)?.unwrap_or(0),
        arrival_cpus: arrival_cpus
            .unwrap_or_default()
            .into_iter()
            .map(CpuId)
            .collect(),
    };
    let placed = Placed { cpus, config };
    Ok(WorkloadKind::Requests(RequestsSpec { placed, trace }))
}

/// The coming of requests, and the file that it is in.
fn load(table: &Table<'_, '_, '_>) -> Result<(Load, Option<String>), ScenarioError> {
    const EXPECTED: &str = "one of `rate`, `think` and `trace`";
    let rates = keys::rates(table, "rate", ARRIVALS_MAX)?;
    let think = keys::time(table, "think", *keys::TIMER.start(), keys::TIME_MAX)?;
    let trace = table.words("trace")?;
    match (rates.as_deref(), think, trace) {
        (Some([rate]), None, None) => {
            let batch = table.number("batch", 1, keys::THREADS_MAX)?.unwrap_or(1);
            Ok((
                Load::Rate {
                    per_second: *rate,
                    batch,
                },
                None,
            ))
        }
        (Some([]) | Some([_, _, ..]), None, None) => {
            Err(table.error("rate", "several rates", "one, such as \"250/s\""))
        }
        (None, Some(mean), None) => {
            let times = table.one_of("think_times", &Times::WORDS)?;
            let times = times.unwrap_or(Times::Exponential);
            Ok((
                Load::Think {
                    mean: nanos(mean),
                    times,
                },
                None,
            ))
        }
        (None, None, Some(trace)) => Ok((Load::Trace(Vec::new()), Some(trace))),
        (None, None, None) => Err(table.error("rate", "no such key", EXPECTED)),
        _ => Err(table.error("rate", "several of them", EXPECTED)),
    }
}

impl Program for RequestsSpec {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let mut config = self.placed.config.clone();
        if self.trace.is_some() {
            config.load = Load::Trace(start.trace());
        }
        let cpus = &self.placed.cpus;
        if config.arrival_cpus.is_empty() {
            let all = || (0..start.cpu_count() as u16).collect();
            let own = cpus.cpus.clone().unwrap_or_else(all);
            config.arrival_cpus = own.into_iter().map(CpuId).collect();
        }
        let masks = start.masks(cpus);
        Ok(Requests::spawn(start.kernel, start.group, &masks, &config)?)
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.placed.cpus)
    }

    fn grouped(&self) -> Option<Policy> {
        Some(Policy::Normal(0))
    }

    fn check(&self, check: &Check<'_>) -> Result<(), ScenarioError> {
        let last = self.placed.config.arrival_cpus.last();
        check.exist("arrival_cpus", last.map(|cpu| cpu.0))?;
        check.choice(&self.placed.cpus)
    }
}
