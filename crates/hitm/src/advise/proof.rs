//! Replays of a recording under other layouts. The advisor's model takes accesses as independent; a replay keeps the
//! program's own order.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use hitm_base::Machine;
use hitm_layout::layout_file::LayoutFile;

use super::Inputs;
use crate::recording::Recording;
use crate::whatif::{Change, HeapInstances, Took, WhatifConfig, WhatifError, trial};

/// The most replays at a time: each takes up to some hundred MiB.
const THREADS_MAX: usize = 4;

/// Result of a layout's replay, or the reason why there is none.
pub type Proof = Result<Change<Took>, String>;

/// A recording on which layouts are tried.
#[derive(Debug)]
pub(super) struct Proving {
    path: PathBuf,
    recording: Arc<Recording>,
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
        (recording, machine): (Arc<Recording>, Option<Machine>),
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

    /// Accesses that one replay runs again.
    pub(super) fn access_count(&self) -> u64 {
        access_count(&self.recording)
    }

    /// Replays the recording with each of the layouts, several at a time. `progress` gets the bytes read so far and
    /// in all, of all replays together.
    pub(super) fn prove(
        &self,
        layouts: &[LayoutFile],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Vec<Proof> {
        // The recorded cycles are another machine's: the old layout is replayed on this one too.
        let now = self.machine.is_some().then_some(None);
        let all: Vec<Option<&LayoutFile>> =
            now.into_iter().chain(layouts.iter().map(Some)).collect();
        let mut replayed = self.each(&all, progress).into_iter();
        let before = now.and_then(|_| replayed.next());
        let proofs = replayed.map(|proof| match (&before, proof) {
            (Some(Ok(there)), Ok(proof)) => Ok(Change {
                before: there.after,
                after: proof.after,
            }),
            (Some(Err(why)), _) => Err(why.clone()),
            (None, proof) => proof,
            (Some(_), Err(why)) => Err(why),
        });
        proofs.collect()
    }

    fn each(
        &self,
        layouts: &[Option<&LayoutFile>],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Vec<Proof> {
        let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
        let done: Vec<Mutex<Option<Proof>>> = layouts.iter().map(|_| Mutex::new(None)).collect();
        let (sender, receiver) = mpsc::channel::<u64>();
        let work = |sender: mpsc::Sender<u64>| {
            while let Some(at) =
                Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < layouts.len())
            {
                let mut last = 0;
                let proof = self.one(layouts[at], &mut |now, all| {
                    read.fetch_add(now - last, Ordering::Relaxed);
                    last = now;
                    // Nobody listens only once all is over.
                    let _ = sender.send(all);
                });
                *done[at].lock().expect("no replay panics") = Some(proof);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(THREADS_MAX).min(layouts.len()) {
                let sender = sender.clone();
                scope.spawn(|| work(sender));
            }
            drop(sender);
            for all in receiver {
                progress(read.load(Ordering::Relaxed), all * layouts.len() as u64);
            }
        });
        let done = done
            .into_iter()
            .map(|proof| proof.into_inner().expect("no replay panics"));
        done.map(|proof| proof.expect("each layout was replayed"))
            .collect()
    }

    fn one(&self, layout: Option<&LayoutFile>, progress: &mut dyn FnMut(u64, u64)) -> Proof {
        let config = WhatifConfig {
            input: self.path.clone(),
            layouts: layout.cloned().into_iter().collect(),
            instances: self.instances.clone(),
            machine: self.machine.clone(),
            placement: None,
        };
        let proof: Result<_, WhatifError> = trial(&self.recording, &config, progress);
        proof.map_err(|error| error.to_string())
    }
}

/// Accesses of a recording that have a price.
pub(super) fn access_count(recording: &Recording) -> u64 {
    let statistics = &recording.statistics;
    let lines = statistics.lines.values();
    let counts = lines.map(|line| line.access_count());
    counts.fold(statistics.rest.access_count(), u64::saturating_add)
}

/// Share of `before` that a change saves; negative where it costs more.
pub(super) fn gain(proof: &Change<Took>) -> f64 {
    1.0 - proof.after.cycles.0 as f64 / proof.before.cycles.0.max(1) as f64
}
