//! Events of a thread that have not been woven in yet, first in, first out.
//!
//! A thread that is far ahead of the slowest has millions of events. The next ones are kept as they are, the
//! others as bytes: differences to the one before, some ten bytes for 40.
//!
//! ```text
//! push -> [newest bytes] -> pages -> [oldest page] -> next events -> pop
//!     \______________________________________________/   while there are few
//! ```

use std::collections::VecDeque;

use hitm_base::{AccessOp, CodeAddr};
use hitm_trace::DecodeFault;
use hitm_trace::wire::{Cursor, delta, push_varint, undelta};

use crate::pages::{PAGE_BYTES, Page, Pages};
use crate::thread::ThreadEvent;

/// Events up to which a thread's are kept as they are: 160 KB. Between two barriers there are fewer.
const NEXT_MAX: usize = 4096;

/// Bytes that the longest event takes: two, and four varints.
const EVENT_BYTES_MAX: usize = 2 + 4 * 10;

/// The first event of a page is compared with it.
const ORIGIN: ThreadEvent = ThreadEvent {
    insn: 0,
    stores: 0,
    addr: 0,
    code: CodeAddr(0),
    size: 0,
    op: AccessOp::Load,
};

#[derive(Debug)]
pub(crate) struct Events {
    next: VecDeque<ThreadEvent>,
    /// Events after `next`, oldest first.
    pages: VecDeque<Page>,
    /// Events after the pages.
    newest: Vec<u8>,
    /// The last event in `newest`.
    last: ThreadEvent,
    kept: Pages,
}

impl Events {
    pub(crate) fn new(kept: Pages) -> Events {
        Events {
            next: VecDeque::new(),
            pages: VecDeque::new(),
            newest: Vec::new(),
            last: ORIGIN,
            kept,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    pub(crate) fn front(&self) -> Option<&ThreadEvent> {
        self.next.front()
    }

    /// The next events, as far as they are kept as they are.
    pub(crate) fn next(&self) -> impl Iterator<Item = &ThreadEvent> {
        self.next.iter()
    }

    pub(crate) fn extend(&mut self, events: &[ThreadEvent]) {
        let room = match self.newest.is_empty() && self.pages.is_empty() {
            true => NEXT_MAX.saturating_sub(self.next.len()),
            false => 0,
        };
        let (near, far) = events.split_at(room.min(events.len()));
        self.next.extend(near);
        for event in far {
            self.pack(event);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<ThreadEvent> {
        let event = self.next.pop_front()?;
        if self.next.is_empty() {
            self.refill();
        }
        Some(event)
    }

    fn pack(&mut self, event: &ThreadEvent) {
        if self.newest.len() + EVENT_BYTES_MAX > PAGE_BYTES {
            let page = std::mem::take(&mut self.newest);
            self.pages.push_back(self.kept.put(page));
            self.last = ORIGIN;
        }
        let last = std::mem::replace(&mut self.last, *event);
        self.newest.extend([event.op as u8, event.size]);
        for (before, now) in [
            (last.insn, event.insn),
            (last.stores, event.stores),
            (last.addr, event.addr),
            (last.code.0, event.code.0),
        ] {
            push_varint(&mut self.newest, delta(before, now));
        }
    }

    fn refill(&mut self) {
        let page = match self.pages.pop_front() {
            Some(page) => self.kept.take(page),
            None => {
                self.last = ORIGIN;
                std::mem::take(&mut self.newest)
            }
        };
        let (mut cursor, mut last) = (Cursor::new(&page), ORIGIN);
        while !cursor.is_at_end() {
            last = unpack(&mut cursor, &last).expect("pages hold whole events");
            self.next.push_back(last);
        }
    }
}

fn unpack(cursor: &mut Cursor<'_>, last: &ThreadEvent) -> Result<ThreadEvent, DecodeFault> {
    let (op, size) = (cursor.byte()?, cursor.byte()?);
    let mut from = |before| {
        cursor
            .varint()
            .map(|difference| undelta(before, difference))
    };
    Ok(ThreadEvent {
        op: AccessOp::ALL[usize::from(op)],
        size,
        insn: from(last.insn)?,
        stores: from(last.stores)?,
        addr: from(last.addr)?,
        code: CodeAddr(from(last.code.0)?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pages::TemporaryFiles;

    const FILES: TemporaryFiles = TemporaryFiles {
        open: tempfile::tempfile,
        explain: |error| error,
    };

    fn event() -> impl Strategy<Value = ThreadEvent> {
        let words = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        (words, any::<u8>(), 0..AccessOp::ALL.len(), 0u32..64).prop_map(
            |(words, size, op, shift)| {
                let (insn, stores, addr, code) = words;
                ThreadEvent {
                    insn: insn >> shift,
                    stores: stores >> shift,
                    addr: addr >> shift,
                    code: CodeAddr(code >> shift),
                    size,
                    op: AccessOp::ALL[op],
                }
            },
        )
    }

    #[test]
    fn a_file_that_cannot_be_made_loses_nothing_and_is_told() {
        let kept = Pages::default();
        let open = || Err(std::io::ErrorKind::StorageFull.into());
        kept.set_limit(0, TemporaryFiles { open, ..FILES });
        let mut events = Events::new(kept.clone());
        let made: Vec<ThreadEvent> = (0..20_000)
            .map(|insn| ThreadEvent { insn, ..ORIGIN })
            .collect();
        events.extend(&made);
        assert_eq!(
            std::iter::from_fn(|| events.pop()).collect::<Vec<_>>(),
            made
        );
        let failure = kept.failure().map(|error| error.kind());
        assert_eq!(failure, Some(std::io::ErrorKind::StorageFull));
    }

    #[test]
    fn operations_have_their_numbers() {
        for (number, op) in AccessOp::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, number);
        }
    }

    proptest! {
        /// However many are kept: they come out as they went in, from memory and from a file.
        #[test]
        fn events_come_out_in_order(
            made in prop::collection::vec(event(), 1..200),
            pushes in prop::collection::vec((0usize..9000, 0usize..9000), 1..12),
            max in prop_oneof![Just(None), Just(Some(0)), Just(Some(2 * PAGE_BYTES))],
        ) {
            let kept = Pages::default();
            max.into_iter().for_each(|bytes| kept.set_limit(bytes, FILES));
            let mut events = Events::new(kept.clone());
            let (mut pushed, mut popped) = (0usize, 0usize);
            for (push, pop) in pushes {
                let new: Vec<ThreadEvent> = (pushed..pushed + push).map(|n| made[n % made.len()]).collect();
                events.extend(&new);
                pushed += push;
                for _ in 0..pop.min(pushed - popped) {
                    let wanted = made[popped % made.len()];
                    prop_assert_eq!(events.front(), Some(&wanted));
                    prop_assert_eq!(events.pop(), Some(wanted));
                    popped += 1;
                }
                prop_assert_eq!(events.is_empty(), popped == pushed);
            }
            prop_assert!(kept.failure().is_none());
        }
    }
}
