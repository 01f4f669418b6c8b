//! Replays of a recording under other layouts. The advisor's model takes accesses as independent; a replay keeps the
//! program's own order.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use hitm_base::Machine;
use hitm_layout::layout_file::LayoutFile;
use hitm_layout::member_map::MemberMap;
use hitm_recording::Recording;
use hitm_whatif::{Change, HeapInstances, Took, WhatifConfig, WhatifError, trial};

use super::Inputs;

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
        recording: Arc<Recording>,
        machine: Option<Machine>,
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
        let on = |layout| Trial {
            machine: self.machine.as_ref(),
            layout,
            known: None,
        };
        // The recorded cycles are another machine's: the old layout is replayed on this one too.
        let now = self.machine.is_some().then(|| on(None));
        let layouts = layouts.iter().map(|layout| on(Some(layout)));
        let trials: Vec<Trial<'_>> = now.into_iter().chain(layouts).collect();
        let mut replayed = self.each(&trials, progress).into_iter();
        match now {
            Some(_) => {
                let before = replayed.next().expect("each trial has a result");
                replayed.map(|proof| since(&before, proof)).collect()
            }
            None => replayed.collect(),
        }
    }

    /// Replays the recording with each of the changes, several at a time.
    pub(super) fn each(
        &self,
        trials: &[Trial<'_>],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Vec<Proof> {
        let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
        let done: Vec<Mutex<Option<Proof>>> = trials.iter().map(|_| Mutex::new(None)).collect();
        let (sender, receiver) = mpsc::channel::<u64>();
        let work = |sender: mpsc::Sender<u64>| {
            while let Some((trial, done)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                trials.get(at).zip(done.get(at))
            } {
                let mut last = 0;
                let proof = self.one(trial, &mut |now, all| {
                    read.fetch_add(now - last, Ordering::Relaxed);
                    last = now;
                    // Nobody listens only once all is over.
                    let _ = sender.send(all);
                });
                *done.lock().expect("no replay panics") = Some(proof);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(THREADS_MAX).min(trials.len()) {
                let sender = sender.clone();
                scope.spawn(|| work(sender));
            }
            drop(sender);
            for all in receiver {
                progress(read.load(Ordering::Relaxed), all * trials.len() as u64);
            }
        });
        let done = done.into_iter();
        let done = done.map(|proof| proof.into_inner().expect("no replay panics"));
        done.map(|proof| proof.expect("each trial was replayed"))
            .collect()
    }

    fn one(&self, of: &Trial<'_>, progress: &mut dyn FnMut(u64, u64)) -> Proof {
        let config = WhatifConfig {
            input: self.path.clone(),
            layouts: of.layout.cloned().into_iter().collect(),
            instances: self.instances.clone(),
            machine: of.machine.cloned(),
            placement: None,
        };
        let known = of.known.map_or(&[][..], std::slice::from_ref);
        let proof: Result<_, WhatifError> = trial(&self.recording, &config, known, progress);
        proof.map_err(|error| error.to_string())
    }
}

/// A change to be tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial<'t> {
    /// A machine other than the recording's.
    pub(super) machine: Option<&'t Machine>,
    /// Structures with other layouts.
    pub(super) layout: Option<&'t LayoutFile>,
    /// A structure whose map is known.
    pub(super) known: Option<&'t MemberMap>,
}

/// A replay, compared with one of the present layout on the same machine.
pub(super) fn since(before: &Proof, proof: Proof) -> Proof {
    let (before, proof) = (before.as_ref().map_err(Clone::clone)?, proof?);
    Ok(Change {
        before: before.after,
        after: proof.after,
    })
}

/// Accesses of a recording that have a price.
pub fn access_count(recording: &Recording) -> u64 {
    let statistics = &recording.statistics;
    let lines = statistics.lines.values();
    let counts = lines.map(|line| line.access_count());
    counts.fold(statistics.rest.access_count(), u64::saturating_add)
}

/// Share of `before` that a change saves; negative where it costs more.
pub fn gain(proof: &Change<Took>) -> f64 {
    1.0 - proof.after.cycles.0 as f64 / proof.before.cycles.0.max(1) as f64
}
