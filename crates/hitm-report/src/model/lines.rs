//! A contended line, its fights and its objects.

use hitm_base::LineAddr;
use hitm_coherence::sharing::{FightKind, Verdict};
use hitm_coherence::stats::HoldPlan;
use hitm_fields::fields;
use hitm_recording::generated::told::{JAVA_HEAP, JAVA_STATICS};

use super::counts::{AccessCounts, Counted, Counts, HitmCounts};
use super::rows::RowReport;

/// An object is named with less than this part (one in ...) of the contended accesses of the first one not at all.
const OBJECT_DIVISOR: u64 = 10;

fields! {
    /// One contended line.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LineReport in line {
        /// 1 for the line that costs most.
        pub rank: u64 => number "#";
        /// Address of the line's first byte.
        pub address: u64 => address "line";
        /// Objects in the line, or its address when none is known.
        name => name "object", |line| line.name();
        /// Kind of contention, one of docs/guide/verdicts.md.
        pub verdict: Verdict => label "verdict", |line| line.verdict.id();
        /// The verdict as tables show it; a plus where threads fight in other ways as well.
        verdict_brief => words "verdict", |line| line.verdict_brief();
        /// The verdict in words.
        pub verdict_text: String => label "verdict";
        /// Advice on it, one or several sentences.
        pub advice: String => label "advice";
        /// Cycles lost in fights that end when the bytes lie on different lines, the read-mostly ones included.
        pub false_sharing_cycles: u64 => recorded cycles "false sharing";
        /// Part of the hand-overs between threads that have no byte in common.
        pub disjoint_share: f64 => share "disjoint";
        /// Cycles that threads lost to other CPUs' use of the line.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// lost_cycles as a part of those of all lines.
        pub lost_share: f64 => share "lost";
        /// lost_cycles as a part of all threads' time.
        pub run_share: f64 => recorded share "run";
        /// Cycles that threads waited for the line, whatever the source.
        pub stall_cycles: u64 => recorded cycles "stall cycles";
        /// Accesses by operation and source.
        pub counts: AccessCounts;
        ..HitmCounts: remote_hitm_count, local_hitm_count;
        ..Counts: access_count, load_count, store_count, locked_count, store_hit_count, store_miss_count;
        /// Mean latency of loads and locked operations, hits included.
        pub load_latency_cycles_mean: f64 => cycles "load mean";
        /// Largest latency of a load or locked operation.
        pub load_latency_cycles_max: u64 => cycles "load max";
        /// Median latency of the loads and locked operations that left their core, to one significant digit.
        pub miss_latency_cycles_p50: Option<u64> => cycles "miss p50";
        /// 99th percentile of the same.
        pub miss_latency_cycles_p99: Option<u64> => cycles "miss p99";
        /// Threads that accessed the line.
        pub thread_count: u64 => count "threads";
        /// Modelled CPUs that accessed the line.
        pub cpu_count: u64 => count "CPUs";
        /// Modelled NUMA nodes of these CPUs.
        pub nodes: Vec<u16> => number "nodes";
        /// Rows of single threads that were folded into rows of several threads.
        pub rows_folded_count: u64 => count "folded";
        /// Rows that are not shown, the cheapest ones.
        pub rows_left_out_count: u64 => count "left out";
        /// Cycles lost in the rows that are not shown.
        pub rows_left_out_lost_cycles: u64 => recorded cycles "lost there";
        /// The line.
        pub line: LineAddr;
        /// Its lock, where one thread at a time holds it and instructions that give it back are known.
        pub lock: Option<HoldPlan>;
        /// Objects in the line that are accessed, the one with most contended accesses first.
        pub objects: Vec<ObjectUse>;
        /// The line's fights, the costliest first.
        pub fights: Vec<FightReport>;
        /// Accesses by place, instruction and thread, in order of offset.
        pub rows: Vec<RowReport>;
    }
}

impl Counted for LineReport {
    fn counts(&self) -> &AccessCounts {
        &self.counts
    }
}

impl LineReport {
    /// The verdict without what else threads fight over.
    pub fn verdict_brief(&self) -> String {
        if self.verdict == Verdict::Mixed {
            return self.verdict.facts().words.to_owned();
        }
        match self.verdict_text.split_once(", ") {
            Some((main, _)) => format!("{main} +"),
            None => self.verdict_text.clone(),
        }
    }

    /// The objects that threads contend for: those with a tenth of the contended accesses of the first one, at least.
    pub(crate) fn main_objects(&self) -> Vec<&ObjectUse> {
        let most = self
            .objects
            .first()
            .map_or(0, |first| first.contended_count);
        let objects = self.objects.iter();
        let main = objects.filter(|one| one.contended_count.saturating_mul(OBJECT_DIVISOR) >= most);
        main.collect()
    }

    /// The names of the objects that threads contend for, the first two written out; the address when none is known.
    pub fn name(&self) -> String {
        let main = self.main_objects();
        let mut names = main.iter().map(|object| object.name.as_str());
        match (names.next(), names.next(), names.len()) {
            (None, ..) => format!("{:#x}", self.address),
            (Some(one), None, _) => one.to_owned(),
            (Some(one), Some(two), 0) => format!("{one}, {two}"),
            (Some(one), Some(two), more) => format!("{one}, {two} +{more} more"),
        }
    }
}

fields! {
    /// A fight of threads in a line, and its cost.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FightReport in fight {
        /// Verdict on a line without other fights.
        pub kind: FightKind => label "fight", |fight| fight.kind.verdict().id();
        /// Members at which threads found the line gone, by offset; a lock object is one of them.
        pub places: Vec<String> => words "on";
        /// Accesses that found the line gone.
        pub contended_count: u64 => count "contended";
        /// Cycles that threads lost by this fight.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// Its part of the line's lost cycles.
        pub lost_share: f64 => share "lost";
        /// True if its kind is large enough to be worth a word.
        pub is_main: bool;
    }
}

impl FightReport {
    /// Fights of one kind taken together, the costliest kind first.
    pub fn by_kind(fights: &[&FightReport]) -> Vec<FightReport> {
        let mut kinds: Vec<FightReport> = Vec::new();
        for fight in fights {
            let Some(same) = kinds.iter_mut().find(|known| known.kind == fight.kind) else {
                kinds.push((*fight).clone());
                continue;
            };
            same.contended_count += fight.contended_count;
            same.lost_cycles = same.lost_cycles.saturating_add(fight.lost_cycles);
            same.lost_share += fight.lost_share;
            for place in &fight.places {
                if !same.places.contains(place) {
                    same.places.push(place.clone());
                }
            }
        }
        // Stable: kinds of equal cost stay in the order of their costliest fights.
        kinds.sort_by_key(|kind| std::cmp::Reverse((kind.lost_cycles, kind.contended_count)));
        kinds
    }
}

fields! {
    /// An object of which some bytes in a line are accessed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ObjectUse in object {
        /// Name of the object.
        pub name: String => label "object";
        /// Address of its first byte.
        pub address: u64 => address "address";
        /// Its size, 0 when unknown.
        pub size_bytes: u64 => bytes "size";
        /// Of an object with the name of its type: whose memory it is, and how many accesses say the type; null for
        /// others.
        pub origin: String => known label "origin";
        /// Accesses to it that found the line gone.
        pub contended_count: u64 => count "contended";
        /// Members accessed in this line, by offset.
        pub members: Vec<String> => words "members";
        /// True if the object is an array of which elements are accessed.
        pub is_array: bool => label "array";
        /// True if it, or the accessed element of it, is spread over more lines than its size needs.
        pub straddles: bool => label "straddles";
        /// Bytes of the accessed element, where only the way threads use the object says that it is an array.
        pub element_size_bytes: Option<u64>;
    }
}

impl ObjectUse {
    /// Returns true for an object of a Java machine.
    pub fn is_java(&self) -> bool {
        self.origin == JAVA_HEAP || self.has_statics()
    }

    /// Returns true for an object of a class that comes with the Java machine, so that no program changes it.
    pub fn is_of_jdk(&self) -> bool {
        let packages = ["java.", "javax.", "jdk.", "sun.", "com.sun."];
        self.is_java() && packages.iter().any(|one| self.name.starts_with(one))
    }

    /// Returns true if the Java machine pads it where its class has an annotation.
    pub(crate) fn has_annotations(&self) -> bool {
        self.is_java() && !self.is_array && !self.has_statics() && !self.is_of_jdk()
    }

    /// Returns true for the static fields of a Java class.
    pub(crate) fn has_statics(&self) -> bool {
        self.origin == JAVA_STATICS
    }
}
