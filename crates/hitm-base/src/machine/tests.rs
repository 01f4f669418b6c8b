use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::{CpuId, CpuPlace};

/// The example of the format's description, which must stay a whole and valid file.
fn documented_example() -> &'static str {
    let document = include_str!("../../../../docs/formats/machine.md");
    let start = document
        .find("```toml\n")
        .expect("the document has an example")
        + 8;
    let length = document[start..].find("```").expect("the example ends");
    &document[start..start + length]
}

fn resolved(name: &str) -> Machine {
    Machine::from_toml(preset(name).unwrap(), name).unwrap()
}

#[test]
fn presets_have_the_cpus_that_their_names_promise() {
    let mut lines = String::new();
    for name in preset_names() {
        let machine = resolved(name);
        assert_eq!(machine.name, name);
        let topology = &machine.topology;
        lines += &format!(
            "{name}: {} CPUs, {} cores, {} LLCs, {} nodes, {} packages at {} MHz\n",
            topology.cpu_count(),
            topology.core_count(),
            topology.llc_count(),
            topology.node_count(),
            topology.package_count(),
            machine.clock.khz() / 1000,
        );
    }
    expect![[r#"
        broadwell-4s: 192 CPUs, 96 cores, 4 LLCs, 4 nodes, 4 packages at 2600 MHz
        cascadelake-2s: 64 CPUs, 32 cores, 2 LLCs, 2 nodes, 2 packages at 3500 MHz
        genoa-384: 384 CPUs, 192 cores, 24 LLCs, 2 nodes, 2 packages at 3550 MHz
        icelake-2s: 128 CPUs, 64 cores, 2 LLCs, 2 nodes, 2 packages at 3500 MHz
        kunpeng920-96: 96 CPUs, 96 cores, 4 LLCs, 4 nodes, 2 packages at 2600 MHz
        milan-2s: 192 CPUs, 96 cores, 12 LLCs, 2 nodes, 2 packages at 3600 MHz
        xeon-480: 480 CPUs, 240 cores, 6 LLCs, 6 nodes, 2 packages at 3200 MHz
        xeon8176-8s: 448 CPUs, 224 cores, 8 LLCs, 8 nodes, 8 packages at 2800 MHz
    "#]]
    .assert_eq(&lines);
}

#[test]
fn every_file_survives_being_written_and_read() {
    for (name, text) in preset_names()
        .map(|name| (name, preset(name).unwrap()))
        .chain([("the example", documented_example())])
    {
        let file = MachineFile::parse(text, name).unwrap();
        let again = MachineFile::parse(&file.to_toml(), name).unwrap();
        assert_eq!(file, again, "{name}");
    }
}

#[test]
fn cycles_follow_from_nanoseconds_and_the_occupancy_ratio() {
    let machine = resolved("xeon8176-8s"); // 2.8 GHz
    let row = |distance: Distance| {
        let transfer = machine.transfers[distance.index()];
        (transfer.clean.0, transfer.dirty.0, transfer.occupancy.0)
    };
    assert_eq!(row(Distance::Smt), (4, 27, 27));
    assert_eq!(row(Distance::Llc), (133, 133, 133)); // 47.5 ns
    assert_eq!(row(Distance::Remote), (383, 417, 417));
    assert_eq!(row(Distance::FarRemote), (867, 942, 942));
    // No CPUs are as far apart as these: the nearer neighbour stands in.
    assert_eq!(row(Distance::Cluster), row(Distance::Smt));
    assert_eq!(row(Distance::Package), row(Distance::Llc));
    assert_eq!(row(Distance::Same), (0, 0, 0));
}

#[test]
fn a_contended_line_has_numbers_of_its_own() {
    let machine = resolved("xeon8176-8s");
    let of_file = Contention {
        hold_milli: 125,
        jitter_milli: 500,
        visit: Some(1),
        read_milli: 1,
    };
    assert_eq!(machine.contention, of_file);
    assert_eq!(machine.upgrade.package_milli, 1_140);
    assert_eq!(machine.upgrade.remote_milli, 2_000);
    let read_alone = Contention {
        read_milli: 1,
        ..Contention::NEAR_FIRST
    };
    assert_eq!(resolved("milan-2s").contention, read_alone);

    assert_eq!(machine.adjacent_line_milli, 0);
    // Files of recordings made before these keys existed mean what they meant then.
    let mut file = MachineFile::parse(preset("xeon8176-8s").unwrap(), "old").unwrap();
    file.items
        .retain(|item, _| !matches!(item, Item::Contention(_) | Item::UpgradeRatio(_)));
    let old = file.resolve().unwrap();
    assert_eq!(old.contention, Contention::NEAR_FIRST);
    assert_eq!(old.upgrade, UpgradeRatio::ONE);
}

#[test]
fn loads_run_again_only_where_a_file_says_what_that_costs() {
    let core = resolved("xeon8176-8s").core;
    assert_eq!(
        (core.ordering_clear, core.retire_width),
        (Some(Cycles(40)), 4)
    );
    assert_eq!(resolved("broadwell-4s").core.ordering_clear, None);
    let mut file = MachineFile::parse(preset("xeon8176-8s").unwrap(), "old").unwrap();
    let added = [CorePart::OrderingClear, CorePart::RetireWidth].map(Item::Core);
    file.items.retain(|item, _| !added.contains(item));
    let old = file.resolve().unwrap().core;
    assert_eq!(
        (old.ordering_clear, old.retire_width),
        (None, CoreModel::RETIRE_WIDTH)
    );
}

#[test]
fn the_home_of_a_line_decides_on_epyc() {
    let machine = resolved("milan-2s");
    let die = Distance::Die.index();
    assert_eq!(machine.topology.distance(CpuId(0), CpuId(8)), Distance::Die);
    assert_eq!(machine.transfers[die].dirty, Cycles(377)); // 104.8 ns at 3.6 GHz
    assert_eq!(machine.transfers_away_from_home[die].dirty, Cycles(719)); // 199.6 ns
    let llc = Distance::Llc.index();
    assert_eq!(
        machine.transfers_away_from_home[llc],
        machine.transfers[llc]
    );
}

#[test]
fn a_machine_of_unlike_parts_is_listed_cpu_by_cpu() {
    let mut file = MachineFile::parse(documented_example(), "example").unwrap();
    let big = CpuPlace::default();
    file.topology.value = TopologySpec::Places(vec![
        big,
        CpuPlace { thread: 1, ..big },
        CpuPlace { cluster: 1, ..big },
        CpuPlace { package: 1, ..big },
    ]);
    let text = file.to_toml();
    let machine = Machine::from_toml(&text, "listed").unwrap();
    assert_eq!(machine.topology.cpu_count(), 4);
    assert_eq!(machine.topology.core_count(), 3);
    assert_eq!(machine.topology.distance(CpuId(0), CpuId(2)), Distance::Llc);
    assert_eq!(MachineFile::parse(&text, "listed").unwrap(), file);
}

/// The example with `from` replaced by `to` is refused with this message.
fn refused(from: &str, to: &str, message: Expect) {
    let example = documented_example();
    assert!(example.contains(from), "{from}");
    let error = Machine::from_toml(&example.replacen(from, to, 1), "box.toml").unwrap_err();
    message.assert_eq(&error.to_string());
}

#[test]
fn mistakes_are_named_with_their_place() {
    refused(
        "schema = 1",
        "schema = 2",
        expect![[r#"box.toml:1: schema: found 2, expected 1"#]],
    );
    refused(
        "\"120ns\"",
        "120",
        expect![[
            r#"box.toml:46: transfers.remote.dirty: found 120, expected a time with its unit, such as "117.8ns" or "34cycles", at most 1 ms"#
        ]],
    );
    refused(
        "[dram]",
        "[dram]\nlokal = 1",
        expect![
            "box.toml:49: dram.lokal: found an unknown key, expected one of far_remote, local, package, remote"
        ],
    );
    refused(
        ", assumed = \"cold misses only\"",
        "",
        expect![[
            r#"box.toml:49: dram.local: found no origin, expected `source = "where it was measured"` or `assumed = "its range and effect"`"#
        ]],
    );
    refused(
        "threads = 2",
        "threads = 0",
        expect![[r#"box.toml:12: topology.threads: found 0, expected a count between 1 and 255"#]],
    );
}

#[test]
fn a_range_lies_around_its_value_in_the_same_unit() {
    let file = MachineFile::parse(documented_example(), "example").unwrap();
    let range = file.items[&Item::Dram(DramPart::Local)].range;
    assert_eq!(
        range,
        Some((Quantity::Picos(80_000), Quantity::Picos(100_000)))
    );
    for wrong in [
        "[\"91ns\", \"100ns\"]",
        "[\"80cycles\", \"100ns\"]",
        "[\"80ns\"]",
        "3",
    ] {
        let example = documented_example();
        let text = example.replace("[\"80ns\", \"100ns\"]", wrong);
        assert_ne!(text, example);
        let error = MachineFile::parse(&text, "box.toml")
            .unwrap_err()
            .to_string();
        assert!(error.contains(":49: dram.local.range: found "), "{error}");
        assert!(error.ends_with("expected [least, largest] around 90ns, in the same unit"));
    }
}

#[test]
fn costs_have_defaults_and_files_state_others() {
    let machine = resolved("xeon-480"); // 3.2 GHz
    assert_eq!(machine.costs.get(MachineCost::IdleExit), Cycles(3_200));
    let machine = Machine::from_toml(documented_example(), "example").unwrap(); // 2.2 GHz
    assert_eq!(machine.costs.get(MachineCost::Syscall), Cycles(209));
    assert_eq!(machine.costs.get(MachineCost::IpiSend), Cycles(176));
}

#[test]
fn every_preset_states_the_ranges_of_what_it_assumes() {
    let mut without = Vec::new();
    for name in preset_names() {
        let file = MachineFile::parse(preset(name).unwrap(), name).unwrap();
        let assumed = file
            .items
            .iter()
            .filter(|(_, number)| number.origin.is_assumed());
        let bare = assumed.filter(|(_, number)| number.range.is_none());
        without.extend(bare.map(|(item, _)| format!("{name} {}", item.path())));
    }
    // First come, first served: its other end is another rule.
    assert_eq!(without, ["xeon8176-8s contention.visit"]);
}

#[test]
fn contradictions_are_named_with_their_place() {
    refused(
        "cores = 16",
        "cores = 250\nllcs = 250",
        expect![[r#"box.toml:8: topology: found 250000 CPUs, expected at most 8192 CPUs"#]],
    );
    refused(
        "\"30MiB\"",
        "\"30.5MiB\"",
        expect![[
            r#"box.toml:26: caches.llc.size: found 30.5MiB, expected a multiple of 20 ways of 64-byte lines"#
        ]],
    );
    refused(
        "\"30MiB\"",
        "\"4GiB\"",
        expect![[
            r#"box.toml:26: caches.llc.size: found 4GiB, expected a multiple of 20 ways of 64-byte lines"#
        ]],
    );
    refused(
        "\"120ns\", assumed",
        "\"20ns\", assumed",
        expect![
            "box.toml:46: transfers.remote.dirty: found 20ns, expected no less than transfers.llc.dirty, or a source for it"
        ],
    );
    refused(
        "occupancy = { value = \"20ns\"",
        "occupancy = { value = \"200ns\"",
        expect![
            "box.toml:42: transfers.llc.occupancy: found 440 cycles, expected at most the 95 cycles of the dirty transfer"
        ],
    );
    refused(
        "[core]",
        "[core",
        expect![
            "box.toml:52: found no TOML (unclosed table, expected `]`), expected a machine file as docs/formats/machine.md describes it"
        ],
    );
    refused(
        "description = \"",
        "description = \"\\u001b[2J",
        expect![[
            r#"box.toml:3: description: found "\u{1b}[2JAn example", expected one line of text, at most 2000 bytes"#
        ]],
    );
}

#[test]
fn a_missing_number_is_named() {
    let example = documented_example();
    let start = example.find("[transfers.remote]").unwrap();
    let end = example.find("[dram]").unwrap();
    let without = format!("{}{}", &example[..start], &example[end..]);
    let error = Machine::from_toml(&without, "box.toml").unwrap_err();
    expect![[r#"box.toml: transfers.remote.clean: found no such key, expected a time with its unit, such as "117.8ns" or "34cycles", at most 1 ms"#]]
        .assert_eq(&error.to_string());
}

#[test]
fn an_oversize_file_is_refused_unread() {
    let error = Machine::from_toml(&"#".repeat((1 << 20) + 1), "big.toml").unwrap_err();
    expect!["big.toml: found 1048577 bytes, expected a machine file of at most 1048576 bytes"]
        .assert_eq(&error.to_string());
}

#[test]
fn a_single_cpu_needs_no_transfers() {
    let mut file = MachineFile::parse(documented_example(), "example").unwrap();
    file.topology.value = TopologySpec::Places(vec![CpuPlace::default()]);
    file.items
        .retain(|item, _| !matches!(item, Item::Transfer(..) | Item::OccupancyRatio(_)));
    let machine = file.resolve().unwrap();
    assert_eq!(
        machine.transfers[Distance::Remote.index()].dirty,
        machine.caches.l1.latency
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_give_a_machine_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Machine::from_toml(&String::from_utf8_lossy(&bytes), "any");
    }

    #[test]
    fn a_damaged_file_gives_a_machine_or_an_error(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6),
    ) {
        let mut bytes = documented_example().as_bytes().to_vec();
        for (place, byte, kind) in damage {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, b'0' + byte % 10),
                2 => { bytes.remove(at); }
                _ => bytes.truncate(at.max(8)),
            }
        }
        if let Ok(machine) = Machine::from_toml(&String::from_utf8_lossy(&bytes), "damaged") {
            prop_assert!(machine.topology.cpu_count() <= crate::Topology::CPUS_MAX);
            for transfer in &machine.transfers[1..] {
                prop_assert!(transfer.occupancy <= transfer.dirty);
                prop_assert!(transfer.dirty > Cycles::ZERO);
            }
        }
    }
}
