//! Members without a modelled content: the page that lists them is made here.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::expect_file;
use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::kernel::{
    Balancing, DlParams, GroupId, GroupSpec, KernelConfig, LoadBalancing, OsqKind, OwnPolicy,
    Policy, TaskSpec,
};

use crate::rt::{boot, machine};

const HEAD: &str = "# Members without content

The simulated kernel touches these members and pays for their lines, but keeps nothing in them: pointers, nodes of lists and trees, weights. What they stand for is a value of the model, which the lock of their object protects. Their type has no operation that returns a value (`hitm_sim::engine::Opaque`).

All other members have the values that the kernel's code reads: without a lock, those that have been committed.

| object | member |
|---|---|
";

#[test]
fn members_without_content_are_listed() {
    let config = KernelConfig {
        load_balancing: LoadBalancing::Domains,
        osq: OsqKind::PerNode,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let (kernel, mut executor) = boot(machine("xeon-480", 8), 1, Nanos(1e6), config);
    kernel
        .create_group(&GroupSpec::within(GroupId::ROOT))
        .unwrap();
    kernel.pipe("pipe").unwrap();
    kernel.pi_mutex("mutex").unwrap();
    kernel.page_cache_file("file", 4096).unwrap();
    let params = DlParams {
        runtime: Cycles(1_000_000),
        deadline: Cycles(4_000_000),
        period: Cycles(4_000_000),
    };
    for policy in [Policy::Deadline(params), Policy::Own(OwnPolicy::Ext)] {
        let spec = TaskSpec {
            name: format!("{policy:?}"),
            policy,
            allowed: None,
            cpu: CpuId(0),
            start: Cycles::ZERO,
        };
        kernel.spawn(&spec, |_| async {}).unwrap();
    }
    executor.run().unwrap();
    // One row for all elements of an array.
    let of_array = |(object, path): (String, String)| {
        let path = path.split_once('[').map_or(path.clone(), |(array, rest)| {
            format!(
                "{array}[]{}",
                rest.split_once(']').map_or("", |(_, rest)| rest)
            )
        });
        (object, path)
    };
    let members = kernel.engine().opaque_members().into_iter().map(of_array);
    let members: BTreeSet<(String, String)> = members.collect();
    let mut page = HEAD.to_owned();
    for (object, path) in members {
        writeln!(page, "| `{object}` | `{path}` |").unwrap();
    }
    expect_file!["../../../../docs/models/opaque.md"].assert_eq(&page);
}
