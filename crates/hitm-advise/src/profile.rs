//! A recording as a profile: the accesses to instances of one type, found by address.
//!
//! The type is found in a variable by debug information, in a heap block by types that its accesses
//! agree on. For other blocks the caller names the allocation site ([`ProfileOptions::at`]), and
//! the block is taken as an array of the type.
//!
//! Samples count as often as their periods say, in the time in which they were taken.
//!
//! Not modelled: the recorder counts accesses to a line only once a second thread uses it, so a
//! line of one thread has none.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, AddrRange, CpuId, Cycles, LINE_SIZE, LineAddr, Machine};
use hitm_coherence::stats::{RowKey as Place, RowStats};
use hitm_layout::profile::{Counts, CpuSet, Profile, RowKey};
use hitm_recording::perf_data::Weights;
use hitm_recording::{AddressNames, InstancesOf, Recording};
use thiserror::Error;

/// Selection of accesses, and their weights.
#[derive(Debug, Clone)]
pub(crate) struct ProfileOptions<'o> {
    /// The type's name.
    pub(crate) type_name: String,
    /// The recording's name.
    pub(crate) name: String,
    /// Part of the name of an allocation site or variable (`main (heap_straddle.c:33)`), whose
    /// memory is an array of the type; or the address of one object (`0xffff888004a81000`).
    pub(crate) at: Option<String>,
    /// Weights of samples, and the machine whose cycles their times become.
    pub(crate) sampled: Option<(&'o Weights, &'o Machine)>,
}

impl ProfileOptions<'_> {
    /// The objects that are asked for, of `size` bytes each.
    fn instances(&self, size: u64) -> InstancesOf<'_> {
        InstancesOf {
            type_name: &self.type_name,
            size,
            at: self.at.as_deref(),
        }
    }
}

/// Errors of making a profile from a recording.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordedProfileError {
    /// No shared line holds the type.
    #[error(
        "{recording}: no access to {wanted} in a line that two threads share: expected a variable of \
         that type, or --at with one of: {known}{hint}"
    )]
    NothingFound {
        /// The recording.
        recording: String,
        /// The type.
        wanted: String,
        /// Objects that were accessed.
        known: String,
        /// Reasons why accesses have no name, and the remedy.
        hint: String,
    },
}

/// A profile and the addresses of its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedProfile {
    /// The counts.
    pub(crate) profile: Profile,
    /// Address of each instance.
    pub(crate) bases: BTreeMap<u32, u64>,
}

/// Lines of instances that are looked up; a file may claim a structure of any size.
const INSTANCE_LINES_MAX: usize = 1 << 20;

/// Lines of all instances of a type of `type_size` bytes.
pub(crate) fn lines_of_instances(
    names: &AddressNames<'_>,
    type_size: u64,
    options: &ProfileOptions<'_>,
) -> BTreeSet<LineAddr> {
    let places = names.recording.places();
    let bases = places
        .filter_map(|(addr, size)| names.instance_base(addr, size, &options.instances(type_size)));
    let bases: BTreeSet<u64> = bases.collect();
    let ranges = bases.into_iter();
    let ranges = ranges.filter_map(|base| AddrRange::with_len(base, type_size));
    let lines = ranges.map(AddrRange::lines);
    let lines = lines.flat_map(|(first, last)| (first.0..=last.0).map(LineAddr));
    lines.take(INSTANCE_LINES_MAX).collect()
}

/// Collects the accesses to instances of a type of `type_size` bytes. `member_at` names the member
/// at an offset.
pub(crate) fn profile_of_recording(
    names: &AddressNames<'_>,
    type_size: u64,
    member_at: &dyn Fn(u64) -> Option<String>,
    options: &ProfileOptions<'_>,
) -> Result<RecordedProfile, RecordedProfileError> {
    let recording = names.recording;
    let by = match options.sampled {
        Some(_) => "sampled, read",
        None => "recorded",
    };
    let mut found = Found {
        profile: Profile::new(
            &options.name,
            format!("{by} by hitm {}", recording.header.hitm_version),
            Cycles(1),
        ),
        bases: BTreeMap::new(),
    };
    for (line, stats) in &recording.statistics.lines {
        for (place, row) in &stats.rows {
            let addr = line.0 * LINE_SIZE + u64::from(place.offset);
            let base = names.instance_base(addr, place.size, &options.instances(type_size));
            let Some(base) = base else { continue };
            let offset = names.compiled_offset(addr, base, &options.type_name);
            let Some(member) = member_at(offset) else {
                continue;
            };
            let count = match options.sampled {
                Some((weights, _)) => weights.of(*line, place),
                None => row.latency.count,
            };
            let named = NamedRow {
                base,
                member,
                function: names.code(place.code).function,
                place,
                row,
                count,
            };
            found.add(recording, named);
        }
    }
    if found.bases.is_empty() {
        return Err(nothing_found(names, options));
    }
    Ok(match options.sampled {
        Some((weights, machine)) => found.finish_samples(weights, machine),
        None => found.finish(recording),
    })
}

/// Says what was accessed instead of the wanted type.
fn nothing_found(names: &AddressNames<'_>, options: &ProfileOptions<'_>) -> RecordedProfileError {
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    let mut unnamed = Unnamed::default();
    for (line, stats) in &names.recording.statistics.lines {
        for (place, row) in &stats.rows {
            let addr = line.0 * LINE_SIZE + u64::from(place.offset);
            match names.object_asked_for(addr, place.size) {
                Some((object, _)) => *known.entry(object).or_default() += row.latency.count,
                None => unnamed.add(addr, row.latency.count),
            }
        }
    }
    let known = known.into_iter().map(|(name, count)| (count, name));
    let mut known: Vec<(u64, String)> = known.collect();
    known.sort_by(|a, b| b.cmp(a));
    let mut known: Vec<String> = known.into_iter().take(8).map(|(_, name)| name).collect();
    if known.is_empty() {
        known.push("(nothing has a name)".to_owned());
    }
    RecordedProfileError::NothingFound {
        recording: options.name.clone(),
        wanted: options.type_name.clone(),
        known: known.join(", "),
        hint: unnamed.hint(options),
    }
}

/// Accesses to addresses without a name.
#[derive(Default)]
struct Unnamed {
    user: u64,
    kernel: u64,
}

impl Unnamed {
    fn add(&mut self, addr: u64, count: u64) {
        match addr >> 63 {
            1 => self.kernel += count,
            _ => self.user += count,
        }
    }

    /// Names the inputs that would give them names.
    fn hint(&self, options: &ProfileOptions<'_>) -> String {
        let mut hint = String::new();
        if self.kernel > 0 && options.sampled.is_some() {
            hint += &format!(
                "; {} samples are of kernel memory that has no name: expected the kernel that was \
                 sampled with --vmlinux or --kallsyms, and --at ADDRESS for an object that the \
                 kernel allocated",
                self.kernel
            );
        }
        if self.user > 0 && options.sampled.is_some() {
            hint += &format!(
                "; {} samples are of memory that has no name, as the heap in samples: expected --at \
                 ADDRESS of the object, or a recording by hitm record",
                self.user
            );
        }
        hint
    }
}

/// Counts by instance address.
struct Found {
    profile: Profile,
    /// Instance numbers in order of first sight.
    bases: BTreeMap<u64, u32>,
}

/// A row of accesses to a member of an instance.
struct NamedRow<'r> {
    /// Address of the instance.
    base: u64,
    member: String,
    function: String,
    place: &'r Place,
    row: &'r RowStats,
    /// Accesses that the row stands for.
    count: u64,
}

impl Found {
    fn add(&mut self, recording: &Recording, named: NamedRow<'_>) {
        let (place, count) = (named.place, named.count);
        let next = self.bases.len() as u32;
        let instance = *self.bases.entry(named.base).or_insert(next);
        let thread = recording.threads.get(place.thread.index());
        let counts = match place.op {
            AccessOp::Load => Counts {
                loads: count,
                ..Counts::default()
            },
            AccessOp::Store => Counts {
                stores: count,
                ..Counts::default()
            },
            AccessOp::LockedRmw => Counts {
                rmws: count,
                ..Counts::default()
            },
            AccessOp::Fence => Counts::default(),
        };
        // Accesses of a thread that moved between CPUs are split evenly.
        let Some(cpus) = CpuSet::of(named.row.cpus.iter()) else {
            return;
        };
        let key = RowKey {
            member: named.member,
            instance,
            function: named.function,
            comm: thread.map_or_else(String::new, |thread| thread.start.name.clone()),
            cpus,
        };
        self.profile.add(key, counts);
    }

    fn finish(mut self, recording: &Recording) -> RecordedProfile {
        let mut longest = Cycles(1);
        for thread in &recording.threads {
            let Some(exit) = thread.exit else { continue };
            let lived = exit.time.saturating_sub(thread.start.time);
            // Contention depends on the layout, so it is no part of the work.
            let own = lived.saturating_sub(exit.contention_stall);
            let work = self
                .profile
                .work
                .entry(thread.start.cpu)
                .or_insert(Cycles::ZERO);
            *work = Cycles((work.0 + own.0).max(1));
            longest = longest.max(*work);
        }
        self.profile.period = longest;
        self.with_bases()
    }

    /// Finishes a profile of samples: each sampled CPU worked for the whole span, minus its stalls.
    fn finish_samples(mut self, weights: &Weights, machine: &Machine) -> RecordedProfile {
        let span_ns = weights.span_ns().unwrap_or(0);
        let rows = self.profile.rows();
        let cpus: BTreeSet<CpuId> = rows.flat_map(|(key, _)| key.cpus.iter()).collect();
        let work = |cpu| (cpu, weights.work_of(cpu, span_ns, machine));
        self.profile.work = cpus.into_iter().map(work).collect();
        let longest = self.profile.work.values().copied().max();
        self.profile.period = longest.unwrap_or(Cycles(1));
        self.with_bases()
    }

    fn with_bases(self) -> RecordedProfile {
        let bases = self.bases.into_iter();
        RecordedProfile {
            profile: self.profile,
            bases: bases.map(|(base, instance)| (instance, base)).collect(),
        }
    }
}
