//! Lists of messages, and what the session does about them.
//!
//! A transcript has a line for each message and look, and indented ones for what the session wants then.

mod ends;
mod joins;
mod waits;
mod world;

use crate::board::Request;

pub(super) use self::world::Kernel;
use self::world::{World, work};
