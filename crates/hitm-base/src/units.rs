//! Units of time. Virtual time is an integer number of CPU cycles; nanoseconds appear only where a
//! person or a machine file speaks.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};
use zerocopy::{Immutable, IntoBytes};

/// A point in virtual time, or a span of it, in cycles of the modelled clock.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    IntoBytes,
    Immutable,
    Serialize,
    Deserialize,
)]
#[repr(transparent)]
pub struct Cycles(pub u64);

impl Cycles {
    /// No time at all, and the start of virtual time.
    pub const ZERO: Cycles = Cycles(0);
    /// Later than any event: "never".
    pub const MAX: Cycles = Cycles(u64::MAX);

    /// The span since `earlier`, or zero when `earlier` is later.
    pub const fn saturating_sub(self, earlier: Cycles) -> Cycles {
        Cycles(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Cycles {
    type Output = Cycles;
    fn add(self, other: Cycles) -> Cycles {
        Cycles(self.0 + other.0)
    }
}

impl Sub for Cycles {
    type Output = Cycles;
    fn sub(self, other: Cycles) -> Cycles {
        Cycles(self.0 - other.0)
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Cycles) {
        self.0 += other.0;
    }
}

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A span of time in nanoseconds, with the tenths and hundredths that latency tables carry.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Nanos(pub f64);

/// The frequency of the modelled CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    khz: u64,
}

impl Clock {
    /// A clock of `khz` kilohertz. Panics when it is zero.
    pub const fn from_khz(khz: u64) -> Clock {
        assert!(khz > 0, "a clock needs a frequency");
        Clock { khz }
    }

    /// The frequency in kilohertz.
    pub const fn khz(self) -> u64 {
        self.khz
    }

    /// `span` in whole cycles, rounded to the nearest.
    pub fn cycles(self, span: Nanos) -> Cycles {
        Cycles((span.0 * self.khz as f64 / 1e6).round() as u64)
    }

    /// `span` in nanoseconds.
    pub fn nanos(self, span: Cycles) -> Nanos {
        Nanos(span.0 as f64 * 1e6 / self.khz as f64)
    }
}
