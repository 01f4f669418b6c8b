//! Work of each thread between its stored accesses, and changes in who runs. A replay needs both to
//! run a recording again with other prices.

use hitm_base::{Cycles, LineAddr, ThreadId};

use crate::block::LINE_MAX;
use crate::declare::written;
use crate::form::{As, Form, NUMBER, Number, Signed, Stop, THREAD, Tag, Whole, Word, Written};
use crate::limits::check_line;
use crate::shape::{Member, Quantity, Shape};
use crate::wire::{Cursor, delta, push_varint, undelta};
use crate::{DecodeFault, EncodeError};

written! {
    /// A stretch of a thread's program.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Stretch {
        /// Instructions.
        pub insns: u64 => NUMBER;
        /// Plain stores, those to private lines included: they pass through the store buffer.
        pub stores: u64 => NUMBER;
    }
}

/// The next stored access of a thread, or a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// From the step before to this one.
    pub since: Stretch,
    /// A fence, which is not stored as an access.
    pub is_fence: bool,
}

/// Steps of one thread in program order, as compact as in the file: mostly a byte each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps {
    bytes: Vec<u8>,
    len: usize,
}

/// First byte of a step, bits 0 and 1: stores, or [`STORES_EXPLICIT`].
const STORES_MASK: u8 = 3;
/// The stores are a varint of their own.
const STORES_EXPLICIT: u8 = 3;
/// First byte, bit 2: a fence.
const FENCE: u8 = 4;
/// First byte, bits 3 to 7: instructions; the highest value means that a varint adds to it.
const INSNS_SHIFT: u32 = 3;
const INSNS_EXPLICIT: u8 = 31;

impl Steps {
    /// Number of steps.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no step.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that they take in a file.
    pub fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the next step.
    pub fn push(&mut self, step: Step) {
        let Stretch { insns, stores } = step.since;
        let few_insns = insns.min(INSNS_EXPLICIT.into()) as u8;
        let few_stores = stores.min(STORES_EXPLICIT.into()) as u8;
        let fence = if step.is_fence { FENCE } else { 0 };
        self.bytes
            .push(few_insns << INSNS_SHIFT | fence | few_stores);
        if few_insns == INSNS_EXPLICIT {
            push_varint(&mut self.bytes, insns - u64::from(INSNS_EXPLICIT));
        }
        if few_stores == STORES_EXPLICIT {
            push_varint(&mut self.bytes, stores - u64::from(STORES_EXPLICIT));
        }
        self.len += 1;
    }

    /// The steps, in program order.
    pub fn iter(&self) -> impl Iterator<Item = Step> + '_ {
        let mut cursor = Cursor::new(&self.bytes);
        (0..self.len).map(move |_| {
            read_step(&mut cursor).expect("the bytes were checked when they were taken in")
        })
    }
}

impl Written for Steps {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_varint(out, self.len as u64);
        out.extend_from_slice(&self.bytes);
        Ok(())
    }

    fn take(cursor: &mut Cursor<'_>) -> Result<Steps, Stop> {
        let mut steps = Steps::default();
        for _ in 0..cursor.count()? {
            // Written anew, so that every step has one form.
            steps.push(read_step(cursor)?);
        }
        Ok(steps)
    }

    fn shape() -> Shape {
        Shape::Steps
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(iter: I) -> Steps {
        let mut steps = Steps::default();
        iter.into_iter().for_each(|step| steps.push(step));
        steps
    }
}

fn read_step(cursor: &mut Cursor<'_>) -> Result<Step, DecodeFault> {
    let first = cursor.byte()?;
    let few_insns = first >> INSNS_SHIFT;
    let insns = read_rest(cursor, few_insns, INSNS_EXPLICIT, "instructions of a step")?;
    let few_stores = first & STORES_MASK;
    let stores = read_rest(cursor, few_stores, STORES_EXPLICIT, "stores of a step")?;
    Ok(Step {
        since: Stretch { insns, stores },
        is_fence: first & FENCE != 0,
    })
}

fn read_rest(
    cursor: &mut Cursor<'_>,
    few: u8,
    explicit: u8,
    field: &'static str,
) -> Result<u64, DecodeFault> {
    let rest = cursor.varint_if(few == explicit)?;
    let found = u64::from(few).checked_add(rest);
    found.ok_or(DecodeFault::OutOfRange { field, found: rest })
}

written! {
    /// Work of a thread up to some point. It comes before the accesses themselves, which are stored
    /// once they are priced.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Work {
        /// The thread.
        pub thread: ThreadId => THREAD;
        /// Lines that it took from others: its first access to each is among the steps.
        pub adoptions: Vec<Adoption> => Adoptions;
        /// Its next accesses and fences.
        pub steps: Steps => Whole;
        /// From the last step that the thread ever made to where it is now.
        pub ahead: Stretch => Whole;
    }
}

/// A line that one thread alone had used until now, unrecorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adoption {
    /// The line.
    pub line: LineAddr,
    /// The thread that alone had used it.
    pub owner: ThreadId,
    /// True if that thread had written to it.
    pub is_written: bool,
}

/// A count and that many adoptions: each line as its difference to the one before.
#[derive(Debug)]
struct Adoptions;

impl Form<Vec<Adoption>> for Adoptions {
    fn put(&self, adoptions: &Vec<Adoption>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        push_varint(out, adoptions.len() as u64);
        let mut last = 0;
        for adoption in adoptions {
            check_line(adoption.line)?;
            push_varint(out, delta(last, adoption.line.0));
            push_varint(
                out,
                adoption.owner.word() << 1 | u64::from(adoption.is_written),
            );
            last = adoption.line.0;
        }
        Ok(())
    }

    fn take(&self, cursor: &mut Cursor<'_>) -> Result<Vec<Adoption>, Stop> {
        let count = cursor.count()?;
        let mut last = 0;
        (0..count)
            .map(|_| read_adoption(cursor, &mut last))
            .collect()
    }

    fn shape(&self) -> Shape {
        let member = |name, doc, quantity, most| Member {
            name,
            doc,
            since: 0,
            shape: Shape::Number { quantity, most },
        };
        let owner = "The thread that alone had used it; plus 1 if that thread had written to it.";
        Shape::Many(vec![
            member("line", "The line.", Quantity::LineStep, LINE_MAX),
            member("owner", owner, Quantity::ThreadAndFlag, u32::MAX.into()),
        ])
    }
}

fn read_adoption(cursor: &mut Cursor<'_>, last: &mut u64) -> Result<Adoption, Stop> {
    let out_of_range = |field, found| DecodeFault::OutOfRange { field, found };
    *last = undelta(*last, cursor.varint()?);
    if *last > LINE_MAX {
        return Err(out_of_range("line", *last).into());
    }
    let owner = cursor.varint()?;
    let number = u32::try_from(owner >> 1).map_err(|_| out_of_range("thread", owner >> 1))?;
    Ok(Adoption {
        line: LineAddr(*last),
        owner: ThreadId(number),
        is_written: owner & 1 == 1,
    })
}

/// A change in who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The thread waits for something outside the model, or has ended.
    Left {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread is back.
    Returned {
        /// The thread.
        thread: ThreadId,
        /// Waker that ended its wait, where it is known.
        waker: Option<Waker>,
    },
    /// Everything up to the slowest running thread was priced.
    Priced,
    /// Time passed while no thread ran.
    Passed {
        /// Length of that time.
        span: Cycles,
    },
}

/// The form of a [`Turn`].
pub(crate) const TURN: As<WrittenTurn> = As::FORM;

written! {
    /// A [`Turn`], with a number for each of its forms.
    pub(crate) enum WrittenTurn by Tag::Byte; {
        /// The thread waits for something outside the model, or has ended.
        0 Left {
            /// The thread.
            thread: ThreadId => THREAD;
        },
        /// The thread is back.
        1 Returned {
            /// The thread.
            thread: ThreadId => THREAD;
        },
        /// The thread is back, and it is known who woke it.
        2 Woken {
            /// The thread.
            thread: ThreadId => THREAD;
            /// Its waker.
            waker: Waker => Whole;
        },
        /// Everything up to the slowest running thread was priced.
        3 Priced,
        /// Time passed while no thread ran.
        4 Passed {
            /// Length of that time.
            span: Cycles => Number::count("time");
        },
    }
}

impl From<Turn> for WrittenTurn {
    fn from(turn: Turn) -> WrittenTurn {
        match turn {
            Turn::Left { thread } => WrittenTurn::Left { thread },
            Turn::Returned { thread, waker } => match waker {
                None => WrittenTurn::Returned { thread },
                Some(waker) => WrittenTurn::Woken { thread, waker },
            },
            Turn::Priced => WrittenTurn::Priced,
            Turn::Passed { span } => WrittenTurn::Passed { span },
        }
    }
}

impl From<WrittenTurn> for Turn {
    fn from(turn: WrittenTurn) -> Turn {
        let returned = |thread, waker| Turn::Returned { thread, waker };
        match turn {
            WrittenTurn::Left { thread } => Turn::Left { thread },
            WrittenTurn::Returned { thread } => returned(thread, None),
            WrittenTurn::Woken { thread, waker } => returned(thread, Some(waker)),
            WrittenTurn::Priced => Turn::Priced,
            WrittenTurn::Passed { span } => Turn::Passed { span },
        }
    }
}

written! {
    /// Instruction by which another thread ended a wait.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Waker {
        /// The other thread.
        pub thread: ThreadId => THREAD;
        /// The instruction by which it did.
        pub insn: u64 => NUMBER;
        /// From that instruction's time to the end of the wait, in cycles; below zero when the waiter
        /// came back behind its waker, though within the window.
        pub delay: i64 => Signed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_steps_take_a_byte() {
        let step = |insns, stores, is_fence| Step {
            since: Stretch { insns, stores },
            is_fence,
        };
        let check = |steps: &[Step], bytes: &[u8]| {
            let encoded: Steps = steps.iter().copied().collect();
            assert_eq!(encoded.bytes, bytes);
            assert_eq!(encoded.iter().collect::<Vec<_>>(), steps);
        };
        check(&[step(5, 1, false), step(0, 0, true)], &[0x29, 0x04]);
        check(&[step(30, 2, false)], &[0xf2]);
        check(&[step(31, 3, false)], &[0xfb, 0, 0]);
        check(&[step(231, 0, false)], &[0xf8, 0xc8, 0x01]);
        let most = step(u64::MAX, u64::MAX, true);
        assert_eq!(Steps::from_iter([most]).iter().next(), Some(most));
    }
}
