//! Random small machines, and random traffic on them.

use hitm_base::machine::{
    CacheShape, Caches, Contention, CoreModel, Dram, Machine, MachineCosts, Protocol, Transfer,
    UpgradeRatio,
};
use hitm_base::{AccessOp, Clock, Cycles, Distance, Numbering, Topology, TopologyShape};
use proptest::prelude::*;

/// Lines that the traffic touches: few, so that they are fought over and evict each other.
pub(crate) const LINES: u64 = 12;

/// One access: cycles since the one before, who, which line, what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) gap: u64,
    /// Modulo the number of CPUs.
    pub(crate) cpu: u16,
    pub(crate) line: u64,
    pub(crate) op: AccessOp,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![
        5 => Just(AccessOp::Load),
        3 => Just(AccessOp::Store),
        1 => Just(AccessOp::LockedRmw),
    ];
    // Mostly back to back, so that queues form; sometimes a pause, so that they drain.
    let gap = prop_oneof![8 => 0..40u64, 1 => 500..3000u64];
    let step = (gap, any::<u16>(), 0..LINES, op);
    prop::collection::vec(
        step.prop_map(|(gap, cpu, line, op)| Step { gap, cpu, line, op }),
        1..250,
    )
}

pub(crate) fn machine() -> impl Strategy<Value = Machine> {
    let topology = (1..=2u8, 1..=3u8, 1..=2u8, 1..=2u8, 1..=2u8, 1..=2u8).prop_map(
        |(halves, packages, dies, llcs, cores, threads)| TopologyShape {
            halves,
            packages,
            dies,
            nodes: 1,
            llcs,
            clusters: 2,
            cores,
            threads,
            numbering: Numbering::CoresFirst,
        },
    );
    let protocol = prop_oneof![
        Just(Protocol::Mesi),
        Just(Protocol::Mesif),
        Just(Protocol::Moesi)
    ];
    let prices = prop::collection::vec((1..200u64, 1..=100u64, 1..=100u64), Distance::COUNT);
    let away = any::<bool>();
    let parts = (topology, protocol, prices, away, contention());
    parts.prop_map(|(shape, protocol, prices, away, (contention, upgrade))| {
        let transfers = transfers(&prices);
        let dearer = transfers.map(|transfer| Transfer {
            clean: transfer.clean + Cycles(33),
            dirty: transfer.dirty + Cycles(55),
            occupancy: transfer.occupancy,
        });
        Machine {
            name: "random".to_owned(),
            description: "a random small machine".to_owned(),
            clock: Clock::from_khz(1_000_000),
            topology: Topology::from_shape(shape).expect("the shape has CPUs"),
            protocol,
            caches: CACHES,
            transfers,
            transfers_away_from_home: if away { dearer } else { transfers },
            contention,
            upgrade,
            adjacent_line_milli: 0,
            dram: Dram {
                local: Cycles(150),
                package: Cycles(180),
                remote: Cycles(250),
                far_remote: Cycles(400),
            },
            core: CoreModel {
                cpi_milli: 1000,
                store_buffer_entries: 8,
                load_window_insns: 32,
                fill_buffers: 4,
                locked_hit: Cycles(18),
                retire_width: 4,
                ordering_clear: None,
            },
            costs: MachineCosts::defaults(Clock::from_khz(1_000_000)),
        }
    })
}

/// Without jitter, which the reference does not know.
fn contention() -> impl Strategy<Value = (Contention, UpgradeRatio)> {
    let hold = prop_oneof![Just(0), 1..=1_000u32];
    let visit = prop_oneof![Just(None), (1..4u16).prop_map(Some)];
    let read = prop_oneof![Just(0), 1..=1_000u32];
    let ratio = || prop_oneof![Just(1_000u32), 1_000..=3_000u32];
    let parts = (hold, visit, read, ratio(), ratio());
    parts.prop_map(
        |(hold_milli, visit, read_milli, package_milli, remote_milli)| {
            let contention = Contention {
                hold_milli,
                jitter_milli: 0,
                visit,
                read_milli,
            };
            let upgrade = UpgradeRatio {
                package_milli,
                remote_milli,
            };
            (contention, upgrade)
        },
    )
}

/// Two sets everywhere: one line in an L1 set, two in an L2's, three in an LLC's.
const CACHES: Caches = Caches {
    l1: CacheShape {
        size_bytes: 128,
        ways: 1,
        latency: Cycles(4),
    },
    l2: CacheShape {
        size_bytes: 256,
        ways: 2,
        latency: Cycles(14),
    },
    llc: CacheShape {
        size_bytes: 384,
        ways: 3,
        latency: Cycles(40),
    },
};

/// Each distance costs more than the one before; (more, clean and occupancy in percent of dirty).
fn transfers(prices: &[(u64, u64, u64)]) -> [Transfer; Distance::COUNT] {
    let mut dirty = 0;
    let mut transfers = [Transfer {
        clean: Cycles(0),
        dirty: Cycles(0),
        occupancy: Cycles(0),
    }; 8];
    for (transfer, (more, clean, occupancy)) in transfers.iter_mut().zip(prices).skip(1) {
        dirty += more;
        let percent = |part: u64| Cycles((dirty * part).div_ceil(100));
        *transfer = Transfer {
            clean: percent(*clean),
            dirty: Cycles(dirty),
            occupancy: percent(*occupancy),
        };
    }
    transfers
}
