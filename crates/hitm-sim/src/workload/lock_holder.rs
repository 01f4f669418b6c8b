//! Tasks of a group with a quota that hold a lock of the kernel, and tasks without one that want it.
//!
//! In the group, hogs use the quota up, and holders take a semaphore, wait for a page while they hold
//! it, and give it back. Outside, one writer and readers want the same semaphore. A holder whose
//! group is stopped while it waits keeps the semaphore until it runs again: then the writer waits,
//! and behind it all readers. Holders read, as those of a per-CPU semaphore do that a writer waits
//! for, or write, as to the inode of a file.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::cgroup_hogs::hog;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::SimError;
use crate::kernel::{
    GroupId, GroupSpec, Held, Histogram, Hold, Kernel, Quota, RwSem, TaskSpec, Thread,
};
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// Configuration of the tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockHolderConfig {
    /// CPU time that the group may use.
    pub quota: Quota,
    /// Mode in which its tasks hold the semaphore.
    pub holds: Hold,
    /// Kernel code under the semaphore.
    pub work: Nanos,
    /// Wait for a page under it, by holders of the group.
    pub page_wait: Nanos,
    /// Time between two uses by one task.
    pub pause: Nanos,
}

/// Times that tasks waited for the semaphore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockWaits {
    /// Waits of the writer.
    pub writer: Vec<Cycles>,
    /// Waits of readers without a quota.
    pub readers: Vec<Cycles>,
    /// Waits of holders of the group.
    pub holders: Vec<Cycles>,
}

/// The tasks.
#[derive(Debug)]
pub struct LockHolder {
    waits: Rc<RefCell<LockWaits>>,
}

/// A task's part in the use of the semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Writer,
    Reader,
    Holder,
}

/// A task that uses the semaphore.
#[derive(Debug, Clone, Copy)]
struct User {
    group: GroupId,
    role: Role,
    cpu: CpuId,
    start: Cycles,
}

/// A use of the semaphore, and the time to the next one.
#[derive(Debug, Clone, Copy)]
struct Turn {
    held: Held,
    pause: Cycles,
}

impl LockHolder {
    /// Makes the group and the tasks: on each CPU a hog and a holder of the group and a reader
    /// without a quota, on the first CPU the writer.
    ///
    /// # Errors
    /// A quota that Linux would refuse.
    pub fn spawn(kernel: &Rc<Kernel>, config: LockHolderConfig) -> Result<LockHolder, SimError> {
        let group = kernel.create_group(&GroupSpec {
            quota: Some(config.quota),
            ..GroupSpec::within(GroupId::ROOT)
        })?;
        let sem = kernel.rw_sem("lock")?;
        let holder = LockHolder {
            waits: Rc::default(),
        };
        let mut random = kernel.engine().random("lock-holder");
        for cpu in kernel.engine().machine().topology.cpus() {
            let start = Cycles(random.below(kernel.cycles(config.pause).0));
            hog(kernel, group, cpu, start)?;
            let user = |group, role| User {
                group,
                role,
                cpu,
                start,
            };
            holder.add(kernel, user(group, Role::Holder), &sem, config)?;
            holder.add(kernel, user(GroupId::ROOT, Role::Reader), &sem, config)?;
            if cpu == CpuId(0) {
                holder.add(kernel, user(GroupId::ROOT, Role::Writer), &sem, config)?;
            }
        }
        Ok(holder)
    }

    /// Returns the times that they waited so far.
    pub fn waits(&self) -> LockWaits {
        self.waits.borrow().clone()
    }

    fn add(
        &self,
        kernel: &Rc<Kernel>,
        user: User,
        sem: &Rc<RwSem>,
        config: LockHolderConfig,
    ) -> Result<(), SimError> {
        let spec = TaskSpec::bound(kernel, "user".to_owned(), user.cpu, user.start);
        let (sem, waits) = (Rc::clone(sem), Rc::clone(&self.waits));
        let (hold, sleep) = match user.role {
            Role::Writer => (Hold::Write, Cycles::ZERO),
            Role::Reader => (Hold::Read, Cycles::ZERO),
            Role::Holder => (config.holds, kernel.cycles(config.page_wait)),
        };
        let turn = Turn {
            held: Held {
                hold,
                work: kernel.cycles(config.work),
                sleep,
            },
            pause: kernel.cycles(config.pause),
        };
        kernel.spawn_in(user.group, &spec, move |thread| {
            use_sem(thread, user.role, turn, sem, waits)
        })?;
        Ok(())
    }
}

async fn use_sem(
    thread: Thread,
    role: Role,
    turn: Turn,
    sem: Rc<RwSem>,
    waits: Rc<RefCell<LockWaits>>,
) {
    loop {
        let waited = thread.hold_sem(&sem, turn.held).await;
        {
            let mut waits = waits.borrow_mut();
            match role {
                Role::Writer => waits.writer.push(waited),
                Role::Reader => waits.readers.push(waited),
                Role::Holder => waits.holders.push(waited),
            }
        }
        thread.sleep(turn.pause).await;
    }
}

figures! {
    FIGURES {
        WRITER_WAIT_US_MAX: "writer_wait_us_max", "us", "The longest time that the writer waited for the lock";
        READER_WAIT_US_MAX: "reader_wait_us_max", "us", "The longest time that a reader without a quota waited for it";
        HOLDER_WAIT_US_MAX: "holder_wait_us_max", "us", "The longest time that a holder of the group with a quota waited for it";
        READER_USES: "reader_uses", "count", "Times that readers without a quota had it";
    }
}

impl Figures for LockHolder {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let histograms = Some(lock_metrics(&self.waits(), window, add));
        WorkloadResult {
            text: histograms.clone(),
            histograms,
            ..WorkloadResult::default()
        }
    }
}

/// Adds how long tasks waited for a lock; returns the histograms.
fn lock_metrics(waits: &LockWaits, window: Window<'_>, add: Add<'_>) -> String {
    let mut text = String::new();
    let mut of = |name: &str, waits: &[Cycles]| {
        let mut histogram = Histogram::default();
        for wait in waits {
            histogram.record(window.clock.nanos(*wait));
        }
        let _ = write!(text, "@{name}_wait:\n{}", histogram.text());
        let most = waits.iter().max().copied().unwrap_or_default();
        window.clock.nanos(most).0 / 1e3
    };
    let writer = of("writer", &waits.writer);
    let readers = of("reader", &waits.readers);
    let own = of("holder", &waits.holders);
    add(WRITER_WAIT_US_MAX, writer);
    add(READER_WAIT_US_MAX, readers);
    add(HOLDER_WAIT_US_MAX, own);
    add(READER_USES, waits.readers.len() as f64);
    text
}

pub(super) const KIND: Kind = Kind {
    name: "lock-holder",
    default_name: "lock_holder",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
quota = "50ms" | "1ms"
"#,
    optional: r#"
holds = "read" | "write"
work = "5us"
page_wait = "200us"
pause = "2ms"
period = "100ms"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    Ok(WorkloadKind::LockHolder(LockHolderConfig {
        quota: keys::quota(table)?,
        holds: table.one_of("holds", &Hold::WORDS)?.unwrap_or(Hold::Read),
        work: keys::span(table, "work", keys::SHORT, Nanos(5e3))?,
        page_wait: keys::span(table, "page_wait", keys::SHORT, Nanos(200e3))?,
        pause: keys::span(table, "pause", keys::SHORT, Nanos(2e6))?,
    }))
}

impl Program for LockHolderConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        Ok(Rc::new(LockHolder::spawn(start.kernel, *self)?))
    }

    fn tasks(&self, topology: &Topology) -> Product {
        let cpus = topology.cpu_count() as u64;
        Product::new("kind", &[("", 3), ("CPUs", cpus)])
    }
}
