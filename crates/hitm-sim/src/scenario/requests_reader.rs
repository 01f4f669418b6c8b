//! Reads the keys of a workload of requests.

use hitm_base::{CpuId, Nanos};

use super::ScenarioError;
use super::quantity::nanos;
use super::reader::{self as read, Table, needed, span};
use super::workload::{Placed, WorkloadKind};
use super::workload_reader::{SHORT, THREADS_MAX, TIME_MAX, TIMER, cpu_choice, nice, required};
use crate::workload::requests::{Load, RequestsConfig, Service, Times};

/// Most arrivals a second.
const ARRIVALS_MAX: u64 = 10_000_000;

pub(super) fn requests(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let (load, trace) = load(table)?;
    let mean = read::time(table, "service", *SHORT.start(), TIME_MAX)?;
    let has_long = table.get("long_service").is_some();
    let service = match (mean, trace.is_some()) {
        // Those of a trace have their own.
        (None, true) => Service::ZERO,
        (Some(_), true) => {
            return Err(table.error("service", "`service` and `trace`", "one of them"));
        }
        (mean, false) => Service {
            mean: nanos(needed(table, "service", "a time, such as \"2ms\"", mean)?),
            times: table
                .one_of("service_times", &Times::WORDS)?
                .unwrap_or(Times::Fixed),
            long: match has_long {
                true => Some((
                    span(table, "long_service", SHORT, Nanos(0.0))?,
                    required(table, "long_percent", 1, 99)?,
                )),
                false => None,
            },
        },
    };
    let cpus = cpu_choice(table)?;
    let arrival_cpus = read::cpus(table, "arrival_cpus")?;
    let config = RequestsConfig {
        load,
        service,
        nice: nice(table)?.unwrap_or(0),
        arrival_cpus: arrival_cpus
            .unwrap_or_default()
            .into_iter()
            .map(CpuId)
            .collect(),
    };
    Ok(WorkloadKind::Requests {
        placed: Placed { cpus, config },
        trace,
    })
}

/// The coming of requests, and the file that it is in.
fn load(table: &Table<'_, '_, '_>) -> Result<(Load, Option<String>), ScenarioError> {
    const EXPECTED: &str = "one of `rate`, `think` and `trace`";
    let rates = read::rates(table, "rate", ARRIVALS_MAX)?;
    let think = read::time(table, "think", *TIMER.start(), TIME_MAX)?;
    let trace = table.words("trace")?;
    match (rates.as_deref(), think, trace) {
        (Some([rate]), None, None) => {
            let batch = table.number("batch", 1, THREADS_MAX)?.unwrap_or(1);
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
