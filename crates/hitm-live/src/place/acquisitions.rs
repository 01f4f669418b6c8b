//! A count to prove a placement by: locks acquired by a program, from the preloaded library.

use std::collections::BTreeSet;

use super::PlaceError;
use super::plan::Plan;
use super::prove::Meter;
use crate::shim::{Attached, ShimError};

/// Acquisitions of pthread locks by the processes of a plan.
#[derive(Debug)]
pub struct AcquisitionMeter {
    regions: Vec<(u32, Attached)>,
}

impl AcquisitionMeter {
    /// Name of the count among events.
    pub const NAME: &str = "lock-acquisitions";

    /// Finds the processes' counts.
    ///
    /// # Errors
    /// A process does not run under the library, or its counts cannot be read.
    pub fn of(plan: &Plan) -> Result<AcquisitionMeter, PlaceError> {
        let pids: BTreeSet<u32> = plan.tasks.iter().map(|task| task.pid).collect();
        let mut regions = Vec::new();
        for pid in pids {
            let found = Attached::find(pid).map_err(failed)?;
            let region = found.ok_or_else(|| PlaceError::Missing {
                what: format!("count the locks that process {pid} takes"),
                needed: String::from("libhitm_locks.so to be preloaded into it"),
            })?;
            regions.push((pid, region));
        }
        Ok(AcquisitionMeter { regions })
    }
}

fn failed(error: ShimError) -> PlaceError {
    PlaceError::Refused(error.to_string())
}

impl Meter for AcquisitionMeter {
    fn unit(&self) -> &str {
        AcquisitionMeter::NAME
    }

    fn count(&mut self) -> Result<f64, PlaceError> {
        let mut sum = 0u64;
        for (pid, region) in &self.regions {
            sum = sum.saturating_add(region.acquisitions(&[*pid]).map_err(failed)?);
        }
        Ok(sum as f64)
    }
}
