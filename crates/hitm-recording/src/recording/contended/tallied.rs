//! The first pass over a large recording: what each line lost, and which lines to keep.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{LINE_SIZE, LineAddr};
use hitm_coherence::stats::{Handovers, LineTally, RestOfLines};

use super::counted::Counted;
use super::part::Part;
use super::rows::{Chosen, Keep, Tier};
use super::source::{Others, Source};
use super::{Limits, Wanted};
use crate::recording::Recording;
use crate::recording::objects::KernelRegions;

/// Lines that may matter: more only where a recording does not say how long its threads ran.
const LINES_THAT_MATTER_MAX: usize = 1 << 14;

/// Lines of a heap block up to which all of them have rows when one has: an array with an element for each
/// thread is smaller.
const BLOCK_LINES_MAX: u64 = 1024;

/// Lines that may be chosen for their blocks: 8 MiB of them. Blocks of the costliest lines come first.
const LINES_OF_BLOCKS_MAX: usize = 1 << 18;

/// Bytes between the places of a line at which a type is looked for. Structures begin and end at multiples
/// of four, or are larger.
const TYPE_STEP_BYTES: usize = 4;

/// Facts about all lines.
#[derive(Default)]
pub(super) struct Tallied {
    pub(super) sums: RestOfLines,
    /// Wanted lines, with cycles lost and accesses that found them gone.
    lines: BTreeMap<LineAddr, Cost>,
}

/// Cycles that a line lost, HITMs, and accesses that found it gone: the order of lines.
type Cost = (u64, u64, u64);

fn cost_of(handed: &Handovers) -> Cost {
    (handed.lost.0, handed.hitm_count, handed.count)
}

impl Tallied {
    /// Tallies the lines of a file in `parts` passes, and reads everything else; none when a part has too
    /// many lines.
    pub(super) fn of_parts<S: Source>(
        source: &mut S,
        wanted: Wanted<'_>,
        parts: u64,
        limits: &Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<(Recording, Tallied)>, S::Error> {
        let mut tallied = Tallied::default();
        let mut recording = None;
        for part in Part::all(parts) {
            let others = match recording {
                None => Others::Kept,
                Some(_) => Others::PassedOver,
            };
            let passed = source.read(others, &|| Counted::lines(part, limits), progress)?;
            if passed.is_stopped {
                return Ok(None);
            }
            let recording = recording.get_or_insert(passed.recording);
            let tallies = passed.shards.into_iter().map(Counted::into_tally);
            tallied.add(recording, tallies.collect(), wanted);
        }
        Ok(recording.map(|recording| (recording, tallied)))
    }

    /// Adds lines that have not been added yet.
    pub(super) fn add(
        &mut self,
        recording: &Recording,
        tallies: Vec<LineTally>,
        wanted: Wanted<'_>,
    ) {
        self.choose(recording, &tallies, wanted);
        for tally in tallies {
            self.sums.merge(tally.sums());
        }
    }

    fn choose(&mut self, recording: &Recording, tallies: &[LineTally], wanted: Wanted<'_>) {
        match wanted {
            Wanted::CyclesPerLost(most) => {
                let handed = tallies.iter().flat_map(LineTally::handed);
                self.choose_costly(recording, handed, most);
            }
            Wanted::Type(name) => {
                let names = recording.names();
                let has_type = |line: &LineAddr| {
                    let bytes = (0..LINE_SIZE).step_by(TYPE_STEP_BYTES);
                    let mut places = bytes.map(|byte| line.first_byte() + byte);
                    places.any(|place| names.place_in_type(place, 1, name).is_some())
                };
                let lines = tallies.iter().flat_map(LineTally::lines).filter(has_type);
                self.lines.extend(lines.map(|line| (line, Cost::default())));
            }
        }
    }

    /// Of the lines without rows those that lost one cycle in at most `most`, with the others of their
    /// blocks.
    pub(super) fn chosen_of_rest(recording: &Recording, most: u64) -> Chosen {
        let rest = recording.statistics.rest.handed.iter();
        let mut tallied = Tallied::default();
        tallied.choose_costly(recording, rest.map(|(line, handed)| (*line, handed)), most);
        tallied.chosen(recording, Wanted::CyclesPerLost(most))
    }

    fn choose_costly<'t>(
        &mut self,
        recording: &Recording,
        handed: impl Iterator<Item = (LineAddr, &'t Handovers)>,
        most: u64,
    ) {
        let thread_cycles = recording.thread_cycles().0;
        let enough = handed.filter(|(_, handed)| {
            // Samples and a recording that was cut short do not say how long their threads ran.
            handed.lost.0.saturating_mul(most) >= thread_cycles
        });
        let known = std::mem::take(&mut self.lines);
        let enough = enough.map(|(line, handed)| (line, cost_of(handed)));
        let mut enough: Vec<(LineAddr, Cost)> = known.into_iter().chain(enough).collect();
        enough.sort_unstable_by_key(|(line, cost)| (Reverse(*cost), *line));
        enough.truncate(LINES_THAT_MATTER_MAX);
        self.lines.extend(enough);
    }

    /// The chosen lines, all others of the heap blocks that they belong to, and for a report of a kernel
    /// those that have no name.
    pub(super) fn chosen(&self, recording: &Recording, wanted: Wanted<'_>) -> Chosen {
        let mut ranked: Vec<(&LineAddr, &Cost)> = self.lines.iter().collect();
        ranked.sort_unstable_by_key(|(line, cost)| (Reverse(**cost), **line));
        let (mut chosen, tier): (_, fn(usize) -> Tier) = match wanted {
            Wanted::CyclesPerLost(_) => (self.nameless(recording), Tier::of_rank),
            Wanted::Type(_) => (Chosen::default(), |_| Tier::FIRST),
        };
        let lines = ranked.iter().enumerate();
        let tiers: Vec<(LineAddr, Tier)> = lines
            .map(|(rank, (line, _))| (**line, tier(rank)))
            .collect();
        let lines = with_blocks(recording, &tiers);
        chosen.extend(
            lines
                .into_iter()
                .map(|(line, tier)| (line, Keep::Rows(tier))),
        );
        chosen
    }

    fn nameless(&self, recording: &Recording) -> Chosen {
        let names = recording.names();
        if !names.is_machine() {
            return Chosen::default();
        }
        let found = self
            .sums
            .handed
            .iter()
            .filter(|(_, one)| one.hitm_count > 0);
        let lines = found.map(|(line, _)| *line);
        let nameless = lines.filter(|line| names.known_as(line.first_byte()).is_none());
        nameless.map(|line| (line, Keep::Takers)).collect()
    }
}

/// These lines, costliest first, and all others of the heap blocks and untyped slab objects that they belong to: what an
/// element of a block is, its other lines say.
fn with_blocks(recording: &Recording, ranked: &[(LineAddr, Tier)]) -> BTreeMap<LineAddr, Tier> {
    let mut lines: BTreeMap<LineAddr, Tier> = ranked.iter().copied().collect();
    let mut blocks: BTreeSet<(LineAddr, LineAddr)> = BTreeSet::new();
    let kernel = KernelRegions::new(&recording.objects.regions);
    for (line, tier) in ranked {
        let heap = recording.objects.heap_on(*line).map(|block| block.range);
        for range in heap.chain(kernel.untyped_on(*line)) {
            let (first, last) = range.lines();
            let has_room = lines.len() < LINES_OF_BLOCKS_MAX;
            if last.0 - first.0 < BLOCK_LINES_MAX && has_room && blocks.insert((first, last)) {
                for line in (first.0..=last.0).map(LineAddr) {
                    let known = lines.entry(line).or_insert(*tier);
                    *known = (*known).min(*tier);
                }
            }
        }
    }
    lines
}
