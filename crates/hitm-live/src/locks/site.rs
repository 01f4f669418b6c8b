//! Samples as places in the code of locks.

use std::collections::BTreeSet;

use super::known::{self, Class, Role};
use crate::recording::{LiveRecording, LiveStack};

/// Callers that are named of each taker.
const CHAIN_LEN: usize = 4;

/// A wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) class: Class,
    /// The function that called for the lock: a number of a name.
    pub(super) taker: u32,
    /// The number of functions below it that belong to the lock.
    depth: usize,
}

/// The functions of a recording, by their part in locks.
#[derive(Debug)]
pub(super) struct Functions<'a> {
    recording: &'a LiveRecording,
    roles: Vec<Option<Role>>,
    /// Each stack's wait.
    waits: Vec<Option<At>>,
}

impl<'a> Functions<'a> {
    pub(super) fn of(recording: &'a LiveRecording) -> Functions<'a> {
        let names = recording.names.iter();
        let mut functions = Functions {
            recording,
            roles: names.map(|name| known::role(known::bare(name))).collect(),
            waits: Vec::new(),
        };
        let stacks = recording.stacks.iter();
        functions.waits = stacks.map(|stack| functions.wait_in(stack)).collect();
        functions
    }

    /// A function's name without what a compiler adds to it.
    pub(super) fn name(&self, number: u32) -> &'a str {
        known::bare(&self.recording.names[number as usize])
    }

    /// Returns true if a stack has no callers because it could not be walked: nobody knows where it belongs.
    pub(super) fn is_cut(&self, stack: u32) -> bool {
        let kernel = &self.recording.stacks[stack as usize].kernel;
        matches!(kernel[..], [only] if known::is_thunk(self.name(only)))
    }

    /// The wait that a stack is in.
    pub(super) fn waiting(&self, stack: u32) -> Option<At> {
        self.waits[stack as usize]
    }

    /// The outermost wait in a stack: a waiter's own locks are part of its waiting.
    fn wait_in(&self, stack: &LiveStack) -> Option<At> {
        let frames = &stack.kernel;
        let outermost = frames
            .iter()
            .rposition(|name| matches!(self.roles[*name as usize], Some(Role::Wait(_))))?;
        self.at(frames, outermost)
    }

    /// The wait that a tracepoint in a stack is about. None when it is for a lock inside of another wait: that one
    /// has a tracepoint of its own, which counts the time as well.
    pub(super) fn traced(&self, stack: u32) -> Option<At> {
        let frames = &self.recording.stacks[stack as usize].kernel;
        let role = |at: usize| self.roles[frames[at] as usize];
        let innermost = (0..frames.len()).find_map(role)?.class();
        let Some(wait) = self.waits[stack as usize] else {
            // A percpu_rwsem's writer waits in the very function that takes it.
            let outermost = (0..frames.len()).rfind(|at| role(*at).is_some())?;
            return self.at(frames, outermost);
        };
        (wait.class == innermost).then_some(wait)
    }

    /// The wait of the function at `outermost`, which has a part in a lock.
    fn at(&self, frames: &[u32], outermost: usize) -> Option<At> {
        let class = self.roles[frames[outermost] as usize]?.class();
        let callers = frames.iter().enumerate().skip(outermost + 1);
        let mut takers = callers.filter(|(_, name)| !self.is_lock_code(**name, class));
        let (depth, taker) = takers.next()?;
        Some(At {
            class,
            taker: *taker,
            depth,
        })
    }

    fn is_lock_code(&self, number: u32, class: Class) -> bool {
        let name = self.name(number);
        let is_futex_call = class == Class::Futex && name.contains("futex");
        is_futex_call
            || self.roles[number as usize].is_some()
            || known::is_shared_part(name)
            || known::takes_for_caller(name)
    }

    /// Returns true if one of `takers` is running and has the lock: it neither takes it nor has it
    /// given back already.
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
        // The call below the taker gives the lock back, or something below that does.
        let gives_back = frames[..at].iter().rev().take(2);
        let is_behind = gives_back
            .map(|name| self.name(*name))
            .any(known::is_behind_release);
        !own_wait && !is_taking && !is_behind
    }

    /// `taker` and its callers, the innermost first.
    pub(super) fn chain(&self, stack: u32, taker: u32) -> String {
        let stack = &self.recording.stacks[stack as usize];
        let kernel = stack.kernel.iter().skip_while(|name| **name != taker);
        let names = kernel.take(CHAIN_LEN).chain(stack.user.first());
        let names: Vec<&str> = names.map(|name| self.name(*name)).collect();
        names.join(" < ")
    }
}
