//! Lost cycles by stack, from the thread down to the member, and by time.

use hitm_fields::{fields, words};
use std::collections::BTreeMap;

use hitm_base::LineAddr;
use hitm_coherence::stats::{RowKey, RowStats};
use hitm_recording::CodeLabel;

use super::{Sources, costliest_rows};

/// Pairs of a stack and a bucket of time that are kept; beyond, buckets are made wider.
const CELLS_MAX: usize = 24_000;

/// Stands for the rows of a line that are not kept one by one.
const OTHER_ACCESSES: &str = "(other accesses)";

/// Stands for the lines that the report does not show.
const OTHER_LINES: &str = "(other lines)";

/// Lost cycles by stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stacks {
    /// Names of frames, each once.
    pub frames: Vec<Frame>,
    /// The stacks, the costliest first.
    pub stacks: Vec<Stack>,
    /// Width of a bucket of time in cycles; none of samples.
    pub bucket_cycles: Option<u64>,
    /// Buckets that the run covers.
    pub bucket_count: u64,
}

words! {
    /// The kind of a frame.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum FrameKind {
        /// A thread.
        Thread = "thread",
        /// A function, or one that is inlined there.
        Function = "function",
        /// A source line.
        Source = "source",
        /// The accessed member.
        Member = "member",
        /// Several together.
        Other = "other",
    }
}

fields! {
    /// A frame of stacks.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Frame in frame {
        /// thread, function, source, member, or other for several together.
        pub kind: FrameKind => label "kind", |frame| frame.kind.id();
        /// Its name.
        pub name: String => known label "name";
    }
}

fields! {
    /// Cycles that were lost at one place of the program.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Stack in stack {
        /// Rank of the line; null for lines that are not shown.
        pub line: Option<u64> => number "line";
        /// Places of its frames in the list of frames, from the thread down.
        pub frames: Vec<u64> => number "stack";
        /// Cycles lost to other CPUs' use of the line.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// The same by bucket of time.
        pub times: Vec<StackTime>;
    }
}

fields! {
    /// Cycles of a stack in one bucket of time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StackTime in time {
        /// Number of the bucket, from 0.
        pub bucket: u64 => number "time";
        /// Cycles lost in it.
        pub lost_cycles: u64 => cycles "lost cycles";
    }
}

/// Collects stacks, and the names of their frames.
#[derive(Default)]
pub(super) struct StackBuilder {
    /// Ranks of the report's lines.
    ranks: BTreeMap<LineAddr, u64>,
    known: BTreeMap<Frame, u64>,
    frames: Vec<Frame>,
    /// By line and frames: instructions of one source line are one stack.
    sums: BTreeMap<Key, Sum>,
}

#[derive(Default)]
struct Sum {
    lost_cycles: u64,
    buckets: Vec<u64>,
}

/// A line's rank and numbers of frames: instructions of one source line are one stack.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    line: Option<u64>,
    frames: Vec<u64>,
}

impl Key {
    fn new(line: Option<u64>, frames: Vec<u64>) -> Key {
        Key { line, frames }
    }
}

impl StackBuilder {
    pub(super) fn build(mut self, named: &Sources<'_>) -> Stacks {
        let ranks = named.report.lines.iter().map(|line| (line.line, line.rank));
        self.ranks = ranks.collect();
        let mut left = self.lost_of_lines(named);
        for (line, key) in costliest_rows(named.statistics, named.report) {
            let Some(row) = named.statistics.lines[&line].rows.get(&key) else {
                continue;
            };
            if let Some(left) = left.get_mut(&line) {
                *left = left.saturating_sub(row.contention_stall.0);
            }
            self.add_row(named, line, &key, row);
        }
        for (line, lost) in left {
            let others = named.traffic.and_then(|of| of.other_rows.get(&line));
            let frame = self.frame(FrameKind::Other, OTHER_ACCESSES);
            let key = Key::new(Some(self.ranks[&line]), vec![frame]);
            self.add(key, lost, others);
        }
        let shown = named.report.lines.iter().map(|line| line.lost_cycles);
        let shown = shown.fold(0, u64::saturating_add);
        let rest = named.report.totals.lost_cycles.saturating_sub(shown);
        let others = named.traffic.map(|traffic| &traffic.other_lines);
        let frame = self.frame(FrameKind::Other, OTHER_LINES);
        self.add(Key::new(None, vec![frame]), rest, others);
        self.finish(named)
    }

    fn lost_of_lines(&self, named: &Sources<'_>) -> BTreeMap<LineAddr, u64> {
        let lines = named.report.lines.iter();
        lines.map(|line| (line.line, line.lost_cycles)).collect()
    }

    fn add_row(&mut self, named: &Sources<'_>, line: LineAddr, key: &RowKey, row: &RowStats) {
        let thread = named.names.thread(key.thread);
        let mut frames = vec![self.frame(FrameKind::Thread, &thread)];
        let codes = named.names.code_frames(key.code);
        for code in &codes {
            frames.push(self.frame(FrameKind::Function, &code.function));
        }
        let source = codes
            .last()
            .map(CodeLabel::source_short)
            .unwrap_or_default();
        if !source.is_empty() {
            frames.push(self.frame(FrameKind::Source, &source));
        }
        let addr = line.first_byte() + u64::from(key.offset);
        let member = named.names.place(addr, key.size);
        frames.push(self.frame(FrameKind::Member, &member));
        let times = named.traffic.and_then(|of| of.rows.get(&(line, *key)));
        let key = Key::new(Some(self.ranks[&line]), frames);
        self.add(key, row.contention_stall.0, times);
    }

    fn add(&mut self, key: Key, lost_cycles: u64, times: Option<&Vec<u64>>) {
        if lost_cycles == 0 {
            return;
        }
        let sum = self.sums.entry(key).or_default();
        sum.lost_cycles = sum.lost_cycles.saturating_add(lost_cycles);
        let times = times.map_or(&[][..], Vec::as_slice);
        if sum.buckets.len() < times.len() {
            sum.buckets.resize(times.len(), 0);
        }
        for (mine, theirs) in sum.buckets.iter_mut().zip(times) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    fn frame(&mut self, kind: FrameKind, name: &str) -> u64 {
        let frame = Frame {
            kind,
            name: name.to_owned(),
        };
        let next = self.frames.len() as u64;
        let known = *self.known.entry(frame.clone()).or_insert(next);
        if known == next {
            self.frames.push(frame);
        }
        known
    }

    fn finish(self, named: &Sources<'_>) -> Stacks {
        let mut stacks: Vec<Stack> = Vec::new();
        let sums: Vec<_> = self.sums.into_iter().collect();
        let buckets = sums.iter().map(|(_, sum)| &sum.buckets);
        let fold = fold_of(&buckets.collect::<Vec<_>>());
        let mut bucket_count = 0;
        for (Key { line, frames }, sum) in sums {
            let times = folded(&sum.buckets, fold);
            bucket_count = bucket_count.max(sum.buckets.len().div_ceil(fold) as u64);
            stacks.push(Stack {
                line,
                frames,
                lost_cycles: sum.lost_cycles,
                times,
            });
        }
        // Stable: equal ones stay in the order of their lines and frames.
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.lost_cycles));
        Stacks {
            frames: self.frames,
            stacks,
            bucket_cycles: named
                .traffic
                .map(|traffic| traffic.bucket.0.saturating_mul(fold as u64)),
            bucket_count,
        }
    }
}

/// Buckets to take together so that at most [`CELLS_MAX`] are left: a power of two.
fn fold_of(all: &[&Vec<u64>]) -> usize {
    let cells = |fold: usize| -> usize { all.iter().map(|times| folded(times, fold).len()).sum() };
    let longest = all.iter().map(|times| times.len()).max().unwrap_or(0);
    let mut fold = 1;
    while fold < longest && cells(fold) > CELLS_MAX {
        fold *= 2;
    }
    fold
}

/// Buckets taken together, those with something in them.
fn folded(buckets: &[u64], fold: usize) -> Vec<StackTime> {
    let sums = buckets.chunks(fold).zip(0..).map(|(part, bucket)| {
        let lost_cycles = part
            .iter()
            .fold(0u64, |sum, lost| sum.saturating_add(*lost));
        StackTime {
            bucket,
            lost_cycles,
        }
    });
    sums.filter(|time| time.lost_cycles > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_buckets_are_folded_and_lose_nothing() {
        let busy: Vec<Vec<u64>> = (0..200).map(|_| vec![1; 250]).collect();
        let busy: Vec<&Vec<u64>> = busy.iter().collect();
        assert_eq!(fold_of(&busy), 4);
        let one = folded(busy[0], 4);
        assert_eq!(one.len(), 63);
        assert_eq!(one.iter().map(|time| time.lost_cycles).sum::<u64>(), 250);
        assert_eq!(fold_of(&busy[..10]), 1);
    }
}
