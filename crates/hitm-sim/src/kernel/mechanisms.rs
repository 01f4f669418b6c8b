//! Parts of Linux that the model leaves out unless it is asked: most are of 6.12 and touch lines of
//! all CPUs, one is of older kernels, two are what programs may ask for.
//!
//! **What they are for:** where a simulated figure lies far from a published one, each is a
//! candidate for what is missing. Each is put in alone. docs/models/root-domain.md has what each
//! one changed. None of them is enough to pay for itself in every run.
//!
//! **What a test could notice:** a mechanism that is not named in [`super::KernelConfig::mechanisms`]
//! makes no access at all.

use hitm_base::CpuId;

use super::Kernel;
use super::functions as f;
use super::rq::Rq;
use crate::engine::{Engine, MemberKey, Opaque, Place, Rmw};

hitm_base::words! {
    /// One of them.
    ///
    /// Load balancing by domains ([`super::LoadBalancing::Domains`]) has [`Mechanism::NohzBalance`] in it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mechanism {
        /// `__cpupri_find` reads the mask for `cpumask_any_and`, and again for `cpumask_and`.
        SecondMaskRead = "second-mask-read",
        /// The chain of interrupts passes over the CPU that it is on (`rto_next_cpu` of 6.12.117, not
        /// of 6.12).
        ChainSkipsSelf = "chain-skips-self",
        /// `ktime_get` on entering and leaving idle (`tick_nohz_start_idle`, `tick_nohz_idle_exit`) reads
        /// what the first CPU's tick writes (`timekeeping_advance`, `tick_do_update_jiffies64`).
        Timekeeper = "timekeeper",
        /// A CPU whose tick stops enters `nohz.idle_cpus_mask` and `nohz.nr_cpus`, and leaves them at its
        /// next tick (`nohz_balance_enter_idle`, `nohz_balance_exit_idle`).
        NohzBalance = "nohz-balance",
        /// `update_sg_lb_stats` reads four lines of each run queue that a newly idle CPU looks at, not
        /// only the one with the number of fair tasks.
        NewidleWalk = "newidle-walk",
        /// The rest of a queue's slice is lost at the end of the period that it was taken in
        /// (`expire_cfs_rq_runtime`, 4.18 to 5.3).
        ExpiringSlices = "expiring-slices",
        /// Pages of programs' fresh memory are huge (`hugetlb_fault`, `do_huge_pmd_anonymous_page`).
        HugePages = "huge-pages",
        /// A thread that asks for it keeps its CPU for some time more (`rseq_grant_slice_extension`,
        /// since 7.0).
        SliceExtension = "slice-extension",
    }
}

/// The lines that they share.
#[derive(Debug)]
pub(super) struct GlobalLines {
    timekeeper: Opaque,
    jiffies: Opaque,
    nohz_count: Place,
    /// Words of the mask, 64 CPUs each.
    nohz_mask: Vec<Place>,
}

impl GlobalLines {
    /// Each structure begins on a line of its own, as in Linux; the first at `address`.
    pub(super) fn new(engine: &Engine, address: u64, cpus: usize) -> GlobalLines {
        let line = hitm_base::LINE_SIZE;
        let place = |offset: u64, type_name: &str, path: &str| {
            let key = MemberKey::new(type_name, path, offset % line);
            engine.place(address + offset, CpuId(0), key)
        };
        let word = |index: u64| place(3 * line + index * 8, "nohz.idle_cpus_mask", "bits");
        GlobalLines {
            timekeeper: engine.opaque(place(0, "tk_core", "seq")),
            jiffies: engine.opaque(place(line, "jiffies_64", "")),
            nohz_count: place(2 * line, "nohz", "nr_cpus"),
            nohz_mask: (0..cpus.div_ceil(64) as u64).map(word).collect(),
        }
    }

    /// `nohz.nr_cpus`.
    pub(super) fn nohz_count(&self) -> Place {
        self.nohz_count
    }

    /// `nohz.idle_cpus_mask`.
    pub(super) fn nohz_mask(&self) -> &[Place] {
        &self.nohz_mask
    }
}

impl Kernel {
    pub(super) fn has(&self, mechanism: Mechanism) -> bool {
        self.config.mechanisms.contains(&mechanism)
    }

    /// A CPU enters idle; its tick has been stopped.
    pub(super) async fn note_idle_entry(&self, rq: &Rq) {
        let site = f::DO_IDLE;
        if self.has(Mechanism::Timekeeper) {
            self.engine.touch(site, self.globals.timekeeper).await;
        }
        if self.counts_idle_cpus() && !rq.nohz_tick_stopped.replace(true) {
            self.nohz_change(rq, 1).await;
        }
    }

    /// It leaves idle.
    pub(super) async fn note_idle_exit(&self) {
        if self.has(Mechanism::Timekeeper) {
            self.engine.touch(f::DO_IDLE, self.globals.timekeeper).await;
        }
    }

    /// The tick of a CPU that is not idle.
    pub(super) async fn note_tick(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::SCHED_TICK);
        if self.has(Mechanism::Timekeeper) {
            if rq.cpu == CpuId(0) {
                engine.dirty(site, self.globals.jiffies).await;
                engine.dirty(site, self.globals.timekeeper).await;
            } else {
                engine.touch(site, self.globals.jiffies).await;
            }
        }
        if self.counts_idle_cpus() && rq.nohz_tick_stopped.replace(false) {
            self.nohz_change(rq, -1).await;
        }
    }

    async fn nohz_change(&self, rq: &Rq, by: i64) {
        let (engine, site) = (&*self.engine, f::DO_IDLE);
        let bit = 1 << (rq.cpu.index() % 64);
        let change = if by > 0 { Rmw::Or(bit) } else { Rmw::And(!bit) };
        let word = self.globals.nohz_mask[rq.cpu.index() / 64];
        engine.rmw(site, word, change).await;
        engine.fetch_add(site, self.globals.nohz_count, by).await;
        self.note_busy(rq.cpu, -by).await;
    }

    fn counts_idle_cpus(&self) -> bool {
        self.balancer.is_some() || self.has(Mechanism::NohzBalance)
    }

    /// A newly idle CPU looks at these.
    pub(super) async fn newidle_walk(&self, own: CpuId, cpus: &[CpuId]) {
        if !self.has(Mechanism::NewidleWalk) {
            return;
        }
        let lines = |cpu: &CpuId| {
            let places = &self.rq(*cpu).p;
            // `cpu_capacity` lies in the line of `rd`.
            [places.nr_running, places.curr, places.rd.into()]
        };
        let others = cpus.iter().filter(|cpu| **cpu != own);
        let places: Vec<Place> = others.flat_map(lines).collect();
        let site = f::SCHED_BALANCE_RQ;
        self.engine.load_all(site, &places, |_, _| {}).await;
    }
}
