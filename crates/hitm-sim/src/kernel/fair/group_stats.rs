//! Arithmetic of balancing: which group of a domain has tasks to give, and how many. It is that of
//! `update_sg_lb_stats`, `update_sd_pick_busiest`, `calculate_imbalance` and
//! `sched_balance_find_src_rq` in kernel/sched/fair.c, v6.12. Nothing here waits or costs;
//! load_balance.rs reads and moves.

use hitm_base::CpuId;

use super::domains::{Level, SchedDomain, SchedGroup};
use super::pelt::{Load, SCALE};

/// Statistics of one CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuStats {
    pub(super) cpu: CpuId,
    pub(super) load: Load,
    /// Fair tasks.
    pub(super) h_nr: u64,
    /// All tasks.
    pub(super) nr_running: u64,
    pub(super) is_idle: bool,
}

/// Load class of a group, least busy first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    HasSpare,
    FullyBusy,
    Imbalanced,
    Overloaded,
}

/// Statistics of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupStats {
    pub(super) load: Load,
    pub(super) has_overloaded: bool,
    h_nr: u64,
    nr_running: u64,
    idle_cpus: u64,
    weight: u64,
    cores: u64,
    capacity: u64,
    kind: Kind,
}

/// Unit that an imbalance is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Migrate {
    Load,
    Util,
    Task,
}

/// The group to take from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) group: usize,
    migrate: Migrate,
    imbalance: u64,
}

/// The run queue to take from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busiest {
    pub(super) cpu: CpuId,
    pub(super) nr_running: u64,
    pub(super) migrate: Migrate,
    pub(super) imbalance: u64,
}

impl GroupStats {
    pub(super) fn of(group: &SchedGroup, cpus: &[CpuStats], imbalance_pct: u64) -> GroupStats {
        let sum = |part: fn(&CpuStats) -> u64| cpus.iter().map(part).sum::<u64>();
        let weight = cpus.len() as u64;
        let mut stats = GroupStats {
            load: Load {
                load: sum(|cpu| cpu.load.load),
                runnable: sum(|cpu| cpu.load.runnable),
                util: sum(|cpu| cpu.load.util),
            },
            has_overloaded: cpus.iter().any(|cpu| cpu.nr_running > 1),
            h_nr: sum(|cpu| cpu.h_nr),
            nr_running: sum(|cpu| cpu.nr_running),
            idle_cpus: sum(|cpu| u64::from(cpu.is_idle)),
            weight,
            cores: group.cores,
            capacity: SCALE * weight.max(1),
            kind: Kind::HasSpare,
        };
        stats.kind = if stats.is_overloaded(imbalance_pct) {
            Kind::Overloaded
        } else if group.is_imbalanced.get() {
            Kind::Imbalanced
        } else if stats.has_capacity(imbalance_pct) {
            Kind::HasSpare
        } else {
            Kind::FullyBusy
        };
        stats
    }

    fn is_overloaded(&self, pct: u64) -> bool {
        self.nr_running > self.weight
            && (self.capacity * 100 < self.load.util * pct
                || self.capacity * pct < self.load.runnable * 100)
    }

    fn has_capacity(&self, pct: u64) -> bool {
        if self.nr_running < self.weight {
            return true;
        }
        self.capacity * pct >= self.load.runnable * 100
            && self.capacity * 100 > self.load.util * pct
    }

    fn avg_load(&self) -> u64 {
        self.load.load * SCALE / self.capacity
    }

    /// Returns true if it has more to give than `other`.
    fn is_busier(&self, other: &GroupStats) -> bool {
        if self.kind != other.kind {
            return self.kind > other.kind;
        }
        match self.kind {
            Kind::Overloaded | Kind::FullyBusy => self.avg_load() > other.avg_load(),
            Kind::Imbalanced => false,
            Kind::HasSpare => {
                self.idle_cpus < other.idle_cpus
                    || (self.idle_cpus == other.idle_cpus && self.nr_running > other.nr_running)
            }
        }
    }
}

/// The group from which the local one should take, if any; `is_idle` says that the CPU is.
pub(super) fn find_busiest(
    domain: &SchedDomain,
    groups: &[GroupStats],
    is_idle: bool,
) -> Option<Found> {
    let local = &groups[domain.local];
    let count = groups.len();
    let others = (1..count).map(|step| (domain.local + step) % count);
    let mut best: Option<usize> = None;
    for number in others.filter(|number| groups[*number].h_nr > 0) {
        if best.is_none_or(|best| groups[number].is_busier(&groups[best])) {
            best = Some(number);
        }
    }
    let group = best?;
    let busiest = &groups[group];
    let average = {
        let load: u64 = groups.iter().map(|group| group.load.load).sum();
        let capacity: u64 = groups.iter().map(|group| group.capacity).sum();
        load * SCALE / capacity
    };
    let spreads = domain.prefers_sibling
        && local.kind == Kind::HasSpare
        && sibling_imbalance(busiest, local, is_idle) > 1;
    if busiest.kind != Kind::Imbalanced && !spreads {
        if local.kind > busiest.kind {
            return None;
        }
        if local.kind == Kind::Overloaded
            && (local.avg_load() >= busiest.avg_load()
                || local.avg_load() >= average
                || 100 * busiest.avg_load() <= domain.imbalance_pct() * local.avg_load())
        {
            return None;
        }
        let is_even = busiest.weight > 1 && local.idle_cpus <= busiest.idle_cpus + 1;
        if busiest.kind != Kind::Overloaded && (!is_idle || is_even || busiest.h_nr == 1) {
            return None;
        }
    }
    let (migrate, imbalance) = imbalance(domain, busiest, local, average, is_idle);
    (imbalance > 0).then_some(Found {
        group,
        migrate,
        imbalance,
    })
}

/// Number of tasks that the busiest group has more, for its number of cores.
fn sibling_imbalance(busiest: &GroupStats, local: &GroupStats, is_idle: bool) -> u64 {
    if !is_idle || busiest.nr_running == 0 {
        return 0;
    }
    if busiest.cores == local.cores {
        return busiest.nr_running.saturating_sub(local.nr_running);
    }
    let cores = busiest.cores + local.cores;
    let more = (busiest.nr_running * local.cores).saturating_sub(local.nr_running * busiest.cores);
    let imbalance = (2 * more + cores) / (2 * cores);
    if imbalance <= 1 && local.nr_running == 0 && busiest.nr_running > 1 {
        return 2;
    }
    imbalance
}

/// Kind and amount of what must move to make it even: `calculate_imbalance`.
fn imbalance(
    domain: &SchedDomain,
    busiest: &GroupStats,
    local: &GroupStats,
    average: u64,
    is_idle: bool,
) -> (Migrate, u64) {
    if busiest.kind == Kind::Imbalanced {
        return (Migrate::Task, 1);
    }
    if local.kind == Kind::HasSpare {
        if busiest.kind > Kind::FullyBusy && !domain.shares_llc() {
            let spare = local.capacity.saturating_sub(local.load.util);
            return match (spare, is_idle) {
                (0, true) => (Migrate::Task, 1),
                (spare, _) => (Migrate::Util, spare),
            };
        }
        let mut more = if busiest.weight == 1 || domain.prefers_sibling {
            sibling_imbalance(busiest, local, is_idle)
        } else {
            local.idle_cpus.saturating_sub(busiest.idle_cpus)
        };
        if domain.level == Level::Numa && local.nr_running < domain.imb_numa_nr && more <= 2 {
            more = 0;
        }
        return (Migrate::Task, more / 2);
    }
    if local.kind < Kind::Overloaded
        && (local.avg_load() >= busiest.avg_load() || local.avg_load() >= average)
    {
        return (Migrate::Load, 0);
    }
    let give = busiest.avg_load().saturating_sub(average) * busiest.capacity;
    let take = average.saturating_sub(local.avg_load()) * local.capacity;
    (Migrate::Load, give.min(take) / SCALE)
}

impl Found {
    /// The run queue of the group's CPUs with most of what is to be moved.
    pub(super) fn busiest_rq<'a>(
        &self,
        cpus: impl Iterator<Item = &'a CpuStats>,
    ) -> Option<Busiest> {
        let mut best: Option<(u64, &CpuStats)> = None;
        for cpu in cpus.filter(|cpu| cpu.h_nr > 0) {
            let most = match self.migrate {
                // One task that weighs more than the imbalance would only turn it round.
                Migrate::Load if cpu.h_nr == 1 && cpu.load.load > self.imbalance => continue,
                Migrate::Load => cpu.load.load,
                Migrate::Util if cpu.h_nr <= 1 => continue,
                Migrate::Util => cpu.load.util,
                Migrate::Task => cpu.h_nr,
            };
            if best.is_none_or(|(least, _)| most > least) {
                best = Some((most, cpu));
            }
        }
        best.map(|(_, cpu)| Busiest {
            cpu: cpu.cpu,
            nr_running: cpu.nr_running,
            migrate: self.migrate,
            imbalance: self.imbalance,
        })
    }
}
