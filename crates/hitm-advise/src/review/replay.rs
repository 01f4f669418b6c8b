//! Costs of both layouts by replays of the recording, one for each machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitm_base::Machine;
use hitm_layout::member_map::{MemberMap, Place, Replaced, Sizes};
use hitm_recording::Recording;

use super::LINE;
use super::places::Located;
use crate::Inputs;
use crate::proof::{Proof, Proving, Trial, access_count, since};

/// Accesses that are replayed for one review, in all: some minutes of one core.
const REPLAYED_MAX: u64 = 400_000_000;

/// Replays of one recording for all types of a review.
#[derive(Debug)]
pub(super) struct Replays {
    recording: Arc<Recording>,
    /// The first build's layout on each machine, by its name.
    now: BTreeMap<String, Proof>,
    /// Accesses that may still be replayed.
    left: u64,
}

impl Replays {
    pub(super) fn new(recording: Recording) -> Replays {
        Replays {
            recording: Arc::new(recording),
            now: BTreeMap::new(),
            left: REPLAYED_MAX,
        }
    }

    /// Replays the second build's layout of a type on each machine. `progress` gets the bytes read so far and in all.
    pub(super) fn prove(
        &mut self,
        question: &Inputs,
        located: &Located,
        machines: &[Machine],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Vec<Proof> {
        let map = map(&question.type_name, located);
        let moved = Some(&map).filter(|map| !map.moves_nothing());
        let is_unknown = |machine: &&Machine| {
            let is_recorded = self.on(machine, None).machine.is_none();
            (moved.is_none() || !is_recorded) && !self.now.contains_key(&machine.name)
        };
        let unknown: Vec<&Machine> = machines.iter().filter(is_unknown).collect();
        let mut trials: Vec<Trial<'_>> = Vec::new();
        trials.extend(unknown.iter().map(|machine| self.on(machine, None)));
        if moved.is_some() {
            trials.extend(machines.iter().map(|machine| self.on(machine, moved)));
        }
        let accesses = access_count(&self.recording).saturating_mul(trials.len() as u64);
        let Some(left) = self.left.checked_sub(accesses) else {
            let why = "the recording is too long for so many replays: name fewer types or machines";
            return machines.iter().map(|_| Err(why.to_owned())).collect();
        };
        let recording = self.recording.clone();
        let proving = Proving::new(question, &question.type_name, recording, None);
        let mut proofs = proving.each(&trials, progress).into_iter();
        let now: Vec<(String, Proof)> = unknown
            .iter()
            .map(|machine| machine.name.clone())
            .zip(&mut proofs)
            .collect();
        self.left = left;
        self.now.extend(now);
        let both = machines.iter().map(|machine| {
            let now = self.now.get(&machine.name);
            match (now, proofs.next()) {
                (Some(now), Some(proof)) => since(now, proof),
                (Some(now), None) => since(now, now.clone()),
                // On its own machine a replay says what was recorded.
                (None, Some(proof)) => proof,
                (None, None) => Err("the machine was left out".to_owned()),
            }
        });
        both.collect()
    }

    /// The recording on a machine, with the members moved.
    fn on<'t>(&self, machine: &'t Machine, known: Option<&'t MemberMap>) -> Trial<'t> {
        Trial {
            machine: Some(machine).filter(|machine| **machine != self.recording.machine),
            layout: None,
            known,
        }
    }
}

/// The places of touched members in both builds. Those that are gone get lines of their own behind the structure: a
/// recording keeps its accesses to them.
fn map(type_name: &str, located: &Located) -> MemberMap {
    let [before, after] = &located.places;
    let mut size = located.size;
    let mut places = Vec::new();
    for (path, (from, old_size)) in before {
        let (to, new_size) = after.get(path).copied().unwrap_or_else(|| {
            let alone = size.next_multiple_of(LINE);
            size = (alone + old_size).next_multiple_of(LINE);
            (alone, *old_size)
        });
        places.push(Place {
            path,
            from: *from,
            to,
            size: new_size.min(*old_size),
        });
    }
    MemberMap::of_places(&Replaced {
        type_name,
        sizes: Sizes {
            before: located.old_size,
            after: size,
        },
        align: located.align,
        places: &places,
    })
}
