use expect_test::{Expect, expect};
use hitm_report::machine_file::show_text;
use proptest::prelude::*;

use super::*;

const TWO_PACKAGES: &str = include_str!("../../tests/fixtures/hwloc/two-packages.xml");
const RESTRICTED: &str = include_str!("../../tests/fixtures/hwloc/restricted.xml");
const VERSION1: &str = include_str!("../../tests/fixtures/hwloc/version1.xml");

/// The tree that is made of `xml`.
fn check(xml: &str, tree: Expect) {
    let file = import_hwloc(xml, "dir/box.xml", None).unwrap().file;
    assert_eq!(file.name, "box");
    let shown = show_text(&file).unwrap();
    let start = shown.find("Tree").unwrap();
    let end = shown.find("\n\nLatencies").unwrap();
    tree.assert_eq(&shown[start..=end]);
}

#[test]
fn uniform_trees_are_folded() {
    check(
        TWO_PACKAGES,
        expect![[r#"
        Tree [1]
          2 x package: CPUs 0-15, first 0-3,8-11
            4 x core of 2 threads: CPUs 0-3,8-11, first 0,8
          16 CPUs, 8 cores, 2 last-level caches, 2 NUMA nodes, 2 packages
    "#]],
    );
}

#[test]
fn unlike_packages_stay_apart() {
    check(
        RESTRICTED,
        expect![[r#"
        Tree [1]
          package: CPUs 0-3
            2 x core of 2 threads: CPUs 0-3, first 0-1
          package: CPUs 4
            core: CPUs 4
          5 CPUs, 3 cores, 2 last-level caches, 2 NUMA nodes, 2 packages
    "#]],
    );
}

#[test]
fn version_1_is_read_too() {
    check(
        VERSION1,
        expect![[r#"
        Tree [1]
          2 x NUMA node: CPUs 0-15, first 0-7
            2 x cluster: CPUs 0-7, first 0-3
              4 x core: CPUs 0-3, first 0
          16 CPUs, 16 cores, 2 last-level caches, 2 NUMA nodes, 1 package
    "#]],
    );
}

#[test]
fn caches_come_from_the_xml_and_latencies_from_the_lender() {
    let like = hitm_base::machine::preset("broadwell-4s").unwrap();
    let like = MachineFile::parse(like, "broadwell-4s").unwrap();
    let file = import_hwloc(TWO_PACKAGES, "box.xml", Some(&like))
        .unwrap()
        .file;
    let machine = file.resolve().unwrap();
    assert_eq!(machine.caches.l1.size_bytes, 48 << 10);
    assert_eq!(machine.caches.l2.size_bytes, 1 << 20);
    assert_eq!(machine.caches.llc.size_bytes, 32 << 20);
    let remote = machine.transfers[hitm_base::Distance::Remote.index()];
    assert_eq!(remote.dirty.0, 426); // 164 ns at 2.6 GHz
}

/// The machine of objects with their CPUs, such as `Package 0-7`.
fn imported(objects: &[&str], cpu_count: usize) -> Imported {
    let object = |text: &&str| {
        let (kind, range) = text.split_once(' ').unwrap();
        let range = hitm_base::cpu_range(range).unwrap();
        let set: u32 = range.map(|cpu| 1 << cpu).sum();
        let rest = match kind {
            "L3Cache" => "cache_size='1048576'",
            _ => "",
        };
        format!("<object type='{kind}' cpuset='{set:#x}' {rest}/>")
    };
    let pu = |cpu: usize| format!("<object type='PU' os_index='{cpu}'/>");
    let objects: String = objects.iter().map(object).collect();
    let pus: String = (0..cpu_count).map(pu).collect();
    let xml = format!("<topology>{objects}{pus}</topology>");
    import_hwloc(&xml, "box.xml", None).unwrap()
}

/// Counts and notes of the same.
fn nested(objects: &[&str], cpu_count: usize) -> (String, Vec<String>) {
    let imported = imported(objects, cpu_count);
    let shown = show_text(&imported.file).unwrap();
    let counts = shown
        .lines()
        .find(|line| line.contains("NUMA node") && line.contains("CPUs, "));
    (counts.unwrap().trim().to_owned(), imported.notes)
}

#[test]
fn dies_in_a_node_leave_one_node() {
    let dies = ["Die 0-3", "Die 4-7", "Die 8-11", "Die 12-15"];
    let nodes = ["Package 0-15", "NUMANode 0-7", "NUMANode 8-15"];
    let (counts, notes) = nested(&[&nodes[..], &dies].concat(), 16);
    assert_eq!(
        counts,
        "16 CPUs, 16 cores, 4 last-level caches, 2 NUMA nodes, 1 package"
    );
    assert_eq!(
        notes,
        [
            "NUMA nodes hold dies (4 in 2), as hwloc 3 has AMD's core complexes: each is read as the CPUs of a last-level cache"
        ]
    );
    let caches = [
        "L3Cache 0-3",
        "L3Cache 4-7",
        "L3Cache 8-11",
        "L3Cache 12-15",
    ];
    let (counts, notes) = nested(&[&nodes[..], &dies, &caches].concat(), 16);
    assert_eq!(
        counts,
        "16 CPUs, 16 cores, 4 last-level caches, 2 NUMA nodes, 1 package"
    );
    assert!(notes[0].ends_with("they are left out"), "{notes:?}");
    // Nodes in dies stay as they are.
    let (counts, notes) = nested(
        &[
            "Package 0-7",
            "Die 0-3",
            "Die 4-7",
            "NUMANode 0-3",
            "NUMANode 4-7",
        ],
        8,
    );
    assert!(counts.ends_with("2 NUMA nodes, 1 package"), "{counts}");
    assert_eq!(notes, [""; 0]);
}

#[test]
fn packages_in_a_node_leave_one_node() {
    let (counts, notes) = nested(&["NUMANode 0-7", "Package 0-3", "Package 4-7"], 8);
    assert_eq!(
        counts,
        "8 CPUs, 8 cores, 2 last-level caches, 1 NUMA node, 1 package"
    );
    assert_eq!(
        notes,
        [
            "NUMA nodes hold packages (2 in 1): each node is read as one package, whose last-level caches are the packages; transfers between them have the price of another package"
        ]
    );
}

#[test]
fn transfers_between_packages_of_a_node_have_their_price() {
    let dirty = |objects: &[&str]| {
        let machine = imported(objects, 8).file.resolve().unwrap();
        let distance = machine
            .topology
            .distance(hitm_base::CpuId(0), hitm_base::CpuId(4));
        machine.transfers[distance.index()].dirty
    };
    let packages = ["Package 0-3", "Package 4-7"];
    let apart = dirty(&[&packages[..], &["NUMANode 0-3", "NUMANode 4-7"]].concat());
    let inside = dirty(&[&packages[..], &["NUMANode 0-7"]].concat());
    assert_eq!(inside, apart);
    let caches = dirty(&["Package 0-7", "NUMANode 0-7", "L3Cache 0-3", "L3Cache 4-7"]);
    assert!(caches < apart, "{caches:?} {apart:?}");
    // Packages with several caches each stay as they are.
    let caches = [
        "L3Cache 0-1",
        "L3Cache 2-3",
        "L3Cache 4-5",
        "L3Cache 6-7",
        "NUMANode 0-7",
    ];
    let (counts, notes) = nested(&[&packages[..], &caches].concat(), 8);
    assert!(counts.ends_with("2 NUMA nodes, 2 packages"), "{counts}");
    assert_eq!(
        notes,
        ["NUMA nodes hold packages (2 in 1): each package is read with a node of its own"]
    );
}

#[test]
fn memory_beside_memory_is_noted() {
    let (counts, notes) = nested(
        &[
            "Package 0-7",
            "NUMANode 0-7",
            "NUMANode 0-3",
            "NUMANode 4-7",
            "NUMANode 0-3",
            "MemCache 0-3",
        ],
        8,
    );
    assert!(counts.ends_with("2 NUMA nodes, 1 package"), "{counts}");
    assert_eq!(
        notes,
        [
            "NUMA nodes without CPUs of their own (2 of 4): memory that is left out",
            "memory-side caches (1) are left out"
        ]
    );
    let (counts, notes) = nested(
        &["Package 0-7", "L3Cache 0-7", "NUMANode 0-3", "NUMANode 4-7"],
        8,
    );
    assert!(
        counts.ends_with("2 last-level caches, 2 NUMA nodes, 1 package"),
        "{counts}"
    );
    assert_eq!(
        notes,
        ["last-level caches span NUMA nodes (1 for 2): such a cache is split, one for each node"]
    );
}

/// The message for XML that is no machine.
fn refused(xml: &str, message: Expect) {
    message.assert_eq(&import_hwloc(xml, "box.xml", None).unwrap_err().to_string());
}

#[test]
fn mistakes_are_named_with_their_line() {
    refused(
        "",
        expect![
            "box.xml:1: found no XML (the document does not have a root node), expected what `lstopo --of xml` writes"
        ],
    );
    refused(
        "<svg/>",
        expect![
            "box.xml:1: found the element <svg>, expected <topology>, as `lstopo --of xml` writes"
        ],
    );
    refused(
        "<topology>\n<object type='Machine'/>\n</topology>",
        expect!["box.xml:1: found no PU object, expected a machine with CPUs"],
    );
    refused(
        "<topology>\n<object type='PU'/></topology>",
        expect![[r#"box.xml:2: found os_index="" of a PU object, expected a number"#]],
    );
    refused(
        "<topology>\n<object type='PU' os_index='9000'/></topology>",
        expect!["box.xml:2: found CPU 9000, expected a number below 8192"],
    );
    refused(
        "<topology><object type='PU' os_index='1'/><object type='PU' os_index='1'/></topology>",
        expect!["box.xml:1: found two PUs with os_index 1, expected each CPU once"],
    );
    refused(
        "<topology>\n\n<object type='Core' cpuset='0xf...f'/></topology>",
        expect![[
            r#"box.xml:3: found the cpuset 0xf...f, expected hexadecimal words such as "0x0000000f,0xffffffff", CPUs below 8192"#
        ]],
    );
    refused(
        "<!DOCTYPE topology [<!ENTITY a 'b'>]>\n<topology>&a;</topology>",
        expect![
            "box.xml:1: found no XML (XML with DTD detected), expected what `lstopo --of xml` writes"
        ],
    );
}

#[test]
fn nesting_that_would_exhaust_the_stack_is_refused() {
    let nested = |depth: usize, filler: &str| {
        format!(
            "<topology>{}<object type='PU' os_index='0'/>{}</topology>",
            format!("\n<object type='Group' name='>'>{filler}").repeat(depth),
            "</object>".repeat(depth)
        )
    };
    assert!(import_hwloc(&nested(150, "<!-- <a> -->"), "deep.xml", None).is_ok());
    for filler in [
        "",
        "<!-- </object> -->",
        "<![CDATA[</object>]]>",
        "<?x </object>?>",
    ] {
        let error = import_hwloc(&nested(20_000, filler), "deep.xml", None).unwrap_err();
        assert_eq!(error.found, "more than 200 elements within each other");
        assert_eq!(error.line, Some(201));
    }
}

#[test]
fn what_the_parser_compares_with_itself_is_refused() {
    let with = |attributes: &str| {
        let xml = format!("<topology>\n<object type='PU' os_index='0'{attributes}/></topology>");
        import_hwloc(&xml, "box.xml", None)
    };
    let attributes = |count: usize| -> String {
        let one = |number: usize| format!(" a{number}='='");
        (0..count).map(one).collect()
    };
    assert!(with(&attributes(ATTRIBUTES_MAX - 2)).is_ok());
    let error = with(&attributes(ATTRIBUTES_MAX - 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "box.xml:2: found more than 200 attributes of one element, expected what `lstopo --of xml` writes"
    );
    let error = with(" xmlns:a='b'").unwrap_err();
    assert_eq!(
        (error.line, error.found.as_str()),
        (Some(2), "an XML namespace")
    );
    assert!(with(" name='xmlns'").is_ok());
}

#[test]
fn an_oversize_file_is_refused_unread() {
    let error = import_hwloc(&" ".repeat(XML_BYTES_MAX + 1), "big.xml", None).unwrap_err();
    assert_eq!(error.found, "16777217 bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_give_a_machine_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = import_hwloc(&String::from_utf8_lossy(&bytes), "any", None);
    }

    #[test]
    fn a_damaged_file_gives_a_machine_or_an_error(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6),
        which in 0usize..3,
    ) {
        let mut bytes = [TWO_PACKAGES, RESTRICTED, VERSION1][which].as_bytes().to_vec();
        for (place, byte, kind) in damage {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, b'0' + byte % 10),
                2 => { bytes.remove(at); }
                _ => bytes.truncate(at.max(8)),
            }
        }
        let _ = import_hwloc(&String::from_utf8_lossy(&bytes), "damaged", None);
    }
}
