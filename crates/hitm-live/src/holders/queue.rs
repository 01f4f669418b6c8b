//! Events, samples and writes in the order of their times, and the words that are worth a watch.

use std::collections::BTreeMap;

use hitm_bpf::{HolderEvent, Moment};

use super::account::Accounts;
use super::{Spun, SpunWord, Write};
use crate::lines::{Seen, WATCHES_MAX, WatchedWord, WordEvent};

/// Samples that spin for a word, of the last second or so, from which on it is watched.
const SAMPLES_ENOUGH: u64 = 3;
/// Looks after which counts are halved: a second.
const LOOKS_A_HALF: u32 = 20;

/// Items behind a write among which the event of its faults is looked for: it comes within microseconds.
const FAULTS_BEHIND: usize = 32;

/// Something that happened at a moment.
#[derive(Debug)]
pub(super) enum Item {
    Event(HolderEvent),
    Sample(Spun),
    Begins(WatchedWord),
    Writes(WatchedWord, u32, Write),
    Ends(WatchedWord),
}

/// A word that threads spin for.
#[derive(Debug, Default)]
struct Candidate {
    samples: u64,
    bytes: u64,
    is_watched: bool,
}

/// Items that are not accounted yet.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: Vec<(u64, Item)>,
    words: BTreeMap<WatchedWord, Candidate>,
    looked_ns: u64,
    look_count: u32,
}

impl Queue {
    /// Begins a look. Returns the moment of the one before: whatever came until then is there after this look.
    pub(super) fn begin_look(&mut self, now: u64) -> u64 {
        self.look_count = self.look_count.wrapping_add(1);
        if self.look_count.is_multiple_of(LOOKS_A_HALF) {
            for word in self.words.values_mut() {
                word.samples /= 2;
            }
            self.words
                .retain(|_, word| word.is_watched || word.samples > 0);
        }
        std::mem::replace(&mut self.looked_ns, now)
    }

    pub(super) fn add(&mut self, at: u64, item: Item) {
        if let Item::Sample(Spun {
            pid,
            word: Some(SpunWord { address, bytes }),
            ..
        }) = item
        {
            let known = self.words.entry(WatchedWord { pid, address });
            let known = known.or_default();
            known.samples += 1;
            known.bytes = known.bytes.max(bytes);
        }
        self.items.push((at, item));
    }

    /// Adds an event of a watched word.
    pub(super) fn add_word(
        &mut self,
        word: WatchedWord,
        event: WordEvent,
        tell: &mut dyn FnMut(&Seen) -> Write,
    ) {
        match event {
            WordEvent::Begins(at) => self.add(at, Item::Begins(word)),
            WordEvent::Ends(at) => self.add(at, Item::Ends(word)),
            WordEvent::Writes(seen) => {
                let write = tell(&seen);
                self.add(seen.time_ns, Item::Writes(word, seen.tid, write));
            }
        }
    }

    /// Words for whose watches there is no reason any more: nobody spins for them, or threads sleep for them, too.
    pub(super) fn words_to_leave(&mut self, accounts: &Accounts) -> Vec<WatchedWord> {
        let watched = self.words.iter_mut().filter(|(_, of)| of.is_watched);
        let left =
            watched.filter(|(word, of)| of.samples == 0 || accounts.is_slept_for(key(**word)));
        left.map(|(word, of)| {
            of.is_watched = false;
            *word
        })
        .collect()
    }

    /// Words that are watched from now on, with their bytes: those that most samples spin for.
    pub(super) fn words_to_watch(&mut self, accounts: &Accounts) -> Vec<(WatchedWord, u64)> {
        let watched_count = self.words.values().filter(|of| of.is_watched).count();
        let others = self.words.iter_mut().filter(|(word, of)| {
            !of.is_watched && of.samples >= SAMPLES_ENOUGH && !accounts.is_slept_for(key(**word))
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by_key(|(word, of)| (u64::MAX - of.samples, **word));
        let room = WATCHES_MAX.saturating_sub(watched_count);
        let chosen = others.into_iter().take(room);
        chosen
            .map(|(word, of)| {
                of.is_watched = true;
                (*word, of.bytes)
            })
            .collect()
    }

    /// Passes on what happened up to a moment, in order.
    pub(super) fn pass(&mut self, until: u64, accounts: &mut Accounts) {
        self.items.sort_by_key(|(at, _)| *at);
        let count = self.items.partition_point(|(at, _)| *at <= until);
        let items = self.items.drain(..count);
        let mut items: Vec<Option<(u64, Item)>> = items.map(Some).collect();
        for next in 0..items.len() {
            let Some((at, item)) = items[next].take() else {
                continue;
            };
            match item {
                Item::Event(event) => accounts.take(&event),
                Item::Sample(spun) => accounts.sampled(&spun),
                Item::Begins(word) => accounts.watch(key(word), at),
                Item::Writes(word, tid, write) => {
                    // A BPF program tells of the same write a little later: of the faults before it.
                    let behind = items[next + 1..].iter_mut().take(FAULTS_BEHIND);
                    if let Some(event) = behind.filter_map(|item| faults_of(item, tid)).next() {
                        accounts.take(&event);
                    }
                    accounts.write(key(word), tid, at, write);
                }
                Item::Ends(word) => accounts.unwatch(key(word), at),
            }
        }
    }
}

/// Takes the event of a write of the thread.
fn faults_of(item: &mut Option<(u64, Item)>, tid: u32) -> Option<HolderEvent> {
    let (_, Item::Event(event)) = item.as_ref()? else {
        return None;
    };
    let is_it = matches!(event.moment, Moment::Writes { .. }) && event.tid == tid;
    match item.take_if(|_| is_it)? {
        (_, Item::Event(event)) => Some(event),
        _ => None,
    }
}

const fn key(word: WatchedWord) -> (u32, u64) {
    (word.pid, word.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(address: u64) -> WatchedWord {
        WatchedWord { pid: 1, address }
    }

    fn sample(address: u64) -> Item {
        Item::Sample(Spun {
            pid: 1,
            tid: 2,
            time_ns: 0,
            period_ns: 1_000_000,
            word: Some(SpunWord { address, bytes: 4 }),
        })
    }

    #[test]
    fn words_that_most_samples_spin_for_are_watched_until_nobody_does() {
        let (mut queue, accounts) = (Queue::default(), Accounts::new(|_, _| None));
        for address in 0..6 {
            (0..address).for_each(|_| queue.add(0, sample(4 * address)));
        }
        let watched = |queue: &mut Queue| queue.words_to_watch(&accounts);
        let expected = [5, 4, 3].map(|address| (word(4 * address), 4));
        assert_eq!(watched(&mut queue), expected);
        assert_eq!(watched(&mut queue), []);
        (0..9).for_each(|_| queue.add(0, sample(4)));
        (0..8).for_each(|_| queue.add(0, sample(0)));
        assert_eq!(watched(&mut queue), [(word(4), 4)]);
        assert_eq!(queue.words_to_leave(&accounts), []);
        for look in 1..=4 * u64::from(LOOKS_A_HALF) {
            assert_eq!(queue.begin_look(look), look - 1);
        }
        let left = queue.words_to_leave(&accounts);
        assert_eq!(left, [4, 12, 16, 20].map(word));
        assert_eq!(queue.words.len(), 4);
    }
}
