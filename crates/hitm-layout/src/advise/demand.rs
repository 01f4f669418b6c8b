//! Demand: a profile as rates of classes of cores.
//!
//! Cores under one last-level cache that do the same at the same rates are one class. So the 480
//! CPUs of a kernel profile are six classes, and a line is weighed in microseconds. The threads of
//! one core share its caches, so their rates add up.

use std::collections::BTreeMap;

use hitm_base::CpuId;

use super::AdviseError;
use super::prices::{Prices, Toll};
use crate::profile::{Counts, CpuSet, Profile};

/// Bytes of the structure that the profile has counts for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// Path of the member.
    pub(super) path: String,
    /// Number of the instance.
    pub(super) instance: u32,
}

/// Rates of one function's accesses to one spot, per cycle of a core's own work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) function: usize,
    pub(super) spot: usize,
    pub(super) load: f64,
    pub(super) store: f64,
    pub(super) rmw: f64,
}

/// Cores that do the same.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// Number of cores in it.
    pub(super) cores: f64,
    /// Cycles of own work of one of them.
    pub(super) work: f64,
    /// By function, then by spot.
    pub(super) events: Vec<Event>,
    /// Plain stores to the structure per cycle of own work.
    pub(super) stores: f64,
}

/// Prices at which a core of one class takes a line from one of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolls {
    pub(super) dirty: Toll,
    pub(super) shared: Toll,
    pub(super) invalidate: Toll,
}

/// A profile on a machine.
#[derive(Debug, Clone)]
pub struct Demand {
    pub(super) spots: Vec<Spot>,
    pub(super) classes: Vec<Class>,
    /// For each spot, the counts of each user: threads of one name on the same CPUs.
    pub(super) users: Vec<BTreeMap<usize, Counts>>,
    /// For each spot, the class and the number of the event of each access to it.
    pub(super) touches: Vec<Vec<(usize, usize)>>,
    /// `tolls[requester][holder]`.
    pub(super) tolls: Vec<Vec<Tolls>>,
    pub(super) load_hide: f64,
    pub(super) store_entries: f64,
    pub(super) llc_latency: f64,
    /// The accesses of the profile.
    pub(super) accesses: f64,
    /// Cycles of own work of all cores.
    pub(super) work: f64,
}

/// Parts of an access per cycle in which rates are compared: cores whose rates differ by less are
/// alike.
const RATE_UNIT: f64 = (1u64 << 40) as f64;

/// A core's rates in units of [`RATE_UNIT`] by function and spot.
type CoreRates = BTreeMap<(usize, usize), [u64; 3]>;

impl Demand {
    /// The rates of `profile` on the machine of `prices`. Fails when the profile names a CPU that
    /// the machine does not have.
    pub fn new(profile: &Profile, prices: &dyn Prices) -> Result<Demand, AdviseError> {
        let topology = &prices.machine().topology;
        let cpu_count = topology.cpu_count();
        let mut spots: Vec<Spot> = Vec::new();
        let mut known: BTreeMap<Spot, usize> = BTreeMap::new();
        let mut functions: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut cores: BTreeMap<u16, (CoreRates, u64)> = BTreeMap::new();
        let mut users_known: BTreeMap<(&CpuSet, &str), usize> = BTreeMap::new();
        let mut users: Vec<BTreeMap<usize, Counts>> = Vec::new();
        let mut accesses = 0.0;
        for (key, counts) in profile.rows() {
            if key.cpus.last().index() >= cpu_count {
                return Err(AdviseError::UnknownCpu {
                    cpu: key.cpus.last(),
                    cpu_count,
                    machine: prices.machine().name.clone(),
                });
            }
            let spot = Spot {
                path: key.member.clone(),
                instance: key.instance,
            };
            let spot = *known.entry(spot).or_insert_with_key(|spot| {
                spots.push(spot.clone());
                users.push(BTreeMap::new());
                spots.len() - 1
            });
            let next = users_known.len();
            let user = *users_known.entry((&key.cpus, &key.comm)).or_insert(next);
            *users[spot].entry(user).or_default() += counts;
            let next = functions.len();
            let name = (key.function.clone(), key.comm.clone());
            let function = *functions.entry(name).or_insert(next);
            accesses += counts.total() as f64;
            for cpu in key.cpus.iter() {
                let work = profile.work_of(cpu).0.max(1);
                let per_core = RATE_UNIT / key.cpus.len() as f64 / work as f64;
                let core = cores.entry(topology.core_of(cpu)).or_default();
                let rates = core.0.entry((function, spot)).or_default();
                let counts = [counts.loads, counts.stores, counts.rmws];
                for (rate, count) in rates.iter_mut().zip(counts) {
                    *rate = rate.saturating_add((count as f64 * per_core).round() as u64);
                }
                core.1 = core.1.max(work);
            }
        }
        let core = &prices.machine().core;
        let mut demand = Demand {
            touches: vec![Vec::new(); spots.len()],
            spots,
            users,
            classes: Vec::new(),
            tolls: Vec::new(),
            load_hide: f64::from(core.load_window_insns) * f64::from(core.cpi_milli) / 1000.0,
            store_entries: f64::from(core.store_buffer_entries),
            llc_latency: prices.machine().caches.llc.latency.0 as f64,
            accesses,
            work: 0.0,
        };
        demand.classify(cores, prices);
        Ok(demand)
    }

    /// Finds what `find` has for each path of the profile. Fails with the first path for which it finds nothing.
    pub(super) fn by_path<T>(
        &self,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeMap<&str, T>, String> {
        let mut found = BTreeMap::new();
        for spot in &self.spots {
            // Instances have the same paths.
            if !found.contains_key(&*spot.path) {
                let one = find(&spot.path).ok_or_else(|| spot.path.clone())?;
                found.insert(&*spot.path, one);
            }
        }
        Ok(found)
    }

    fn classify(&mut self, cores: BTreeMap<u16, (CoreRates, u64)>, prices: &dyn Prices) {
        let topology = &prices.machine().topology;
        let mut cpu_of_core: BTreeMap<u16, CpuId> = BTreeMap::new();
        for cpu in topology.cpus() {
            cpu_of_core.entry(topology.core_of(cpu)).or_insert(cpu);
        }
        let mut groups: BTreeMap<(u16, CoreRates, u64), Vec<CpuId>> = BTreeMap::new();
        for (core, (rates, work)) in cores {
            let key = (topology.llc_of_core(core), rates, work);
            groups.entry(key).or_default().push(cpu_of_core[&core]);
        }
        let members: Vec<Vec<CpuId>> = groups.values().cloned().collect();
        for ((_, rates, work), cpus) in groups {
            let rate = |units: u64| units as f64 / RATE_UNIT;
            let events: Vec<Event> = rates
                .into_iter()
                .map(|((function, spot), [load, store, rmw])| Event {
                    function,
                    spot,
                    load: rate(load),
                    store: rate(store),
                    rmw: rate(rmw),
                })
                .collect();
            self.work += work as f64 * cpus.len() as f64;
            self.classes.push(Class {
                cores: cpus.len() as f64,
                work: work as f64,
                stores: events.iter().map(|event| event.store).sum(),
                events,
            });
        }
        for (index, class) in self.classes.iter().enumerate() {
            for (number, event) in class.events.iter().enumerate() {
                self.touches[event.spot].push((index, number));
            }
        }
        self.tolls = members
            .iter()
            .map(|a| members.iter().map(|b| tolls(a, b, prices)).collect())
            .collect();
    }
}

/// Mean prices between a core of `takers` and the cores of `holders`. Cores of a class lie under one
/// last-level cache, so one taker speaks for all.
fn tolls(takers: &[CpuId], holders: &[CpuId], prices: &dyn Prices) -> Tolls {
    let taker = takers[0];
    let others = holders.iter().copied().filter(|cpu| *cpu != taker);
    let others: Vec<CpuId> = others.collect();
    let mean = |price: &dyn Fn(CpuId) -> Toll| {
        let count = others.len().max(1) as f64;
        let prices = others.iter().map(|cpu| price(*cpu));
        prices.fold(Toll::ZERO, |sum, toll| sum + toll) / count
    };
    Tolls {
        dirty: mean(&|cpu| prices.dirty(taker, cpu)),
        shared: mean(&|cpu| prices.shared(taker, cpu)),
        invalidate: mean(&|cpu| prices.invalidate(taker, cpu)),
    }
}
