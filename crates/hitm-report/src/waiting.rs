//! Time that threads waited for one another: spinning and asleep, by what they waited for.
//!
//! The third form of waiting, for a cache line, is what the lines of a report lose.

use hitm_fields::fields;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, CodeAddr, LineAddr, ThreadId};
use hitm_coherence::stats::Statistics;
use hitm_recording::SyncKind;
use hitm_trace::{WaitKind, Waits};

use crate::allocators::is_of_allocator;
use crate::build::gives_back;
use crate::model::share;
use crate::names::brief;
use crate::sentences::line as say;
use crate::{Names, RunFacts, WORTH_SHARE_MIN};

/// Words for which threads wait that are listed one by one.
pub const WAITING_ROWS_MAX: usize = 20;

/// Functions that a row names.
const FUNCTIONS_MAX: usize = 3;

fields! {
    /// Time that threads waited for one another, lines apart.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Waiting in waiting {
        /// thread_cycles, and asleep_cycles beside them: what the shares here are parts of.
        pub whole_cycles: u64 => cycles "whole";
        /// Cycles in which threads looked again and again at what others were to change; waits for the line are not
        /// among them.
        pub spinning_cycles: u64 => cycles "spinning";
        /// Cycles in which threads slept for locks.
        pub asleep_cycles: u64 => cycles "asleep";
        /// Cycles in which threads slept at words of their own, for a lock or for work, which nothing tells apart; no
        /// part of the others.
        pub parked_cycles: u64 => cycles "parked";
        /// spinning_cycles and asleep_cycles as a part of whole_cycles.
        run_share => share "run", |waiting| waiting.run_share();
        /// Threads that got on with their work at a time: those that ran and did not spin, on average over the run.
        pub busy_threads_mean: f64 => decimal "busy";
        /// Things that they waited for, the longest first; at the end all others together, without a name.
        pub rows: Vec<WaitRow>;
    }
}

fields! {
    /// Waits for one thing, in one way.
    #[derive(Debug, Clone, PartialEq)]
    pub struct WaitRow in wait_row {
        /// spinning or asleep; none for several things together.
        pub kind: Option<WaitKind> => label "wait", |row| row.kind.map(kind_text);
        /// Lock or other object that threads waited for; none for several together.
        pub name: String => known name "for";
        /// Address of its word, or of the first of several with one name.
        pub address: u64 => address "address";
        /// Waits.
        pub wait_count: u64 => count "waits";
        /// Their cycles.
        pub cycles: u64 => cycles "cycles";
        /// Cycles of one wait.
        cycles_mean => cycles "each", |row| row.cycles_mean();
        /// cycles as a part of whole_cycles.
        pub run_share: f64 => share "run";
        /// Threads that waited.
        pub thread_count: u64 => count "threads";
        /// Functions in which they waited, the longest first; at most three.
        pub waiters: Vec<String> => name "in";
        /// Functions that changed the word, the most frequent first; at most three.
        pub releasers: Vec<String> => words "changed in";
        /// Threads that changed the word.
        pub releasing_thread_count: u64 => count "changed by";
        /// The one that did so most often, if it was for at least half of the changes; null otherwise.
        pub releasing_thread: Option<String> => words "most often by";
        /// True if it is something of the C library's or of a language's runtime.
        pub is_of_runtime: bool;
    }
}

/// A way to wait, as text says it.
pub(crate) const fn kind_text(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Spinning => "spinning",
        WaitKind::Asleep => "asleep",
    }
}

impl WaitRow {
    /// Cycles of one wait.
    pub fn cycles_mean(&self) -> Option<f64> {
        (self.wait_count > 0).then(|| self.cycles as f64 / self.wait_count as f64)
    }
}

impl WaitRow {
    /// Advice on it.
    pub(crate) fn advice(&self) -> String {
        let mut functions = self.waiters.iter().chain(&self.releasers);
        let name = brief(&self.name);
        if functions.any(|function| is_of_allocator(function)) {
            return say::of_allocator(name);
        }
        match self.is_of_runtime && !self.releasers.is_empty() {
            true => say::wait_of_runtime(name, self.releasers.join(", ")),
            false => say::change_sooner(name),
        }
    }
}

impl Waiting {
    /// Part of the threads' time in which they waited, lines apart, 0 to 1.
    pub fn run_share(&self) -> f64 {
        share(
            self.spinning_cycles.saturating_add(self.asleep_cycles),
            self.whole_cycles,
        )
    }

    /// The costliest thing that threads waited for, if it is worth a word.
    pub fn first(&self) -> Option<&WaitRow> {
        let first = self.rows.first().filter(|row| row.kind.is_some());
        first.filter(|row| row.run_share >= WORTH_SHARE_MIN)
    }

    /// Sums up waits; all threads together ran for `thread_cycles`.
    pub(crate) fn build(
        facts: &RunFacts<'_>,
        statistics: &Statistics,
        names: &dyn Names,
        thread_cycles: u64,
    ) -> Waiting {
        let mut sums: BTreeMap<(WaitKind, String), Sum> = BTreeMap::new();
        let mut waiting = Waiting {
            parked_cycles: facts.parked.0,
            ..Waiting::default()
        };
        let mut known: BTreeMap<u64, String> = BTreeMap::new();
        let halves = Halves::of(names, &facts.waits);
        for one in &facts.waits {
            let of_kind = match one.kind {
                WaitKind::Spinning => &mut waiting.spinning_cycles,
                WaitKind::Asleep => &mut waiting.asleep_cycles,
            };
            *of_kind = of_kind.saturating_add(one.cycles.0);
            let word = halves.first(one);
            let name = known.entry(word);
            let name = name.or_insert_with(|| name_of(names, word)).clone();
            sums.entry((one.kind, name)).or_default().add(one);
        }
        waiting.whole_cycles = thread_cycles.saturating_add(waiting.asleep_cycles);
        let busy_cycles = thread_cycles.saturating_sub(waiting.spinning_cycles);
        waiting.busy_threads_mean = share(busy_cycles, facts.end.0);
        waiting.rows = rows(sums, &waiting, statistics, names);
        waiting
    }
}

/// Waits for what has one name.
#[derive(Debug, Default)]
struct Sum {
    wait_count: u64,
    cycles: u64,
    words: BTreeSet<u64>,
    threads: BTreeSet<ThreadId>,
    codes: BTreeMap<CodeAddr, u64>,
}

impl Sum {
    fn add(&mut self, one: &Waits) {
        self.wait_count = self.wait_count.saturating_add(one.count);
        self.cycles = self.cycles.saturating_add(one.cycles.0);
        self.words.insert(one.word);
        self.threads.insert(one.thread);
        let of_code = self.codes.entry(one.code).or_default();
        *of_code = of_code.saturating_add(one.cycles.0);
    }
}

/// Bytes in which a condition variable of glibc has the two words at which threads sleep in turn; its read-write
/// locks have theirs so, too.
const PAIR_BYTES: u64 = 8;

/// Words at which threads sleep for one object that has two of them, where nothing says what lies there.
pub(crate) struct Halves(BTreeSet<u64>);

impl Halves {
    pub(crate) fn of(names: &dyn Names, waits: &[Waits]) -> Halves {
        let asleep = waits.iter().filter(|one| one.kind == WaitKind::Asleep);
        let words: BTreeSet<u64> = asleep.map(|one| one.word).collect();
        let has_two = |pair: &u64| words.range(*pair..*pair + PAIR_BYTES).count() > 1;
        // A type tells two small locks side by side apart.
        let is_unknown = |pair: &u64| {
            let mut here = words.range(*pair..*pair + PAIR_BYTES);
            here.all(|word| {
                let label = names.data(*word, 1).unwrap_or_default();
                label.member.is_empty() || label.member.starts_with('+')
            })
        };
        let pairs = words.iter().map(|word| word - word % PAIR_BYTES);
        let pairs = pairs.filter(|pair| has_two(pair) && is_unknown(pair));
        Halves(pairs.collect())
    }

    /// The word that stands for the object.
    pub(crate) fn first(&self, one: &Waits) -> u64 {
        let pair = one.word - one.word % PAIR_BYTES;
        match one.kind == WaitKind::Asleep && self.0.contains(&pair) {
            true => pair,
            false => one.word,
        }
    }
}

/// The lock or the object at a word; empty for the sum of all that were too many.
fn name_of(names: &dyn Names, word: u64) -> String {
    if word == 0 {
        return String::new();
    }
    let lock = names.sync_object(word, 1);
    if let Some(lock) = lock.filter(|one| one.kind != SyncKind::Count) {
        return lock.name;
    }
    names.place(word, 1)
}

fn rows(
    sums: BTreeMap<(WaitKind, String), Sum>,
    waiting: &Waiting,
    statistics: &Statistics,
    names: &dyn Names,
) -> Vec<WaitRow> {
    let (nameless, named): (Vec<_>, Vec<_>) =
        sums.into_iter().partition(|((_, name), _)| name.is_empty());
    let mut named = named;
    // Stable: rows of equal cost stay in the order of their names.
    named.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.cycles, sum.wait_count)));
    let others = named.split_off(named.len().min(WAITING_ROWS_MAX));
    let row = |(kind, name): (Option<WaitKind>, String), sum: &Sum| {
        let writers = Writers::of(statistics, names, sum);
        WaitRow {
            kind,
            name,
            address: sum.words.first().map_or(0, |word| names.shown(*word)),
            wait_count: sum.wait_count,
            cycles: sum.cycles,
            run_share: share(sum.cycles, waiting.whole_cycles),
            thread_count: sum.threads.len() as u64,
            waiters: most(names, &sum.codes),
            releasers: most(names, &writers.codes),
            releasing_thread_count: writers.threads.len() as u64,
            releasing_thread: writers.main_thread(names),
            is_of_runtime: is_of_runtime(names, sum),
        }
    };
    let mut rows: Vec<WaitRow> = named
        .into_iter()
        .map(|((kind, name), sum)| row((Some(kind), name), &sum))
        .collect();
    let others = others.into_iter().chain(nameless).map(|(_, sum)| sum);
    let others = others.reduce(|mut all, other| {
        all.wait_count = all.wait_count.saturating_add(other.wait_count);
        all.cycles = all.cycles.saturating_add(other.cycles);
        all.threads.extend(other.threads);
        all
    });
    if let Some(mut others) = others {
        (others.words, others.codes) = (BTreeSet::new(), BTreeMap::new());
        rows.push(row((None, String::new()), &others));
    }
    rows
}

/// Returns true if threads waited longest in a runtime's code for something of its own.
fn is_of_runtime(names: &dyn Names, sum: &Sum) -> bool {
    let mut codes = sum.codes.iter();
    let first = codes
        .next()
        .map(|first| codes.fold(first, |most, one| if one.1 > most.1 { one } else { most }));
    let word = sum.words.first();
    word.zip(first)
        .is_some_and(|(word, (code, _))| names.is_of_runtime(*word, *code))
}

/// Instructions and threads that changed a word, and how often.
#[derive(Default)]
struct Writers {
    codes: BTreeMap<CodeAddr, u64>,
    threads: BTreeMap<ThreadId, u64>,
}

impl Writers {
    /// Those other than the instructions that waited for it: of a lock those that give it back, if their names say so.
    fn of(statistics: &Statistics, names: &dyn Names, sum: &Sum) -> Writers {
        let all = Writers::by(statistics, sum, |_| true);
        let codes = all.codes.keys().copied();
        let releases = codes.filter(|code| gives_back(&names.code(*code).function));
        let releases: BTreeSet<CodeAddr> = releases.collect();
        match releases.is_empty() {
            true => all,
            false => Writers::by(statistics, sum, |code| releases.contains(&code)),
        }
    }

    fn by(statistics: &Statistics, sum: &Sum, is_one: impl Fn(CodeAddr) -> bool) -> Writers {
        let mut found = Writers::default();
        for word in &sum.words {
            let Some(stats) = statistics.lines.get(&LineAddr::of(*word)) else {
                continue;
            };
            let offset = (word % hitm_base::LINE_SIZE) as u8;
            for (key, row) in &stats.rows {
                let covers = key.offset <= offset && offset < key.offset + key.size;
                let is_change = key.op != AccessOp::Load && !sum.codes.contains_key(&key.code);
                if covers && is_change && is_one(key.code) {
                    let count = row.sources.total();
                    *found.codes.entry(key.code).or_default() += count;
                    *found.threads.entry(key.thread).or_default() += count;
                }
            }
        }
        found
    }

    /// The thread that made at least half of the changes.
    fn main_thread(&self, names: &dyn Names) -> Option<String> {
        let all: u64 = self.threads.values().sum();
        let most = self.threads.iter().max_by_key(|(_, count)| **count)?;
        (2 * most.1 >= all).then(|| names.thread(*most.0))
    }
}

/// The functions with the most of something.
fn most(names: &dyn Names, codes: &BTreeMap<CodeAddr, u64>) -> Vec<String> {
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    for (code, amount) in codes {
        let of_function = functions.entry(names.code(*code).function).or_default();
        *of_function = of_function.saturating_add(*amount);
    }
    functions.remove("");
    let mut functions: Vec<(String, u64)> = functions.into_iter().collect();
    functions.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
    let first = functions.into_iter().take(FUNCTIONS_MAX);
    first.map(|(function, _)| function).collect()
}
