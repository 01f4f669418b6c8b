//! Growth: how the time and memory of each reader grow with each number of its input.
//!
//! A reader of untrusted input must not have a cost that is the square of a number in the input, or the
//! product of two of them. Each [`Input`] of the table has one such number, and the command lines of
//! `hitm` that read it. [`measure`] runs them on inputs of a size and of twice that size: the latter may
//! cost at most 2.5 times as much.
//!
//! Cost is CPU time and memory of the process, never time on the clock. The cost of the smallest input is
//! subtracted, so that what every run does counts for nothing.

mod measure;
mod programs;
mod recordings;
mod samples;
mod texts;
mod touches;

pub use measure::{Growth, Measured, measure};

/// Names and contents of files.
pub type Files = Vec<(String, Vec<u8>)>;

/// Inputs of any size of which one number grows, and what reads them.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// The number that grows: `threads of a recording`.
    pub number: &'static str,
    /// A size at which the readers take some 50 ms of CPU time, where they can be made to.
    pub size: usize,
    /// Makes the files for a size, 1 or more.
    pub make: fn(usize) -> Files,
    /// Command lines of `hitm` that read the files, run in their folder.
    pub readers: &'static [&'static str],
}

/// The table of all inputs.
pub fn inputs() -> Vec<Input> {
    [
        recordings::INPUTS,
        programs::INPUTS,
        samples::INPUTS,
        texts::INPUTS,
    ]
    .concat()
}
