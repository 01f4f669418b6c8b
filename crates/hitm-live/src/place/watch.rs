//! Placement that follows the contention: decides when to place, move and release.
//!
//! [`Watch`] is the decision alone, with the hysteresis of the simulator's lock-aware placement
//! (`hitm_sim::kernel::lock_affinity`). docs/models/locks.md describes the effect of its constants.
//! [`Watcher`] carries the decisions out.

use super::PlaceError;
use super::domain::Machine;
use super::guard::Launcher;
use super::plan::{Contention, Decision, Plan, PlanOptions};
use super::session::{Place, Session, Tick};
use super::undo::Undone;

/// Waiting threads that make a placement worthwhile. Assumed 2 (1 to 8): below, two CPUs and a
/// queue of one need no help.
pub const CROWD: f64 = 2.0;
/// Waiting threads below which the lock is calm. Assumed 0.25 (0 to 1): far from [`CROWD`], so that
/// placements do not flap.
pub const CALM: f64 = 0.25;
/// Consecutive windows after which a crowd is placed. Assumed 2 (1 to 5): one may be chance.
const CROWDED_WINDOWS: u32 = 2;
/// Consecutive windows after which a calm lock is released. Assumed 4 (2 to 20): programs take
/// breaks.
const CALM_WINDOWS: u32 = 4;
/// Consecutive windows after which another number of CPUs moves the threads. Assumed 3 (2 to 10).
const OTHER_SIZE_WINDOWS: u32 = 3;
/// Largest domain that still fits, as a multiple of the needed CPUs: domains come in sizes. Assumed
/// 4 (2 to 8).
const ROOM_MAX: usize = 4;

/// A lock in one window of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Threads that waited for it, on average over the window.
    pub waiting: f64,
    /// CPUs that it can keep busy; `None` when the window had too few uses to tell.
    pub needed: Option<usize>,
}

/// Decision at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Everything stays.
    Stay,
    /// The threads go to a domain with so many CPUs.
    Place(usize),
    /// They run everywhere again.
    Release,
}

/// The state of the decision.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    crowded: u32,
    calm: u32,
    other_size: u32,
    placed: Option<usize>,
}

impl Watch {
    /// A watch with nothing observed and nothing placed.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// Counts a window and decides.
    pub fn observe(&mut self, window: Observation) -> Step {
        let Observation { waiting, needed } = window;
        self.crowded = if waiting >= CROWD {
            self.crowded + 1
        } else {
            0
        };
        self.calm = if waiting < CALM { self.calm + 1 } else { 0 };
        match (self.placed, needed) {
            (None, Some(needed)) if self.crowded >= CROWDED_WINDOWS => Step::Place(needed),
            (Some(_), _) if self.calm >= CALM_WINDOWS => Step::Release,
            (Some(cpus), Some(needed)) => {
                let fits = needed <= cpus && cpus < needed.max(2).saturating_mul(ROOM_MAX);
                // An uncontended lock is no reason to move.
                let stays = fits || self.calm > 0;
                self.other_size = if stays { 0 } else { self.other_size + 1 };
                if self.other_size < OTHER_SIZE_WINDOWS {
                    return Step::Stay;
                }
                self.other_size = 0;
                Step::Place(needed)
            }
            _ => Step::Stay,
        }
    }

    /// Notes the result of a decision: the size of the domain, or none.
    pub fn settle(&mut self, cpus: Option<usize>) {
        (self.crowded, self.calm, self.other_size) = (0, 0, 0);
        self.placed = cpus;
    }
}

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
            watch: Watch::new(),
            session: None,
        }
    }

    /// Counts a window: `waiting` threads waited on average for the lock of `contention`. A share
    /// of 0, or one that is not a number, means that the window had too few uses to tell.
    ///
    /// # Errors
    /// The kernel refuses to place or to undo.
    pub fn window(&mut self, waiting: f64, contention: &Contention) -> Result<Change, PlaceError> {
        let needed = contention.needed_cpus().ok();
        match self.watch.observe(Observation { waiting, needed }) {
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
        self.watch.settle(Some(cpus));
        Ok(Change::Placed(Box::new(plan)))
    }

    fn release(&mut self) -> Result<Undone, PlaceError> {
        self.watch.settle(None);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions for windows of (waiting, needed), where each placement gets a domain of `size` CPUs.
    fn steps(size: usize, windows: &[(f64, usize)]) -> String {
        let mut watch = Watch::new();
        let mut step = |&(waiting, needed): &(f64, usize)| {
            let needed = (needed > 0).then_some(needed);
            match watch.observe(Observation { waiting, needed }) {
                Step::Stay => 's',
                Step::Release => {
                    watch.settle(None);
                    'r'
                }
                Step::Place(needed) => {
                    watch.settle(Some(size.max(needed)));
                    'p'
                }
            }
        };
        windows.iter().map(&mut step).collect()
    }

    #[test]
    fn one_crowded_window_is_not_enough_and_calm_ones_end_it() {
        let waits = [3.0, 1.0, 3.0, 3.0, 0.2, 0.2, 2.0, 0.2, 0.2, 0.2, 0.2, 0.2];
        let windows: Vec<_> = waits.into_iter().map(|waiting| (waiting, 3)).collect();
        assert_eq!(steps(4, &windows), "ssspssssssrs");
    }

    #[test]
    fn another_size_moves_the_threads_after_three_windows() {
        let sizes = [3, 3, 8, 3, 8, 8, 8, 8, 1, 1, 1];
        let windows: Vec<_> = sizes.into_iter().map(|needed| (3.0, needed)).collect();
        assert_eq!(steps(4, &windows), "spsssspsssp");
        let somewhat_fewer = [(3.0, 3), (3.0, 3), (3.0, 2), (3.0, 2), (3.0, 2), (3.0, 2)];
        assert_eq!(steps(4, &somewhat_fewer), "spssss");
    }

    #[test]
    fn a_calm_lock_does_not_move() {
        let windows = [(3.0, 2), (3.0, 2), (0.1, 9), (0.1, 9), (0.1, 9), (1.0, 9)];
        assert_eq!(steps(2, &windows), "spssss");
    }

    #[test]
    fn windows_without_a_share_place_nothing_and_keep_what_is_placed() {
        let windows = [(3.0, 0), (3.0, 0), (3.0, 2), (3.0, 0), (3.0, 0), (3.0, 0)];
        assert_eq!(steps(2, &windows), "sspsss");
    }
}
