//! Call chains of accesses: a tree of calls, and the accesses that each node of it stands for.
//!
//! A recorded thread numbers the call chains of its accesses in a tree of its own. A node is a call
//! below another one; the thread tells the recorder each node once. The recorder joins the trees of all
//! threads. The weave knows nothing of it. It gives out the accesses of each thread in the order of its
//! program, so a queue for each thread says whose turn it is.
//!
//! Bounded: a tree holds [`NODES_MAX`] calls. Accesses whose chain does not fit are counted and have none.

use std::collections::VecDeque;

use hitm_base::{CodeAddr, ThreadId};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Calls that a tree holds: 40 MiB of them.
pub const NODES_MAX: usize = 1 << 20;

/// Number of a chain in its tree: 0 is the empty one, that of a function nobody has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathId(pub u32);

impl PathId {
    /// Chain of a function that nobody has called.
    pub const EMPTY: PathId = PathId(0);
    /// Chain that did not fit the tree.
    pub const UNKNOWN: PathId = PathId(u32::MAX);
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// The chain that it lengthens.
    pub before: PathId,
    /// Address to which it returns.
    pub code: CodeAddr,
}

/// Call chains that share their beginnings.
///
/// **Invariant:** a call is made after the chain that it lengthens, and has a higher number.
#[derive(Debug, Default)]
pub struct CallTree {
    calls: IndexSet<Call, FxBuildHasher>,
}

impl CallTree {
    /// Number of the chain that ends with this call.
    #[inline]
    pub fn number(&mut self, call: Call) -> PathId {
        if call.before == PathId::UNKNOWN {
            return PathId::UNKNOWN;
        }
        if self.calls.len() >= NODES_MAX {
            let known = self.calls.get_index_of(&call);
            return known.map_or(PathId::UNKNOWN, |index| PathId(index as u32 + 1));
        }
        let (index, _) = self.calls.insert_full(call);
        PathId(index as u32 + 1)
    }

    /// The calls after the first `count`, in the order of their numbers.
    pub fn calls_from(&self, count: usize) -> impl Iterator<Item = Call> + '_ {
        (count..self.calls.len()).filter_map(|index| self.calls.get_index(index).copied())
    }

    /// Calls in the tree.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if the tree has no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Appends where the calls of a chain return to, innermost call first, `max` of them at most.
    pub fn append_callers(&self, path: PathId, max: usize, out: &mut Vec<CodeAddr>) {
        let mut at = path;
        for _ in 0..max {
            let call = (at.0 as usize).checked_sub(1);
            let Some(call) = call.and_then(|index| self.calls.get_index(index)) else {
                return;
            };
            out.push(call.code);
            at = call.before;
        }
    }
}

/// A thread told a call below one that it has not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCall;

/// Accesses one after the other that have one chain.
#[derive(Debug)]
struct Run {
    count: u32,
    path: PathId,
}

/// One thread's chains on the recorder's side.
#[derive(Debug, Default)]
struct ThreadPaths {
    /// Numbers in the common tree, by the thread's own less one.
    numbers: Vec<PathId>,
    /// Chains of accesses that are not written yet, by their numbers in the common tree.
    waiting: VecDeque<Run>,
}

/// Call chains of all threads, and of the accesses that are still to be written.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    tree: CallTree,
    /// By number of the thread.
    threads: Vec<ThreadPaths>,
    /// Accesses whose chain did not fit.
    pub(crate) left_out: u64,
}

impl Paths {
    /// A thread tells calls that are below calls it has told, or below none.
    pub(crate) fn told(&mut self, thread: ThreadId, calls: &[Call]) -> Result<(), UnknownCall> {
        let thread = of_thread(&mut self.threads, thread);
        for call in calls {
            let before = thread.common(call.before).ok_or(UnknownCall)?;
            if thread.numbers.len() >= NODES_MAX {
                return Err(UnknownCall);
            }
            let number = self.tree.number(Call { before, ..*call });
            thread.numbers.push(number);
        }
        Ok(())
    }

    /// Chains of the accesses that a thread pushes next, by its own numbers.
    pub(crate) fn pushed(
        &mut self,
        thread: ThreadId,
        paths: impl Iterator<Item = PathId>,
    ) -> Result<(), UnknownCall> {
        let thread = of_thread(&mut self.threads, thread);
        for path in paths {
            let path = thread.common(path).ok_or(UnknownCall)?;
            match thread.waiting.back_mut() {
                Some(last) if last.path == path && last.count < u32::MAX => last.count += 1,
                _ => thread.waiting.push_back(Run { count: 1, path }),
            }
        }
        Ok(())
    }

    /// The chain of the thread's next access; none when it is not known.
    pub(crate) fn take(&mut self, thread: ThreadId) -> Option<PathId> {
        let waiting = &mut self.threads.get_mut(thread.0 as usize)?.waiting;
        let run = waiting.front_mut()?;
        let path = run.path;
        run.count -= 1;
        if run.count == 0 {
            waiting.pop_front();
        }
        self.left_out += u64::from(path == PathId::UNKNOWN);
        (path != PathId::UNKNOWN).then_some(path)
    }

    /// Appends the calls of a chain, innermost first.
    pub(crate) fn append_callers(&self, path: PathId, max: usize, out: &mut Vec<CodeAddr>) {
        self.tree.append_callers(path, max, out);
    }
}

/// The thread's chains, made at its first call.
fn of_thread(threads: &mut Vec<ThreadPaths>, thread: ThreadId) -> &mut ThreadPaths {
    let index = thread.0 as usize;
    if threads.len() <= index {
        threads.resize_with(index + 1, ThreadPaths::default);
    }
    &mut threads[index]
}

impl ThreadPaths {
    fn common(&self, own: PathId) -> Option<PathId> {
        match own {
            PathId::EMPTY | PathId::UNKNOWN => Some(own),
            PathId(number) => self.numbers.get(number as usize - 1).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(before: u32, code: u64) -> Call {
        Call {
            before: PathId(before),
            code: CodeAddr(code),
        }
    }

    fn pushed(paths: &mut Paths, thread: u32, accesses: &[u32]) -> Result<(), UnknownCall> {
        paths.pushed(ThreadId(thread), accesses.iter().map(|path| PathId(*path)))
    }

    fn callers(paths: &Paths, path: PathId) -> Vec<u64> {
        let mut out = Vec::new();
        paths.append_callers(path, 100, &mut out);
        out.iter().map(|code| code.0).collect()
    }

    #[test]
    fn threads_have_numbers_of_their_own_and_chains_in_common() {
        let mut paths = Paths::default();
        let (one, other) = (ThreadId(0), ThreadId(2));
        paths.told(one, &[call(0, 10), call(1, 20)]).unwrap();
        pushed(&mut paths, 0, &[2, 2, 1]).unwrap();
        let told = [call(0, 30), call(0, 10), call(2, 20)];
        paths.told(other, &told).unwrap();
        pushed(&mut paths, 2, &[3]).unwrap();
        let first = paths.take(one).unwrap();
        assert_eq!(callers(&paths, first), [20, 10]);
        assert_eq!(paths.take(other), Some(first), "the same chain");
        assert_eq!(paths.take(one), Some(first));
        let last = paths.take(one).unwrap();
        assert_eq!(callers(&paths, last), [10]);
        assert_eq!(paths.take(one), None);
        assert_eq!(paths.take(ThreadId(1)), None);
        pushed(&mut paths, 0, &[0, u32::MAX]).unwrap();
        assert_eq!(paths.take(one), Some(PathId::EMPTY));
        assert_eq!(paths.take(one), None);
        assert_eq!(
            paths.left_out, 1,
            "it had a chain for which there was no room"
        );
    }

    #[test]
    fn a_call_below_one_that_was_not_told_is_refused() {
        let mut paths = Paths::default();
        assert!(paths.told(ThreadId(0), &[call(1, 10)]).is_err());
        assert!(pushed(&mut paths, 0, &[1]).is_err());
    }

    #[test]
    fn a_full_tree_knows_what_it_has() {
        let mut tree = CallTree::default();
        let first = tree.number(call(0, 0));
        for code in 1..NODES_MAX as u64 {
            tree.number(call(0, code));
        }
        let more = tree.number(call(0, u64::MAX));
        assert_eq!(more, PathId::UNKNOWN);
        assert_eq!(tree.number(call(more.0, 0)), PathId::UNKNOWN);
        assert_eq!(tree.number(call(0, 0)), first);
        assert_eq!(tree.len(), NODES_MAX);
    }
}
