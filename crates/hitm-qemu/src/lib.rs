//! The recorder: what runs inside QEMU while a program is recorded.
//!
//! QEMU calls back for every block of instructions, every access to memory and every system call.
//! Accesses to lines that only one thread has touched are counted and forgotten
//! (`first_touch`); the others wait in the thread's `vcpu` until the thread has used up its budget.
//! Then a program's thread hands them to `hitm record` (`link`), which weaves those of all
//! processes into one order, prices them and lets the thread continue. A machine's CPUs do that
//! among themselves (`barrier`).
//!
//! Started by `hitm record`, which puts the recording's header into the shared region
//! (`config`). `recorder` has the callbacks for a program, `system` those for a whole machine.
//!
//! Not recorded, and why: page walks and interrupt frames (QEMU does not show them).

mod allocators;
mod api;
mod arch;
mod barrier;
mod callers;
mod clock;
mod config;
mod cpu_files;
mod cpus;
mod emulator;
mod exec;
mod first_touch;
mod guard;
mod guest;
mod guest_memory;
mod heap;
mod hidden_thread;
mod home;
mod launch;
mod library;
mod link;
mod locks;
mod mappings;
mod memory;
mod parker;
mod paths;
mod recorder;
mod safe_syscall;
mod shared;
mod spins;
mod system;
mod thread_name;
mod timed;
mod timers;
mod turns;
mod vcpu;
mod waits;

pub use api::QemuInfo;
pub use recorder::install;
