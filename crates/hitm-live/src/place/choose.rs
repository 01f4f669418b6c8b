//! Choice of the lock in a live recording for which threads are placed.

use hitm_policy::CALM;

use super::PlaceError;
use super::plan::Contention;
use crate::locks::{Lock, judge};
use crate::procfs::TaskId;
use crate::recording::LiveRecording;

/// Returns the contention for the lock that wastes most CPU time, or for the first one whose title
/// contains `wanted`.
///
/// # Errors
/// No such lock was waited for, or no holder was sampled.
pub fn contention_in(
    recording: &LiveRecording,
    wanted: Option<&str>,
) -> Result<Contention, PlaceError> {
    let locks = judge(recording).locks;
    let is_wanted = |lock: &&Lock| match wanted {
        Some(text) => lock.title().contains(text),
        None => lock.hold_share() > 0.0,
    };
    let Some(lock) = locks.iter().find(is_wanted) else {
        return Err(PlaceError::Wrong(missing(&locks, wanted)));
    };
    held_contention(lock)
}

/// Returns the contention for a lock.
///
/// # Errors
/// No holder was sampled.
pub fn held_contention(lock: &Lock) -> Result<Contention, PlaceError> {
    if lock.hold_share() <= 0.0 {
        let title = lock.title();
        return Err(PlaceError::Wrong(format!(
            "no sample shows who holds {title}: its hold share is not known (--lock-share)"
        )));
    }
    Ok(contention_of(lock))
}

fn missing(locks: &[Lock], wanted: Option<&str>) -> String {
    let titles: Vec<String> = locks.iter().take(5).map(Lock::title).collect();
    match (wanted, titles.is_empty()) {
        (_, true) => String::from("threads waited for no lock in this recording"),
        (Some(text), false) => format!(
            "no lock is called {text:?}, expected a part of one of: {}",
            titles.join("; ")
        ),
        (None, false) => String::from("no sample shows who holds a lock in this recording"),
    }
}

/// Threads without a start time are left out: their numbers may be others' by now.
fn contention_of(lock: &Lock) -> Contention {
    let threads = lock.threads.iter().map(|part| &part.thread);
    let known = threads.filter(|thread| thread.start_ticks > 0);
    Contention {
        share: lock.hold_share(),
        tasks: known
            .map(|thread| TaskId {
                tid: thread.tid,
                start_ticks: thread.start_ticks,
            })
            .collect(),
        name: lock.title(),
    }
}

/// Follows one lock from window to window.
#[derive(Debug, Clone, Default)]
pub struct Chooser {
    wanted: Option<String>,
    current: Option<String>,
}

impl Chooser {
    /// Chooses the lock that wastes most CPU time, of those whose title contains `wanted`.
    pub fn new(wanted: Option<String>) -> Chooser {
        Chooser {
            wanted,
            current: None,
        }
    }

    /// Returns the mean number of threads that waited for the followed lock over a window, and its
    /// contention. The share is 0 when no holder was sampled. Another lock is followed once this
    /// one is calm and nothing is placed for it.
    pub fn observe(&mut self, window: &LiveRecording, is_placed: bool) -> (f64, Contention) {
        let locks = judge(window).locks;
        let waiting = |lock: &Lock| lock.waiting_ns() as f64 / window.duration_ns.max(1) as f64;
        let current = self.current.clone();
        let followed = current.and_then(|title| locks.iter().find(|lock| lock.title() == title));
        let stays = is_placed || followed.is_some_and(|lock| waiting(lock) >= CALM);
        let lock = match stays {
            true => followed,
            false => {
                let wanted = self.wanted.as_deref().unwrap_or_default();
                // Nobody can be placed for a lock whose holder is not seen.
                let candidates = locks.iter().filter(|lock| lock.is_hold_known);
                let candidates = candidates.filter(|lock| lock.title().contains(wanted));
                candidates.max_by(|a, b| waiting(a).total_cmp(&waiting(b)))
            }
        };
        if let Some(lock) = lock {
            self.current = Some(lock.title());
            return (waiting(lock), contention_of(lock));
        }
        let contention = Contention {
            share: 0.0,
            tasks: Vec::new(),
            name: self.current.clone().unwrap_or_default(),
        };
        (0.0, contention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{
        HolderTimes, LiveHeld, LiveHolders, LiveObject, LiveSample, LiveStack, LiveThread,
        LiveTicks, LiveWait, VERSION,
    };

    /// Functions of a waiter for a rwsem, innermost first, and of its holder, below the same
    /// caller.
    const WAIT: [&str; 3] = ["rwsem_spin_on_owner", "down_write", "vm_mmap_pgoff"];
    const HOLD: &str = "do_mmap";

    /// A second of two threads of process 100, which spin for and hold its mmap_lock, 1 ms a sample, and sleep
    /// for it.
    fn recording(waited: u64, held: u64, other: u64, slept_ms: u64) -> LiveRecording {
        let names = [&WAIT[..], &[HOLD, "sys_read"]].concat();
        let stacks: [&[u32]; 3] = [&[0, 1, 2], &[3, 2], &[4]];
        let thread = |tid| LiveThread {
            pid: 100,
            tid,
            comm: "map".into(),
            start_ticks: u64::from(tid) * 10,
        };
        let counts = [waited, held, other].into_iter().enumerate();
        let samples = counts.flat_map(|(stack, count)| {
            [0, 1].map(|thread| LiveSample {
                thread,
                stack: stack as u32,
                object: None,
                count,
            })
        });
        LiveRecording {
            hitm_live: VERSION,
            period_ns: 1_000_000,
            duration_ns: 1_000_000_000,
            threads: vec![thread(101), thread(102)],
            names: names.into_iter().map(str::to_owned).collect(),
            stacks: stacks
                .map(|kernel| LiveStack {
                    kernel: kernel.to_vec(),
                    ..LiveStack::default()
                })
                .to_vec(),
            samples: samples.collect(),
            waits: Some(vec![LiveWait {
                object: None,
                thread: 1,
                stack: 0,
                lock: 0xf0,
                count: 1,
                wait_ns: slept_ms * 1_000_000,
                longest_ns: slept_ms * 1_000_000,
            }]),
            ..LiveRecording::default()
        }
    }

    #[test]
    fn a_recording_has_the_share_the_threads_and_the_name() {
        let found = contention_in(&recording(50, 43, 57, 0), None).unwrap();
        assert!((found.share - 0.43).abs() < 1e-9, "{found:?}");
        let tasks = found.tasks.iter().map(|task| (task.tid, task.start_ticks));
        assert_eq!(tasks.collect::<Vec<_>>(), [(101, 1010), (102, 1020)]);
        let named = contention_in(&recording(50, 43, 57, 0), Some(&found.name[6..]));
        assert_eq!(named.unwrap(), found);
    }

    #[test]
    fn a_lock_that_is_not_there_is_told_with_those_that_are() {
        let error = contention_in(&recording(50, 43, 57, 0), Some("i_rwsem")).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("\"i_rwsem\"") && said.contains("rwsem "),
            "{said}"
        );
        let error = contention_in(&recording(50, 0, 57, 0), Some("rwsem")).unwrap_err();
        assert!(error.to_string().contains("--lock-share"), "{error}");
        let error = contention_in(&recording(0, 43, 57, 0), None).unwrap_err();
        assert!(error.to_string().contains("no lock"), "{error}");
    }

    #[test]
    fn waiting_threads_spin_and_sleep() {
        let mut chooser = Chooser::new(None);
        let (waiting, contention) = chooser.observe(&recording(50, 43, 57, 1400), false);
        assert!((waiting - 1.5).abs() < 1e-9, "{waiting}");
        assert_eq!(contention.tasks.len(), 2);
        // No thread waits any more: the same lock, without a share.
        let (waiting, contention) = chooser.observe(&recording(0, 43, 57, 0), true);
        assert_eq!((waiting, contention.share), (0.0, 0.0));
        let other = Chooser::new(Some("i_rwsem".into())).observe(&recording(50, 43, 57, 0), false);
        assert_eq!(other.0, 0.0);
    }

    /// Both threads sleep for a word, which names an owner or does not.
    fn of_a_word(names_owner: bool) -> LiveRecording {
        let ticks = |tid, word, count| LiveTicks {
            pid: 100,
            tid,
            word,
            count,
        };
        let mut times = HolderTimes::default();
        match names_owner {
            true => times.running_ns = 1,
            false => times.unknown_ns = 1,
        }
        let mut seen = recording(0, 0, 0, 0);
        seen.names.push("futex_wait".to_owned());
        seen.stacks[0].kernel = vec![seen.names.len() as u32 - 1];
        seen.objects = vec![LiveObject::Futex {
            pid: 100,
            address: 0x40,
            name: String::new(),
        }];
        let wait = LiveWait {
            lock: 0x40,
            object: Some(0),
            wait_ns: 700_000_000,
            ..seen.waits.take().expect("there are waits")[0]
        };
        seen.waits = Some([0, 1].map(|thread| LiveWait { thread, ..wait }).to_vec());
        seen.holders = Some(LiveHolders {
            locks: vec![LiveHeld {
                pid: 100,
                lock: 0x40,
                times,
                ..LiveHeld::default()
            }],
            tick_ns: 1_000_000,
            ticks: [101, 102]
                .iter()
                .flat_map(|tid| [ticks(*tid, None, 50), ticks(*tid, Some(0x40), 30)])
                .collect(),
            ..LiveHolders::default()
        });
        seen
    }

    #[test]
    fn a_lock_of_a_program_is_followed_where_its_word_names_the_owner() {
        let (waiting, contention) = Chooser::new(None).observe(&of_a_word(true), false);
        assert!((waiting - 1.4).abs() < 1e-9, "{waiting}");
        assert!((contention.share - 0.6).abs() < 1e-9, "{contention:?}");
        assert_eq!(contention.tasks.len(), 2);
        assert_eq!(contention.name, "futex word of 0x40 of process 100 (map)");
        let (waiting, contention) = Chooser::new(None).observe(&of_a_word(false), false);
        assert_eq!((waiting, contention.tasks.len()), (0.0, 0));
    }
}
