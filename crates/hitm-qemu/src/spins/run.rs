//! A run of looks at the words of one loop.

use hitm_base::CodeAddr;

use super::{Look, Place};

/// Words that one loop looks at: waiters for a lock of Linux look at the lock, at its owner and whether they are to
/// yield.
pub(super) const WORDS_MAX: usize = 8;

/// Looks that find the same value for each that finds another one, in a run with several of those: other tickets
/// are served first. Assumed 4 (2 to 16).
const SAME_MIN: u64 = 4;

/// A queue that a thread has joined, or may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    pub(super) word: u64,
    pub(super) is_certain: bool,
    pub(super) joined_at: Place,
}

/// A word that the loop looks at, with one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Word {
    pub(super) addr: u64,
    pub(super) code: CodeAddr,
    value: u64,
    /// Only the thread has used the line since its first look.
    began_private: bool,
    /// Only the thread used it at the last look.
    is_private: bool,
    /// A look found another value there while only the thread used it.
    is_off: bool,
    /// The last look, and the next one of the run, at another word, by instructions.
    last_insn: u64,
    next_insn: Option<u64>,
    /// The word of the lock: the same, or the one by which the thread joined a queue for certain.
    pub(super) lock: u64,
    /// The one by which it may have.
    pub(super) queue: Option<u64>,
}

/// The way from one look of a run to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All looks were seen.
    Seen,
    /// There may be others.
    Unseen,
}

/// Looks so far at the words of one loop.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) words: [Word; WORDS_MAX],
    pub(super) len: usize,
    pub(super) first: Place,
    pub(super) last: Place,
    /// The word of the last look was looked at a moment before as well.
    pub(super) is_dense: bool,
    /// The last look was at a line that only the thread uses.
    is_private: bool,
    looks: u64,
    pub(super) locked: u64,
    same: u64,
    /// Those at words that only the thread has used since it looked first.
    same_private: u64,
    same_locked: u64,
    changed: u64,
    /// The word of the last look.
    last_word: usize,
    /// The word that was found changed last, and the look at which.
    found: (usize, u64),
    /// The word that a locked operation left as it was last.
    same_word: usize,
}

impl Word {
    /// A look at a line of the thread's own finds another value: the thread has changed it, or another one that is
    /// yet to take the line. By the second such look it was the thread.
    fn change_privately(&mut self, look: &Look) {
        if std::mem::replace(&mut self.is_off, true) {
            self.value = look.value;
        }
    }
}

impl Run {
    /// The way from the thread's last look to this one, if it had nothing else to do in between.
    pub(super) fn way_to(&self, look: &Look) -> Option<Way> {
        let writes_nothing = self.len > 0 && look.at.stores == self.last.stores;
        match writes_nothing {
            false => None,
            true if look.at.is_near(self.last, false) => Some(Way::Seen),
            true if !self.is_dense || !(self.is_private || look.is_private) => None,
            true => look.at.is_near(self.last, true).then_some(Way::Unseen),
        }
    }

    /// It goes on at this place as if it had been there since its last look: what was between is no part of it.
    pub(super) fn go_on(&mut self, at: Place) {
        let skipped = at.insn - self.last.insn;
        self.first.insn += skipped;
        for word in &mut self.words[..self.len] {
            word.last_insn += skipped;
            word.next_insn = word.next_insn.map(|insn| insn + skipped);
        }
        self.last = at;
    }

    /// Returns true if it has looked at a word twice.
    pub(super) fn looks_again(&self) -> bool {
        self.len > 0 && self.same + self.same_private > 0
    }

    /// The place of the word among those that the run looks at, by the same instruction.
    pub(super) fn place_of(&self, look: &Look) -> Option<usize> {
        let mut words = self.words[..self.len].iter();
        words.position(|word| (word.addr, word.code) == (look.addr, look.code))
    }

    pub(super) fn first_look(&mut self, look: &Look, queue: Option<Queue>) {
        if self.len == 0 {
            *self = Run {
                words: self.words,
                first: look.at,
                ..Run::default()
            };
        }
        let certain = queue.filter(|queue| queue.is_certain);
        let uncertain = queue.filter(|queue| !queue.is_certain);
        self.words[self.len] = Word {
            addr: look.addr,
            code: look.code,
            value: look.value,
            began_private: look.is_private,
            is_private: look.is_private,
            is_off: false,
            last_insn: look.at.insn,
            next_insn: None,
            lock: certain.map_or(look.addr, |queue| queue.word),
            queue: uncertain.map(|queue| queue.word),
        };
        self.len += 1;
        self.note(self.len - 1, look);
        // Looks before it were not seen.
        let joined_at = queue.map(|queue| queue.joined_at);
        let is_first = |at: &Place| at.insn < self.first.insn && look.at.is_near(*at, true);
        if look.is_private
            && let Some(at) = joined_at.filter(is_first)
        {
            self.first = at;
        }
    }

    pub(super) fn again(&mut self, index: usize, look: &Look, is_dense: bool) {
        self.is_dense = is_dense;
        let word = &mut self.words[index];
        let is_same = word.value == look.value;
        match (look.is_private, word.began_private) {
            (true, _) if !is_same => word.change_privately(look),
            (true, true) => self.same_private += 1,
            _ => {
                word.began_private = false;
                self.compare(index, look, is_same);
            }
        }
        self.note(index, look);
    }

    fn compare(&mut self, index: usize, look: &Look, is_same: bool) {
        self.words[index].value = look.value;
        match is_same {
            true if look.is_locked => {
                self.same += 1;
                self.same_locked += 1;
                self.same_word = index;
            }
            true => self.same += 1,
            false => {
                self.changed += 1;
                self.found = (index, self.looks + 1);
            }
        }
    }

    fn note(&mut self, index: usize, look: &Look) {
        if index != self.last_word {
            self.words[self.last_word].next_insn = Some(look.at.insn);
            self.last_word = index;
        }
        let word = &mut self.words[index];
        word.is_private = look.is_private;
        (word.last_insn, word.next_insn) = (look.at.insn, None);
        self.last = look.at;
        self.is_private = look.is_private;
        self.looks += 1;
        self.locked += u64::from(look.is_locked);
    }

    /// The word that the thread waited for, if another thread changed its line after the last look that was seen.
    pub(super) fn taken(&self, is_taken: impl Fn(&Word) -> bool) -> Option<usize> {
        if !self.looks_again() || !self.finds_the_same() {
            return None;
        }
        let mut words = self.words[..self.len].iter();
        words.position(|word| word.is_private && is_taken(word))
    }

    /// The instruction at which a wait that ended by a look that was not seen was over: between the last look at the
    /// word and the next one, which may be of the work behind the wait.
    pub(super) fn end_unseen(&self, index: usize) -> u64 {
        let word = &self.words[index];
        let next = word.next_insn.unwrap_or(word.last_insn);
        word.last_insn.midpoint(next)
    }

    /// The word that the thread waited for, if it did.
    pub(super) fn waited_for(&self) -> Option<usize> {
        if !self.looks_again() {
            return None;
        }
        if self.same_locked > 0 && self.changed * SAME_MIN <= self.same_locked {
            return Some(self.same_word);
        }
        let (index, look) = self.found;
        // The value is read a moment after the program's look, which may have been in time for the old one.
        let is_last = self.changed > 0 && self.looks - look <= self.len as u64;
        (is_last && self.finds_the_same()).then_some(index)
    }

    /// Returns true if most looks found what was there before.
    fn finds_the_same(&self) -> bool {
        self.changed <= 1 || self.changed * SAME_MIN <= self.same
    }
}
