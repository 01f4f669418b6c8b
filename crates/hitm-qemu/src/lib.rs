//! The recorder: what runs inside QEMU while a program is recorded.
//!
//! QEMU calls back for every block of instructions, every access to memory and every system call.
//! Accesses to lines that only one thread has touched are counted and forgotten
//! (`first_touch`); the others wait in the thread's `vcpu` until the thread reaches the
//! `barrier`, where they are woven into one order, priced, and written to a ring in shared memory
//! (`output`).
//!
//! Started by `hitm record`, which puts the recording's header into the shared region
//! (`config`). `recorder` has the callbacks for a program, `system` those for a whole machine.
//!
//! Not recorded, and why: page walks and interrupt frames (QEMU does not show them); forked
//! children and programs started by exec (another process, which has no barrier in common; both
//! are counted).

mod api;
mod barrier;
mod config;
mod decode;
mod first_touch;
mod guest;
mod guest_memory;
mod heap;
mod mappings;
mod output;
mod parker;
mod recorder;
mod system;
mod vcpu;
mod wakes;

pub use api::QemuInfo;
pub use recorder::install;
