//! The watchdog: a recording in which nothing moves although somebody should run.

use std::fs;
use std::time::{Duration, Instant};

use hitm_base::{Cycles, with_note};
use hitm_trace::{EndReason, Loss};
use hitm_weave::board::Request;
use hitm_weave::{Doubt, Group};

use super::Engine;
use super::proc::status;
use crate::record::Stall;

/// Threads that a message names.
const NAMED_MAX: usize = 8;

/// Time since something moved: virtual time, or a thread from one system call to the next. Threads that wait for
/// others look up now and then, which is no move.
#[derive(Debug)]
pub(super) struct Watch {
    stall: Stall,
    moved_at: Instant,
    virtual_time: Cycles,
    has_told: bool,
}

impl Watch {
    pub(super) fn new(stall: Stall) -> Watch {
        Watch {
            stall,
            moved_at: Instant::now(),
            virtual_time: Cycles::ZERO,
            has_told: false,
        }
    }

    /// A request came.
    pub(super) fn note(&mut self, request: Request) {
        if !matches!(request, Request::Wait | Request::TimedOut) {
            self.note_move();
        }
    }

    fn note_move(&mut self) {
        self.moved_at = Instant::now();
        self.has_told = false;
    }

    /// The time for which nothing has moved, if that is long and has not been told.
    fn is_due(&self) -> Option<Duration> {
        let passed = self.moved_at.elapsed();
        (passed >= self.stall.after && !self.has_told).then_some(passed)
    }
}

impl Engine {
    /// Tells, once, that the recording stands still, and ends it if the user wants that. Threads that wait in
    /// system calls may do so for ever, and so may a program that runs unrecorded for a while.
    pub(super) fn watch(&mut self) {
        let group = self.session.group();
        let somebody_should_run = group.present_count() > 0 || group.has_doubts();
        let now = group.now();
        let has_passed = std::mem::replace(&mut self.watch.virtual_time, now) != now;
        if !somebody_should_run || has_passed || self.board.is_paused() {
            return self.watch.note_move();
        }
        let Some(passed) = self.watch.is_due() else {
            return;
        };
        self.watch.has_told = true;
        let text = format!(
            "nothing has moved for {} s: {}",
            passed.as_secs(),
            waiting(self.session.group()).join("; ")
        );
        let ends = self.watch.stall.ends;
        *self.shared.stall.lock().expect("no holder panics") = Some(Stalled { text, ends });
        if ends {
            let loss = Loss::Stalled;
            self.ask(|session, _| session.finish(EndReason::Lost { loss }));
        }
    }
}

/// Threads that do not come, each with what the kernel says of it.
fn waiting(group: &Group) -> Vec<String> {
    let mut found = Vec::new();
    for slot in group.running() {
        let tid = group.tid(slot);
        found.push(format!("{} should run and {}", name(tid), kernel_says(tid)));
    }
    for (doubt, tids) in group.doubts() {
        let what = match doubt {
            Doubt::Newcomer(_) => "was created and has not come".to_owned(),
            Doubt::Futex(at) => format!("was woken at {at:#x} and has not come back"),
            Doubt::Alarm(_) => "has slept for its time and has not come back".to_owned(),
        };
        for tid in tids {
            found.push(format!("{} {what}, and {}", name(tid), kernel_says(tid)));
        }
    }
    let parked = group.present_count() - group.running().count();
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    found.extend((more > 0).then(|| format!("and {more} more")));
    found.extend((parked > 0).then(|| format!("{parked} threads wait for them")));
    found
}

/// A message of the watchdog.
#[derive(Debug)]
pub(crate) struct Stalled {
    pub(crate) text: String,
    /// The recording has ended for it.
    pub(crate) ends: bool,
}

fn name(tid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
    with_note(&format!("thread {tid}"), comm.trim_end())
}

/// State of a thread by the host's kernel, in words.
fn kernel_says(tid: u32) -> String {
    let place = fs::read_to_string(format!("/proc/{tid}/wchan")).unwrap_or_default();
    let place = match place.as_str() {
        "" | "0" => String::new(),
        place => format!(" in {place}"),
    };
    match status(tid).map(|status| status.state) {
        Some('R') => "has a CPU or waits for one".into(),
        Some('D') => format!("waits for a device{place}"),
        Some('T' | 't') => "is stopped".into(),
        Some('Z' | 'X') | None => "is gone".into(),
        Some(_) => format!("sleeps{place}"),
    }
}
