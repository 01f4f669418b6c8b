//! Lock-aware placement: threads that fight for one lock share as few and as near CPUs as the lock can
//! keep busy.
//!
//! The rule alone, on plain values. The simulated kernel (`hitm_sim::kernel::lock_affinity`) and this
//! host (`hitm_live::place`) look, ask here, and act, so that the one predicts what the other does.
//!
//! 1. Who belongs together: threads that had to wait for one lock, unless most of them belong
//!    elsewhere ([`may_form_group`]).
//! 2. How many CPUs: by the hold share and the quotas ([`Need`]).
//! 3. Which: the tightest domain of the machine with room ([`tightest`]).
//! 4. When: by windows of time, with hysteresis ([`Watch`]).

mod domain;
mod need;
mod watch;

pub use domain::{Domain, Level, Spot, tightest};
pub use need::{LEAST_GAIN, Need, cpus_of_use, hold_share, may_form_group};
pub use watch::{CALM, CROWD, Limits, Step, Watch, Window};
