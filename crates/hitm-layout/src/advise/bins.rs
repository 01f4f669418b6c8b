//! Lines as bins: what is fixed in them, and what a set of atoms costs in one.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::atoms::{Atom, LINE};
use super::demand::Demand;
use super::quiet::Quiet;
use super::subject::Subject;
use super::work::Work;

/// Most prices of sets that are kept: about 100 bytes each.
const KNOWN_MAX: usize = 1 << 19;

/// Steps of looking up a price, as measured against those of computing one.
const LOOKUP_STEPS: u64 = 16;

/// Places of the profile's spots: atom and bytes from its start, by global spot.
pub(super) type SpotPlaces = Vec<(usize, u64, u64)>;

/// The line-sized places that atoms can go to.
#[derive(Debug, Clone)]
pub(super) struct Bin {
    /// Spots that are there anyway, ascending.
    pub(super) resident: Vec<usize>,
    pub(super) free: Gap,
    /// The atoms that make it a bin: pinned ones, or the large one that ends in it.
    pub(super) origin: Origin,
}

/// Free bytes of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// The first one, from the line's start.
    pub(super) from: u64,
    pub(super) bytes: u64,
}

impl Gap {
    /// A line in which nothing is yet.
    pub(super) const WHOLE_LINE: Gap = Gap {
        from: 0,
        bytes: LINE,
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The line of this number, which holds pinned atoms.
    Pinned(u64),
    /// The last line of this atom, which is larger than a line.
    Tail(usize),
}

/// Everything that the search needs to weigh a set of atoms.
pub(super) struct Weigher<'d> {
    pub(super) demand: &'d Demand,
    pub(super) atoms: &'d [Atom],
    pub(super) places: &'d SpotPlaces,
    pub(super) work: &'d Work<'d>,
    /// The spots of each atom, ascending.
    spots_of: Vec<Vec<usize>>,
    /// Prices of sets of atoms, by place and atoms.
    known: RefCell<BTreeMap<Vec<usize>, u64>>,
    /// Atoms with spots that fit into one line and may go anywhere, the most used first.
    pub(super) hot: Vec<usize>,
    pub(super) bins: Vec<Bin>,
    /// Cost that is the same wherever atoms go: whole lines of large atoms.
    pub(super) constant: u64,
    /// Atoms of which a recording says little.
    pub(super) quiet: Quiet,
}

/// Cycles in thousandths, so that sums do not depend on their order.
pub(super) fn milli(cycles: f64) -> u64 {
    (cycles * 1000.0).round().clamp(0.0, 1e18) as u64
}

impl<'d> Weigher<'d> {
    pub(super) fn new(
        demand: &'d Demand,
        atoms: &'d [Atom],
        places: &'d SpotPlaces,
        work: &'d Work<'d>,
    ) -> Weigher<'d> {
        let mut spots_of = vec![Vec::new(); atoms.len()];
        for (spot, (owner, ..)) in places.iter().enumerate() {
            spots_of[*owner].push(spot);
        }
        let mut weigher = Weigher {
            demand,
            atoms,
            places,
            work,
            spots_of,
            known: RefCell::default(),
            hot: Vec::new(),
            bins: Vec::new(),
            constant: 0,
            quiet: Quiet::default(),
        };
        let uses = weigher.uses();
        let is_free = |index: &usize| {
            let atom = &atoms[*index];
            uses[*index] > 0.0 && atom.pinned.is_none() && atom.size <= LINE && !atom.is_tail
        };
        weigher.hot = (0..atoms.len()).filter(is_free).collect();
        weigher
            .hot
            .sort_by(|a, b| uses[*b].total_cmp(&uses[*a]).then(a.cmp(b)));
        weigher.add_pinned_lines();
        weigher.add_large();
        weigher
    }

    /// Accesses to each atom in the profile's period.
    fn uses(&self) -> Vec<f64> {
        let mut uses = vec![0.0; self.atoms.len()];
        for class in &self.demand.classes {
            for event in &class.events {
                let rate = event.load + event.store + event.rmw;
                uses[self.places[event.spot].0] += class.cores * class.work * rate;
            }
        }
        uses
    }

    /// Adds the spots of an atom that lie in the line that begins `line_start` bytes after the atom's
    /// start (or before it: a negative number).
    fn spots_in(&self, atom: usize, line_start: i64, spots: &mut Vec<usize>) {
        let is_in = |spot: &&usize| {
            let (_, at, size) = self.places[**spot];
            let (from, to) = (at as i64, (at + size) as i64);
            from < line_start + LINE as i64 && to > line_start
        };
        spots.extend(self.spots_of[atom].iter().filter(is_in));
    }

    fn add_pinned_lines(&mut self) {
        let mut lines: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for atom in self.atoms {
            let Some(start) = atom.pinned else { continue };
            let end = start + atom.size.max(1);
            for line in start / LINE..end.div_ceil(LINE) {
                let from = start.max(line * LINE) - line * LINE;
                let to = end.min((line + 1) * LINE) - line * LINE;
                lines.entry(line).or_default().push((from, to));
            }
        }
        for (line, mut taken) in lines {
            taken.sort_unstable();
            let mut resident = Vec::new();
            for (index, atom) in self.atoms.iter().enumerate() {
                if let Some(start) = atom.pinned {
                    self.spots_in(index, (line * LINE) as i64 - start as i64, &mut resident);
                }
            }
            resident.sort_unstable();
            self.bins.push(Bin {
                resident,
                free: largest_gap(&taken),
                origin: Origin::Pinned(line),
            });
        }
    }

    fn add_large(&mut self) {
        for (index, atom) in self.atoms.iter().enumerate() {
            if atom.pinned.is_some() || atom.size <= LINE {
                continue;
            }
            for line in 0..atom.size.div_ceil(LINE) {
                let mut resident = Vec::new();
                self.spots_in(index, (line * LINE) as i64, &mut resident);
                let used = (atom.size - line * LINE).min(LINE);
                if used == LINE {
                    self.constant += self.weigh(resident);
                } else {
                    self.bins.push(Bin {
                        resident,
                        free: Gap {
                            from: used,
                            bytes: LINE - used,
                        },
                        origin: Origin::Tail(index),
                    });
                }
            }
        }
    }

    /// Prices a line with these spots of every instance, in thousandths of a cycle. Instances do
    /// not share lines: their size is a multiple of a line's.
    fn weigh(&self, mut spots: Vec<usize>) -> u64 {
        let instance = |spot: &usize| self.demand.spots[*spot].instance;
        spots.sort_unstable_by_key(|spot| (instance(spot), *spot));
        let mut sum = 0;
        for own in spots.chunk_by(|a, b| instance(a) == instance(b)) {
            let (cost, steps) = self.demand.spots_cost(own);
            self.work.spend(steps);
            sum += milli(cost.cycles());
        }
        sum
    }

    /// Price of a line that holds these atoms: a bin's, or one without residents.
    pub(super) fn cost(&self, bin: Option<usize>, atoms: &[usize]) -> u64 {
        self.work.spend(LOOKUP_STEPS + atoms.len() as u64);
        let mut key = Vec::with_capacity(atoms.len() + 1);
        key.extend(atoms);
        key.sort_unstable();
        key.push(bin.map_or(0, |bin| bin + 1));
        if let Some(cost) = self.known.borrow().get(&key) {
            return *cost;
        }
        let cost = self.weigh(self.spots(bin, atoms));
        let mut known = self.known.borrow_mut();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(key, cost);
        cost
    }

    /// Steps of pricing a line with these atoms anew.
    pub(super) fn steps_of(&self, bin: Option<usize>, atoms: &[usize]) -> u64 {
        let before = self.work.spent();
        self.weigh(self.spots(bin, atoms));
        self.work.spent() - before
    }

    /// The spots of an atom, ascending.
    pub(super) fn spots_of(&self, atom: usize) -> &[usize] {
        &self.spots_of[atom]
    }

    fn spots(&self, bin: Option<usize>, atoms: &[usize]) -> Vec<usize> {
        let mut spots = bin.map_or_else(Vec::new, |bin| self.bins[bin].resident.clone());
        for atom in atoms {
            spots.extend(&self.spots_of[*atom]);
        }
        spots
    }

    /// Returns true if the atoms may share a line, and fit into its free bytes.
    pub(super) fn fits(&self, atoms: &[usize], free: Gap) -> bool {
        !self.quiet.is_mixed(atoms)
            && pack(self.atoms, atoms, free.from)
                .is_some_and(|(_, end)| end <= free.from + free.bytes)
    }
}

/// Atoms one after another from byte `from` of a line, the most aligned first: where each begins, and
/// where the last ends. None when an atom does not fit into a line.
pub(super) fn pack(all: &[Atom], atoms: &[usize], from: u64) -> Option<(Vec<(usize, u64)>, u64)> {
    let mut order = atoms.to_vec();
    order.sort_by_key(|index| {
        let atom = &all[*index];
        (std::cmp::Reverse(atom.align), atom.old_offset, *index)
    });
    let mut at = from;
    let mut placed = Vec::with_capacity(order.len());
    for index in order {
        at = at.next_multiple_of(all[index].align);
        placed.push((index, at));
        at += all[index].size;
    }
    (at <= LINE).then_some((placed, at))
}

/// The longest run of bytes of a line that `taken` (ascending) leaves.
fn largest_gap(taken: &[(u64, u64)]) -> Gap {
    let mut best = Gap {
        from: LINE,
        bytes: 0,
    };
    let mut at = 0;
    for (from, to) in taken.iter().copied().chain([(LINE, LINE)]) {
        if from > at && from - at > best.bytes {
            best = Gap {
                from: at,
                bytes: from - at,
            };
        }
        at = at.max(to);
    }
    best
}

/// The atom and the bytes within it of each spot of the demand. `locate` finds a path in the
/// structure as it is. Answers the first path that it does not find as an error.
pub(super) fn spot_places(
    demand: &Demand,
    subject: &Subject,
    atoms: &[Atom],
    locate: &dyn Fn(&str) -> Option<(u64, u64)>,
) -> Result<SpotPlaces, String> {
    let place = |path: &str| {
        let (offset, size) = locate(path)?;
        let member = subject.member_at(offset)?;
        let start = subject.members[member].file.offset_bytes;
        let (atom, within) = atoms.iter().enumerate().find_map(|(index, atom)| {
            let found = atom.members.iter().find(|(inner, _)| *inner == member)?;
            Some((index, found.1))
        })?;
        Some((atom, within + (offset - start), size.max(1)))
    };
    let known = demand.by_path(place)?;
    Ok(demand.spots.iter().map(|spot| known[&*spot.path]).collect())
}
