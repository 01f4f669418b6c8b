//! The programs on the running kernel; a group with a quota needs root and the cpu controller.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use aya::maps::Array;
use hitm_test::process::{Child, Command, wait_for};

use super::*;

/// A shell that never sleeps, in a group with 4 ms of 20 ms.
struct Hog {
    folder: PathBuf,
    shell: Child,
}

impl Hog {
    /// None where this user can make no such group.
    fn start(name: &str) -> Option<Hog> {
        let version_1 = PathBuf::from("/sys/fs/cgroup/cpu");
        let is_version_1 = version_1.join("cpu.cfs_quota_us").exists();
        let (root, settings): (_, &[(&str, &str)]) = match is_version_1 {
            true => (
                version_1,
                &[("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "4000")],
            ),
            false => (
                PathBuf::from("/sys/fs/cgroup"),
                &[("cpu.max", "4000 20000")],
            ),
        };
        let folder = root.join(format!("test-bpf-{name}-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let mut hog = Command::new("sh");
        // It waits for a line, so that the test can prepare what it finds.
        hog.args(["-c", "read line; while :; do :; done"]);
        hog.stdin(Stdio::piped());
        let shell = hog.spawn().expect("a shell starts");
        let hog = Hog { folder, shell };
        for (file, text) in settings {
            fs::write(hog.folder.join(file), text).ok()?;
        }
        let pid = hog.shell.id().to_string();
        fs::write(hog.folder.join("cgroup.procs"), pid).ok()?;
        hog.shell.stdin.as_ref()?;
        Some(hog)
    }

    fn go(&mut self) {
        drop(self.shell.stdin.take());
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        wait_for("the group's end", || {
            fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
        });
    }
}

#[test]
fn an_episode_whose_end_nobody_saw_makes_room_for_the_next() {
    if let Err(why) = crate::available() {
        return eprintln!("throttling: NOT RUN: {why}");
    }
    let Some(mut hog) = Hog::start("episode") else {
        return eprintln!("throttling: NOT RUN: no group with a quota can be made here");
    };
    let mut programs = Throttling::attach().unwrap();
    // The row of an episode whose end nobody saw, of a task that had this number before.
    let now = programs.object.map_mut(".bss").unwrap();
    Array::<_, u64>::try_from(now)
        .unwrap()
        .set(0, 1, 0)
        .unwrap();
    let table = programs.object.map_mut("throttled").unwrap();
    let mut table: HashMap<_, u32, [u64; THROTTLED_WORDS]> = HashMap::try_from(table).unwrap();
    table
        .insert(hog.shell.id(), [1; THROTTLED_WORDS], 0)
        .unwrap();
    hog.go();
    let mut own = 0;
    wait_for("three episodes", || {
        programs.drain(|event| match event {
            ThrottleEvent::Episode(episode) if episode.tid == hog.shell.id() => {
                assert!(episode.out_ns > 1, "{episode:?}");
                own += 1;
            }
            _ => {}
        });
        own >= 3
    });
    let counts = programs.counts().unwrap();
    assert_eq!((counts.lost_tasks, counts.refused), (0, 0), "{counts:?}");
    // On a busy host the kernel passes over programs: ends of queues may be unseen, too.
    assert!(counts.unseen_ends >= 1, "{counts:?}");
}

#[test]
fn a_queue_whose_end_nobody_saw_has_no_time() {
    if let Err(why) = crate::available() {
        return eprintln!("throttling: NOT RUN: {why}");
    }
    let Some(mut hog) = Hog::start("queue") else {
        return eprintln!("throttling: NOT RUN: no group with a quota can be made here");
    };
    let mut programs = Throttling::attach().unwrap();
    let table = programs.object.map_mut("queues").unwrap();
    let mut table: Array<_, [[u64; 3]; 64]> = Array::try_from(table).unwrap();
    // No queue lies there: what is read of it is no clock of a throttling.
    let [address, cgroup, clock] = [8, 0, 1];
    for cpu in 0..table.len() {
        let mut places = table.get(&cpu, 0).unwrap();
        *places.last_mut().unwrap() = [address, cgroup, clock];
        table.set(cpu, places, 0).unwrap();
    }
    hog.go();
    wait_for("a timer or a handler that forgets them", || {
        programs.drain(drop);
        programs.counts().unwrap().unseen_ends > 0
    });
}
