//! Replay of the recording under a proposal. The advisor's model takes accesses as independent; the
//! replay keeps the program's own order.

use std::path::PathBuf;

use hitm_base::{Cycles, Machine};
use hitm_layout::layout_file::LayoutFile;

use super::Inputs;
use crate::recording::Recording;
use crate::whatif::{
    Change, HeapInstances, ThreadChange, WhatifConfig, WhatifError, WhatifReport, run_loaded,
};

/// Sums over all threads, before and after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Cycles that threads ran or waited for memory.
    pub cycles: Change<Cycles>,
    /// Part of them caused by other CPUs' use of lines.
    pub lost: Change<Cycles>,
}

/// A recording on which proposals are tried.
#[derive(Debug)]
pub(super) struct Proving {
    path: PathBuf,
    recording: Recording,
    /// Allocation sites of the structures.
    instances: Vec<HeapInstances>,
    /// A machine other than the recording's.
    machine: Option<Machine>,
}

impl Proving {
    /// `machine` is the one that was asked for.
    pub(super) fn new(
        inputs: &Inputs,
        type_name: &str,
        (recording, machine): (Recording, Option<Machine>),
    ) -> Proving {
        let at = inputs.at.iter().map(|site| HeapInstances {
            type_name: Some(type_name.to_owned()),
            site: site.clone(),
        });
        Proving {
            path: inputs.profile.clone(),
            instances: at.collect(),
            machine,
            recording,
        }
    }

    /// Replays the recording with the layout. `progress` gets the bytes read so far and in all.
    pub(super) fn prove(
        &self,
        layout: LayoutFile,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Proof, WhatifError> {
        let config = WhatifConfig {
            input: self.path.clone(),
            layouts: vec![layout],
            instances: self.instances.clone(),
            machine: self.machine.clone(),
            placement: None,
        };
        let moved = run_loaded(&self.recording, &config, progress)?;
        let (cycles, lost) = match &self.machine {
            None => (
                sum(&moved, |t| t.cycles.before),
                sum(&moved, |t| t.lost.before),
            ),
            // The recorded cycles are another machine's: replay the old layout on this one too.
            Some(_) => {
                let unmoved = WhatifConfig {
                    layouts: Vec::new(),
                    ..config
                };
                let there = run_loaded(&self.recording, &unmoved, progress)?;
                (
                    sum(&there, |t| t.cycles.after),
                    sum(&there, |t| t.lost.after),
                )
            }
        };
        Ok(Proof {
            cycles: Change {
                before: cycles,
                after: sum(&moved, |t| t.cycles.after),
            },
            lost: Change {
                before: lost,
                after: sum(&moved, |t| t.lost.after),
            },
        })
    }
}

fn sum(report: &WhatifReport, of: fn(&ThreadChange) -> Cycles) -> Cycles {
    let cycles = report.threads.iter().map(|thread| of(thread).0);
    Cycles(cycles.fold(0, u64::saturating_add))
}
