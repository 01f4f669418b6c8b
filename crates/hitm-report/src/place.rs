//! Plans, placements and proofs of `hitm place`, as text and as JSON. The quantities are declared beside what is
//! decided, in `hitm_live::place`.

mod json;
mod text;

use std::time::Duration;

use hitm_live::place::prove::Proof;
use hitm_live::place::{Placed, Plan, Undone};

pub use json::{applied_json, plan_json, status_json, undone_json};
pub use text::{
    applied_line, change_line, placed_line, plan, problems, proof, recovered, status, undone_all,
    undone_line,
};

/// What `hitm place apply` has done so far.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// The plan; none for a watch, which makes many.
    pub plan: Option<Plan>,
    /// The proof, where one was asked for.
    pub proof: Option<Proven>,
    /// Threads that were placed.
    pub placed: Option<Placed>,
    /// The guard that keeps the placement.
    pub guard: Option<u32>,
    /// Changes that a watch made, in their order.
    pub changes: Option<Vec<Change>>,
    /// Threads that were put back.
    pub undone: Option<Undone>,
}

/// A proof, and what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Proven {
    /// The outcome.
    pub proof: Proof,
    /// Unit of the rates.
    pub unit: String,
    /// Gain that keeps the placement.
    pub min_gain: f64,
}

/// A change that a watch made.
#[derive(Debug, Clone)]
pub struct Change {
    /// Time since the begin of the watch.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

/// What a watch saw or did.
#[derive(Debug, Clone)]
pub enum Event {
    /// Somebody else undid the placement.
    Undone,
    /// A placement was wanted and there is none: the reason.
    Stayed(String),
    /// Threads were placed.
    Placed {
        /// Threads that waited for the lock, on average.
        waiting: f64,
        /// Where to.
        plan: Box<Plan>,
    },
    /// Threads were put back, since they fight no more.
    Released {
        /// The lock.
        name: String,
        /// Threads that were put back.
        undone: Undone,
    },
}
