use std::path::Path;

use hitm_bpf::{NeighbourTable, Taker, Taking};

use super::report::{Names, Own};
use super::*;
use crate::cgroups::{Group, Tree};
use crate::containers::Containers;

fn tree() -> Tree {
    let group = |path: &str, parent| Group {
        path: path.to_owned(),
        parent,
        bandwidth: None,
        subtree: 1,
    };
    Tree::of([
        (1, group("/", None)),
        (2, group("/pod", Some(1))),
        (3, group("/pod/web", Some(2))),
        (4, group("/pod/log", Some(2))),
        (5, group("/other", Some(1))),
    ])
}

fn taking(victim: u64, taker: Taker, ns: u64) -> Taking {
    Taking {
        victim,
        taker,
        comm: "hog".to_owned(),
        ns,
    }
}

fn process(cgroup: u64, pid: u32) -> Taker {
    Taker::Process { cgroup, pid }
}

fn report(own: Own) -> NeighbourReport {
    let table = NeighbourTable {
        takings: vec![
            taking(3, process(3, 30), 100),
            taking(3, process(4, 40), 200),
            taking(3, process(5, 50), 300),
            taking(3, process(5, 51), 50),
            taking(3, Taker::Quota, 70),
            taking(3, Taker::Idle, 5),
            taking(3, Taker::Steal, 9),
            taking(9, process(0, 60), 2000),
        ],
        knows_steal: true,
        ..NeighbourTable::default()
    };
    let names = Names {
        tree: &tree(),
        containers: &Containers::below(Path::new("/nowhere")),
    };
    NeighbourReport::of(&table, own, &names)
}

#[test]
fn each_part_of_a_wait_has_its_cause() {
    let all = report(Own::Group);
    assert_eq!(all.groups[0].path, "cgroup 9, which is gone");
    assert_eq!(all.groups[0].takers[0].path, "/");
    let web = &all.groups[1];
    assert_eq!((&*web.path, web.waited_ns), ("/pod/web", 734));
    assert_eq!((web.own_ns, web.others_ns), (100, 550));
    assert_eq!((web.quota_ns, web.idle_ns), (70, 5));
    assert_eq!((web.interrupt_ns, web.steal_ns), (None, Some(9)));
    let takers: Vec<(&str, u64)> = web.takers.iter().map(|one| (&*one.path, one.ns)).collect();
    assert_eq!(
        takers,
        [("/other", 350), ("/pod/log", 200), ("/pod/web", 100)]
    );
    let pids: Vec<u32> = web.processes.iter().map(|one| one.pid).collect();
    assert_eq!(pids, [50, 40, 30, 51]);
}

#[test]
fn what_was_asked_for_is_its_own() {
    let own = |own| report(own).groups[1].own_ns;
    assert_eq!(own(Own::Below(2)), 300);
    assert_eq!(own(Own::Process(50)), 300);
    assert_eq!(own(Own::Below(5)), 350);
}
