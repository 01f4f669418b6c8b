//! Import gives exactly the samples that are in a file, whatever its layout.

use std::collections::BTreeMap;
use std::io::Cursor;

use hitm_base::{AccessOp, DataSource};
use hitm_perf::c2c::{C2c, Display, Tables};
use hitm_perf::import::Importer;
use hitm_perf::read::{PerfData, read};
use hitm_perf::{DataSrc, Sample, TaskId};
use hitm_test::perf_data::vendors::{self, Words, amd, arm, intel};
use hitm_test::perf_data::{Content, Happened, Layout, Mapped, bits, generate};

const LAYOUTS: [Layout; 5] = [
    Layout::PLAIN,
    Layout {
        is_big_endian: true,
        ..Layout::PLAIN
    },
    Layout {
        is_pipe: true,
        ..Layout::PLAIN
    },
    Layout {
        compressed_piece: 3333,
        ..Layout::PLAIN
    },
    Layout {
        is_big_endian: true,
        is_pipe: true,
        compressed_piece: 500,
    },
];

fn read_all(file: Vec<u8>) -> (PerfData, Vec<(usize, Sample)>) {
    let (data, samples, _) = read_with_callers(file);
    (data, samples)
}

fn read_with_callers(file: Vec<u8>) -> (PerfData, Vec<(usize, Sample)>, Vec<Vec<u64>>) {
    let mut samples = Vec::new();
    let mut chains = Vec::new();
    let mut visit = |event: usize, sample: &Sample, callers: &[u64]| {
        samples.push((event, *sample));
        chains.push(callers.to_vec());
    };
    let data = read(Cursor::new(file), &mut visit, &mut |_, _| {}).expect("the file is sound");
    (data, samples, chains)
}

/// Every field of every sample, and what the header says, in every layout.
fn check_layouts(content: &Content) {
    for layout in LAYOUTS {
        let (data, samples, chains) = read_with_callers(generate(content, layout));
        assert_eq!(samples, content.samples, "{layout:?}");
        let names: Vec<&str> = data
            .events
            .iter()
            .map(|event| event.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"],
            "{layout:?}"
        );
        let counts: Vec<u64> = data.events.iter().map(|event| event.sample_count).collect();
        let expected = |index| {
            content
                .samples
                .iter()
                .filter(|(event, _)| *event == index)
                .count() as u64
        };
        assert_eq!(counts, [expected(0), expected(1)], "{layout:?}");
        assert_eq!(data.facts.arch, content.arch);
        assert_eq!(data.facts.cpuid, content.cpuid);
        assert_eq!(
            (data.facts.cpu_count, data.facts.nodes.len()),
            (8, 8),
            "{layout:?}"
        );
        assert_eq!(
            (data.facts.nodes[3], data.facts.nodes[4]),
            (Some(0), Some(1))
        );
        assert_eq!((data.facts.cores[3], data.facts.cores[4]), ((3, 0), (0, 1)));
        let program = data
            .world
            .maps
            .at(TaskId::first(100), vendors::CODE)
            .expect("the program is mapped");
        assert_eq!(
            data.world.paths[program.path as usize],
            "/nonexistent/program"
        );
        assert_eq!(
            data.world.names[&(TaskId::first(100), TaskId::first(100))],
            "generated"
        );
        let has_chains = content.events[0].sample_type & bits::CALLCHAIN != 0;
        for ((_, sample), callers) in samples.iter().zip(&chains) {
            let words = vendors::chain(sample);
            // Without the mark and the instruction itself.
            let expected = if has_chains { &words[2..] } else { &[] };
            assert_eq!(callers, expected, "{layout:?}");
        }
        assert_eq!(data.unused.describe(), Vec::<String>::new(), "{layout:?}");
    }
}

#[test]
fn samples_survive_every_layout() {
    let without_phys = |mut content: Content| {
        content
            .samples
            .iter_mut()
            .for_each(|(_, sample)| sample.phys_addr = 0);
        content
    };
    check_layouts(&without_phys(vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &intel(),
        bits::WEIGHT,
    )));
    check_layouts(&vendors::content(
        "x86_64",
        "AuthenticAMD,25,1,1",
        &amd(),
        bits::WEIGHT_STRUCT | bits::PHYS_ADDR | bits::RAW,
    ));
    check_layouts(&vendors::content(
        "aarch64",
        "0x00000000410fd0c0",
        &arm(),
        bits::WEIGHT | bits::PHYS_ADDR | bits::CALLCHAIN | bits::BRANCH_STACK,
    ));
}

fn tables(content: &Content) -> Tables {
    let (data, samples) = read_all(generate(content, Layout::PLAIN));
    let mut c2c = C2c::default();
    samples.iter().for_each(|(_, sample)| c2c.add(sample));
    c2c.finish(&data.world.maps, Display::for_arch(content.arch))
}

/// Number of a vendor's words for which `holds` is true.
fn count(words: &Words, holds: impl Fn(&str) -> bool) -> u64 {
    words
        .iter()
        .filter(|(name, ..)| holds(name))
        .map(|(.., count)| count)
        .sum()
}

#[test]
fn intel_samples_count_as_perf_counts_them() {
    let words = intel();
    let counts = tables(&vendors::content(
        "x86_64",
        "GenuineIntel,6,85,7",
        &words,
        bits::WEIGHT,
    ))
    .all;
    let of = |part: &str| count(&words, |name| name.contains(part));
    assert_eq!(counts.samples, of(""));
    assert_eq!(counts.locks, of("locked load"));
    assert_eq!(counts.local_hitm, of("modified in another core"));
    // The level that is not known and remote counts as remote, and as nothing else.
    assert_eq!(
        counts.remote_hitm,
        of("remote cache, modified") + of("unknown level")
    );
    assert_eq!(
        counts.remote_hit,
        count(&words, |name| name == "load remote cache")
    );
    assert_eq!(counts.load_l1, of("load L1"));
    assert_eq!(counts.blocked_data, of("blocked"));
    assert_eq!(
        counts.load_llc,
        count(&words, |name| name.starts_with("load LLC")
            && !name.contains("modified"))
    );
    assert_eq!((counts.local_dram, counts.load_shared), (9, 9));
    assert_eq!((counts.remote_dram, counts.load_exclusive), (10, 10));
    assert_eq!(
        (
            counts.store_l1_hit,
            counts.store_l1_miss,
            counts.store_unknown
        ),
        (30, 12, 3)
    );
    assert_eq!(
        (counts.load_uncached, counts.unparsed, counts.no_mapping),
        (1, 2, 0)
    );
}

#[test]
fn amd_and_arm_samples_count_as_perf_counts_them() {
    let counts = tables(&vendors::content(
        "x86_64",
        "AuthenticAMD,25,1,1",
        &amd(),
        bits::WEIGHT_STRUCT,
    ))
    .all;
    assert_eq!(
        (counts.local_hitm, counts.remote_hitm, counts.locks),
        (21, 14, 8)
    );
    // A locked operation both loads and stores, and perf counts it as a load.
    assert_eq!(
        (counts.load_l1, counts.stores, counts.store_unknown),
        (58, 26, 7)
    );
    let tables = tables(&vendors::content(
        "aarch64",
        "0x410fd0c0",
        &arm(),
        bits::WEIGHT,
    ));
    let counts = tables.all;
    assert_eq!(
        (counts.local_peer, counts.remote_peer, counts.remote_hit),
        (26, 6, 6)
    );
    assert_eq!(
        (counts.hitm(), counts.load_l2, counts.load_llc),
        (0, 25, 11)
    );
    assert_eq!((tables.display, tables.lines.len()), (Display::Peer, 1));
}

/// Sources of the accesses of a recording, by operation.
fn sources(words: &Words) -> (BTreeMap<(AccessOp, DataSource), u64>, Vec<String>) {
    let content = vendors::content("x86_64", "GenuineIntel,6,85,7", words, bits::WEIGHT);
    let mut importer = Importer::default();
    let mut counts = BTreeMap::new();
    for (_, sample) in &content.samples {
        if let Some((access, outcome)) = importer.access(sample) {
            *counts.entry((access.op, outcome.source)).or_default() += 1;
        }
    }
    (counts, importer.rejected.describe())
}

#[test]
fn samples_become_accesses_with_our_sources() {
    use AccessOp::{Load, LockedRmw, Store};
    let (counts, rejected) = sources(&intel());
    let expected = BTreeMap::from([
        ((Load, DataSource::FillBuffer), 11),
        ((Load, DataSource::L1), 43),
        ((Load, DataSource::L2), 7),
        ((Load, DataSource::Llc), 5),
        ((Load, DataSource::LocalPeer), 6),
        ((Load, DataSource::LocalHitm), 13),
        ((LockedRmw, DataSource::LocalHitm), 4),
        ((Load, DataSource::RemotePeer), 2),
        ((Load, DataSource::RemoteHitm), 25),
        ((Load, DataSource::LocalDram), 9),
        ((Load, DataSource::RemoteDram), 10),
        ((Store, DataSource::L1), 30),
        ((Store, DataSource::L2), 12),
        ((Store, DataSource::StoreBuffer), 3),
    ]);
    assert_eq!(counts, expected);
    assert_eq!(
        rejected,
        [
            "2 samples are neither loads nor stores",
            "3 loads do not say where their data came from"
        ]
    );
}

#[test]
fn samples_of_events_without_data_are_counted_and_left_out() {
    let mut content = vendors::content("x86_64", "", &intel(), bits::WEIGHT);
    content.events[1].sample_type &= !bits::DATA_SRC;
    let (data, samples) = read_all(generate(&content, Layout::PLAIN));
    let stores = content
        .samples
        .iter()
        .filter(|(event, _)| *event == 1)
        .count() as u64;
    assert_eq!(data.unused.no_memory_event, stores);
    assert_eq!(samples.len() as u64 + stores, content.samples.len() as u64);
    assert!(
        samples
            .iter()
            .all(|(_, sample)| sample.data_src != DataSrc(0))
    );
}

/// A number that another process gets has two lives, each with its name and its mappings, in
/// whatever order the file has the records.
#[test]
fn a_number_that_is_used_again_is_another_process() {
    const OTHER: &str = "/nonexistent/other";
    let mut content = vendors::content("x86_64", "GenuineIntel,6,85,7", &intel(), bits::WEIGHT);
    let happened = [
        (50, Happened::Ended(100, 101)),
        (60, Happened::Ended(100, 100)),
        (90, Happened::Began(100)),
        (91, Happened::Named(100, "other")),
        (
            92,
            Happened::Mapped(Mapped::new(100, vendors::CODE, 0x1000, OTHER)),
        ),
    ];
    for is_reversed in [false, true] {
        content.happened = happened.to_vec();
        if is_reversed {
            content.happened.reverse();
        }
        let (data, _) = read_all(generate(&content, Layout::PLAIN));
        let world = &data.world;
        let [first, second] = [0, 1].map(|life| TaskId { id: 100, life });
        assert_eq!(world.lives.len(), 1, "no thread came after thread 101");
        assert_eq!(
            [89, 90].map(|time| world.lives.at(100, time)),
            [first, second]
        );
        assert_eq!(world.names[&(first, first)], "generated");
        assert_eq!(world.names[&(second, second)], "other");
        let path = |process| {
            let map = world.maps.at(process, vendors::CODE)?;
            Some(world.paths[map.path as usize].as_str())
        };
        assert_eq!(
            [first, second].map(path),
            [Some("/nonexistent/program"), Some(OTHER)]
        );
        assert!(
            world.maps.at(second, vendors::LINE).is_none(),
            "it was the first one's"
        );
        let thread = TaskId::first(101);
        assert_eq!(
            (world.exits[&(first, thread)], world.exits[&(first, first)]),
            (50, 60)
        );
    }
}

/// Counts samples by the node of their memory, and perf's changes of physical addresses.
#[test]
fn physical_addresses_are_counted_by_node() {
    let sample_type = bits::WEIGHT | bits::PHYS_ADDR;
    let mut content = vendors::content("x86_64", "GenuineIntel,6,85,7", &intel(), sample_type);
    content.memory = vec![0, 0, 1, 0];
    for (place, (_, sample)) in content.samples.iter_mut().enumerate() {
        sample.phys_addr = [0, 1, 2, 9][place % 4] << 30 | 0x1040;
    }
    for layout in LAYOUTS {
        let (data, samples) = read_all(generate(&content, layout));
        let mut c2c = C2c::of_memory(data.facts.memory.clone());
        samples.iter().for_each(|(_, sample)| c2c.add(sample));
        let tables = c2c.finish(&data.world.maps, Display::TotalHitm);
        let physical = &tables.lines[0].physical;
        let nodes: Vec<u16> = physical.nodes.iter().collect();
        assert_eq!((nodes, data.facts.node_count), (vec![0, 1], 2));
        // Three of four samples lie in memory that the file describes, and each is not as the one before.
        let outside = samples.len() / 4;
        assert_eq!(physical.change_count, (samples.len() - outside) as u64);
    }
}
