//! Reads the keys of a program's lock.

use std::time::Duration;

use hitm_base::{LINE_SIZE, Nanos};

use super::ScenarioError;
use super::reader::{Table, span};
use super::workload::{Placed, WorkloadKind};
use super::workload_reader::{ANY, SHORT, cpu_choice};
use crate::workload::program_lock::ProgramLockConfig;
use crate::workload::requests::Times;

/// Most uses of the lock in a transaction.
const USES_MAX: u64 = 10_000;
/// Most elements that a holder takes, and the largest.
const TOUCHES_MAX: u64 = 10_000;
const TOUCH_BYTES_MAX: u64 = 1 << 30;

pub(super) fn program_lock(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let times = |key| Ok(table.one_of(key, &Times::WORDS)?.unwrap_or(Times::Fixed));
    let look = Duration::from_nanos(1)..=Duration::from_millis(1);
    let bytes = table.number("touch_bytes", LINE_SIZE, TOUCH_BYTES_MAX)?;
    let config = ProgramLockConfig {
        uses: table.number("uses", 1, USES_MAX)?.unwrap_or(1),
        work: span(table, "work", SHORT, Nanos(100e3))?,
        work_times: times("work_times")?,
        think: span(table, "think", ANY, Nanos(0.0))?,
        hold: span(table, "hold", ANY, Nanos(0.0))?,
        sleep: span(table, "sleep", ANY, Nanos(0.0))?,
        spin: span(table, "spin", look, Nanos(40.0))?,
        touches: table.number("touches", 0, TOUCHES_MAX)?.unwrap_or(0),
        touches_times: times("touches_times")?,
        touch_bytes: bytes.unwrap_or(4096),
        processes: table.flag("processes")?,
        initialised: table.flag("initialised")?,
    };
    let cpus = cpu_choice(table)?;
    Ok(WorkloadKind::ProgramLock(Placed { cpus, config }))
}
