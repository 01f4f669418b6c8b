//! The times at which a group is placed, moved and let go: by windows of time, with hysteresis.

/// Waiting threads that make a placement worthwhile. Assumed 2 (1 to 8): below, two CPUs and a
/// queue of one need no help.
pub const CROWD: f64 = 2.0;
/// Waiting threads below which the lock is calm. Assumed 0.25 (0.05 to 1): far from [`CROWD`], so
/// that placements do not flap.
pub const CALM: f64 = 0.25;
/// Consecutive windows after which a crowd is placed. Assumed 2 (1 to 5): one may be chance.
const CROWDED_WINDOWS: u32 = 2;
/// Consecutive windows after which a calm lock is released. Assumed 4 (2 to 20): programs take
/// breaks.
const CALM_WINDOWS: u32 = 4;
/// Consecutive windows after which another number of CPUs moves the threads. Assumed 3 (2 to 10).
const OTHER_SIZE_WINDOWS: u32 = 3;
/// Largest domain that still fits, as a multiple of the needed CPUs: domains come in sizes. Assumed
/// 4 (2 to 8).
const ROOM_MAX: usize = 4;

/// Numbers of waiting threads that decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// From here on a lock is crowded.
    pub crowd: f64,
    /// Below, it is calm.
    pub calm: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            crowd: CROWD,
            calm: CALM,
        }
    }
}

/// A lock in one window of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Threads that waited for it, on average over the window.
    pub waiting: f64,
    /// CPUs that its group needs; `None` when the window had too few uses to tell.
    pub needed: Option<usize>,
}

/// Decision at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Everything stays.
    Stay,
    /// The threads go to a domain with so many CPUs.
    Place(usize),
    /// They run everywhere again.
    Release,
}

/// The state of the decision.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    crowded: u32,
    calm: u32,
    other_size: u32,
    placed: Option<usize>,
}

impl Watch {
    /// Counts a window and decides.
    pub fn observe(&mut self, window: Window, limits: Limits) -> Step {
        let Window { waiting, needed } = window;
        let count = |is_so: bool, windows: u32| if is_so { windows + 1 } else { 0 };
        self.crowded = count(waiting >= limits.crowd, self.crowded);
        self.calm = count(waiting < limits.calm, self.calm);
        match (self.placed, needed) {
            (None, Some(needed)) if self.crowded >= CROWDED_WINDOWS => Step::Place(needed),
            (Some(_), _) if self.calm >= CALM_WINDOWS => Step::Release,
            (Some(cpus), Some(needed)) => {
                let fits = needed <= cpus && cpus < needed.max(2).saturating_mul(ROOM_MAX);
                // A lock that nobody fights for is no reason to move.
                let stays = fits || self.calm > 0;
                self.other_size = count(!stays, self.other_size);
                if self.other_size < OTHER_SIZE_WINDOWS {
                    return Step::Stay;
                }
                self.other_size = 0;
                Step::Place(needed)
            }
            _ => Step::Stay,
        }
    }

    /// Notes the result of a decision: the size of the domain, or none.
    pub fn settle(&mut self, cpus: Option<usize>) {
        *self = Watch {
            placed: cpus,
            ..Watch::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One window: waiting threads, and CPUs needed, 0 for too few uses.
    struct Seen(f64, usize);

    /// Decisions for windows, where each placement gets a domain of `size` CPUs or as many as it needs.
    fn steps(size: usize, windows: &[Seen]) -> String {
        let mut watch = Watch::default();
        let mut step = |seen: &Seen| {
            let window = Window {
                waiting: seen.0,
                needed: (seen.1 > 0).then_some(seen.1),
            };
            match watch.observe(window, Limits::default()) {
                Step::Stay => 's',
                Step::Release => {
                    watch.settle(None);
                    'r'
                }
                Step::Place(needed) => {
                    watch.settle(Some(size.max(needed)));
                    'p'
                }
            }
        };
        windows.iter().map(&mut step).collect()
    }

    #[test]
    fn one_crowded_window_is_not_enough_and_calm_ones_end_it() {
        let waits = [3.0, 1.0, 3.0, 3.0, 0.2, 0.2, 2.0, 0.2, 0.2, 0.2, 0.2, 0.2];
        let windows = waits.map(|waiting| Seen(waiting, 3));
        assert_eq!(steps(4, &windows), "ssspssssssrs");
    }

    #[test]
    fn another_size_moves_the_threads_after_three_windows() {
        let windows = [3, 3, 8, 3, 8, 8, 8, 8, 1, 1, 1].map(|needed| Seen(3.0, needed));
        assert_eq!(steps(4, &windows), "spsssspsssp");
        let somewhat_fewer = [3, 3, 2, 2, 2, 2].map(|needed| Seen(3.0, needed));
        assert_eq!(steps(4, &somewhat_fewer), "spssss");
    }

    #[test]
    fn a_calm_lock_does_not_move() {
        let windows = [
            Seen(3.0, 2),
            Seen(3.0, 2),
            Seen(0.1, 9),
            Seen(0.1, 9),
            Seen(0.1, 9),
            Seen(1.0, 9),
        ];
        assert_eq!(steps(2, &windows), "spssss");
    }

    #[test]
    fn windows_without_a_share_place_nothing_and_keep_what_is_placed() {
        let windows = [0, 0, 2, 0, 0, 0].map(|needed| Seen(3.0, needed));
        assert_eq!(steps(2, &windows), "sspsss");
    }
}
