//! Placement that follows the contention: decides when to place, move and release.
//!
//! [`Watch`] is the decision alone, that of the simulator's lock-aware placement as well.
//! docs/models/locks.md describes the effect of its constants. [`Watcher`] carries the decisions out.

use hitm_policy::{Limits, Need, Step, Watch, Window};

use super::PlaceError;
use super::domain::Machine;
use super::guard::Launcher;
use super::plan::{Contention, Decision, Plan, PlanOptions};
use super::session::{Place, Session, Tick};
use super::undo::Undone;

/// Outcome of a window.
#[derive(Debug, Clone)]
pub enum Change {
    /// Nothing changed.
    None,
    /// The threads were placed, or moved, by this plan.
    Placed(Box<Plan>),
    /// A placement was wanted, and the plan has none.
    Stayed(String),
    /// They run everywhere again.
    Released(Undone),
}

/// A placement that comes and goes with the contention.
#[derive(Debug)]
pub struct Watcher<'a> {
    place: Place<'a>,
    machine: &'a Machine,
    options: PlanOptions,
    launcher: &'a Launcher,
    watch: Watch,
    /// CPUs that the quotas of the threads were worth when they were placed.
    quota_cpus: Option<usize>,
    session: Option<Session<'a>>,
}

impl<'a> Watcher<'a> {
    /// A watcher with nothing placed.
    pub fn new(
        place: Place<'a>,
        machine: &'a Machine,
        options: PlanOptions,
        launcher: &'a Launcher,
    ) -> Watcher<'a> {
        Watcher {
            place,
            machine,
            options,
            launcher,
            watch: Watch::default(),
            quota_cpus: None,
            session: None,
        }
    }

    /// Counts a window: `waiting` threads waited on average for the lock of `contention`. A share
    /// of 0, or one that is not a number, means that the window had too few uses to tell.
    ///
    /// # Errors
    /// The kernel refuses to place or to undo.
    pub fn window(&mut self, waiting: f64, contention: &Contention) -> Result<Change, PlaceError> {
        let of_use = contention.cpus_of_use().ok();
        let seen = Window {
            waiting,
            needed: of_use.map(|of_use| Need::new(of_use, self.quota_cpus).least),
        };
        match self.watch.observe(seen, Limits::default()) {
            Step::Stay => Ok(Change::None),
            Step::Release => {
                let undone = self.release()?;
                Ok(Change::Released(undone))
            }
            Step::Place(_) => self.place(contention),
        }
    }

    /// Plans with the threads' own masks, so the present placement is undone first.
    fn place(&mut self, contention: &Contention) -> Result<Change, PlaceError> {
        self.release()?;
        self.options.reserved = self.place.recover()?.reserved;
        let Place { system, mounts, .. } = self.place;
        let plan = Plan::new(system, mounts, self.machine, contention, &self.options)?;
        let cpus = match &plan.decision {
            Decision::Stay(reason) => return Ok(Change::Stayed(reason.clone())),
            Decision::Place(domain) => domain.cpus.len(),
        };
        self.session = Some(self.place.apply(&plan, self.launcher)?);
        self.quota_cpus = plan.quota_cpus;
        self.watch.settle(Some(cpus));
        Ok(Change::Placed(Box::new(plan)))
    }

    fn release(&mut self) -> Result<Undone, PlaceError> {
        self.watch.settle(None);
        self.quota_cpus = None;
        let undone = self.session.take().map(Session::undo).transpose()?;
        Ok(undone.flatten().unwrap_or_default())
    }

    /// Returns true while the threads are placed.
    pub fn is_placed(&self) -> bool {
        self.session.is_some()
    }

    /// Places new threads and restarts a dead guard. Must be called several times a second. Returns
    /// the state of the placement, if there is one.
    ///
    /// # Errors
    /// As [`Session::tick`].
    pub fn tick(&mut self) -> Result<Option<Tick>, PlaceError> {
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        let tick = session.tick()?;
        if tick != Tick::Placed {
            self.release()?;
        }
        Ok(Some(tick))
    }

    /// Undoes the present placement.
    ///
    /// # Errors
    /// As [`Session::undo`].
    pub fn end(mut self) -> Result<Undone, PlaceError> {
        self.release()
    }
}
