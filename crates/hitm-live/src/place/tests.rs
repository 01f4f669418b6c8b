//! Placements on a kernel that can die between any two changes, put back from their journals.

use hitm_base::{Numbering, Topology, TopologyShape};

use super::change::make_groups;
use super::domain::Machine;
use super::fake::Fake;
use super::follow::Follower;
use super::journal::{Journal, Record};
use super::plan::{Contention, Decision, Plan, PlanOptions, Reserved, tasks_of_process};
use super::registry::Registry;
use super::session::Place;
use super::store::Store;
use super::undo::{Undone, undo};
use super::{Backend, PlaceError};
use crate::procfs::TaskId;

/// Four clusters of two cores.
fn machine() -> Machine {
    let topology = Topology::from_shape(TopologyShape {
        halves: 1,
        packages: 1,
        dies: 1,
        nodes: 2,
        llcs: 1,
        clusters: 2,
        cores: 2,
        threads: 1,
        numbering: Numbering::CoresFirst,
    });
    let topology = topology.unwrap();
    let online = (0..8).collect();
    Machine::new(topology, &online).unwrap()
}

fn try_plan(fake: &Fake, share: f64, options: &PlanOptions) -> Result<Plan, PlaceError> {
    let contention = Contention {
        share,
        tasks: tasks_of_process(fake, 10)?,
        name: "a lock".into(),
    };
    Plan::new(fake, &fake.mounts(), &machine(), &contention, options)
}

const WHOLE: PlanOptions = PlanOptions {
    is_whole: true,
    backend: None,
    keeps_others_out: false,
    reserved: Reserved::NONE,
};

const ALONE: PlanOptions = PlanOptions {
    is_whole: true,
    backend: None,
    keeps_others_out: true,
    reserved: Reserved::NONE,
};

fn plan(fake: &Fake) -> Plan {
    try_plan(fake, 0.5, &WHOLE).unwrap()
}

/// A tool that began before the tasks that tests fork, and after those that they begin with.
const TOOL: TaskId = TaskId {
    tid: 999,
    start_ticks: 500,
};

/// The journal of a plan as it is read back, and a run of its changes until the end or the tool's death.
fn apply(fake: &Fake, plan: &Plan, changes: usize) -> Journal {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), true).unwrap().unwrap();
    let mounts = fake.mounts();
    let here = Place {
        system: fake,
        mounts: &mounts,
        store: &store,
    };
    let (journal, targets) = here.prepare(plan, TOOL).unwrap();
    fake.dies_after(changes);
    let _ = here.change(&journal, &targets, plan.keeps_others_out);
    fake.dies_after(usize::MAX);
    Journal::parse(journal.encode().as_bytes()).unwrap()
}

fn undo_all(fake: &Fake, journal: &Journal) -> Undone {
    undo(fake, &fake.mounts(), journal)
}

/// A process of three threads, one of which may not run everywhere, and another process.
fn world(version: u8) -> Fake {
    let fake = Fake::new(version);
    if version > 0 {
        fake.group("/cg/app", "0-5");
    }
    for (tid, own) in [(10, None), (11, Some("1-5")), (12, None)] {
        fake.task(tid, 10, "/cg/app", own);
    }
    fake.task(20, 20, "/cg/app", None);
    fake
}

const BACKENDS: [(u8, Backend); 3] = [
    (0, Backend::Affinity),
    (1, Backend::CpusetV1),
    (2, Backend::CpusetV2),
];

#[test]
fn the_best_means_is_taken_and_everything_comes_back() {
    for (version, backend) in BACKENDS {
        let fake = world(version);
        let before = fake.snapshot();
        let plan = plan(&fake);
        assert_eq!(plan.backend, Some(backend));
        let Decision::Place(domain) = &plan.decision else {
            panic!("{plan:?}");
        };
        // CPU 0 is not allowed to thread 11.
        assert_eq!(domain.cpus.to_string(), "2-3");
        let journal = apply(&fake, &plan, usize::MAX);
        let tasks = fake.snapshot().0;
        for (tid, cpus, _) in &tasks {
            let expected = match tid {
                20 if version == 0 => "0-7",
                20 => "0-5",
                _ => "2-3",
            };
            assert_eq!(cpus.to_string(), expected, "{backend:?} {tid}");
        }
        let undone = undo_all(&fake, &journal);
        assert_eq!((undone.restored, undone.problems.len()), (3, 0));
        assert_eq!(fake.snapshot(), before, "{backend:?}");
    }
}

#[test]
fn a_tool_may_die_before_any_change() {
    for (version, backend) in BACKENDS {
        let whole = world(version);
        apply(&whole, &plan(&whole), usize::MAX);
        let count = whole.changes.get();
        assert!(count >= 3, "{backend:?}");
        for changes in 0..=count {
            let fake = world(version);
            let before = fake.snapshot();
            let journal = apply(&fake, &plan(&fake), changes);
            let undone = undo_all(&fake, &journal);
            assert_eq!(undone.problems, Vec::<String>::new());
            assert_eq!(
                fake.snapshot(),
                before,
                "{backend:?} after {changes} changes"
            );
        }
    }
}

#[test]
fn others_are_kept_out_and_come_back() {
    for version in [1, 2] {
        let world = || {
            let fake = world(version);
            fake.task(21, 21, "/cg/app", Some("2"));
            fake.task(50, 50, "/cg", None);
            fake.change_task(50, |task| task.flags = 0x0020_0000);
            fake
        };
        let fake = world();
        let before = fake.snapshot();
        let plan = try_plan(&fake, 0.5, &ALONE).unwrap();
        let journal = apply(&fake, &plan, usize::MAX);
        for (tid, cpus, _) in fake.snapshot().0 {
            let expected = match (version, tid) {
                (_, 10..=12) => "2-3",
                // A mask without any CPU that is left counts for nothing.
                (_, 20 | 21) => "0-1,4-5",
                // Version 1 keeps out those of the same cpuset.
                (1, _) => "0-7",
                _ => "0-1,4-7",
            };
            assert_eq!(cpus.to_string(), expected, "version {version}: {tid}");
        }
        let undone = undo_all(&fake, &journal);
        assert_eq!((undone.restored, undone.inherited), (3, 0));
        assert_eq!(fake.snapshot(), before, "version {version}");
        let count = fake.changes.get();
        for changes in 0..=count {
            let fake = world();
            let journal = apply(&fake, &plan, changes);
            fake.dies_after(changes / 2);
            undo_all(&fake, &journal);
            fake.dies_after(usize::MAX);
            let undone = undo_all(&fake, &journal);
            assert_eq!(undone.problems, Vec::<String>::new());
            assert_eq!(
                fake.snapshot(),
                before,
                "version {version}, {changes} changes"
            );
        }
    }
}

#[test]
fn a_kernel_that_forgets_masks_is_told_those_of_the_others() {
    let fake = world(1).forgetting_masks();
    fake.task(21, 21, "/cg/app", Some("1,2"));
    let before = fake.snapshot();
    let journal = apply(&fake, &try_plan(&fake, 0.5, &ALONE).unwrap(), usize::MAX);
    undo_all(&fake, &journal);
    assert_eq!(fake.snapshot(), before);
}

#[test]
fn a_journal_changes_nothing_outside_of_the_cgroups() {
    for (version, backend) in &BACKENDS[1..] {
        let fake = world(*version);
        fake.group("/outside", "0-7");
        fake.group("/outside/hitm-1", "0-3");
        fake.task(30, 30, "/outside/hitm-1", None);
        let before = fake.snapshot();
        let mut journal = apply(&fake, &plan(&fake), usize::MAX);
        journal.records.extend([
            Record::Control("/outside/cgroup.subtree_control".into()),
            Record::Setting("/outside/cpuset.cpus.exclusive".into(), "1".into()),
            Record::Group("/outside/hitm-1".into()),
        ]);
        let undone = undo_all(&fake, &journal);
        assert_eq!(fake.snapshot(), before, "{backend:?}");
        assert_eq!(undone.restored, 3);
        assert_eq!(undone.problems.len(), 3, "{:?}", undone.problems);
        let expected = "/outside is left alone: it is no cgroup below /cg";
        assert!(undone.problems.iter().all(|said| said == expected));
    }
}

#[test]
fn nobody_is_kept_out_by_masks() {
    let plan = try_plan(&world(0), 0.5, &ALONE).unwrap();
    assert_eq!(plan.backend, None);
    assert!(plan.placement().is_err());
}

#[test]
fn whoever_undoes_may_die_as_well() {
    for (version, backend) in BACKENDS {
        for changes in 0..8 {
            let fake = world(version);
            let before = fake.snapshot();
            let journal = apply(&fake, &plan(&fake), usize::MAX);
            fake.dies_after(changes);
            undo_all(&fake, &journal);
            fake.dies_after(usize::MAX);
            undo_all(&fake, &journal);
            undo_all(&fake, &journal);
            assert_eq!(
                fake.snapshot(),
                before,
                "{backend:?} after {changes} changes"
            );
        }
    }
}

#[test]
fn threads_and_children_that_began_meanwhile_come_along() {
    for (version, backend) in BACKENDS {
        let fake = world(version);
        let journal = apply(&fake, &plan(&fake), usize::MAX);
        fake.fork(10, 30, true);
        fake.fork(11, 5, false);
        fake.fork(5, 4, false);
        // The parent between them has ended; the session tells.
        fake.fork(4, 31, false);
        fake.change_task(31, |task| task.parent = 1);
        fake.end_task(12);
        // It began earlier, with the same CPUs by itself.
        fake.task(40, 40, "/cg/app", Some("2-3"));
        fake.change_task(40, |task| task.session = 10);
        let undone = undo_all(&fake, &journal);
        assert_eq!(
            (undone.restored, undone.inherited, undone.ended),
            (2, 4, 1),
            "{backend:?}"
        );
        for (tid, cpus, folder) in fake.snapshot().0 {
            let all = if version == 0 { "0-7" } else { "0-5" };
            // A child has its creator's mask where the kernel keeps that one apart.
            let inherits = version > 0 && [4, 5, 31].contains(&tid);
            let expected = match tid {
                40 => "2-3",
                11 => "1-5",
                _ if inherits => "1-5",
                _ => all,
            };
            assert_eq!(cpus.to_string(), expected, "{backend:?} {tid}");
            assert_eq!(folder.to_str(), Some("/cg/app"));
        }
    }
}

/// A daemon forks twice: its parent is init, and its session's leader has ended. Others that look alike are named.
#[test]
fn daemons_come_along_and_look_alikes_are_named() {
    let fake = world(0);
    let journal = apply(&fake, &plan(&fake), usize::MAX);
    let adrift = |tid: u32, session: u32, parent: u32| {
        fake.fork(10, tid, false);
        fake.change_task(tid, |task| {
            (task.session, task.group, task.parent) = (session, session, parent);
        });
    };
    adrift(30, 29, 1);
    fake.fork(30, 32, true);
    // A child of the daemon, and a daemon that leads its own session, as a shell does.
    adrift(34, 29, 30);
    adrift(33, 33, 1);
    // Somebody's shell on the same CPUs.
    fake.task(41, 41, "/cg/app", Some("2-3"));
    fake.change_task(41, |task| {
        (task.start, task.parent, task.session) = (900, 20, 20);
    });
    let undone = undo_all(&fake, &journal);
    assert_eq!((undone.restored, undone.inherited), (3, 3));
    assert_eq!(undone.unclear, ["33 (a)", "41 (a)"]);
    for (tid, cpus, _) in fake.snapshot().0 {
        let expected = match tid {
            33 | 41 => "2-3",
            11 => "1-5",
            _ => "0-7",
        };
        assert_eq!(cpus.to_string(), expected, "{tid}");
    }
}

/// Two tools with a folder each: the second one leaves the first one's tasks alone.
#[test]
fn placements_with_journals_elsewhere_are_respected() {
    let fake = world(0);
    let (home, own, other) = (folder(), folder(), folder());
    let open = |folder: &std::path::Path| {
        let registry = Registry::new(home.path().to_owned());
        let store = Store::open(folder, true).unwrap().unwrap();
        store.within(Some(registry))
    };
    let mounts = fake.mounts();
    let at = |store| Place {
        system: &fake,
        mounts: &mounts,
        store,
    };
    let (first, second) = (open(other.path()), open(own.path()));
    let planned = plan(&fake);
    let registered = first.register().unwrap();
    let (journal, _) = at(&first).prepare(&planned, TOOL).unwrap();
    let held = first.create(&journal).unwrap();
    drop(registered);
    // A plan that was made before is refused, one from now on has nothing to place.
    let error = at(&second).prepare(&planned, TOOL).unwrap_err();
    assert!(error.to_string().contains("another placement"), "{error}");
    let reserved = at(&second).recover().unwrap().reserved;
    let options = PlanOptions { reserved, ..WHOLE };
    let plan = try_plan(&fake, 0.5, &options);
    let left_out = plan.map(|plan| (plan.tasks.len(), plan.left_out.len()));
    assert_eq!(left_out.unwrap(), (0, 3));
    let folders = Registry::new(home.path().to_owned()).own_folders();
    assert!(folders.contains(&other.path().to_owned()), "{folders:?}");
    drop(held);
}

/// Each look finds the daemon that the one before has made meanwhile.
#[test]
fn daemons_are_looked_for_until_none_is_left() {
    let fake = world(0);
    let journal = apply(&fake, &plan(&fake), usize::MAX);
    fake.forks_when_changed(12, 12, 40);
    for tid in (40..46).step_by(2) {
        fake.forks_when_changed(tid, tid, tid + 2);
    }
    let undone = undo_all(&fake, &journal);
    assert_eq!((undone.restored, undone.inherited), (3, 4));
    for (tid, cpus, _) in fake.snapshot().0 {
        let expected = if tid == 11 { "1-5" } else { "0-7" };
        assert_eq!(cpus.to_string(), expected, "{tid}");
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn children_that_their_cpuset_missed_are_mended() {
    for (version, backend) in &BACKENDS[1..] {
        let fake = world(*version);
        let journal = apply(&fake, &plan(&fake), usize::MAX);
        // Copied from its parent before that one went back, begun after.
        fake.task(60, 60, "/cg/app", None);
        fake.change_task(60, |task| {
            (task.start, task.stale) = (900, super::CpuSet::parse("2-3"))
        });
        // It chose the same CPUs.
        fake.task(61, 61, "/cg/app", Some("2-3"));
        fake.change_task(61, |task| task.start = 900);
        let undone = undo_all(&fake, &journal);
        assert_eq!((undone.restored, undone.inherited), (3, 1), "{backend:?}");
        let tasks = fake.snapshot().0;
        let cpus_of = |tid| {
            tasks
                .iter()
                .find(|task| task.0 == tid)
                .unwrap()
                .1
                .to_string()
        };
        assert_eq!(
            (cpus_of(60).as_str(), cpus_of(61).as_str()),
            ("0-5", "2-3"),
            "{backend:?}"
        );
    }
}

#[test]
fn masks_that_somebody_else_gave_meanwhile_stay() {
    let fake = world(0);
    let journal = apply(&fake, &plan(&fake), usize::MAX);
    fake.change_task(12, |task| task.own = super::CpuSet::parse("7"));
    let undone = undo_all(&fake, &journal);
    assert_eq!((undone.restored, undone.changed), (2, 1));
    assert_eq!(fake.snapshot().0[2].1.to_string(), "7");
}

#[test]
fn a_number_that_another_task_got_is_left_alone() {
    let fake = world(0);
    let journal = apply(&fake, &plan(&fake), usize::MAX);
    fake.change_task(12, |task| {
        (task.start, task.pid, task.session, task.group) = (100_000, 12, 12, 12);
    });
    let undone = undo_all(&fake, &journal);
    assert_eq!((undone.restored, undone.ended), (2, 1));
    assert_eq!(fake.snapshot().0[2].1.to_string(), "2-3");
}

#[test]
fn a_kernel_that_forgets_masks_is_told_them_again() {
    for (version, _) in &BACKENDS[1..] {
        let fake = world(*version).forgetting_masks();
        let before = fake.snapshot();
        let journal = apply(&fake, &plan(&fake), usize::MAX);
        undo_all(&fake, &journal);
        assert_eq!(fake.snapshot(), before);
    }
}

#[test]
fn two_placements_share_the_controller_until_the_last_one_ends() {
    let fake = world(2);
    let before = fake.snapshot();
    let first = apply(&fake, &plan(&fake), usize::MAX);
    let control = first.controls().next().unwrap().to_owned();
    let group = control.parent().unwrap().join("hitm-1-1");
    let mut second = first.clone();
    second.records = vec![Record::Control(control), Record::Group(group.clone())];
    make_groups(&fake, &second.head, &second.records[1..]).unwrap();
    undo_all(&fake, &first);
    let cpus = super::System::read(&fake, &group.join("cpuset.cpus"));
    assert_eq!(cpus.unwrap(), "2-3");
    undo_all(&fake, &second);
    assert_eq!(fake.snapshot(), before);
}

#[test]
fn new_threads_of_unplaced_creators_are_placed_and_choices_kept() {
    let fake = world(0);
    let journal = apply(&fake, &plan(&fake), usize::MAX);
    let mut follower = Follower::new(&journal);
    let mut new = || {
        let found = follower
            .new_threads(&fake, &fake.mounts(), &journal)
            .unwrap();
        found
            .iter()
            .map(|(task, _)| task.id.tid)
            .collect::<Vec<_>>()
    };
    assert_eq!(new(), Vec::<u32>::new());
    fake.fork(10, 30, true);
    fake.fork(10, 31, true);
    fake.change_task(31, |task| task.own = None);
    fake.fork(10, 32, true);
    fake.change_task(32, |task| task.own = super::CpuSet::parse("7"));
    assert_eq!(new(), [31]);
    assert_eq!(new(), Vec::<u32>::new());
}

#[test]
fn tasks_that_cannot_be_put_back_are_left_out_with_their_reason() {
    let fake = world(0);
    fake.change_task(11, |task| task.flags = 0x0020_0000);
    fake.change_task(12, |task| task.policy = 6);
    let plan = plan(&fake);
    let reasons: Vec<_> = plan
        .left_out
        .iter()
        .map(|left| (left.tid, left.reason.as_str()))
        .collect();
    assert_eq!(reasons[0], (11, "it is a kernel thread"));
    assert!(reasons[1].1.contains("SCHED_DEADLINE"));
    assert_eq!(plan.tasks.len(), 1);
}

#[test]
fn a_threaded_cgroup_that_clashes_is_not_used() {
    let fake = world(2);
    fake.group("/cg/app/inner", "");
    let plan = plan(&fake);
    assert_eq!(plan.backend, Some(Backend::Affinity));
    assert!(
        plan.obstacles[0].1.reason.contains("inner"),
        "{:?}",
        plan.obstacles
    );
    let only = PlanOptions {
        backend: Some(Backend::CpusetV2),
        ..WHOLE
    };
    let refused = try_plan(&fake, 0.5, &only)
        .unwrap()
        .placement()
        .unwrap_err();
    assert!(matches!(refused, PlaceError::Refused(_)), "{refused}");
}

#[test]
fn each_means_has_its_obstacle() {
    let fake = world(2);
    let means = super::plan::means_for(&fake, &fake.mounts(), 10).unwrap();
    let works: Vec<_> = means
        .iter()
        .map(|(backend, why)| (backend.id(), why.is_none()))
        .collect();
    assert_eq!(
        works,
        [
            ("cpuset-v2", true),
            ("cpuset-v1", false),
            ("affinity", true)
        ]
    );
}

#[test]
fn without_the_right_to_move_threads_the_capability_is_named() {
    let fake = world(0);
    fake.file(
        "/proc/self/status",
        "Uid:\t7\t7\t7\t7\nCapEff:\t0000000000000000\n",
    );
    let refused = plan(&fake).placement().unwrap_err();
    assert!(
        refused.is_missing() && refused.to_string().contains("CAP_SYS_NICE"),
        "{refused}"
    );
    fake.file(
        "/proc/self/status",
        "Uid:\t5\t5\t5\t5\nCapEff:\t0000000000000000\n",
    );
    assert!(plan(&fake).placement().unwrap().is_some());
}

#[test]
fn quotas_bound_what_is_needed() {
    let fake = world(2);
    fake.file("/cg/app/cpu.max", "150000 100000\n");
    let bound = try_plan(&fake, 0.2, &WHOLE).unwrap();
    assert_eq!((bound.needed_cpus, bound.quota_cpus), (5, Some(2)));
    let Decision::Place(domain) = bound.decision else {
        panic!("{:?}", bound.decision);
    };
    assert_eq!(domain.cpus.to_string(), "2-3");
    fake.file("/cg/app/cpu.max", "max 100000\n");
    let free = try_plan(&fake, 0.2, &WHOLE).unwrap();
    assert_eq!(free.quota_cpus, None);
    assert!(
        matches!(free.decision, Decision::Stay(_)),
        "{:?}",
        free.decision
    );
}

#[test]
fn nothing_is_placed_where_it_would_change_nothing() {
    let fake = world(0);
    for tid in [10, 11, 12] {
        fake.change_task(tid, |task| task.own = super::CpuSet::parse("2-3"));
    }
    let Decision::Stay(reason) = plan(&fake).decision else {
        panic!("placed");
    };
    assert!(reason.contains("already are"), "{reason}");
    fake.change_task(11, |task| task.own = super::CpuSet::parse("5"));
    let Decision::Stay(reason) = plan(&fake).decision else {
        panic!("placed");
    };
    assert!(reason.contains("no CPU is allowed"), "{reason}");
}

#[test]
fn shares_are_shares() {
    let fake = world(0);
    for share in [0.0, -1.0, 1.01, f64::NAN, f64::INFINITY] {
        assert!(try_plan(&fake, share, &WHOLE).is_err(), "{share}");
    }
    let needed = |share| try_plan(&fake, share, &WHOLE).unwrap().needed_cpus;
    assert_eq!(
        [1.0, 0.5, 0.43, 1.0 / 3.0, 0.03].map(needed),
        [1, 2, 3, 3, 34]
    );
}
