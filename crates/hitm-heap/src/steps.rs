//! Distances from one return address on the stack to the next.
//!
//! The frame of a function has one size at each of its calls, unless the function takes memory from
//! the stack as it needs it (`alloca`, arrays of variable length, realigned frames). So the return
//! address of a call decides where the caller's own return address lies. Call sites at which two
//! distances were found are never walked over.
//!
//! All threads share the table: it is made of atomic words, and a lost race costs an unwinding.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Call sites that are remembered; a power of two. Those beyond are unwound each time.
const SITES: usize = 1 << 14;

/// Places at which a call site may stand.
const PROBES: usize = 8;

/// No distance is known yet.
const UNKNOWN: usize = 0;
/// The stack ends here. Distances are multiples of 8.
const LAST: usize = 1;
/// Several distances were found.
const VARIES: usize = 2;

/// The stack above a return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next return address, so many bytes up.
    Up(usize),
    /// Nothing that the unwinder knows of.
    Last,
}

/// Known call sites.
pub(crate) struct Steps {
    /// Return addresses; 0 where there is room.
    sites: [AtomicUsize; SITES],
    distances: [AtomicUsize; SITES],
}

impl Steps {
    pub(crate) const fn new() -> Steps {
        Steps {
            sites: [const { AtomicUsize::new(0) }; SITES],
            distances: [const { AtomicUsize::new(UNKNOWN) }; SITES],
        }
    }

    /// The stack above `site`, if it is known and always the same.
    pub(crate) fn of(&self, site: usize) -> Option<Step> {
        let index = places(site).find(|index| {
            let found = self.sites[*index].load(Ordering::Acquire);
            found == site
        })?;
        match self.distances[index].load(Ordering::Acquire) {
            UNKNOWN | VARIES => None,
            LAST => Some(Step::Last),
            bytes => Some(Step::Up(bytes)),
        }
    }

    /// The unwinder has found `step` above `site`.
    pub(crate) fn learn(&self, site: usize, step: Step) {
        let learnt = match step {
            Step::Last => LAST,
            Step::Up(bytes) if bytes > 0 && bytes.is_multiple_of(8) => bytes,
            Step::Up(_) => VARIES,
        };
        let Some(index) = places(site).find(|index| self.claim(*index, site)) else {
            return;
        };
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let known = self.distances[index].compare_exchange(UNKNOWN, learnt, success, failure);
        if known.is_err_and(|known| known != learnt) {
            self.distances[index].store(VARIES, Ordering::Release);
        }
    }

    /// Returns true if the place is the site's, now or already.
    fn claim(&self, index: usize, site: usize) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let claimed = self.sites[index].compare_exchange(0, site, success, failure);
        claimed.is_ok() || claimed == Err(site)
    }
}

/// Places at which a site may stand, in the order in which they are tried.
fn places(site: usize) -> impl Iterator<Item = usize> {
    // Fibonacci hashing: return addresses differ in their lowest bits most.
    let first = site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SITES.trailing_zeros());
    (0..PROBES).map(move |probe| (first + probe) % SITES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_one_distance_or_none() {
        let steps: Box<Steps> = Box::new(Steps::new());
        assert_eq!(steps.of(0x1234), None);
        steps.learn(0x1234, Step::Up(48));
        steps.learn(0x1240, Step::Last);
        assert_eq!(steps.of(0x1234), Some(Step::Up(48)));
        steps.learn(0x1234, Step::Up(48));
        assert_eq!(steps.of(0x1234), Some(Step::Up(48)));
        steps.learn(0x1234, Step::Up(64));
        assert_eq!(steps.of(0x1234), None, "the frame's size varies");
        steps.learn(0x1234, Step::Up(48));
        assert_eq!(steps.of(0x1234), None);
        assert_eq!(steps.of(0x1240), Some(Step::Last));
        steps.learn(0x1250, Step::Up(0));
        assert_eq!(steps.of(0x1250), None);
    }

    #[test]
    fn a_full_table_forgets_nothing_and_learns_nothing_more() {
        let steps: Box<Steps> = Box::new(Steps::new());
        let sites = (1..4 * SITES).map(|site| site * 5);
        sites
            .clone()
            .for_each(|site| steps.learn(site, Step::Up(site * 8)));
        let known = sites.clone().filter(|site| steps.of(*site).is_some());
        let known = known.inspect(|site| assert_eq!(steps.of(*site), Some(Step::Up(site * 8))));
        assert!(known.count() > SITES / 2);
    }
}
