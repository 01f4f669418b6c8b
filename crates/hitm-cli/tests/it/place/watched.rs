//! A placement that comes and goes with the contention, on real threads.

use std::path::PathBuf;

use hitm_live::place::watch::{Change, Watcher};
use hitm_live::place::{
    Backend, Contention, Launcher, Linux, Mounts, Place, PlanOptions, Reserved, Store,
    tasks_of_process,
};

use super::load::Load;
use super::{cpus_of, journals_in, say_not_run};

const OPTIONS: PlanOptions = PlanOptions {
    is_whole: true,
    backend: Some(Backend::Affinity),
    keeps_others_out: false,
    reserved: Reserved::NONE,
};

fn launcher() -> Launcher {
    Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_hitm")),
        args: ["place", "guard"].map(Into::into).to_vec(),
    }
}

#[test]
fn a_placement_comes_with_a_crowd_and_goes_with_calm() {
    if cpus_of(std::process::id()).len() < 2 {
        return say_not_run("watching", "one CPU is no choice");
    }
    let load = Load::start();
    let journals = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(journals.path(), true).expect("it is ours");
    let store = store.expect("it was made");
    let mounts = Mounts::read(&Linux).expect("/proc is there");
    let machine = hitm::place::host().expect("sysfs is there");
    let launcher = launcher();
    let place = Place {
        system: &Linux,
        mounts: &mounts,
        store: &store,
    };
    let mut watcher = Watcher::new(place, &machine, OPTIONS, &launcher);
    let mut window = |waiting: f64, share: f64| {
        let contention = Contention {
            share,
            tasks: tasks_of_process(&Linux, load.pid()).expect("the load runs"),
            name: "a lock".into(),
        };
        watcher.tick().expect("nobody disturbs it");
        match watcher.window(waiting, &contention).expect("it may place") {
            Change::None => 's',
            Change::Placed(plan) => {
                assert!(plan.tasks.len() > 2);
                assert_eq!(cpus_of(load.pid()).len(), 1);
                assert_eq!(journals_in(journals.path()), 1);
                'p'
            }
            Change::Stayed(_) => '-',
            Change::Released(undone) => {
                assert!(undone.problems.is_empty());
                assert!(load.difference().is_none(), "{:?}", load.difference());
                'r'
            }
        }
    };
    // Three times another number of CPUs: more than the machine has.
    let windows = [
        (3.0, 1.0),
        (3.0, 1.0),
        (3.0, 0.0),
        (0.1, 1.0),
        (0.1, 0.0),
        (0.1, 1.0),
        (0.1, 1.0),
        (3.0, 1.0),
        (3.0, 1.0),
        (3.0, 0.0001),
        (3.0, 0.0001),
        (3.0, 0.0001),
        (3.0, 1.0),
        (3.0, 1.0),
    ];
    let steps: String = windows
        .into_iter()
        .map(|(waiting, share)| window(waiting, share))
        .collect();
    assert_eq!(steps, "spssssrspss-sp");
    assert!(watcher.is_placed());
    watcher.end().expect("nobody disturbs it");
    assert!(load.difference().is_none(), "{:?}", load.difference());
    assert_eq!(journals_in(journals.path()), 0);
}
