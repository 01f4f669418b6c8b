//! Maps samples to places in the code of locks.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::with_note;

use super::known::{self, Class, Role};
use crate::recording::{LiveObject, LiveRecording, LiveStack, LiveThread};

/// Callers that are named for each taker.
const CHAIN_LEN: usize = 4;

/// A wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) class: Class,
    /// Function that called for the lock, as the number of its name.
    pub(super) taker: u32,
    /// Number of functions below it that belong to the lock.
    depth: usize,
}

/// The functions of a recording, by their part in locks.
#[derive(Debug)]
pub(super) struct Functions<'a> {
    recording: &'a LiveRecording,
    roles: Vec<Option<Role>>,
    /// Wait of each stack.
    waits: Vec<Option<At>>,
    /// First thread of each process that was seen.
    first: BTreeMap<u32, &'a LiveThread>,
    /// Words that threads sleep for, by number in [`LiveRecording::objects`].
    slept_for: BTreeSet<u32>,
    /// Those of them at which they wait for something other than a lock.
    idle: BTreeSet<u32>,
}

impl<'a> Functions<'a> {
    pub(super) fn of(recording: &'a LiveRecording) -> Functions<'a> {
        let names = recording.names.iter();
        let waits = recording.waits.iter().flatten();
        let mut first = BTreeMap::new();
        for thread in &recording.threads {
            let first: &mut &LiveThread = first.entry(thread.pid).or_insert(thread);
            if thread.tid < first.tid {
                *first = thread;
            }
        }
        let mut functions = Functions {
            recording,
            roles: names.map(|name| known::role(known::bare(name))).collect(),
            waits: Vec::new(),
            first,
            slept_for: waits.clone().filter_map(|wait| wait.object).collect(),
            idle: BTreeSet::new(),
        };
        let idle = waits.filter(|wait| functions.waits_for_work(wait.stack));
        functions.idle = idle.filter_map(|wait| wait.object).collect();
        let stacks = recording.stacks.iter();
        functions.waits = stacks.map(|stack| functions.wait_in(stack)).collect();
        functions
    }

    pub(super) fn recording(&self) -> &'a LiveRecording {
        self.recording
    }

    /// Describes the process of a thread. Threads may have names of their own; the process has its first one's.
    pub(super) fn process(&self, thread: u32) -> String {
        let pid = self.recording.threads[thread as usize].pid;
        let comm = self.first.get(&pid).map_or("", |first| &first.comm);
        with_note(&format!("process {pid}"), comm)
    }

    fn waits_for_work(&self, stack: u32) -> bool {
        let frames = self.recording.stacks[stack as usize].user.iter();
        let mut names = frames.map(|name| self.name(*name));
        names.any(known::waits_for_work)
    }

    /// Number of words at which threads wait for something other than a lock.
    pub(super) fn idle_count(&self) -> usize {
        self.idle.len()
    }

    /// Returns true for one of those words.
    pub(super) fn is_idle(&self, word: Option<u32>) -> bool {
        word.is_some_and(|word| self.idle.contains(&word))
    }

    /// Returns true if threads sleep for this word.
    pub(super) fn is_slept_for(&self, word: Option<u32>) -> bool {
        word.is_some_and(|word| self.slept_for.contains(&word))
    }

    /// Address of a word.
    pub(super) fn word(&self, word: Option<u32>) -> Option<u64> {
        match self.recording.objects.get(word? as usize)? {
            LiveObject::Futex { address, .. } => Some(*address),
            LiveObject::File { .. } => None,
        }
    }

    /// Name of a function without a compiler's suffix.
    pub(super) fn name(&self, number: u32) -> &'a str {
        known::bare(&self.recording.names[number as usize])
    }

    /// Returns true if a stack has no callers because it could not be walked, so that its place is
    /// unknown.
    pub(super) fn is_cut(&self, stack: u32) -> bool {
        let kernel = &self.recording.stacks[stack as usize].kernel;
        matches!(kernel[..], [only] if known::is_thunk(self.name(only)))
    }

    /// Wait that a stack is in.
    pub(super) fn waiting(&self, stack: u32) -> Option<At> {
        self.waits[stack as usize]
    }

    /// Finds the outermost wait in a stack: a waiter's own locks are part of its wait.
    fn wait_in(&self, stack: &LiveStack) -> Option<At> {
        let frames = &stack.kernel;
        if let Some(taker) = stack.user.first().filter(|_| stack.spins) {
            return Some(At {
                class: Class::spun_for_in(self.name(*taker)),
                taker: *taker,
                depth: frames.len(),
            });
        }
        let outermost = frames
            .iter()
            .rposition(|name| matches!(self.roles[*name as usize], Some(Role::Wait(_))))?;
        self.at(stack, outermost)
    }

    /// Finds the wait of a tracepoint's stack. None for a lock inside another wait: that wait has a
    /// tracepoint of its own, which counts the time too.
    pub(super) fn traced(&self, stack: u32) -> Option<At> {
        let whole = &self.recording.stacks[stack as usize];
        let frames = &whole.kernel;
        let role = |at: usize| self.roles[frames[at] as usize];
        let innermost = (0..frames.len()).find_map(role)?.class();
        let Some(wait) = self.waits[stack as usize] else {
            // A percpu_rwsem's writer waits in the same function that takes the lock.
            let outermost = (0..frames.len()).rfind(|at| role(*at).is_some())?;
            return self.at(whole, outermost);
        };
        (wait.class == innermost).then_some(wait)
    }

    /// Wait of the function at `outermost`, which has a part in a lock.
    fn at(&self, stack: &LiveStack, outermost: usize) -> Option<At> {
        let frames = &stack.kernel;
        let class = self.roles[frames[outermost] as usize]?.class();
        if class == Class::Futex || class.is_spun_for() {
            // The program takes it, in a function that may hold it for any time.
            let taker = *stack.user.first().unwrap_or(&frames[outermost]);
            return Some(At {
                class,
                taker,
                depth: frames.len(),
            });
        }
        let callers = frames.iter().enumerate().skip(outermost + 1);
        let mut takers = callers.filter(|(_, name)| !self.is_lock_code(**name));
        let (depth, taker) = takers.next()?;
        Some(At {
            class,
            taker: *taker,
            depth,
        })
    }

    fn is_lock_code(&self, number: u32) -> bool {
        let name = self.name(number);
        self.roles[number as usize].is_some()
            || known::is_shared_part(name)
            || known::takes_for_caller(name)
    }

    /// Returns true if one of `takers` is running and holds the lock: it is neither acquiring it
    /// nor past its release.
    pub(super) fn holds(&self, stack: u32, takers: &BTreeSet<u32>) -> bool {
        let frames = &self.recording.stacks[stack as usize].kernel;
        let Some(at) = frames.iter().rposition(|name| takers.contains(name)) else {
            return false;
        };
        let own_wait = self.waits[stack as usize].is_some_and(|wait| wait.depth >= at);
        let called = frames[..at].last();
        let is_taking = called.is_some_and(|name| {
            matches!(self.roles[*name as usize], Some(Role::Acquire(_)))
                || known::takes_for_caller(self.name(*name))
        });
        // The release is the call below the taker, or one below that.
        let gives_back = frames[..at].iter().rev().take(2);
        let is_behind = gives_back
            .map(|name| self.name(*name))
            .any(known::is_behind_release);
        !own_wait && !is_taking && !is_behind
    }

    /// Names of `taker` and its callers, innermost first.
    pub(super) fn chain(&self, stack: u32, taker: u32) -> String {
        let stack = &self.recording.stacks[stack as usize];
        let names: Vec<u32> = match stack.user.first() {
            Some(first) if *first == taker => {
                stack.user[..stack.user.len().min(CHAIN_LEN)].to_vec()
            }
            first => {
                let kernel = stack.kernel.iter().skip_while(|name| **name != taker);
                kernel.take(CHAIN_LEN).chain(first).copied().collect()
            }
        };
        let names: Vec<&str> = names.iter().map(|name| self.name(*name)).collect();
        names.join(" < ")
    }
}
