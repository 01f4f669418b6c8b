//! A bitmap of CPUs in shared memory (`cpumask_var_t`), and a counter beside it.

use std::collections::BTreeSet;
use std::ops::Range;

use hitm_base::{CpuId, Topology};

use super::cpumask::CpuMask;
use crate::engine::{Arena, Engine, Field, Object, Opaque, Place, Rmw, SimError, Site};

/// CPUs that a reader of a mask looks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The bitmap of this CPU's node is read first.
    pub near: CpuId,
    /// CPUs that would do.
    pub allowed: &'a CpuMask,
}

/// A mask that CPUs share: one bitmap, or one for each NUMA node whose CPUs it has.
///
/// With `CONFIG_CPUMASK_OFFSTACK` each use reads the pointer to the bitmap first, which lies in the
/// struct. Whether that line is contended is what layouts are about.
#[derive(Debug, Clone)]
pub struct SharedMask {
    pointer: Option<Opaque>,
    /// Index in `all` for each CPU: an index is a sixth of a place, and every CPU looks here.
    of_cpu: Vec<u16>,
    /// The places that hold the CPUs `64 * i ..`: one, or one for each node that has some of them.
    words: Vec<Vec<Place>>,
    /// The same in one list, bitmap after bitmap, and the word that each belongs to.
    all: Vec<Place>,
    word_of_place: Vec<usize>,
    /// The places in `all` of each bitmap, and the bitmap of each CPU.
    parts: Vec<Range<usize>>,
    part_of_cpu: Vec<u16>,
}

impl SharedMask {
    /// The mask at `path` of `object`.
    pub fn new(
        arena: &mut Arena,
        object: &Object,
        path: &str,
        topology: &Topology,
    ) -> Result<SharedMask, SimError> {
        let field = arena.field(object, path)?;
        let word_count = topology.cpu_count().div_ceil(64);
        let group_count = field.groups.len();
        let counts = [1, topology.node_count(), topology.cpu_count()];
        let is_bitmap = field.groups.iter().all(|group| group.len() == word_count);
        if !is_bitmap || !counts.contains(&group_count) {
            return Err(SimError::Layout {
                type_name: object.type_name().to_owned(),
                problem: format!("{path} is no bitmap of the CPUs, nor one for each NUMA node"),
            });
        }
        let key = |cpu: CpuId| (group_of(&field, topology, cpu), cpu.index() / 64);
        let used: BTreeSet<(usize, usize)> = topology.cpus().map(key).collect();
        let used: Vec<(usize, usize)> = used.into_iter().collect();
        let index_of = |cpu: CpuId| used.partition_point(|other| *other < key(cpu)) as u16;
        let mut words = vec![Vec::new(); word_count];
        for (group, word) in &used {
            words[*word].push(field.groups[*group][*word]);
        }
        let parts = (0..group_count).map(|group| {
            let first = used.partition_point(|(other, _)| *other < group);
            first..used.partition_point(|(other, _)| *other <= group)
        });
        Ok(SharedMask {
            pointer: field.pointer.map(|place| arena.engine().opaque(place)),
            of_cpu: topology.cpus().map(index_of).collect(),
            words,
            all: used
                .iter()
                .map(|(group, word)| field.groups[*group][*word])
                .collect(),
            word_of_place: used.iter().map(|(_, word)| *word).collect(),
            parts: parts.collect(),
            part_of_cpu: topology.cpus().map(|cpu| key(cpu).0 as u16).collect(),
        })
    }

    /// The word of a CPU.
    fn place_of(&self, cpu: CpuId) -> Place {
        self.all[usize::from(self.of_cpu[cpu.index()])]
    }

    /// Sets the bit of `cpu`; true when it was set before.
    pub async fn set(&self, engine: &Engine, site: Site, cpu: CpuId) -> bool {
        self.read_pointer(engine, site).await;
        let bit: u64 = 1 << (cpu.index() % 64);
        let place = self.place_of(cpu);
        engine.rmw(site, place, Rmw::Or(bit)).await & bit != 0
    }

    /// Clears the bit of `cpu`; true when it was set before.
    pub async fn clear(&self, engine: &Engine, site: Site, cpu: CpuId) -> bool {
        self.read_pointer(engine, site).await;
        let bit: u64 = 1 << (cpu.index() % 64);
        let place = self.place_of(cpu);
        engine.rmw(site, place, Rmw::And(!bit)).await & bit != 0
    }

    /// Returns true if the bit of `cpu` is set.
    pub async fn test(&self, engine: &Engine, site: Site, cpu: CpuId) -> bool {
        self.read_pointer(engine, site).await;
        let word = engine.load(site, self.place_of(cpu)).await;
        word >> (cpu.index() % 64) & 1 == 1
    }

    /// The first set CPU from number `from` on.
    pub async fn next(&self, engine: &Engine, site: Site, from: usize) -> Option<CpuId> {
        self.read_pointer(engine, site).await;
        let mut keep = u64::MAX << (from % 64);
        for index in from / 64..self.words.len() {
            let mut word = 0;
            for place in &self.words[index] {
                word |= engine.load(site, *place).await;
            }
            word &= keep;
            if word != 0 {
                let cpu = index * 64 + word.trailing_zeros() as usize;
                return Some(CpuId(cpu as u16));
            }
            keep = u64::MAX;
        }
        None
    }

    /// Reads those of `allowed` that are set: the bitmap of `near`'s node first, and others only while
    /// none is found. The words of a bitmap are independent loads.
    pub async fn read_until_found(
        &self,
        engine: &Engine,
        site: Site,
        wanted: Wanted<'_>,
        into: &mut CpuMask,
    ) {
        self.read_pointer(engine, site).await;
        for index in 0..self.words.len() {
            into.set_word(index, 0);
        }
        let own = usize::from(self.part_of_cpu[wanted.near.index()]);
        for part in own_first(own, self.parts.len()) {
            let places = self.parts[part].clone();
            let words = &self.word_of_place[places.clone()];
            engine
                .load_all(site, &self.all[places], |place, value| {
                    let index = words[place];
                    into.set_word(index, into.word(index) | value);
                })
                .await;
            into.keep(wanted.allowed);
            if !into.is_empty() {
                return;
            }
        }
    }

    /// Sets the bit of `cpu` without an access, before the run.
    pub(super) fn boot_set(&self, engine: &Engine, cpu: CpuId) {
        let word = self.place_of(cpu);
        engine.set(word, engine.value(word) | 1 << (cpu.index() % 64));
    }

    /// The bits without an access: for checks.
    pub fn peek(&self, engine: &Engine, cpu_count: usize) -> CpuMask {
        let mut mask = CpuMask::empty(cpu_count);
        for (index, places) in self.words.iter().enumerate() {
            let word = places.iter().map(|place| engine.value(*place));
            mask.set_word(index, word.fold(0, |all, word| all | word));
        }
        mask
    }

    async fn read_pointer(&self, engine: &Engine, site: Site) {
        if let Some(pointer) = self.pointer {
            engine.touch(site, pointer).await;
        }
    }
}

/// An atomic counter that CPUs share: one, or one for each NUMA node.
#[derive(Debug, Clone)]
pub struct SharedCounter {
    pointer: Option<Opaque>,
    parts: Vec<Place>,
    part_of_cpu: Vec<usize>,
}

impl SharedCounter {
    /// The counter at `path` of `object`.
    pub fn new(
        arena: &mut Arena,
        object: &Object,
        path: &str,
        topology: &Topology,
    ) -> Result<SharedCounter, SimError> {
        let field = arena.field(object, path)?;
        Ok(SharedCounter {
            pointer: field.pointer.map(|place| arena.engine().opaque(place)),
            parts: field.groups.iter().map(|group| group[0]).collect(),
            part_of_cpu: topology
                .cpus()
                .map(|cpu| group_of(&field, topology, cpu))
                .collect(),
        })
    }

    /// Adds to the part of `cpu`.
    pub async fn add(&self, engine: &Engine, site: Site, cpu: CpuId, value: i64) {
        if let Some(pointer) = self.pointer {
            engine.touch(site, pointer).await;
        }
        let part = self.parts[self.part_of_cpu[cpu.index()]];
        engine.fetch_add(site, part, value).await;
    }

    /// The sum, read part by part, that of `near`'s node first; parts are left out as soon as it is
    /// `enough`.
    pub async fn read_until(&self, engine: &Engine, site: Site, near: CpuId, enough: i64) -> i64 {
        if let Some(pointer) = self.pointer {
            engine.touch(site, pointer).await;
        }
        let mut sum = 0u64;
        for part in own_first(self.part_of_cpu[near.index()], self.parts.len()) {
            sum = sum.wrapping_add(engine.load(site, self.parts[part]).await);
            if sum as i64 >= enough {
                break;
            }
        }
        sum as i64
    }

    /// The sum without an access: for checks.
    pub fn peek(&self, engine: &Engine) -> i64 {
        let parts = self.parts.iter().map(|part| engine.value(*part));
        parts.fold(0, u64::wrapping_add) as i64
    }
}

/// The numbers below `count`, from `own` on and then from 0.
fn own_first(own: usize, count: usize) -> impl Iterator<Item = usize> {
    (own..count).chain(0..own)
}

fn group_of(field: &Field, topology: &Topology, cpu: CpuId) -> usize {
    match field.groups.len() {
        1 => 0,
        count if count == topology.cpu_count() => cpu.index(),
        _ => usize::from(topology.node_of(cpu)),
    }
}
