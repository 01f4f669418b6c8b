//! A program's lock as a scenario states it.

use std::rc::Rc;
use std::time::Duration;

use hitm_base::{LINE_SIZE, Nanos};

use super::{BackOffRule, FIGURES, ProgramLock, ProgramLockConfig};
use crate::engine::SimError;
use crate::kernel::Policy;
use crate::scenario::ScenarioError;
use crate::scenario::start::Start;
use crate::workload::WorkloadKind;
use crate::workload::figures::Figures;
use crate::workload::keys::{self, Table};
use crate::workload::kind::{Kind, Program};
use crate::workload::placed::{CpuChoice, Placed};
use crate::workload::requests::Times;

/// Most uses of the lock in a transaction.
const USES_MAX: u64 = 10_000;
/// Most elements that a holder takes, and the largest.
const TOUCHES_MAX: u64 = 10_000;
const TOUCH_BYTES_MAX: u64 = 1 << 30;

pub(in crate::workload) const KIND: Kind = Kind {
    name: "program-lock",
    default_name: "program_lock",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: "",
    optional: r#"
uses = 1 | 4
work = "1us" | "100us"
work_times = "fixed" | "exponential"
think = "0s" | "50us"
hold = "0s" | "200ns"
sleep = "0s" | "20us"
spin = "1ns" | "40ns"
back_off = "s_lock" | "none"
touches = 0 | 3
touches_times = "fixed" | "uniform"
touch_bytes = 64 | 4096 | 2097152
processes = true | false
initialised = true | false
threads = 2 | 9
cpus = "0-3" | "3"
pinned = true | false
group = "pod" | "app"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let times = |key| Ok(table.one_of(key, &Times::WORDS)?.unwrap_or(Times::Fixed));
    let look = Duration::from_nanos(1)..=Duration::from_millis(1);
    let bytes = table.number("touch_bytes", LINE_SIZE, TOUCH_BYTES_MAX)?;
    let config = ProgramLockConfig {
        uses: table.number("uses", 1, USES_MAX)?.unwrap_or(1),
        work: keys::span(table, "work", keys::SHORT, Nanos(100e3))?,
        work_times: times("work_times")?,
        think: keys::span(table, "think", keys::ANY, Nanos(0.0))?,
        hold: keys::span(table, "hold", keys::ANY, Nanos(0.0))?,
        sleep: keys::span(table, "sleep", keys::ANY, Nanos(0.0))?,
        spin: keys::span(table, "spin", look, Nanos(40.0))?,
        back_off: table
            .one_of("back_off", &BackOffRule::WORDS)?
            .unwrap_or(BackOffRule::SLock),
        touches: table.number("touches", 0, TOUCHES_MAX)?.unwrap_or(0),
        touches_times: times("touches_times")?,
        touch_bytes: bytes.unwrap_or(4096),
        processes: table.flag("processes")?,
        initialised: table.flag("initialised")?,
    };
    let cpus = keys::cpu_choice(table)?;
    Ok(WorkloadKind::ProgramLock(Placed { cpus, config }))
}

impl Program for Placed<ProgramLockConfig> {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let masks = start.masks(&self.cpus);
        let (kernel, group) = (start.kernel, start.group);
        Ok(ProgramLock::spawn(kernel, group, &masks, self.config)?)
    }

    fn cpus(&self) -> Option<&CpuChoice> {
        Some(&self.cpus)
    }

    fn grouped(&self) -> Option<Policy> {
        Some(Policy::Normal(0))
    }
}
