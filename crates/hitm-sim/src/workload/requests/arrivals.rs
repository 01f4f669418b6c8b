//! Sources of requests: one for each CPU that takes their interrupts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::Cycles;

use super::{Request, Requests};
use crate::engine::Random;
use crate::kernel::{Arrivals, Kernel, TaskId};

/// The times of arrivals.
#[derive(Debug)]
pub(super) enum Pattern {
    Poisson {
        random: RefCell<Random>,
        mean: Cycles,
        batch: u64,
        /// Time of the next, and requests that are left of it.
        next: Cell<(Cycles, u64)>,
    },
    /// Times and CPU times, and the number of the next.
    Traced(Vec<(Cycles, Cycles)>, Cell<usize>),
}

impl Pattern {
    pub(super) fn poisson(mut random: Random, mean: Cycles, batch: u64) -> Pattern {
        let first = Cycles(random.exponential(mean.0));
        Pattern::Poisson {
            random: RefCell::new(random),
            mean,
            batch,
            next: Cell::new((first, batch)),
        }
    }

    pub(super) fn traced(all: Vec<(Cycles, Cycles)>) -> Pattern {
        Pattern::Traced(all, Cell::new(0))
    }

    fn next_at(&self) -> Option<Cycles> {
        match self {
            Pattern::Poisson { next, .. } => Some(next.get().0),
            Pattern::Traced(all, number) => all.get(number.get()).map(|(at, _)| *at),
        }
    }

    /// Takes the next arrival; its time, and its CPU time if it states one.
    fn take(&self) -> Option<(Cycles, Option<Cycles>)> {
        match self {
            Pattern::Poisson {
                random,
                mean,
                batch,
                next,
            } => {
                let (at, left) = next.get();
                next.set(match left {
                    0 | 1 => (at + Cycles(random.borrow_mut().exponential(mean.0)), *batch),
                    left => (at, left - 1),
                });
                Some((at, None))
            }
            Pattern::Traced(all, number) => {
                let (at, service) = *all.get(number.get())?;
                number.set(number.get() + 1);
                Some((at, Some(service)))
            }
        }
    }
}

/// A part of the requests of a service.
#[derive(Debug)]
pub(super) struct Source {
    requests: Rc<Requests>,
    kernel: std::rc::Weak<Kernel>,
    pattern: Pattern,
}

impl Source {
    pub(super) fn new(requests: Rc<Requests>, kernel: &Rc<Kernel>, pattern: Pattern) -> Source {
        Source {
            requests,
            // The kernel has the source.
            kernel: Rc::downgrade(kernel),
            pattern,
        }
    }
}

impl Arrivals for Source {
    fn next_at(&self) -> Option<Cycles> {
        self.pattern.next_at()
    }

    fn take(&self) -> Option<TaskId> {
        let (arrived, service) = self.pattern.take()?;
        let kernel = self.kernel.upgrade()?;
        let service = service.unwrap_or_else(|| self.requests.draw(&kernel));
        self.requests.arrive(Request { arrived, service })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_arrive_at_once_and_traces_in_order() {
        let poisson = Pattern::poisson(Random::new(1), Cycles(1_000), 3);
        let times: Vec<Cycles> = (0..300).map(|_| poisson.take().unwrap().0).collect();
        for batch in times.chunks(3) {
            assert!(batch.iter().all(|at| *at == batch[0]));
        }
        assert!(times.is_sorted());
        let mean = times[299].0 / 100;
        assert!((800..1_200).contains(&mean), "{mean}");
        let traced = Pattern::traced(vec![(Cycles(5), Cycles(7)), (Cycles(9), Cycles(1))]);
        assert_eq!(traced.next_at(), Some(Cycles(5)));
        assert_eq!(traced.take(), Some((Cycles(5), Some(Cycles(7)))));
        assert_eq!(traced.take(), Some((Cycles(9), Some(Cycles(1)))));
        assert_eq!((traced.next_at(), traced.take()), (None, None));
    }
}
