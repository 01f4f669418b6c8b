//! Places threads that contend for one lock on the CPUs that it can keep busy, and undoes that.
//!
//! [`Plan::new`] chooses the tightest domain of the machine with room for 1/u CPUs and
//! changes nothing. [`Place::apply`] writes a journal, starts a guard process and moves the
//! threads; the result is a [`Session`]. [`watch`] decides when to place and when to release,
//! [`prove`] measures with and without. docs/place.md has the whole picture.
//!
//! Undoing needs the journal alone. The tool does it, its guard when the tool dies, and the next
//! start of hitm when both die. After a reboot nothing is left to undo.

mod acquisitions;
mod backend;
mod change;
mod choose;
mod cpus;
mod dissolve;
mod domain;
mod error;
#[cfg(test)]
mod fake;
mod follow;
mod guard;
pub mod journal;
mod meter;
mod plan;
mod present;
pub mod prove;
mod quota;
mod registry;
mod session;
mod stop;
mod store;
mod stray;
mod system;
mod task;
mod undo;
pub mod watch;

pub use acquisitions::AcquisitionMeter;
pub use backend::{Backend, Obstacle, obstacle};
pub use change::{Placed, placed};
pub use choose::{Chooser, contention_in, held_contention};
pub use cpus::CpuSet;
pub(crate) use cpus::affinity;
pub use domain::{Domain, Found, Level, Machine, Wish, domain_of_cpus, tightest};
pub use error::PlaceError;
pub use guard::{Launcher, guard};
pub use meter::{CommandMeter, EventMeter};
pub use plan::{
    Contention, Decision, LeftOut, Plan, PlanOptions, Reserved, left_out, means_for, planned,
    task_of, tasks_of_cgroup, tasks_of_process,
};
pub use present::{Recovered, Status, StatusTask, status, status_task};
pub use registry::Registry;
pub use session::{Place, Session, Tick};
pub use stop::Stop;
pub use store::Store;
pub use system::{Linux, System};
pub use task::{Mounts, Task, online, placeable};
pub use undo::{Undone, undone};

#[cfg(test)]
mod tests;
