//! The reasons for which recordings and processes end.

use std::fmt;

use crate::EncodeError;
use crate::declare::written;
use crate::form::{Code, Signed, Stop, Written};
use crate::shape::Shape;
use crate::wire::Cursor;

/// Reason for which a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The program exited.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// A signal ended the program.
    Signalled {
        /// Number of the signal.
        signal: i32,
    },
    /// The user ended the recording; the program may have run on.
    Stopped,
    /// The program replaced itself by another one, which was not recorded.
    Exec,
    /// A process was gone without a word: something killed it.
    Killed,
    /// A process runs on, or ran on, unrecorded.
    Lost {
        /// The reason.
        loss: Loss,
    },
    /// A reason that a later version of the format added.
    Other {
        /// Its number.
        code: u8,
        /// Value that it carries.
        value: i64,
    },
}

/// The reason for which the rest of a process is not in its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// More threads run than the recorder has room for.
    Threads,
    /// Its messages could not be read.
    BadMessage,
    /// It stood still for longer than the user wanted to wait.
    Stalled,
    /// A reason that a later version of the format added.
    Other(i64),
}

impl Loss {
    /// Number of the reason in recordings.
    pub fn code(self) -> i64 {
        match self {
            Loss::Threads => 1,
            Loss::BadMessage => 2,
            Loss::Stalled => 3,
            Loss::Other(code) => code,
        }
    }

    /// The reason with this number.
    pub fn of_code(code: i64) -> Loss {
        match code {
            1 => Loss::Threads,
            2 => Loss::BadMessage,
            3 => Loss::Stalled,
            code => Loss::Other(code),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Threads => f.write_str("more threads than the recorder has room for"),
            Loss::BadMessage => f.write_str("its messages could not be read"),
            Loss::Stalled => f.write_str("it stood still"),
            Loss::Other(code) => write!(f, "reason {code} of a later version"),
        }
    }
}

impl EndReason {
    /// Returns true if a part of the process may be missing that no request of the user left out.
    pub fn is_loss(self) -> bool {
        matches!(self, EndReason::Lost { .. })
    }
}

/// The reasons by number.
const REASONS: [&str; 6] = [
    "It exited; the value is its status.",
    "A signal ended it; the value is its number.",
    "The user ended the recording.",
    "Another program replaced it.",
    "It was gone without a word.",
    "The rest is not recorded, because there were more threads than there is room for (value 1), its \
     messages could not be read (2), or it stood still (3).",
];

written! {
    /// An [`EndReason`] in numbers.
    struct Numbers {
        /// The reason.
        code: u8 => Code(&REASONS);
        /// Number that it gives for itself, else 0.
        value: i64 => Signed;
    }
}

impl Written for EndReason {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let (code, value) = match *self {
            EndReason::Exited { status } => (0, status.into()),
            EndReason::Signalled { signal } => (1, signal.into()),
            EndReason::Stopped => (2, 0),
            EndReason::Exec => (3, 0),
            EndReason::Killed => (4, 0),
            EndReason::Lost { loss } => (5, loss.code()),
            EndReason::Other { code, value } => (code, value),
        };
        Numbers { code, value }.put(out)
    }

    fn take(cursor: &mut Cursor<'_>) -> Result<EndReason, Stop> {
        let Numbers { code, value } = Numbers::take(cursor)?;
        Ok(match (code, i32::try_from(value)) {
            (0, Ok(status)) => EndReason::Exited { status },
            (1, Ok(signal)) => EndReason::Signalled { signal },
            (2, _) => EndReason::Stopped,
            (3, _) => EndReason::Exec,
            (4, _) => EndReason::Killed,
            (5, _) => EndReason::Lost {
                loss: Loss::of_code(value),
            },
            _ => EndReason::Other { code, value },
        })
    }

    fn shape() -> Shape {
        Numbers::shape()
    }
}
