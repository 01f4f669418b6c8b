//! A ring of blocks in memory that two processes share: one produces, one consumes.
//!
//! The recording process creates the ring in a mapping of its own making ([`Consumer::create`]) and
//! hands the mapping to the recorded one, which joins it ([`Producer::attach`]). Records are encoded
//! straight into the shared slots, and [`Producer::commit`] publishes how far a slot is filled. A
//! producer that is killed the next instant has lost nothing that it committed: the mapping outlives
//! it, and [`Consumer::take_partial`] picks up the unfinished slot.
//!
//! ```text
//!  control page (4096 bytes)                    slot headers            slots
//!  0 what the ring is | 64 the producer's words | 64 bytes for each ... | slot_len bytes for each ...
//!                     | 128 the consumer's words
//! ```
//! Each slot goes FREE -> FILLING -> FULL -> FREE. The producer makes the first two steps and the
//! consumer the last one, both in the order of the slots. So a slot's bytes belong to one side at a
//! time and each step is one release store that the other side's acquire load pairs with.
//!
//! The recorded program shares the mapping and may overwrite anything in it. The consumer believes no
//! number that it finds there, checks it against the slot's size, and copies before it looks.
//!
//! Invariants: No record that was pushed and committed is dropped or comes twice. Nothing here waits,
//! sleeps or calls the operating system, so what to do about a full ring is the caller's decision.

mod consumer;
mod layout;
mod producer;
mod snapshot;

pub use consumer::{Block, Consumer, ProducerState};
pub use layout::{RingConfig, RingError};
pub use producer::{Producer, PushError};
pub use snapshot::{RingSnapshot, SlotState, SlotView};
