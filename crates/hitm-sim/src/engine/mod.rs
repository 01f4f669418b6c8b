//! The engine: virtual time, simulated CPUs, and a memory whose every access has a price and a
//! value.
//!
//! ```text
//!  stack (a boxed future)        Engine                         hitm-coherence
//!  ----------------------        ------                         --------------
//!  kernel code, async     --->   load, store, fetch_add, ...    Directory: who has the line,
//!    .await an access     <---   value, local clock moved on    what it costs, who waits
//!    .await a switch             one time per CPU in a
//!  interrupt handler             calendar
//! ```
//!
//! # What simulated code may do
//! All through [`Engine`], which a stack owns a clone of (`Rc<Engine>`). The code need not say on
//! which CPU it runs; it is the one whose slot polls it.
//!
//! | call | waits for | cost |
//! |---|---|---|
//! | [`Engine::load`], [`Engine::fetch_add`] and the other locked operations | the line; locked ones also for older stores | latency of the line |
//! | [`Engine::store`] | room in the store buffer | 1 cycle |
//! | [`Engine::load_all`] | all of them, overlapped in the fill buffers | the slowest |
//! | [`Engine::fence`] | older stores | a locked operation on an own line |
//! | [`Engine::work`] | nothing | as many cycles as said, no event |
//! | [`Engine::run`] | the time, or an interrupt | as many cycles as said |
//! | [`Engine::wait_for_write`] | a write to the line, or an interrupt | none while its copy is valid |
//! | [`Engine::switch_to`] | being switched to | none: the kernel model charges it |
//!
//! # Order
//! Events are in order of (time, class, CPU number), where the classes at one CPU are: store
//! buffer, interrupt, code. A line with waiters is served after all CPUs have reached its time, so
//! that all requests which arrive then compete. A CPU may act up to [`RUN_AHEAD`] before the
//! earliest event of the others.
//!
//! **Invariant:** the value of a word changes in the order in which its line is served. So a load
//! returns what a real CPU with total store order could see.
//!
//! **Invariant:** a stack holds no borrow of the state across an await. A CPU has at most one
//! access of its code, one of its store buffer and its joined loads under way.
//!
//! # Not modelled, and why
//! - Loads wait for their value unless they are joined: kernel code mostly branches on it.
//! - An interrupt waits for the access under way: it is shorter than the interrupt's own entry.
//! - What a spinner loses between the write and its next look at the line (`pause` takes up to 140
//!   cycles). It is below the hand-over that follows.

mod access;
mod arena;
mod calendar;
mod config;
mod cpu;
mod footprint;
mod futures;
mod hashes;
mod interrupt;
mod join;
mod log;
mod memory;
mod path;
mod pool;
mod profile;
mod run;
mod slab;
mod state;
mod store_buffer;
mod stores;
mod trace;

pub use arena::{Arena, Field, Object};
pub use config::{EngineConfig, MODEL_VERSION, RUN_AHEAD, RunHeader, SimError};
pub use cpu::{CpuTotals, Mode, StackId, VECTORS, Vector};
pub use footprint::{Extent, HostSpan};
pub use futures::{
    FenceFuture, InterruptFuture, JoinFuture, KnownFuture, LoadFuture, ParkFuture, RmwFuture,
    RunFuture, StoreFuture, SwitchFuture, TouchFuture,
};
pub use hitm_base::Random;
pub use memory::{Opaque, Place, Rmw, Site};
pub use pool::{ObjectPool, PrefetchStep};
pub use profile::{MemberKey, Profile, ProfileEntry, ProfileRow};
pub use run::{Engine, Executor, RunTotals};
pub use trace::{Trace, TraceNames};
pub(crate) use trace::{TracedLock, TracedTask};
