//! Members of queues, entities and groups that the class touches, and their places.

use hitm_base::CpuId;

use super::cfs_rq::CfsId;
use super::group::GroupId;
use crate::engine::{Arena, Object, ObjectPool, Opaque, Place, PrefetchStep, SimError};
use crate::kernel::places::places;

macro_rules! members {
    ($(#[$doc:meta])* $name:ident { $($member:ident = $path:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::kernel) enum $name { $($member),* }

        impl $name {
            /// Their paths, in order.
            pub(in crate::kernel) const PATHS: &'static [&'static str] = &[$($path),*];
        }
    };
}

members! {
    /// Members of `struct cfs_rq` that other CPUs read.
    CfsWord {
        NrQueued = "h_nr_queued",
        Avg = "avg",
    }
}

members! {
    /// Members of `struct cfs_rq` without a modelled content.
    CfsMember {
        Load = "load",
        Timeline = "tasks_timeline",
        Curr = "curr",
        TgLoadAvgContrib = "tg_load_avg_contrib",
        OnList = "on_list",
        LeafList = "leaf_cfs_rq_list",
        RuntimeRemaining = "runtime_remaining",
        ThrottledClockPelt = "throttled_clock_pelt",
        ThrottleCount = "throttle_count",
        ThrottledList = "throttled_list",
        ThrottledCsdList = "throttled_csd_list",
        Limbo = "throttled_limbo_list",
    }
}

members! {
    /// Members of `struct sched_entity`, none of which has a modelled content.
    SeMember {
        Load = "load",
        RunNode = "run_node",
        Deadline = "deadline",
        OnRq = "on_rq",
        ExecStart = "exec_start",
        Vruntime = "vruntime",
        Avg = "avg",
    }
}

/// Places of the members of one task's entity or one CPU's root queue, by member.
pub(in crate::kernel) fn places_in(
    arena: &mut Arena,
    object: &Object,
    prefix: &str,
    paths: &[&str],
) -> Result<Vec<Place>, SimError> {
    let place = |path: &&str| arena.place(object, &format!("{prefix}.{path}"));
    paths.iter().map(place).collect()
}

/// The same of members without a modelled content.
pub(in crate::kernel) fn opaque_in(
    arena: &mut Arena,
    object: &Object,
    prefix: &str,
    paths: &[&str],
) -> Result<Vec<Opaque>, SimError> {
    let member = |path: &&str| arena.opaque(object, &format!("{prefix}.{path}"));
    paths.iter().map(member).collect()
}

places! {
    /// The shared members of a task group.
    #[derive(Debug, Clone, Copy)]
    GroupPlaces {
        cfs_rq: Opaque = "cfs_rq",
        load_avg: Opaque = "load_avg",
        siblings: Opaque = "siblings",
        children: Opaque = "children",
        bandwidth_lock = "cfs_bandwidth.lock",
        bandwidth_runtime = "cfs_bandwidth.runtime",
        bandwidth_flags = "cfs_bandwidth.idle",
        throttled_cfs_rq: Opaque = "cfs_bandwidth.throttled_cfs_rq",
    }
    with {}
}

impl GroupPlaces {
    pub(in crate::kernel) fn new(arena: &mut Arena) -> Result<GroupPlaces, SimError> {
        // The maker of the group runs on the boot CPU.
        let object = arena.allocate("task_group", CpuId(0))?;
        GroupPlaces::within(arena, &object)
    }
}

/// Places of the queues and entities of groups; those of the root and of tasks are the run queue's
/// and the task's.
#[derive(Debug)]
pub(in crate::kernel) struct GroupPools {
    cpus: usize,
    queues: ObjectPool,
    entities: ObjectPool,
    queue_pointers: ObjectPool,
}

impl GroupPools {
    pub(in crate::kernel) fn new(arena: &mut Arena, cpus: usize) -> Result<GroupPools, SimError> {
        let words = CfsWord::PATHS.len();
        let of_queue = [CfsWord::PATHS, CfsMember::PATHS].concat();
        let pools = GroupPools {
            cpus,
            queues: arena.pool("cfs_rq", &of_queue)?,
            entities: arena.pool("sched_entity", SeMember::PATHS)?,
            queue_pointers: arena.pointer_arrays("task_group.cfs_rq->"),
        };
        pools.queues.make_opaque(words..of_queue.len());
        pools.entities.make_opaque(0..SeMember::PATHS.len());
        Ok(pools)
    }

    /// A word of the queue of a group that is not the root.
    pub(in crate::kernel) fn word(&self, cfs: CfsId, word: CfsWord) -> Place {
        let object = cfs.index() - self.cpus;
        self.queues.place(object, word as usize, self.home(cfs))
    }

    /// A member of such a queue.
    pub(in crate::kernel) fn queue(&self, cfs: CfsId, member: CfsMember) -> Opaque {
        let (object, index) = (
            cfs.index() - self.cpus,
            CfsWord::PATHS.len() + member as usize,
        );
        Opaque::of(self.queues.place(object, index, self.home(cfs)))
    }

    /// A member of the entity that stands for such a queue.
    pub(in crate::kernel) fn entity(&self, cfs: CfsId, member: SeMember) -> Opaque {
        let object = cfs.index() - self.cpus;
        Opaque::of(self.entities.place(object, member as usize, self.home(cfs)))
    }

    /// The element of a group's `cfs_rq` array for a CPU.
    pub(in crate::kernel) fn queue_pointer(&self, group: GroupId, cpu: CpuId) -> Place {
        let line = cpu.index() / 8;
        self.queue_pointers.place(group.index(), line, CpuId(0))
    }

    /// Prefetches what the places of a queue and of the pointer to it need.
    pub(in crate::kernel) fn prefetch(&self, group: GroupId, cfs: CfsId, step: PrefetchStep) {
        self.queue_pointers.prefetch(group.index(), step);
        if let Some(object) = cfs.index().checked_sub(self.cpus) {
            self.queues.prefetch(object, step);
        }
    }

    fn home(&self, cfs: CfsId) -> CpuId {
        CpuId((cfs.index() % self.cpus) as u16)
    }
}
