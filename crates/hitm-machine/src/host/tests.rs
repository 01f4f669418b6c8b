use std::fs;

use expect_test::{Expect, expect};
use hitm_report::machine_file::show_text;

use super::*;

/// Writes a tree of files below a temporary directory.
fn tree(files: &[(String, String)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    root
}

/// The files of one CPU with an L1 and an L2 of its core, and an L3.
fn cpu(number: u32, package: u32, core: &str, llc: &str) -> Vec<(String, String)> {
    let cpu = format!("sys/devices/system/cpu/cpu{number}");
    let mut files = vec![
        (
            format!("{cpu}/topology/physical_package_id"),
            package.to_string(),
        ),
        (format!("{cpu}/topology/die_id"), "0".into()),
        (format!("{cpu}/topology/core_cpus_list"), core.into()),
    ];
    for (index, level, kind, size, ways, shared) in [
        (0, "1", "Data", "32K", "8", core),
        (1, "1", "Instruction", "64K", "8", core),
        (2, "2", "Unified", "1024K", "16", core),
        (3, "3", "Unified", "22M", "11", llc),
    ] {
        for (name, text) in [
            ("level", level),
            ("type", kind),
            ("size", size),
            ("ways_of_associativity", ways),
            ("shared_cpu_list", shared),
        ] {
            files.push((format!("{cpu}/cache/index{index}/{name}"), text.into()));
        }
    }
    files
}

fn file(path: &str, text: &str) -> (String, String) {
    (path.into(), text.into())
}

fn check(files: &[(String, String)], expected: Expect) {
    let root = tree(files);
    let file = read_host(root.path()).unwrap();
    let shown = show_text(&file).unwrap();
    let mut lines: Vec<&str> = shown
        .lines()
        .take_while(|line| !line.starts_with("Latencies"))
        .collect();
    lines.extend(
        shown
            .lines()
            .filter(|line| line.starts_with("  caches.") || line.starts_with("  clock ")),
    );
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn one_package_with_two_threads_a_core() {
    let mut files = vec![
        file("sys/devices/system/cpu/online", "0-3"),
        file(
            "sys/devices/system/cpu/cpu0/cpufreq/base_frequency",
            "2100000",
        ),
        file(
            "proc/cpuinfo",
            "vendor_id\t: GenuineIntel\nmodel name\t: Small CPU\ncpu MHz\t: 3999.1\n\nvendor_id : Other",
        ),
    ];
    for number in 0..4 {
        files.extend(cpu(number, 0, ["0,2", "1,3"][number as usize % 2], "0-3"));
    }
    check(
        &files,
        expect![[r#"
        host: this host: Small CPU, 4 CPUs online

        Tree [1]
          2 x core of 2 threads: CPUs 0-3, first 0,2
          4 CPUs, 2 cores, 1 last-level cache, 1 NUMA node, 1 package

          clock                   2.1GHz [1]
          caches.l1.size          32KiB [1]
          caches.l1.ways          8 [1]
          caches.l1.latency       5 (2.4 ns) [7]?
          caches.l2.size          1MiB [1]
          caches.l2.ways          16 [1]
          caches.l2.latency       14 (6.7 ns) [8]?
          caches.llc.size         22MiB [1]
          caches.llc.ways         11 [1]
          caches.llc.latency      48 (23.0 ns) [9]?
    "#]],
    );
}

#[test]
fn two_nodes_with_one_cpu_offline() {
    let mut files = vec![
        file("sys/devices/system/cpu/online", "0-2,4-5"),
        file("sys/devices/system/node/online", "0-2"),
        file("sys/devices/system/node/node0/cpulist", "0-2"),
        file("sys/devices/system/node/node1/cpulist", "4-5"),
        file("sys/devices/system/node/node2/cpulist", ""),
        file(
            "proc/cpuinfo",
            "vendor_id : AuthenticAMD\nmodel name : Two nodes\ncpu MHz : 2450.5",
        ),
    ];
    for number in [0, 1, 2, 4, 5] {
        let (package, llc) = if number < 3 { (0, "0-2") } else { (1, "4-5") };
        files.extend(cpu(number, package, &number.to_string(), llc));
    }
    check(
        &files,
        expect![[r#"
        host: this host: Two nodes, 5 CPUs online

        Tree [1]
          package: CPUs 0-2
            3 x core: CPUs 0-2, first 0
          package: CPUs 3-4
            2 x core: CPUs 3-4, first 3
          5 CPUs, 5 cores, 2 last-level caches, 2 NUMA nodes, 2 packages

          clock                   2450.5MHz [1]
          caches.l1.size          32KiB [1]
          caches.l1.ways          8 [1]
          caches.l1.latency       4 (1.6 ns) [7]?
          caches.l2.size          1MiB [1]
          caches.l2.ways          16 [1]
          caches.l2.latency       12 (4.9 ns) [8]?
          caches.llc.size         22MiB [1]
          caches.llc.ways         11 [1]
          caches.llc.latency      46 (18.8 ns) [9]?
    "#]],
    );
}

#[test]
fn a_kernel_that_tells_only_what_is_online_gives_a_flat_machine() {
    check(
        &[file("sys/devices/system/cpu/online", "0-2")],
        expect![[r#"
        host: this host: unknown CPU, 3 CPUs online

        Tree [1]
          3 x core: CPUs 0-2, first 0
          3 CPUs, 3 cores, 1 last-level cache, 1 NUMA node, 1 package

          clock                   3.5GHz [5]?
          caches.l1.size          48KiB [6]?
          caches.l1.ways          12 [6]?
          caches.l1.latency       5 (1.4 ns) [7]?
          caches.l2.size          1.25MiB [6]?
          caches.l2.ways          20 [6]?
          caches.l2.latency       14 (4.0 ns) [8]?
          caches.llc.size         54MiB [9]?
          caches.llc.ways         12 [6]?
          caches.llc.latency      81 (23.0 ns) [10]?
    "#]],
    );
}

#[test]
fn mistakes_name_the_file() {
    for text in ["", "3-1", "0-9000", "x", "0-8191,0"] {
        let root = tree(&[file("sys/devices/system/cpu/online", text)]);
        let error = read_host(root.path()).unwrap_err().to_string();
        let place = root.path().join("sys/devices/system/cpu/online");
        assert!(error.starts_with(&place.display().to_string()), "{error}");
        assert!(error.contains(&format!("found {text:?}")), "{error}");
    }
    let empty = tree(&[]);
    assert!(
        read_host(empty.path())
            .unwrap_err()
            .to_string()
            .contains("found nothing to read")
    );
}

#[test]
fn this_host_can_be_described() {
    assert!(host().unwrap().resolve().is_ok());
}
