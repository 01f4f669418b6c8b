//! When the threads of a recording ran.
//!
//! A recording says in which order threads left and returned, not when: accesses have times, and the
//! work between them is in instructions. A thread that left after its nth access did so the instructions
//! behind it later, and returned the instructions before its next access earlier.
//!
//! Work and turns are recorded before the accesses that they are about, because accesses are recorded
//! once they are priced. So turns wait here until the thread's accesses have come that far.

use std::collections::{BTreeMap, VecDeque};

use hitm_base::{Access, AccessOp, CpuId, Cycles, ThreadId};
use hitm_trace::{Turn, Work};

/// Turns that wait for accesses, of all threads: 32 MiB of them.
const PENDING_MAX: usize = 1 << 20;

/// A span for which a thread had its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) thread: ThreadId,
    pub(super) cpu: CpuId,
    pub(super) start: Cycles,
    pub(super) end: Cycles,
}

/// A wait of a thread for something outside the model.
#[derive(Debug, Clone, Copy)]
struct Away {
    /// Accesses that the thread had made before.
    after: u64,
    /// Instructions from the last one to leaving.
    left_insns: u64,
    /// Instructions from the last one to the next one; once it has been recorded.
    all_insns: Option<u64>,
}

#[derive(Debug)]
struct Thread {
    cpu: CpuId,
    /// Time from which it runs, while it does.
    since: Option<Cycles>,
    /// Accesses of its work, and those seen.
    announced: u64,
    seen: u64,
    /// Instructions from the last access of its work to its last step, which may be a fence.
    step_insns: u64,
    /// Instructions from the last access of its work to where it is.
    ahead: u64,
    /// End of the last access that was seen.
    at: Cycles,
    away: VecDeque<Away>,
}

/// Runs of all threads.
#[derive(Debug, Default)]
pub(super) struct Runs {
    cpi_milli: u64,
    threads: BTreeMap<ThreadId, Thread>,
    pending: usize,
    /// Runs that have ended and that nobody has taken yet.
    pub(super) ended: Vec<Run>,
    /// Waits for which there was no room.
    pub(super) left_out: u64,
}

impl Runs {
    pub(super) fn new(cpi_milli: u32) -> Runs {
        Runs {
            cpi_milli: cpi_milli.into(),
            ..Runs::default()
        }
    }

    pub(super) fn start(&mut self, thread: ThreadId, cpu: CpuId, time: Cycles) {
        // Threads are recorded again when they are renamed.
        self.threads.entry(thread).or_insert(Thread {
            cpu,
            since: Some(time),
            announced: 0,
            seen: 0,
            step_insns: 0,
            ahead: 0,
            at: time,
            away: VecDeque::new(),
        });
    }

    pub(super) fn place(&mut self, thread: ThreadId, cpu: CpuId, time: Cycles) {
        self.stop(thread, time);
        if let Some(known) = self.threads.get_mut(&thread) {
            known.cpu = cpu;
            known.since = Some(time.max(known.at));
        }
    }

    pub(super) fn end(&mut self, thread: ThreadId, time: Cycles) {
        self.stop(thread, time);
    }

    pub(super) fn work(&mut self, work: &Work) {
        let Some(thread) = self.threads.get_mut(&work.thread) else {
            return;
        };
        // A step counts from the one before, whatever work that was in.
        let mut insns = thread.step_insns;
        for step in work.steps.iter() {
            insns = insns.saturating_add(step.since.insns);
            if step.is_fence {
                continue;
            }
            thread.announced += 1;
            if let Some(away) = thread
                .away
                .back_mut()
                .filter(|away| away.all_insns.is_none())
            {
                away.all_insns = Some(insns);
            }
            insns = 0;
        }
        thread.step_insns = insns;
        thread.ahead = insns.saturating_add(work.ahead.insns);
    }

    pub(super) fn turn(&mut self, turn: &Turn) {
        match turn {
            Turn::Left { thread } => {
                let is_full = self.pending >= PENDING_MAX;
                let Some(known) = self.threads.get_mut(thread) else {
                    return;
                };
                if is_full {
                    self.left_out += 1;
                    return;
                }
                known.away.push_back(Away {
                    after: known.announced,
                    left_insns: known.ahead,
                    all_insns: None,
                });
                self.pending += 1;
            }
            // A thread's next access says when it came back.
            Turn::Returned { .. } | Turn::Priced | Turn::Passed { .. } => {}
        }
    }

    #[inline]
    pub(super) fn access(&mut self, access: &Access, stall: Cycles) {
        let Some(thread) = self.threads.get_mut(&access.thread) else {
            return;
        };
        while let Some(away) = thread.away.front().copied() {
            if away.after > thread.seen {
                break;
            }
            thread.away.pop_front();
            self.pending -= 1;
            let left = cycles(self.cpi_milli, away.left_insns);
            let left = Cycles(thread.at.0.saturating_add(left)).min(access.time);
            if let Some(start) = thread.since.take() {
                self.ended.push(Run {
                    thread: access.thread,
                    cpu: thread.cpu,
                    start,
                    end: left,
                });
            }
            let insns = away.all_insns.unwrap_or(away.left_insns);
            let since = insns.saturating_sub(away.left_insns);
            let since = access.time.0.saturating_sub(cycles(self.cpi_milli, since));
            thread.since = Some(Cycles(since).max(left));
        }
        if access.op != AccessOp::Fence {
            thread.seen += 1;
        }
        thread.at = Cycles(access.time.0.saturating_add(stall.0));
    }

    /// Ends the run of a thread at a time, or where it left before.
    fn stop(&mut self, id: ThreadId, time: Cycles) {
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let mut end = time;
        if let Some(away) = thread.away.front().filter(|away| away.after <= thread.seen) {
            let left = cycles(self.cpi_milli, away.left_insns);
            end = end.min(Cycles(thread.at.0.saturating_add(left)));
        }
        if let Some(start) = thread.since.take() {
            self.ended.push(Run {
                thread: id,
                cpu: thread.cpu,
                start,
                end,
            });
        }
    }
}

fn cycles(cpi_milli: u64, insns: u64) -> u64 {
    let cycles = u128::from(insns) * u128::from(cpi_milli) / 1000;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use hitm_base::CodeAddr;
    use hitm_trace::{Step, Steps, Stretch};

    use super::*;

    const THREAD: ThreadId = ThreadId(3);

    fn work(steps: &[u64], ahead: u64) -> Work {
        let stretch = |insns| Stretch { insns, stores: 0 };
        let steps = steps.iter().map(|insns| Step {
            since: stretch(*insns),
            is_fence: false,
        });
        Work {
            thread: THREAD,
            adoptions: Vec::new(),
            steps: Steps::from_iter(steps),
            ahead: stretch(ahead),
        }
    }

    fn access(time: u64) -> Access {
        Access {
            time: Cycles(time),
            addr: 0,
            code: CodeAddr(0),
            thread: THREAD,
            cpu: CpuId(1),
            size: 8,
            op: AccessOp::Load,
        }
    }

    fn spans(runs: &Runs) -> Vec<(u64, u64)> {
        let ended = runs.ended.iter();
        ended.map(|run| (run.start.0, run.end.0)).collect()
    }

    /// Half a cycle an instruction. The thread leaves 20 instructions behind its second access, and comes
    /// back 40 before its third. All of it is recorded before the first access.
    #[test]
    fn a_thread_is_away_between_two_accesses() {
        let mut runs = Runs::new(500);
        runs.start(THREAD, CpuId(1), Cycles(100));
        runs.work(&work(&[10, 10], 20));
        runs.turn(&Turn::Left { thread: THREAD });
        runs.turn(&Turn::Returned {
            thread: THREAD,
            waker: None,
        });
        runs.work(&work(&[60], 0));
        runs.access(&access(105), Cycles(30));
        runs.access(&access(140), Cycles(60));
        assert_eq!(spans(&runs), []);
        runs.access(&access(1000), Cycles(0));
        assert_eq!(spans(&runs), [(100, 210)]);
        runs.end(THREAD, Cycles(1100));
        assert_eq!(spans(&runs), [(100, 210), (980, 1100)]);
        assert_eq!(runs.pending, 0);
    }

    #[test]
    fn a_thread_that_never_returns_ends_where_it_left() {
        let mut runs = Runs::new(1000);
        runs.start(THREAD, CpuId(1), Cycles(0));
        runs.work(&work(&[10], 5));
        runs.turn(&Turn::Left { thread: THREAD });
        runs.access(&access(10), Cycles(0));
        runs.place(THREAD, CpuId(2), Cycles(400));
        assert_eq!(spans(&runs), [(0, 15)]);
    }
}
