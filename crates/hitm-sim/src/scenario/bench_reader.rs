//! Reads benchmarks of locks, requests and policies.

use std::time::Duration;

use super::ScenarioError;
use super::reader::{ScenarioTable as _, Table};
use super::workload::{LockBenchSpec, PolicyChangerSpec, RequestResponseSpec};
use super::workload_reader::{TIME_MAX, cpu_choice, sched};
use crate::kernel::Policy;
use crate::workload::lock_bench::LockKind;

const LOCKS: [(&str, LockKind); 5] = [
    ("spinlock", LockKind::Spinlock),
    ("mutex", LockKind::Mutex),
    ("rwsem-write", LockKind::RwsemWrite),
    ("rwsem-read", LockKind::RwsemRead),
    ("pi-mutex", LockKind::PiMutex),
];
const POLICIES: [(&str, Policy); 3] = [
    ("fifo", Policy::Fifo(1)),
    ("rr", Policy::Rr(1)),
    ("normal", Policy::Normal(0)),
];

pub(super) fn lock_bench(table: &Table<'_, '_, '_>) -> Result<LockBenchSpec, ScenarioError> {
    let lock = table.one_of("lock", &LOCKS)?;
    let missing = || {
        table.error(
            "lock",
            "no such key",
            "the kind of lock, such as \"spinlock\"",
        )
    };
    let time = |key| {
        Ok(table
            .time(key, Duration::ZERO, TIME_MAX)?
            .unwrap_or_default())
    };
    Ok(LockBenchSpec {
        lock: lock.ok_or_else(missing)?,
        cpus: cpu_choice(table)?,
        sched: sched(table, Policy::Normal(0))?,
        hold: time("hold")?,
        pause: time("pause")?,
    })
}

pub(super) fn request_response(
    table: &Table<'_, '_, '_>,
) -> Result<RequestResponseSpec, ScenarioError> {
    const EXPECTED: &str = "as many CPUs as `clients` has, one for each";
    let cpus = |key, expected| {
        let cpus = table.cpus(key)?;
        cpus.ok_or_else(|| table.error(key, "no such key", expected))
    };
    let clients: Vec<u16> = cpus("clients", "the CPUs of the clients, such as \"0-3\"")?;
    let servers: Vec<u16> = cpus("servers", EXPECTED)?;
    if clients.len() != servers.len() {
        return Err(table.error("servers", format!("{} CPUs", servers.len()), EXPECTED));
    }
    let work = table.time("work", Duration::ZERO, TIME_MAX)?;
    Ok(RequestResponseSpec {
        clients,
        servers,
        sched: sched(table, Policy::Normal(0))?,
        size_bytes: table.number("size_bytes", 1, 4096)?.unwrap_or(1),
        work: work.unwrap_or_default(),
    })
}

pub(super) fn policy_changer(
    table: &Table<'_, '_, '_>,
) -> Result<PolicyChangerSpec, ScenarioError> {
    let policies = table.some_of("policies", &POLICIES)?;
    let work = table.time("work", Duration::ZERO, TIME_MAX)?;
    Ok(PolicyChangerSpec {
        cpus: cpu_choice(table)?,
        policies: policies.unwrap_or_else(|| POLICIES.map(|(_, policy)| policy).to_vec()),
        work: work.unwrap_or_default(),
    })
}
