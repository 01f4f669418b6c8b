//! Samples of the vendors' machines, their numbers, and the counts that they must give.
//!
//! Sources, Linux 6.1: arch/x86/events/intel/ds.c (`pebs_data_source`, `precise_store_data`),
//! arch/x86/events/amd/ibs.c (`perf_ibs_get_data_src`), tools/perf/util/arm-spe.c
//! (`arm_spe__synth_data_source`).

use hitm_perf::{CpuMode, DataSrc, Sample, level, level_number, lock, op, snoop, snoopx};

use super::{Content, Event, Mapped, bits};

/// Words of one machine: name, word, number of samples.
pub type Words = Vec<(&'static str, u64, u64)>;

fn word(op: u64, level: u64, snoop: u64, lock: u64) -> u64 {
    op | level << 5 | snoop << 19 | lock << 24
}

const REMOTE: u64 = 1 << 37;
const TLB_MISS: u64 = (0x04 | 0x20) << 26;
const BLOCKED_BY_DATA: u64 = 2 << 40;

/// Load latency and precise stores.
pub fn intel() -> Words {
    let load = |lvl, snp| word(op::LOAD, lvl | level::HIT, snp, lock::NA);
    let store = |lvl| word(op::STORE, lvl, snoop::NA, lock::NA);
    vec![
        ("load L1", load(level::L1, snoop::NONE), 40),
        (
            "load L1, blocked, TLB miss",
            load(level::L1, snoop::NONE) | BLOCKED_BY_DATA | TLB_MISS,
            3,
        ),
        ("load fill buffer", load(level::LFB, snoop::NONE), 11),
        ("load L2", load(level::L2, snoop::NONE), 7),
        ("load LLC", load(level::L3, snoop::MISS), 5),
        (
            "load LLC, clean in another core",
            load(level::L3, snoop::HIT),
            6,
        ),
        (
            "load LLC, modified in another core",
            load(level::L3, snoop::HITM),
            13,
        ),
        (
            "locked load, modified in another core",
            word(op::LOAD, level::L3 | level::HIT, snoop::HITM, lock::LOCKED),
            4,
        ),
        (
            "load remote cache",
            load(level::REMOTE_CACHE1, snoop::HIT),
            2,
        ),
        (
            "load remote cache, modified",
            load(level::REMOTE_CACHE1, snoop::HITM),
            17,
        ),
        (
            "load unknown level, remote, modified",
            word(op::LOAD, level::NA, snoop::HITM, lock::NA) | REMOTE,
            8,
        ),
        ("load local memory", load(level::LOCAL_RAM, snoop::HIT), 9),
        (
            "load remote memory",
            load(level::REMOTE_RAM1, snoop::MISS),
            10,
        ),
        ("load uncached", load(level::UNCACHED, snoop::NONE), 1),
        (
            "load without level",
            word(op::LOAD, level::NA, snoop::NA, lock::NA),
            2,
        ),
        ("store L1", store(level::L1 | level::HIT), 30),
        ("store past L1", store(level::L1 | level::MISS), 12),
        ("store without level", store(level::NA), 3),
        (
            "prefetch",
            word(op::PREFETCH, level::NA, snoop::NA, lock::NA),
            2,
        ),
    ]
}

/// IBS op samples; a locked operation both loads and stores.
pub fn amd() -> Words {
    let load = |lvl, snp| word(op::LOAD, lvl | level::HIT, snp, lock::NA);
    vec![
        ("load L1", load(level::L1, snoop::NA), 50),
        ("load L2", load(level::L2, snoop::NA), 12),
        (
            "load L3",
            load(level::L3, snoop::NA) | level_number::L3 << 33,
            9,
        ),
        (
            "load, modified in the same node",
            load(level::L3, snoop::HITM),
            21,
        ),
        (
            "load, modified in another node",
            load(level::REMOTE_CACHE1, snoop::HITM)
                | level_number::ANY_CACHE << 33
                | REMOTE
                | 2 << 43,
            14,
        ),
        ("load memory", load(level::LOCAL_RAM, snoop::NA), 6),
        (
            "load remote memory",
            load(level::REMOTE_RAM1, snoop::NA) | level_number::RAM << 33,
            5,
        ),
        (
            "locked operation",
            word(
                op::LOAD | op::STORE,
                level::L1 | level::HIT,
                snoop::NA,
                lock::LOCKED,
            ),
            8,
        ),
        (
            "store L1",
            word(op::STORE, level::L1 | level::HIT, snoop::NA, lock::NA),
            19,
        ),
        (
            "store without level",
            word(op::STORE, level::NA, snoop::NA, lock::NA),
            7,
        ),
        (
            "no memory operation",
            word(op::NA, level::NA, snoop::NA, lock::NA),
            4,
        ),
    ]
}

/// SPE samples: no HITM, but transfers from peers.
pub fn arm() -> Words {
    let load = |lvl: u64, num: u64| word(op::LOAD, lvl | level::HIT, 0, 0) | num << 33;
    let peer = snoopx::PEER << 38;
    vec![
        ("load L1", load(level::L1, level_number::L1), 60),
        ("load L2", load(level::L2, level_number::L2), 10),
        (
            "load from a peer core",
            load(level::L2, level_number::L2) | peer,
            15,
        ),
        (
            "load from the local cluster",
            load(level::L3, level_number::L3) | peer,
            11,
        ),
        (
            "load from a remote cache",
            word(op::LOAD, level::REMOTE_CACHE1, 0, 0)
                | level_number::ANY_CACHE << 33
                | REMOTE
                | peer,
            6,
        ),
        ("load memory", load(level::LOCAL_RAM, level_number::RAM), 3),
        (
            "store L1",
            word(op::STORE, level::L1 | level::HIT, 0, 0) | level_number::L1 << 33,
            20,
        ),
        (
            "store past L1",
            word(op::STORE, level::L1 | level::MISS, 0, 0),
            4,
        ),
    ]
}

/// Address of the line that all samples are spread over, eight offsets of it.
pub const LINE: u64 = 0x7f00_0000_1040;
/// The first instruction.
pub const CODE: u64 = 0x40_1000;

/// A file of these words. Each word is an instruction of its own, at one of eight offsets, from
/// four threads on eight CPUs. Weights differ, so that means fall between whole numbers.
pub fn content(
    arch: &'static str,
    cpuid: &'static str,
    words: &Words,
    sample_type: u64,
) -> Content {
    let mut samples = Vec::new();
    for (place, (_, word, count)) in words.iter().enumerate() {
        for nth in 0..*count {
            let place = place as u64;
            let thread = (place + nth) % 4;
            let is_store = word & op::STORE != 0 && word & op::LOAD == 0;
            samples.push((
                usize::from(is_store),
                Sample {
                    pid: 100,
                    tid: 100 + thread as u32,
                    cpu: (thread * 2 + nth % 2) as u32,
                    mode: CpuMode::User,
                    time_ns: 1_000_000 + samples.len() as u64 * 1000,
                    ip: CODE + place * 16,
                    addr: LINE + place % 8 * 8,
                    data_src: DataSrc(*word),
                    weight: 10 + place * 31 + nth * 7 % 13,
                    period: 1,
                    phys_addr: 0x1_0000_1040 + place % 8 * 8,
                    ..Sample::default()
                },
            ));
        }
    }
    Content {
        arch,
        cpuid,
        cpus: 8,
        nodes: 2,
        events: vec![
            Event {
                name: "cpu/mem-loads,ldlat=30/P",
                sample_type: bits::BASE | sample_type,
            },
            Event {
                name: "cpu/mem-stores/P",
                sample_type: bits::BASE | sample_type,
            },
        ],
        samples,
        mappings: vec![
            Mapped::new(100, 0x40_0000, 0x1_0000, "/nonexistent/program"),
            Mapped::new(100, 0x7f00_0000_0000, 0x10_0000, "/nonexistent/data"),
        ],
        build_ids: Vec::new(),
        happened: Vec::new(),
        memory: Vec::new(),
        chain,
        others: Vec::new(),
        sections: Vec::new(),
    }
}

/// Mark before the program's calls in a chain.
pub const USER: u64 = -512i64 as u64;

/// The first two threads begin in one function, the others in another; all of them call through a
/// third one.
pub fn chain(sample: &Sample) -> Vec<u64> {
    let begun = CODE + if sample.tid < 102 { 0x2000 } else { 0x3000 };
    vec![USER, sample.ip, CODE + 0x1008, begun + 8]
}
