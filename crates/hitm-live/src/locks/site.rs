//! Maps samples to places in the code of locks.

use std::collections::BTreeSet;

use super::known::{self, Class, Role};
use crate::recording::{LiveRecording, LiveStack};

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
        if class == Class::Futex {
            // The program takes the futex, in a function that may hold it for any time.
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
