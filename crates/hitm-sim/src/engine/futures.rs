//! The awaits of simulated code. Each is a small value without a heap allocation; it asks the state
//! of the run, and is polled again when its CPU is resumed.
//!
//! Loads and stores stand in hundreds of places of the kernel's code. Each is polled in one
//! function that is not inlined: the code runs from the host's instruction cache, which is small.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hitm_base::Cycles;

use super::Engine;
use super::cpu::{StackId, Vector, Wait};
use super::join::JoinKind;
use super::memory::{Place, Rmw, Site};
use super::state::{State, Step};
use super::store_buffer::Posted;

/// Polls an access until it is done or under way, and then its result.
#[inline]
fn poll_access(
    engine: &Engine,
    is_under_way: &mut bool,
    ask: impl FnOnce(&mut State) -> Step,
) -> Poll<u64> {
    let mut state = engine.state.borrow_mut();
    if *is_under_way {
        return Poll::Ready(state.cpus[state.current].result);
    }
    let step = ask(&mut state);
    *is_under_way = step == Step::Later;
    step.poll()
}

/// A load. Its output is the value.
#[derive(Debug)]
pub struct LoadFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) place: Place,
    pub(super) site: Site,
    pub(super) is_under_way: bool,
}

impl Future for LoadFuture<'_> {
    type Output = u64;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let this = &mut *self;
        let ask = |state: &mut State| state.load(this.place, this.site);
        poll_access(this.engine, &mut this.is_under_way, ask)
    }
}

/// A load of a member that has no value.
#[derive(Debug)]
pub struct TouchFuture<'e>(pub(super) LoadFuture<'e>);

impl Future for TouchFuture<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}

/// A load of a word whose value is known.
#[derive(Debug)]
pub struct KnownFuture<'e> {
    pub(super) load: LoadFuture<'e>,
    pub(super) known: u64,
}

impl Future for KnownFuture<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let value = std::task::ready!(Pin::new(&mut self.load).poll(context));
        debug_assert_eq!(value, self.known, "a word differs from what it mirrors");
        Poll::Ready(())
    }
}

/// A locked operation. Its output is the value before it.
#[derive(Debug)]
pub struct RmwFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) place: Place,
    pub(super) site: Site,
    pub(super) rmw: Rmw,
    pub(super) is_under_way: bool,
}

impl Future for RmwFuture<'_> {
    type Output = u64;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let this = &mut *self;
        let ask = |state: &mut State| state.exchange(this.place, this.rmw, this.site);
        poll_access(this.engine, &mut this.is_under_way, ask)
    }
}

/// A plain store.
#[derive(Debug)]
pub struct StoreFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) posted: Posted,
}

impl Future for StoreFuture<'_> {
    type Output = ();

    #[inline(never)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut state = self.engine.state.borrow_mut();
        state.post(self.posted).poll().map(drop)
    }
}

/// A full fence.
#[derive(Debug)]
pub struct FenceFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) site: Site,
    pub(super) place: Place,
}

impl Future for FenceFuture<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut state = self.engine.state.borrow_mut();
        state.fence(self.place, self.site).poll().map(drop)
    }
}

/// Independent loads.
#[derive(Debug)]
pub struct JoinFuture<'e, 'p, F> {
    engine: &'e Engine,
    site: Site,
    places: &'p [Place],
    use_value: F,
    kind: JoinKind,
    is_started: bool,
}

impl<'e, 'p, F: FnMut(usize, u64) + Unpin> JoinFuture<'e, 'p, F> {
    pub(super) fn new(
        engine: &'e Engine,
        site: Site,
        places: &'p [Place],
        kind: JoinKind,
        use_value: F,
    ) -> JoinFuture<'e, 'p, F> {
        JoinFuture {
            engine,
            site,
            places,
            use_value,
            kind,
            is_started: false,
        }
    }
}

impl<F: FnMut(usize, u64) + Unpin> Future for JoinFuture<'_, '_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.engine.state.borrow_mut();
        let start = (!this.is_started).then_some(this.kind);
        match state.join(this.places, this.site, start) {
            Step::Done(_) => {
                let join = state.cpus[state.current].join.as_ref();
                let results = join.iter().flat_map(|join| &join.results);
                for (index, value) in results.enumerate() {
                    if Some(index) != this.kind.skipped {
                        (this.use_value)(index, *value);
                    }
                }
                state.end_join();
                Poll::Ready(())
            }
            Step::Again => Poll::Pending,
            Step::Later => {
                this.is_started = true;
                Poll::Pending
            }
        }
    }
}

/// Waits on a line for a write to it.
#[derive(Debug)]
pub struct ParkFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) place: Place,
    pub(super) seen: u64,
    pub(super) until: Cycles,
    pub(super) is_parked: bool,
}

impl Future for ParkFuture<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_parked {
            if self.until < Cycles::MAX {
                self.engine.state.borrow_mut().end_park();
            }
            return Poll::Ready(());
        }
        let step = {
            let mut state = self.engine.state.borrow_mut();
            state.park(self.place, self.seen, self.until)
        };
        match step {
            Step::Done(_) => Poll::Ready(()),
            Step::Again => Poll::Pending,
            Step::Later => {
                self.is_parked = true;
                Poll::Pending
            }
        }
    }
}

/// Runs code without accesses; its output is what an interrupt left of it.
#[derive(Debug)]
pub struct RunFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) span: Cycles,
    pub(super) is_started: bool,
}

impl Future for RunFuture<'_> {
    type Output = Cycles;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Cycles> {
        let mut state = self.engine.state.borrow_mut();
        let current = state.current;
        let cpu = &mut state.cpus[current];
        if self.is_started {
            return Poll::Ready(cpu.run_left);
        }
        cpu.run_left = Cycles::ZERO;
        cpu.wait = Wait::Run;
        cpu.resume_at = cpu.clock + self.span;
        drop(state);
        self.is_started = true;
        Poll::Pending
    }
}

/// Leaves the CPU to another stack, until some CPU switches back to this one.
#[derive(Debug)]
pub struct SwitchFuture<'e> {
    pub(super) engine: &'e Engine,
    pub(super) next: StackId,
    pub(super) is_left: bool,
}

impl Future for SwitchFuture<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_left {
            return Poll::Ready(());
        }
        {
            let mut state = self.engine.state.borrow_mut();
            let current = state.current;
            let cpu = &mut state.cpus[current];
            assert!(
                cpu.interrupted.is_none(),
                "an interrupt handler does not switch stacks"
            );
            cpu.stack = Some(self.next);
            state.sync();
        }
        self.is_left = true;
        Poll::Pending
    }
}

/// The next interrupt of a CPU; awaiting it ends the handler when there is none.
#[derive(Debug)]
pub struct InterruptFuture<'e> {
    pub(super) engine: &'e Engine,
}

impl Future for InterruptFuture<'_> {
    type Output = Vector;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Vector> {
        let mut state = self.engine.state.borrow_mut();
        match state.next_vector() {
            Some(vector) => Poll::Ready(vector),
            None => {
                if state.cpus[state.current].interrupted.is_some() {
                    state.return_from_interrupt();
                }
                Poll::Pending
            }
        }
    }
}

impl Step {
    fn poll(self) -> Poll<u64> {
        match self {
            Step::Done(value) => Poll::Ready(value),
            Step::Again | Step::Later => Poll::Pending,
        }
    }
}
