//! Costs of changed types on several machines.

use std::collections::BTreeMap;
use std::path::Path;

use hitm_base::Machine;
use hitm_layout::advise::{AdviseError, Demand, Weighed};
use hitm_layout::profile::Profile;

use super::coverage::{counts, coverage, owner};
use super::matching::Unmatched;
use super::places::{self, Located, Places};
use super::renames::Rename;
use super::replay::Replays;
use super::sides::Builds;
use super::worse::worse;
use super::{
    Changed, Coverage, MACHINES, MachineCost, MemberReview, ReviewError, ReviewInputs, TypeReview,
};
use crate::accesses::{Accesses, Answers, Read, table};
use crate::inputs::{Asked, Inputs, Source, TypesFiles};
use crate::{EnginePrices, SessionError};

/// Reads the machines that were named.
pub(super) fn machines(names: &[String]) -> Result<Vec<Machine>, ReviewError> {
    let resolve = |name: &String| match hitm_machine::resolve(name) {
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
    builds: Builds,
    source: Option<Source>,
    /// Members of a table of accesses, which does not say of which structure they are.
    stated: Vec<String>,
    /// The changed type that the table is of.
    stated_type: Option<String>,
    profile_name: Option<String>,
    /// The recording, if the profile is one.
    replays: Option<Replays>,
}

/// One side of a type: its size, its instances and the profile's members.
pub(super) struct Priced {
    pub(super) size_bytes: u64,
    bases: BTreeMap<u32, u64>,
    places: Places,
    /// The profile without the members that the layout lacks.
    profile: Profile,
    pub(super) lacking: Vec<(String, u64)>,
}

impl<'i> Pricing<'i> {
    pub(super) fn new(
        inputs: &'i ReviewInputs,
        machines: Vec<Machine>,
        builds: Builds,
    ) -> Result<Pricing<'i>, ReviewError> {
        let mut pricing = Pricing {
            inputs,
            machines,
            builds,
            source: None,
            stated: Vec::new(),
            stated_type: None,
            profile_name: None,
            replays: None,
        };
        if let Some(path) = &inputs.profile {
            let source = Source::of(path)?;
            pricing.source = Some(source);
            pricing.profile_name = Some(path.display().to_string());
            if source == Source::Published && inputs.types.len() != 1 {
                let path = path.clone();
                return Err(SessionError::SeveralTypes { path }.into());
            }
            if source == Source::Table {
                let profile = table(path)?;
                pricing.stated = profile.members().into_iter().map(str::to_owned).collect();
                pricing.profile_name = Some(profile.name);
            }
        }
        Ok(pricing)
    }

    pub(super) fn names(&self) -> [String; 2] {
        [self.builds.old.name(), self.builds.new.name()]
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

    /// Prices types, in their order, by one reading of the profile.
    pub(super) fn price(
        &mut self,
        changed: Vec<Changed>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<TypeReview>, ReviewError> {
        let reasons: Vec<Option<String>> = {
            let changed = changed.iter();
            changed.map(|one| self.unpriced(&one.name)).collect()
        };
        let priced = changed.iter().zip(&reasons);
        let priced = priced.filter(|(_, reason)| reason.is_none());
        let names: Vec<String> = priced.map(|(one, _)| one.name.clone()).collect();
        let mut answers = self.read(names, progress)?.into_iter();
        let mut reviews = Vec::new();
        for (one, reason) in changed.into_iter().zip(reasons) {
            let read = match reason {
                Some(reason) => Err(reason),
                None => Ok(answers.next().expect("each question has an answer")),
            };
            reviews.push(self.price_one(one, read, progress)?);
        }
        Ok(reviews)
    }

    /// The reason for which a type has no costs, where that is known without a look at the accesses.
    fn unpriced(&self, name: &String) -> Option<String> {
        let is_table = self.source == Some(Source::Table);
        match (&self.inputs.profile, &self.stated_type) {
            (None, _) => Some("there is no profile".to_owned()),
            (Some(_), None) if is_table => Some("the profile names none of its members".to_owned()),
            (Some(_), Some(of)) if is_table && of != name => {
                Some(format!("the profile is of {of}"))
            }
            (Some(_), _) => None,
        }
    }

    /// Reads the accesses to types of these names.
    fn read(
        &mut self,
        names: Vec<String>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Answers, ReviewError> {
        let Some(profile) = self.inputs.profile.as_ref().filter(|_| !names.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut files = TypesFiles::default();
        let asked = names.into_iter().map(|name| {
            let inputs = self.question(name, profile);
            Asked::new(inputs, &mut files)
        });
        let asked: Vec<Result<Asked, SessionError>> = asked.collect();
        // A long file is not read for nothing.
        if asked.iter().all(Result::is_err) {
            return Ok(asked.into_iter().filter_map(Result::err).map(Err).collect());
        }
        let mut accesses = Accesses::open(profile, self.inputs.kernel.as_ref(), progress)?;
        let answers = accesses.answer(asked, progress)?;
        self.replays = accesses.into_recording().map(Replays::new);
        Ok(answers)
    }

    fn question(&self, type_name: String, profile: &Path) -> Inputs {
        let has_machine = self.source.is_none_or(Source::has_machine);
        let asked = self.inputs.machines.first().cloned();
        Inputs {
            type_name,
            input: self.inputs.builds[0].clone(),
            below: self.builds.old.needs(&self.inputs.builds[1]),
            btf_base: self.inputs.btf_base.clone(),
            profile: profile.to_owned(),
            variant: self.inputs.variant.clone(),
            at: self.inputs.at.clone(),
            open: Vec::new(),
            declared_in: None,
            // A table or text names no machine, and none is needed to read it.
            machine: asked.or_else(|| (!has_machine).then(|| MACHINES[0].to_owned())),
            kernel: self.inputs.kernel.clone(),
        }
    }

    /// Prices a type. A type that nobody asked for by name may be one that the profile does not know.
    fn price_one(
        &mut self,
        one: Changed,
        read: Result<Result<Read, SessionError>, String>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<TypeReview, ReviewError> {
        let mut review = TypeReview {
            memory: one.memory,
            members: Vec::new(),
            costs: Vec::new(),
            coverage: None,
            unpriced: None,
            unmatched: Vec::new(),
            renames: one.renames.0.clone(),
            worse: Vec::new(),
            name: one.name.clone(),
        };
        let mut counts = None;
        let costs = |read: Read| self.costs(&one, read, progress);
        match read.map(|read| read.and_then(costs)) {
            Err(reason) => review.unpriced = Some(reason),
            Ok(Ok(priced)) => {
                if !priced.unmatched.is_empty() {
                    review.unpriced = Some(self.unmatched_text(&priced.unmatched));
                }
                review.costs = priced.costs;
                review.coverage = priced.coverage;
                review.unmatched = priced.unmatched;
                review.renames = priced.renames;
                counts = Some(priced.counts);
            }
            Ok(Err(error)) if self.inputs.types.is_empty() && is_of_type(&error) => {
                review.unpriced = Some(error.to_string());
            }
            Ok(Err(error)) => return Err(error.into()),
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

    /// Says which touched members have no place in the second build.
    fn unmatched_text(&self, unmatched: &[Unmatched]) -> String {
        let names: Vec<&str> = unmatched.iter().map(|one| one.member.as_str()).collect();
        let build = self.builds.new.name();
        format!(
            "the profile touches {}, which {build} lacks",
            names.join(", ")
        )
    }

    /// Prices both layouts, unless the second one lacks members that the profile touches.
    fn costs(
        &mut self,
        of: &Changed,
        read: Read,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Costs, SessionError> {
        let has_machine = self.source.is_none_or(Source::has_machine);
        let own = (has_machine && self.machines.is_empty()).then(|| read.machine.clone());
        let located = places::locate(of, &read, &mut self.builds.new)?;
        let counts = counts(&read.profile, &of.members);
        if !located.unmatched.is_empty() {
            return Ok(Costs {
                costs: Vec::new(),
                coverage: None,
                counts,
                unmatched: located.unmatched,
                renames: located.renames.0,
            });
        }
        let sides = sides(&read, &located);
        let mut coverage = coverage(&read, &of.members, &sides);
        let machines = self.priced_on(own.as_ref())?;
        let proofs = match &self.inputs.profile {
            Some(profile) => {
                let question = self.question(of.name.clone(), profile);
                let replays = self.replays.as_mut();
                replays.map(|replays| replays.prove(&question, &located, &machines, progress))
            }
            None => None,
        };
        let mut proofs = proofs.into_iter().flatten();
        coverage.notes.extend(located.notes);
        if self.replays.is_some() && !sides[1].lacking.is_empty() {
            coverage.notes.push(
                "a replay keeps the accesses to members that are gone, on lines of their own"
                    .to_owned(),
            );
        }
        let mut costs = Vec::new();
        for machine in machines {
            let mut cost = cost(&machine, &sides)?;
            match proofs.next() {
                Some(Ok(proof)) => {
                    cost.replay = Some(proof);
                    // Its threads get CPUs of the machine.
                    cost.folded_cpu_count = None;
                }
                Some(Err(why)) => {
                    let note = format!("not replayed: {why}");
                    if !coverage.notes.contains(&note) {
                        coverage.notes.push(note);
                    }
                }
                None => {}
            }
            costs.push(cost);
        }
        Ok(Costs {
            costs,
            counts,
            coverage: Some(coverage),
            unmatched: Vec::new(),
            renames: located.renames.0,
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
                machines.push(hitm_machine::resolve(name)?.0);
            }
        }
        Ok(machines)
    }
}

/// Costs of a type and what they rest on.
struct Costs {
    costs: Vec<MachineCost>,
    coverage: Option<Coverage>,
    /// Accesses of each member.
    counts: Vec<u64>,
    /// Touched members without a place in the second build: there are no costs then.
    unmatched: Vec<Unmatched>,
    renames: Vec<Rename>,
}

/// The type before and after.
fn sides(read: &Read, located: &Located) -> [Priced; 2] {
    let side = |size_bytes, bases, places: &Places| {
        let (profile, lacking) = read.profile.split_by(&|path| places.contains_key(path));
        Priced {
            size_bytes,
            bases,
            places: places.clone(),
            profile,
            lacking: lacking.into_iter().collect(),
        }
    };
    let old_size = located.old_size;
    let bases = moved_bases(&read.bases, old_size, located.size, located.align);
    let [before, after] = &located.places;
    [
        side(old_size, read.bases.clone(), before),
        side(located.size, bases, after),
    ]
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
            | SessionError::Type(_)
    )
}

fn cost(machine: &Machine, sides: &[Priced; 2]) -> Result<MachineCost, SessionError> {
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
        replay: None,
        folded_cpu_count,
        weighed,
    })
}

/// Addresses of instances of another size: those of an array follow each other, the others stay where
/// they are as far as there is room.
pub(super) fn moved_bases(
    bases: &BTreeMap<u32, u64>,
    old_size: u64,
    size: u64,
    align: u64,
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
