//! Costs of a changed type on several machines, and what the profile knows of it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hitm_base::Machine;
use hitm_layout::advise::{AdviseError, Demand, Weighed, place_in_types};
use hitm_layout::profile::Profile;

use super::sides::Side;
use super::worse::worse;
use super::{
    Changed, Counted, Coverage, LINE, MACHINES, MachineCost, MemberReview, ReviewError,
    ReviewInputs, TypeReview,
};
use crate::advise::inputs::{Inputs, Read, Source, read};
use crate::advise::session::{locator, replaced};
use crate::advise::{EnginePrices, SessionError};
use crate::layout::MemberDiff;

/// Places of a profile's members in a layout: offset and size by path.
type Places = BTreeMap<String, (u64, u64)>;

/// Reads the machines that were named.
pub(super) fn machines(names: &[String]) -> Result<Vec<Machine>, ReviewError> {
    let resolve = |name: &String| match crate::machine::resolve(name) {
        Ok((machine, _)) => Ok(machine),
        Err(cause) => Err(ReviewError::Machine {
            name: name.clone(),
            cause: Box::new(cause),
        }),
    };
    names.iter().map(resolve).collect()
}

/// Everything that prices changed types.
pub(super) struct Pricing<'i> {
    inputs: &'i ReviewInputs,
    /// Machines that were named.
    machines: Vec<Machine>,
    builds: (Side, Side),
    source: Option<Source>,
    /// Members of a table of accesses, which does not say of which structure they are.
    stated: Vec<String>,
    /// The changed type that the table is of.
    stated_type: Option<String>,
    profile_name: Option<String>,
}

/// One side of a type: its size, its instances and the profile's members.
struct Priced {
    size_bytes: u64,
    bases: BTreeMap<u32, u64>,
    places: Places,
    /// The profile without the members that the layout lacks.
    profile: Profile,
    lacking: Vec<(String, u64)>,
}

impl<'i> Pricing<'i> {
    pub(super) fn new(
        inputs: &'i ReviewInputs,
        machines: Vec<Machine>,
        builds: (Side, Side),
    ) -> Result<Pricing<'i>, ReviewError> {
        let mut pricing = Pricing {
            inputs,
            machines,
            builds,
            source: None,
            stated: Vec::new(),
            stated_type: None,
            profile_name: None,
        };
        if let Some(path) = &inputs.profile {
            let source = Source::of(path)?;
            pricing.source = Some(source);
            pricing.profile_name = Some(path.display().to_string());
            if source == Source::Table {
                let profile = crate::advise::inputs::table(path)?;
                pricing.stated = profile.members().into_iter().map(str::to_owned).collect();
                pricing.profile_name = Some(profile.name);
            }
        }
        Ok(pricing)
    }

    pub(super) fn names(&self) -> [String; 2] {
        [self.builds.0.name(), self.builds.1.name()]
    }

    pub(super) fn profile_name(&self) -> Option<String> {
        self.profile_name.clone()
    }

    /// Finds the type that a table of accesses is of, the one with most of its members, and moves it
    /// to the front.
    pub(super) fn order(&mut self, changed: &mut [Changed]) {
        let known = |one: &Changed| {
            let members = self.stated.iter();
            members
                .filter(|path| owner(&one.members, path).is_some())
                .count()
        };
        let counts: Vec<usize> = changed.iter().map(known).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let at = counts.iter().position(|count| *count == most && most > 0);
        if let Some(at) = at {
            changed[..=at].rotate_right(1);
            self.stated_type = Some(changed[0].name.clone());
        }
    }

    /// Prices a type. A type that nobody asked for by name may be one that the profile does not know.
    pub(super) fn price(
        &mut self,
        one: Changed,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<TypeReview, ReviewError> {
        let mut review = TypeReview {
            memory: one.memory,
            members: Vec::new(),
            costs: Vec::new(),
            coverage: None,
            unpriced: None,
            worse: Vec::new(),
            name: one.name,
        };
        let mut counts = None;
        let is_other = |of: &String| *of != review.name;
        let is_table = self.source == Some(Source::Table);
        match (&self.inputs.profile, &self.stated_type) {
            (None, _) => review.unpriced = Some("there is no profile".to_owned()),
            (Some(_), None) if is_table => {
                review.unpriced = Some("the profile names none of its members".to_owned());
            }
            (Some(_), Some(of)) if is_table && is_other(of) => {
                review.unpriced = Some(format!("the profile is of {of}"));
            }
            (Some(profile), _) => match self.costs((&review.name, &one.members), profile, progress)
            {
                Ok(priced) => {
                    review.costs = priced.costs;
                    review.coverage = Some(priced.coverage);
                    counts = Some(priced.counts);
                }
                Err(error) if self.inputs.types.is_empty() && is_of_type(&error) => {
                    review.unpriced = Some(error.to_string());
                }
                Err(error) => return Err(error.into()),
            },
        }
        for (at, places) in one.members.into_iter().enumerate() {
            review.members.push(MemberReview {
                access_count: counts.as_ref().map(|counts: &Vec<u64>| counts[at]),
                places,
            });
        }
        review.worse = worse(&review);
        Ok(review)
    }

    fn costs(
        &mut self,
        (name, members): (&str, &[MemberDiff]),
        profile: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Costs, SessionError> {
        let is_table = self.source == Some(Source::Table);
        let asked = self.inputs.machines.first().cloned();
        let mut read = read(
            &Inputs {
                type_name: name.to_owned(),
                input: self.inputs.builds[0].clone(),
                below: self.builds.0.needs(&self.inputs.builds[1]),
                btf_base: self.inputs.btf_base.clone(),
                profile: profile.to_owned(),
                variant: self.inputs.variant.clone(),
                at: self.inputs.at.clone(),
                open: Vec::new(),
                // A table of accesses names no machine, and none is needed to read it.
                machine: asked.or_else(|| is_table.then(|| MACHINES[0].to_owned())),
                kernel: self.inputs.kernel.clone(),
            },
            progress,
        )?;
        let own = (!is_table && self.machines.is_empty()).then(|| read.machine.clone());
        let sides = self.sides(name, &mut read)?;
        let coverage = coverage(&read, members, &sides);
        let is_counted = matches!(coverage.counted, Counted::Recorded | Counted::Simulated)
            && sides.iter().all(|side| side.lacking.is_empty());
        let mut costs = Vec::new();
        for machine in self.priced_on(own.as_ref())? {
            let is_own = read.recorded_on.as_ref() == Some(&machine.name);
            costs.push(cost(&machine, &sides, is_counted && is_own)?);
        }
        Ok(Costs {
            costs,
            counts: counts(&read.profile, members),
            coverage,
        })
    }

    /// The machines that were named; else the profile's own and presets, four in all.
    fn priced_on(&self, own: Option<&Machine>) -> Result<Vec<Machine>, SessionError> {
        if !self.machines.is_empty() {
            return Ok(self.machines.clone());
        }
        let mut machines: Vec<Machine> = own.into_iter().cloned().collect();
        for name in MACHINES {
            if machines.len() < MACHINES.len() && machines.iter().all(|known| known.name != name) {
                machines.push(crate::machine::resolve(name)?.0);
            }
        }
        Ok(machines)
    }

    /// The type before and after.
    fn sides(&mut self, name: &str, read: &mut Read) -> Result<[Priced; 2], SessionError> {
        let paths: Vec<String> = {
            let members = read.profile.members();
            members.into_iter().map(str::to_owned).collect()
        };
        let found = |locate: &dyn Fn(&str) -> Option<(u64, u64)>| -> Places {
            let paths = paths.iter();
            paths
                .filter_map(|path| Some((path.clone(), locate(path)?)))
                .collect()
        };
        let before = found(&locator(&mut read.structure, &read.subject));
        let (size, align, after) = match &mut self.builds.1 {
            Side::Layout(file) => {
                let align = file.get(name).map_or(1, |of| of.align());
                let (size, locate) =
                    replaced(&mut read.structure, &read.subject, (file, &file.name))?;
                (size, align, found(&locate))
            }
            Side::Types(file) => {
                let layout = file.struct_layout(name)?;
                let store = file.types();
                let places = found(&|path| place_in_types(&layout, store, path));
                (layout.size, layout.alignment.unwrap_or(1), places)
            }
        };
        let old_size = read.subject.size_bytes;
        let bases = moved_bases(&read.bases, old_size, (size, align));
        let side = |size_bytes, bases, places: Places| {
            let (profile, lacking) = read.profile.split_by(&|path| places.contains_key(path));
            Priced {
                size_bytes,
                bases,
                places,
                profile,
                lacking: lacking.into_iter().collect(),
            }
        };
        Ok([
            side(old_size, read.bases.clone(), before),
            side(size, bases, after),
        ])
    }
}

/// Costs of a type and what they rest on.
struct Costs {
    costs: Vec<MachineCost>,
    coverage: Coverage,
    /// Accesses of each member.
    counts: Vec<u64>,
}

/// Returns true if an error says that this type has no costs, and not that the profile is unusable.
fn is_of_type(error: &SessionError) -> bool {
    matches!(
        error,
        SessionError::Advise(AdviseError::NotMovable { .. } | AdviseError::NoSuchType { .. })
            | SessionError::NotRecorded(_)
            | SessionError::Simulated(_)
            | SessionError::OtherSize { .. }
            | SessionError::LayoutFile(_)
            | SessionError::Types(_)
    )
}

fn cost(
    machine: &Machine,
    sides: &[Priced; 2],
    is_exact: bool,
) -> Result<MachineCost, SessionError> {
    let cpu_count = machine.topology.cpu_count();
    let prices = EnginePrices::new(machine.clone());
    let mut folded_cpu_count = None;
    let mut weigh = |side: &Priced| -> Result<Weighed, SessionError> {
        let folded = side.profile.folded(cpu_count);
        if folded.is_some() {
            folded_cpu_count = Some(side.profile.cpus().len() as u64);
        }
        let demand = Demand::new(folded.as_ref().unwrap_or(&side.profile), &prices)?;
        let locate = |path: &str| side.places.get(path).copied();
        let weighed = demand.weigh_layout(side.size_bytes, &side.bases, &locate);
        Ok(weighed.expect("members that the layout lacks were taken out"))
    };
    let weighed = [weigh(&sides[0])?, weigh(&sides[1])?];
    Ok(MachineCost {
        machine: machine.name.clone(),
        cpu_count: cpu_count as u64,
        is_exact: is_exact && folded_cpu_count.is_none(),
        folded_cpu_count,
        weighed,
    })
}

/// Addresses of instances of another size: those of an array follow each other, the others stay where
/// they are as far as there is room.
pub(super) fn moved_bases(
    bases: &BTreeMap<u32, u64>,
    old_size: u64,
    (size, align): (u64, u64),
) -> BTreeMap<u32, u64> {
    let mut sorted: Vec<(u64, u32)> = bases.iter().map(|(of, base)| (*base, *of)).collect();
    sorted.sort_unstable();
    let mut moved = BTreeMap::new();
    let mut last: Option<(u64, u64)> = None;
    for (base, instance) in sorted {
        let follows = last.filter(|(old, _)| base - old == old_size);
        let at = match (follows, last) {
            (Some((_, new)), _) => new.saturating_add(size),
            (None, Some((_, new))) => base.max(new.saturating_add(size)),
            (None, None) => base,
        };
        let align = align.max(1);
        let at = at.checked_next_multiple_of(align).unwrap_or(at);
        last = Some((base, at));
        moved.insert(instance, at);
    }
    moved
}

fn coverage(read: &Read, members: &[MemberDiff], sides: &[Priced; 2]) -> Coverage {
    let profile = &read.profile;
    let counts = counts(profile, members);
    let unknown = members.iter().zip(&counts);
    let unknown = unknown.filter(|(row, count)| row.after.is_some() && **count == 0);
    let functions: BTreeSet<&str> = profile
        .rows()
        .map(|(key, _)| key.function.as_str())
        .collect();
    let accesses = profile.rows().map(|(_, counts)| counts.total());
    let mut notes: Vec<String> = read.counted.iter().cloned().collect();
    let shifted = read.bases.values().any(|base| base % LINE != 0);
    if shifted && sides[0].size_bytes != sides[1].size_bytes {
        notes.push(
            "instances begin inside lines: in the new build those of an array are taken to follow each \
             other, others to stay where they are"
                .to_owned(),
        );
    }
    Coverage {
        counted: match read.source {
            Source::Table => Counted::Stated,
            Source::Samples => Counted::Sampled,
            Source::Simulation => Counted::Simulated,
            Source::Recording => Counted::Recorded,
        },
        source: profile.source.clone(),
        access_count: accesses.fold(0, u64::saturating_add),
        function_count: functions.len() as u64,
        cpu_count: profile.cpus().len() as u64,
        unknown_members: unknown.map(|(row, _)| row.name.clone()).collect(),
        lacking: [0, 1].map(|side| sides[side].lacking.clone()),
        notes,
    }
}

/// Accesses of each member.
fn counts(profile: &Profile, members: &[MemberDiff]) -> Vec<u64> {
    let mut counts = vec![0u64; members.len()];
    for (key, of_row) in profile.rows() {
        if let Some(at) = owner(members, &key.member) {
            counts[at] = counts[at].saturating_add(of_row.total());
        }
    }
    counts
}

/// The member that a path begins with, as an index: the one with the longest name.
pub(super) fn owner<M: Borrow<MemberDiff>>(members: &[M], path: &str) -> Option<usize> {
    let begins = |name: &str| {
        let behind = path.strip_prefix(name);
        let ends = |behind: &str| behind.is_empty() || behind.starts_with(['.', '[']);
        !name.is_empty() && behind.is_some_and(ends)
    };
    let found = members.iter().enumerate();
    let found = found.map(|(at, row)| (at, row.borrow()));
    let found = found.filter(|(_, row)| begins(&row.name));
    found
        .max_by_key(|(_, row)| row.name.len())
        .map(|(at, _)| at)
}
