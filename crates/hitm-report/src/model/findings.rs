//! Findings: what one change cures, with the lines that belong to it.

use hitm_base::LineAddr;
use hitm_coherence::sharing::Verdict;
use hitm_fields::fields;
use hitm_trace::WaitKind;

use super::bounds::CostBounds;
use super::counts::{AccessCounts, Counted, HitmCounts};
use crate::WORTH_SHARE_MIN;
use crate::glossary::{ASLEEP, HANDED_OVER, SPINNING};
use crate::names::without_scope;
use crate::waiting::{WaitRow, kind_text};

/// Kind of contention that costs most of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// Fights for lines.
    Contended(Verdict),
    /// Lines that pass from CPU to CPU, each too rarely for a fight.
    HandedOver,
    /// Waits for something that others are to change.
    Waited(WaitKind),
}

impl FindingKind {
    /// All kinds, in the order in which files list them.
    pub fn all() -> impl Iterator<Item = FindingKind> {
        let verdicts = Verdict::ALL.iter().copied();
        let fights = verdicts.filter(|verdict| *verdict != Verdict::NoContention);
        let waits = [WaitKind::Spinning, WaitKind::Asleep].map(FindingKind::Waited);
        let fights = fights.map(FindingKind::Contended);
        fights.chain([FindingKind::HandedOver]).chain(waits)
    }

    /// Returns true if a good part of it would vanish if the bytes lay on different lines.
    pub const fn is_curable_by_layout(self) -> bool {
        match self {
            FindingKind::Contended(verdict) => verdict.is_curable_by_layout(),
            FindingKind::HandedOver | FindingKind::Waited(_) => false,
        }
    }

    /// The kind in a few words, its definition, and what to do.
    pub const fn help(self) -> [&'static str; 3] {
        match self {
            FindingKind::Contended(verdict) => {
                let facts = verdict.facts();
                [facts.title, facts.meaning, facts.remedy]
            }
            FindingKind::HandedOver => [
                "Lines that are handed over",
                HANDED_OVER.meaning,
                "Let one thread do both, keep the two on CPUs that share a cache, or pass less.",
            ],
            FindingKind::Waited(WaitKind::Spinning) => [
                "Threads spin",
                SPINNING.meaning,
                "Let the word change sooner: do less until then, or spread the work evenly.",
            ],
            FindingKind::Waited(WaitKind::Asleep) => [
                "Threads sleep for a lock",
                ASLEEP.meaning,
                "Hold it for less time, or lock smaller parts of the data.",
            ],
        }
    }

    /// The name in JSON: that of the verdict, `handed-over`, `spinning` or `asleep`.
    pub const fn id(self) -> &'static str {
        match self {
            FindingKind::Contended(verdict) => verdict.id(),
            FindingKind::HandedOver => "handed-over",
            FindingKind::Waited(kind) => kind_text(kind),
        }
    }
}

fields! {
    /// One thing that costs the threads time, and that one change cures: an object or all objects of a kind, a lock,
    /// a member that threads truly share.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Finding in finding {
        /// 1 for the one that costs most.
        pub number: u64 => number "#";
        /// Object, or object and member; of several objects their kind. Its address when nothing is known about it.
        pub name: String => name "what";
        /// Kind of contention that costs most of it: a verdict of docs/guide/verdicts.md, handed-over, spinning or
        /// asleep.
        pub kind: FindingKind => label "kind", |finding| finding.kind.id();
        /// The kind as tables show it; a plus where threads fight in other ways as well.
        pub kind_brief: String => words "kind";
        /// Cycles that threads lost to other CPUs' use of its lines, those included that are handed over.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// Cycles that threads waited for it, spinning or asleep, lines apart.
        pub waited_cycles: u64 => recorded cycles "waited";
        /// lost_cycles and waited_cycles.
        cost_cycles => recorded cycles "cost", |finding| finding.cost_cycles();
        /// lost_cycles as a part of those of all lines.
        pub lost_share: f64 => share "of lines";
        /// lost_cycles and waited_cycles as a part of all threads' time, that of sleepers included.
        pub run_share: f64 => recorded share "lost";
        /// Bounds of its cost, of a program that was watched while it ran.
        pub bounds: Option<CostBounds>;
        /// Part of the threads' CPU time that stands at its accesses: what it costs at most; null elsewhere.
        most_share => sampled share "at most", |finding| finding.bounds.map(|bounds| bounds.most_share);
        /// The standard error of most_share, by the number of samples.
        most_error => sampled share "+-", |finding| finding.bounds.map(|bounds| bounds.most_error);
        /// Part of it of the hand-overs that are certain by watches: what it costs at least.
        least_share => sampled share "at least", |finding| finding.bounds.map(|bounds| bounds.least_share);
        /// Cycles lost in fights that end when the bytes lie on different lines.
        pub false_sharing_cycles: u64 => recorded cycles "false sharing";
        /// Lines that are contended.
        pub line_count: u64 => count "lines";
        /// Lines of the same objects that pass from CPU to CPU, each too rarely for a verdict.
        pub handed_line_count: u64 => count "handed";
        /// Threads that accessed its contended lines, or waited; null of lines that are handed over.
        pub thread_count: Option<u64> => count "threads";
        /// Accesses to its contended lines by operation and source.
        pub counts: AccessCounts;
        ..HitmCounts: remote_hitm_count, local_hitm_count;
        /// Address of its costliest line's first byte, null where it has none.
        pub address: Option<u64> => address "line";
        /// Function that contends most, and the place in its source: the program's own where one is known.
        written_in => words "written in", |finding| finding.written_in();
        /// Advice on it, one or several sentences.
        pub fix: String => label "fix";
        /// True if it is something of the C library's, the loader's or a language's runtime.
        pub is_of_runtime: bool => label "runtime";
        /// True if it has fights worth a word that end when the bytes lie on different lines.
        pub has_false_sharing: bool => label "false sharing";
        /// Users of each eighth of its costliest line, empty where it has none.
        pub picture: Vec<String> => words "picture";
        /// The waits for it, the costliest in one way to wait.
        pub wait: Option<WaitRow>;
        /// True if its places, its remedy and its picture are known: it is one of those that were asked for.
        pub is_shown: bool;
        /// Its verdict, and what threads fight over besides, of its costliest line; empty of others.
        pub verdict_text: String;
        /// Name of all that is of its kind, numbers of elements apart; none where it is known by its address alone.
        pub identity: Option<String>;
        /// Its contended lines, the costliest first.
        pub lines: Vec<LineAddr>;
        /// Places in the program that contend, those of most lost cycles first.
        pub places: Vec<FindingPlace>;
    }
}

fields! {
    /// A function that contends for what a finding is about.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FindingPlace in finding_place {
        /// Function: the program's own where one is known, else that of the access.
        pub function: String => known label "function";
        /// Source file and line in the function, null when unknown.
        pub source: String => known label "source";
        /// Part of the cycles that the finding's lines lost, by writes where threads write.
        pub lost_share: f64 => share "lost";
        /// The same without directories.
        pub source_short: String;
    }
}

/// Part of the threads' time from which on something of the C library or of a runtime is worth a word. Assumed: to
/// start and to end its threads costs a short program less.
const RUNTIME_SHARE_MIN: f64 = 0.05;

impl Counted for Finding {
    fn counts(&self) -> &AccessCounts {
        &self.counts
    }
}

impl Finding {
    /// Its place before its cost: fights and waits that are worth a change, then what is handed over, then the rest,
    /// and what is no word worth at last.
    pub(crate) fn rank(&self) -> u8 {
        let is_small = self.run_share > 0.0 && self.run_share < WORTH_SHARE_MIN;
        match (self.is_told(), self.kind) {
            (false, _) => 3,
            (true, _) if is_small => 2,
            (true, kind) => u8::from(kind == FindingKind::HandedOver),
        }
    }

    /// Returns true if it is worth a word in a summary.
    pub fn is_told(&self) -> bool {
        !self.is_of_runtime || self.run_share >= RUNTIME_SHARE_MIN
    }

    /// The place that contends most: `omp.c:7 worker`.
    pub fn written_in(&self) -> String {
        let place = self.places.first();
        place.map(FindingPlace::brief).unwrap_or_default()
    }

    /// Cycles that a change could save at most.
    pub fn cost_cycles(&self) -> u64 {
        self.lost_cycles.saturating_add(self.waited_cycles)
    }
}

impl FindingPlace {
    /// Source and function.
    pub fn text(&self) -> String {
        self.with_source(&self.function)
    }

    /// The same for a column. Beside its source a function needs no scope.
    fn brief(&self) -> String {
        match self.source_short.is_empty() {
            true => self.text(),
            false => self.with_source(without_scope(&self.function)),
        }
    }

    fn with_source(&self, function: &str) -> String {
        let parts = [self.source_short.as_str(), function];
        let known = parts.into_iter().filter(|part| !part.is_empty());
        known.collect::<Vec<_>>().join(" ")
    }
}
